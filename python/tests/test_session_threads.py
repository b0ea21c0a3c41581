"""Sessions among threads: any may use one, and none stops the others while it waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import modelmix as mm

Array = npt.NDArray[Any]


def test_any_thread_may_use_a_session(blobs: dict[str, Array]) -> None:
    session = mm.Session(blobs, mm.Rke(bandwidth=2.0))
    problems: list[BaseException] = []

    def work() -> None:
        try:
            for number in range(50):
                pull = session.ask()
                session.tell(pull, blobs[pull.arm][number % 60])
                session.report()
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    assert session.report().samples == 200 and not session.in_flight


def longest_pause(until_done: threading.Event) -> float:
    """The longest time for which this thread could not go on."""
    longest, last = 0.0, time.perf_counter()
    while not until_done.is_set():
        time.sleep(0.001)
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    return longest


WAITING: dict[str, Callable[[mm.Session], object]] = {
    "is_done": lambda session: session.is_done,
    "kept": lambda session: session.kept,
    "fingerprint": lambda session: session._inner.fingerprint(),
    "repr": repr,
    "in_flight": lambda session: session.in_flight,
    "samples": lambda session: session.samples,
}


@pytest.mark.parametrize("call", WAITING)
def test_waiting_for_a_session_does_not_stop_the_interpreter(call: str) -> None:
    rows = np.random.default_rng(0).normal(size=(9000, 256)).astype(np.float32)
    session = mm.Session(["only"], mm.Rke(bandwidth=16), batch=len(rows), threads=1)
    pull = session.ask()
    begun, done = threading.Event(), threading.Event()
    took: list[float] = []

    def tell() -> None:
        begun.set()
        started = time.perf_counter()
        session.tell(pull, rows)
        took.append(time.perf_counter() - started)

    def wait() -> None:
        begun.wait()
        time.sleep(0.05)  # the other one is at work by now
        WAITING[call](session)
        done.set()

    threads = [threading.Thread(target=work) for work in (tell, wait)]
    for thread in threads:
        thread.start()
    pause = longest_pause(done)
    for thread in threads:
        thread.join()
    assert took[0] > 0.1, "too quick to tell"
    assert pause < 0.5 * took[0]


def test_names_are_had_without_waiting() -> None:
    rows = np.random.default_rng(0).normal(size=(9000, 256)).astype(np.float32)
    session = mm.Session(["only"], mm.Rke(bandwidth=16), batch=len(rows), threads=1)
    pull = session.ask()
    teller = threading.Thread(target=session.tell, args=(pull, rows))
    teller.start()
    time.sleep(0.05)
    assert session.arms == ["only"]
    assert teller.is_alive()
    teller.join()


def test_a_session_is_printed_without_a_report(blobs: dict[str, Array], monkeypatch: pytest.MonkeyPatch) -> None:
    session = mm.Session(blobs, mm.Rke(bandwidth=2.0), batch=2)
    session.tell(session.ask(), blobs["left"][:2])
    session.known("right", blobs["right"][:3])

    def never(self: mm.Session) -> None:
        raise AssertionError

    monkeypatch.setattr(mm.Session, "report", never)
    assert repr(session) == "<modelmix.Session of 3 arms (left, middle, right), rke(bandwidth=2), 5 samples>"


def test_a_reference_is_hashed_once() -> None:
    reference = np.random.default_rng(0).normal(size=(60_000, 256)).astype(np.float32)
    session = mm.Session(["only"], mm.Rke(bandwidth=16), reference=reference)

    def seconds() -> float:
        started = time.perf_counter()
        session._inner.snapshot()
        return time.perf_counter() - started

    first, later = seconds(), min(seconds() for _ in range(5))
    assert later < 0.2 * first


def test_reports_can_leave_their_bounds_out(blobs: dict[str, Array]) -> None:
    session = mm.Session(blobs, mm.Rke(bandwidth=2.0))
    for arm in blobs:
        session.known(arm, blobs[arm][:20])
    whole, brief = session.report(), session.report(bounds=False)
    assert whole.bound_on_weights is not None and brief.bound_on_weights is None
    assert brief.weights == whole.weights


def test_a_bandwidth_found_with_one_seed_is_restored(
    specialists: dict[str, Array], reference: Array, tmp_path: Path
) -> None:
    session = mm.Session(specialists, mm.Kid(reference), seed=7)
    session.tell(session.ask(), specialists["flow"][0])
    session.save(tmp_path / "session.json")
    again = mm.Session.restore(tmp_path / "session.json", mm.Kid(reference))
    assert again.report() == session.report()
    assert [again.ask() for _ in range(9)] == [session.ask() for _ in range(9)]
    # it is the one that `solve` finds, whatever the seed
    best = mm.solve({arm: rows[:50] for arm, rows in specialists.items()}, mm.Kid(reference))
    for seed in range(3):
        assert mm.Session(specialists, mm.Kid(reference), seed=seed).report().kernels == best.kernels
