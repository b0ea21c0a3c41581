"""mm.run with several workers: order, number, threads."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from live_arms import RKE, Broken, arms, around, same, state

import modelmix as mm
from modelmix import _loop


@pytest.mark.parametrize("workers", [2, 5])
def test_ordered_answers_do_not_depend_on_timing(workers: int) -> None:
    def slowly(late: random.Random) -> dict[str, Any]:
        def slow(make: Any) -> Any:
            def made(count: int, seed: int) -> Any:
                time.sleep(late.random() * 0.005)
                if seed % 5 == 0:
                    raise Broken
                return make(count, seed)

            return made

        return {arm: slow(make) for arm, make in arms().items()}

    first, second = (mm.run(slowly(random.Random(number)), same, RKE, budget=40, workers=workers) for number in (1, 2))
    assert state(first) == state(second)
    assert first.failures == second.failures and first.calls == second.calls
    assert any(first.failures.values())


def test_workers_call_in_parallel_up_to_their_number() -> None:
    lock = threading.Lock()
    inside = most = 0

    def make(count: int) -> Any:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        time.sleep(0.01)
        with lock:
            inside -= 1
        assert threading.current_thread().name.startswith("modelmix-")
        return np.zeros((count, 2))

    mm.run({"only": make}, same, RKE, budget=16, workers=4)
    assert most == 4


def test_one_worker_uses_the_thread_of_the_caller() -> None:
    def make(count: int) -> Any:
        assert threading.current_thread() is threading.main_thread()
        return np.zeros((count, 2))

    assert not mm.run({"only": make}, same, RKE, budget=3).failures["only"]


def test_unordered_answers_do_not_wait_for_a_slow_arm(tmp_path: Path) -> None:
    quick_done = threading.Event()
    told: list[int] = []

    def make(count: int, seed: int) -> Any:
        # the first pull ends only after another one is told
        if seed == _loop.seed_of(0, 0, 1):
            assert quick_done.wait(20)
        return around(0)(count, seed)

    def save(pull: mm.Pull, rows: Any) -> None:
        told.append(pull.id)
        if len(told) == 3:
            quick_done.set()

    path = tmp_path / "run"
    done = mm.run({"only": make}, same, RKE, budget=8, workers=2, ordered=False, save=save, checkpoint=path)
    assert not done.failures["only"]
    assert told[:3] == [1, 2, 3] and sorted(told) == list(range(8))
    again = mm.run({"only": make}, same, RKE, budget=8, checkpoint=path)
    assert again.resumed == 8 and state(done) == state(again)


def test_threads_end() -> None:
    def alive() -> list[str]:
        return [thread.name for thread in threading.enumerate() if thread.name.startswith("modelmix-")]

    def gone() -> bool:
        for _ in range(200):
            if not alive():
                return True
            time.sleep(0.01)
        return False

    mm.run(arms(), same, RKE, budget=9, workers=3)
    assert gone()

    def save(pull: mm.Pull, rows: Any) -> None:
        raise Broken

    with pytest.raises(Broken):
        mm.run(arms(), same, RKE, budget=9, workers=3, save=save)
    assert gone()
