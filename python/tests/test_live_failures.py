"""mm.run when calls fail: what is retried, what is abandoned, what ends the run, and what is counted."""

from __future__ import annotations

import gc
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from live_arms import RKE, Broken, Stop, arms, around, same, state

import modelmix as mm
from modelmix import _loop


def test_a_failed_call_is_retried_with_another_seed() -> None:
    seeds: list[int] = []

    def make(count: int, seed: int) -> Any:
        seeds.append(seed)
        if len(seeds) % 3:
            raise Broken(f"call {len(seeds)}")
        return np.zeros((count, 2))

    done = mm.run({"only": make}, same, RKE, budget=5, retries=2)
    assert done.pulls == done.report.samples == 5
    assert done.calls == {"only": 15} and len(set(seeds)) == 15
    assert [(kept.pull, kept.attempt, kept.error) for kept in done.failures["only"][:3]] == [
        (0, 1, "Broken: call 1"),
        (0, 2, "Broken: call 2"),
        (1, 1, "Broken: call 4"),
    ]
    assert all(type(kept.exception) is Broken and kept.arm == "only" for kept in done.failures["only"])
    assert 'raise Broken(f"call {len(seeds)}")' in done.failures["only"][0].trace


def test_an_arm_that_always_fails_costs_some_pulls_and_the_others_continue() -> None:
    def broken(count: int) -> Any:
        raise Broken

    done = mm.run({**arms(), "broken": broken}, same, RKE, budget=60, retries=1)
    given_up = {arm.name: arm.abandoned for arm in done.report.arms}
    assert given_up == {"left": 0, "middle": 0, "right": 0, "broken": given_up["broken"]}
    assert 0 < given_up["broken"] < 10
    assert len(done.failures["broken"]) == done.calls["broken"] == 2 * given_up["broken"]
    assert done.report.samples == 60 - given_up["broken"]


@pytest.mark.parametrize("where", ["embed", "rate", "nan", "width", "truth values", "score", "names"])
def test_any_invalid_answer_is_a_failure_of_its_arm(where: str) -> None:
    def embed(rows: Any) -> Any:
        if rows[0, 0] > 50:
            if where == "embed":
                raise Broken("embed")
            return {
                "nan": [[0.0, float("nan")]],
                "width": [[0.0, 0.0, 0.0]],
                "truth values": np.array([[True, False]]),
            }.get(where, rows)
        return rows

    def rate(rows: Any) -> Any:
        if rows[0, 0] > 50:
            if where == "rate":
                raise Broken("rate")
            if where == "score":
                return {"looks": float("nan")}
            if where == "names":
                return {"look": 0.0}
        return {"looks": 0.0}

    done = mm.run(
        {"good": around(0), "bad": around(99)},
        embed,
        "rke(bandwidth=1) - looks",
        budget=12,
        rate=rate,
        width=2,
    )
    assert done.pulls == 12 and not done.failures["good"]
    assert len(done.failures["bad"]) == done.calls["bad"] == 3 * done.report.arms[1].abandoned > 0
    said = {
        "embed": "Broken: embed",
        "rate": "Broken: rate",
        "nan": "ValueError: ",
        "width": "its features have 3 columns, but 2 are expected",
        "truth values": "its values are bool",
        "score": "looks",
        "names": "looks",
    }
    assert all(said[where] in kept.error for kept in done.failures["bad"])


def test_answers_that_the_session_rejects_are_retried() -> None:
    calls = 0

    def embed(rows: Any) -> Any:
        nonlocal calls
        calls += 1
        return [[float("inf"), 0.0]] if calls % 2 else rows

    for workers in (1, 2):
        calls = 0
        done = mm.run({"only": around(0)}, embed, RKE, budget=6, workers=workers, retries=5)
        assert done.report.samples == 6 and len(done.failures["only"]) == done.calls["only"] - 6 >= 5


@pytest.mark.parametrize("workers", [1, 4])
def test_if_all_arms_fail_the_last_exception_is_raised_unchanged(workers: int, tmp_path: Path) -> None:
    raised: list[Broken] = []
    mended = False

    def broken(count: int) -> Any:
        if mended:
            return np.zeros((count, 2))
        raised.append(Broken(len(raised)))
        raise raised[-1]

    path = tmp_path / "run"
    generators = {"one": broken, "two": broken}
    with pytest.raises(Broken) as caught:
        mm.run(generators, same, RKE, budget=100, retries=0, workers=workers, checkpoint=path)
    assert any(caught.value is kept for kept in raised)
    assert caught.value.args[0] >= 4 and caught.value.__cause__ is None and caught.value.__context__ is None
    assert 5 <= len(raised) <= 40
    if workers == 1:
        assert caught.value is raised[-1]
    # with the same file it resumes, and earlier failures do not count
    mended = True
    done = mm.run(generators, same, RKE, budget=100, retries=0, workers=workers, checkpoint=path)
    assert done.pulls == 100
    assert done.report.samples == 100 - sum(arm.abandoned for arm in done.report.arms) > 60


def test_occasional_failures_do_not_end_the_run() -> None:
    calls = 0

    def make(count: int) -> Any:
        nonlocal calls
        calls += 1
        if calls % 2:
            raise Broken
        return np.zeros((count, 2))

    done = mm.run({"only": make}, same, RKE, budget=60, retries=0)
    assert done.pulls == done.calls["only"] == 60
    assert done.report.samples == len(done.failures["only"]) == 30


def test_a_resumed_run_ignores_earlier_failures(tmp_path: Path) -> None:
    calls = 0

    def make(count: int) -> Any:
        nonlocal calls
        calls += 1
        if calls <= 5:
            raise Broken(calls)
        return np.zeros((count, 2))

    def go() -> mm.Run:
        return mm.run({"only": make}, same, RKE, budget=9, retries=0, checkpoint=tmp_path / "run")

    with pytest.raises(Broken):
        go()
    done = go()
    assert done.resumed == 3 and len(done.failures["only"]) == 5 and done.report.samples == 4


@pytest.mark.parametrize("seed", range(20))
def test_one_good_arm_among_many_is_found(seed: int) -> None:
    def broken(count: int) -> Any:
        raise Broken

    generators: dict[str, Any] = {f"broken {number}": broken for number in range(6)}
    done = mm.run({**generators, "good": around(0)}, same, RKE, budget=60, retries=0, seed=seed)
    assert done.weights["good"] == pytest.approx(1)


def test_a_policy_that_pulls_only_a_broken_arm_ends() -> None:
    def broken(count: int) -> Any:
        raise Broken

    with pytest.raises(Broken):
        mm.run({"broken": broken}, same, RKE, budget=1000, retries=0)


def test_failures_release_the_memory_of_the_call() -> None:
    class Large:
        pass

    held: list[weakref.ref[Large]] = []

    def make(count: int) -> Any:
        large = Large()
        held.append(weakref.ref(large))
        gc.collect()
        # a retry must be able to use the memory of the previous attempt
        assert all(one() is None for one in held[:-1])
        try:
            raise KeyError("inner")
        except KeyError as error:
            if len(held) < 3:
                raise Broken("outer") from error
        return np.zeros((count, 2))

    done = mm.run({"only": make}, same, RKE, budget=1, retries=5)
    assert [kept.error for kept in done.failures["only"]] == ["Broken: outer"] * 2
    assert "KeyError: 'inner'" in done.failures["only"][0].trace


def test_an_exception_without_a_message_is_recorded() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    calls = 0

    def make(count: int) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise Mute
        return np.zeros((count, 2))

    done = mm.run({"only": make}, same, RKE, budget=1)
    assert [kept.error for kept in done.failures["only"]] == ["Mute"]


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, Stop])
def test_a_base_exception_ends_the_run_at_once(kind: type[BaseException], workers: int, tmp_path: Path) -> None:
    raised = kind()
    armed = True

    def make(count: int, seed: int) -> Any:
        if armed and seed == _loop.seed_of(0, 5, 1):
            raise raised
        return around(0)(count, seed)

    path = tmp_path / "run"
    with pytest.raises(kind) as caught:
        mm.run({"only": make}, same, RKE, budget=12, workers=workers, checkpoint=path)
    assert caught.value is raised
    armed = False
    done = mm.run({"only": make}, same, RKE, budget=12, workers=workers, checkpoint=path)
    assert state(done) == state(mm.run({"only": make}, same, RKE, budget=12, workers=workers))


@settings(max_examples=60, deadline=None)
@given(
    fails=st.lists(st.floats(0, 0.9), min_size=1, max_size=4),
    seed=st.integers(0, 1000),
    retries=st.integers(0, 3),
    workers=st.sampled_from([1, 1, 1, 3]),
    batch=st.integers(1, 3),
    ordered=st.booleans(),
)
def test_counts_add_up(fails: list[float], seed: int, retries: int, workers: int, batch: int, ordered: bool) -> None:
    lock = threading.Lock()
    called: dict[str, int] = {}
    failed: dict[str, int] = {}
    saved: list[mm.Pull] = []

    def arm(name: str, chance: float) -> Any:
        called[name] = failed[name] = 0

        def make(count: int, seed: int) -> Any:
            luck = np.random.default_rng(seed)
            with lock:
                called[name] += 1
                if luck.random() < chance:
                    failed[name] += 1
                    raise Broken(name)
            return luck.normal(size=(luck.integers(1, count + 1), 2))

        return make

    generators = {str(number): arm(str(number), chance) for number, chance in enumerate(fails)}
    try:
        done = mm.run(
            generators,
            same,
            RKE,
            budget=25,
            seed=seed,
            retries=retries,
            workers=workers,
            batch=batch,
            ordered=ordered,
            save=lambda pull, rows: saved.append(pull),
        )
    except Broken:
        assert max(fails) > 0.2
        return
    assert done.pulls == 25
    assert done.calls == called
    assert {arm: len(kept) for arm, kept in done.failures.items()} == failed
    given_up = sum(arm.abandoned for arm in done.report.arms)
    assert done.report.rounds + given_up == 25
    assert sum(called.values()) - sum(failed.values()) == done.report.rounds == len(saved)
    assert given_up * (retries + 1) <= sum(failed.values())
    for report in done.report.arms:
        assert len(done.samples[report.name]) == report.samples
        tries = [kept.attempt for kept in done.failures[report.name]]
        assert all(1 <= number <= retries + 1 for number in tries)
        assert sum(number == retries + 1 for number in tries) == report.abandoned
    assert sorted({pull.id for pull in saved}) == sorted(pull.id for pull in saved)


@pytest.mark.parametrize("kind", [MemoryError, RuntimeError])
@pytest.mark.parametrize("checkpoint", [False, True])
def test_running_out_of_memory_is_not_a_failure_of_a_generator(
    kind: type[Exception], checkpoint: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def costly(count: int) -> Any:
        calls.append(count)
        return [[1.0, 2.0]]

    def broken(*_: object, **__: object) -> None:
        raise kind("an array of 40 values needs 160 bytes of host memory")

    monkeypatch.setattr("modelmix._journal.Journal.tell" if checkpoint else "modelmix.Session.tell", broken)
    path = tmp_path / "run" if checkpoint else None
    with pytest.raises(kind, match="bytes of host memory"):
        mm.run({"flux": costly}, lambda rows: rows, mm.Rke(bandwidth=1.0), budget=5, checkpoint=path)
    assert len(calls) == 1
