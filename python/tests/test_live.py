"""mm.run: what it calls, what it counts, what it survives."""

from __future__ import annotations

import gc
import pickle
import random
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from live_arms import RKE, Broken, Stop, arms, around, faulty, same, state

import modelmix as mm
from modelmix import _loop

# What is called, and with what


def test_spends_the_budget_and_counts() -> None:
    done = mm.run(arms(), same, RKE, budget=30)
    assert done.pulls == done.report.samples == sum(done.calls.values()) == 30
    assert done.resumed == 0 and not any(done.failures.values())
    assert {arm: len(made) for arm, made in done.samples.items()} == done.calls
    assert done.weights == done.report.weights
    assert sum(done.weights.values()) == pytest.approx(1)


def test_asks_and_tells_as_a_session_does() -> None:
    done = mm.run(arms(), same, RKE, budget=25, seed=4, batch=2, policy=mm.Cab(sensitivity=0.1))
    session = mm.Session(arms(), RKE, seed=4, batch=2, rounds=25, policy=mm.Cab(sensitivity=0.1))
    for _ in range(25):
        pull = session.ask()
        session.tell(pull, arms()[pull.arm](pull.count, _loop.seed_of(4, pull.id, 1)))
    assert state(done) == session._inner.snapshot()


def test_settings_of_the_session_reach_it() -> None:
    text = "rke(bandwidth=1) + 0.1*cost - 0.1*looks"
    costs = {"left": 1.0, "middle": 2.0, "right": 3.0}
    ranges = {"looks": (0.0, 1.0)}
    done = mm.run(
        arms(),
        same,
        text,
        budget=9,
        policy="cab",
        storage="half",
        costs=costs,
        score_ranges=ranges,
        rate=lambda rows: {"looks": [0.5] * len(rows)},
        width=2,
        threads=1,
    )
    session = mm.Session(arms(), text, policy="cab", rounds=9, storage="half", costs=costs, score_ranges=ranges)
    for _ in range(9):
        pull = session.ask()
        rows = arms()[pull.arm](1, _loop.seed_of(0, pull.id, 1))
        session.tell(pull, rows, scores={"looks": 0.5})
    assert state(done) == session._inner.snapshot()


@pytest.mark.parametrize("workers", [1, 3])
def test_a_generator_gets_a_seed_only_where_it_asks_for_one(workers: int) -> None:
    seeds: list[int] = []

    class Object:
        def __call__(self, count: int, *, seed: int) -> Any:
            seeds.append(seed)
            return np.zeros((count, 2))

    def with_default(count: int, seed: int = 7) -> Any:
        assert seed == 7
        return np.ones((count, 2))

    def with_any(count: int, **more: Any) -> Any:
        assert not more
        return np.full((count, 2), 2.0)

    generators: dict[str, Any] = {
        "object": Object(),
        "default": with_default,
        "any": with_any,
        "built in": lambda count: np.full((count, 2), 3.0),
    }
    done = mm.run(generators, same, RKE, budget=20, workers=workers)
    assert not any(done.failures.values())
    assert len(seeds) == done.calls["object"] == len(set(seeds))
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_seeds_change_with_the_run_the_pull_and_the_try() -> None:
    seeds = {_loop.seed_of(*of) for of in [(0, 0, 1), (1, 0, 1), (0, 1, 1), (0, 0, 2), (0, 11, 1), (0, 1, 11)]}
    assert len(seeds) == 6
    # the same on every machine; printf '0 0 1' | sha256sum begins with 8dc72de8
    assert _loop.seed_of(0, 0, 1) == 0xE82DC78D >> 1


def test_fewer_samples_than_asked_for_are_taken_and_more_are_not() -> None:
    done = mm.run(
        {
            "few": lambda count: np.zeros((count - 1, 2)),
            "many": lambda count: np.ones((count + 1, 2)),
        },
        same,
        RKE,
        budget=12,
        batch=3,
        retries=1,
    )
    assert not done.failures["few"]
    assert len(done.failures["many"]) == done.calls["many"] > 0
    assert "4 samples were told where 3 were asked for" in done.failures["many"][0].error
    assert done.report.samples == 2 * done.calls["few"] == len(done.samples["few"])


class Tensor:
    """As much of a torch tensor as matters: it must leave the device and the graph to be read."""

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values, dtype=np.float32)
        self.ndim, self.shape = self.values.ndim, self.values.shape

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> Any:
        return self.values

    def __float__(self) -> float:
        return float(self.values)

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)


class Picture:
    """As much of a PIL image as matters: it has no length."""


@pytest.mark.parametrize(
    ("samples", "kept"),
    [
        ("a text", 1),
        (["a text", "another"], 2),
        (b"bytes", 1),
        ({"prompt": "a", "image": 1}, 1),
        (Picture(), 1),
        ([Picture(), Picture()], 2),
        ((Picture(),), 1),
        (np.zeros((2, 28, 28)), 2),
        (np.zeros((28, 28)), 1),
        (Tensor(np.zeros((2, 3))), 2),
    ],
)
def test_samples_of_any_kind_are_kept_one_by_one(samples: Any, kept: int) -> None:
    seen = []

    def embed(given: Any) -> Any:
        seen.append(given)
        return np.zeros((kept, 2))

    done = mm.run({"only": lambda count: samples}, embed, RKE, budget=1, batch=2)
    assert seen[0] is samples
    assert len(done.samples["only"]) == kept
    if kept == 1 and not isinstance(samples, tuple):
        assert done.samples["only"][0] is samples


def test_a_frame_is_kept_whole() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"height": [1.0, 2.0], "width": [3.0, 4.0]})
    done = mm.run({"only": lambda count: frame}, same, RKE, budget=1, batch=2)
    assert done.samples["only"] == [frame] or done.samples["only"][0] is frame
    assert done.report.samples == 2


def test_what_yields_is_read_once_and_seen_by_all() -> None:
    def make(count: int) -> Iterator[list[float]]:
        for number in range(count):
            yield [float(number), 0.0]

    saved: list[Any] = []
    done = mm.run(
        {"only": make},
        same,
        "rke(bandwidth=1) - 0.1*first",
        budget=3,
        batch=2,
        rate=lambda rows: {"first": [row[0] for row in rows]},
        save=lambda pull, rows: saved.append(rows),
    )
    assert done.report.samples == 6
    assert saved == [[[0.0, 0.0], [1.0, 0.0]]] * 3


@pytest.mark.parametrize(
    "features",
    [
        [0.5, 1.0],
        [[0.5, 1.0]],
        (0.5, 1.0),
        np.array([0.5, 1.0]),
        np.array([[0.5, 1.0]], dtype=np.float16),
        np.array([[0.5, 1.0]], dtype=">f4"),
        np.array([[1.0], [0.5]])[::-1].T,
        Tensor([[0.5, 1.0]]),
    ],
)
def test_features_of_any_kind_are_told(features: Any) -> None:
    done = mm.run({"only": lambda count: "text"}, lambda samples: features, RKE, budget=2)
    assert done.session.samples is not None
    assert done.session.samples.tolist() == [[0.5, 1.0]] * 2


def test_a_buffer_that_the_encoder_uses_again_is_copied(tmp_path: Path) -> None:
    buffer = np.zeros((1, 2), dtype=np.float32)

    def make(count: int, seed: int) -> int:
        return seed % 97

    def embed(number: int) -> Any:
        buffer[:] = number
        return buffer

    def save(pull: mm.Pull, number: int) -> None:
        buffer[:] = -1

    done = mm.run({"only": make}, embed, RKE, budget=5, save=save, checkpoint=tmp_path / "run")
    again = mm.run({"only": make}, embed, RKE, budget=5, checkpoint=tmp_path / "run")
    for one in (done, again):
        assert one.session.samples is not None
        assert one.session.samples[:, 0].tolist() == done.samples["only"]


@pytest.mark.parametrize("score", [0.25, [0.25], np.float32(0.25), np.array(0.25), np.array([0.25]), Tensor(0.25)])
def test_scores_of_any_kind_are_told(score: Any) -> None:
    done = mm.run(
        {"only": lambda count: "text"},
        lambda text: [0.0, 0.0],
        "rke(bandwidth=1) - looks",
        budget=1,
        rate=lambda text: {"looks": score},
    )
    assert not done.failures["only"]
    assert done.report.linear == pytest.approx([-0.25])


def test_functions_that_cannot_be_called_are_refused_before_anything_is_spent() -> None:
    anything: Any
    for anything in ([same], "flux", None):
        with pytest.raises(ValueError, match="generators are given by name"):
            mm.run(anything, same, RKE, budget=1)
    with pytest.raises(ValueError, match="the generator of arm flux is a str; give a function"):
        anything = {"flux": "model"}
        mm.run(anything, same, RKE, budget=1)
    with pytest.raises(ValueError, match="the arm 3 has a int for a name"):
        anything = {3: same}
        mm.run(anything, same, RKE, budget=1)
    for name in ("embed", "rate", "save"):
        with pytest.raises(ValueError, match=f"{name} is a int; give a function"):
            anything = {"embed": same, name: 3}
            mm.run(arms(), objective=RKE, budget=1, **anything)
    for name, value in {"budget": 0, "retries": -1, "workers": 0, "batch": 1.5, "seed": -1}.items():
        with pytest.raises(ValueError, match=f"{name} is {value}, but it must be a whole number, at least"):
            anything = {"budget": 1, name: value}
            mm.run(arms(), same, RKE, **anything)
    with pytest.raises(ValueError, match="at least one arm"):
        mm.run({}, same, RKE, budget=1)


def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    for _ in range(2):
        budget: Any = np.int64(4)
        seed: Any = np.int32(3)
        done = mm.run(arms(), same, RKE, budget=budget, seed=seed, checkpoint=tmp_path / "run")
        assert done.pulls == 4


# What fails


def test_a_call_that_fails_is_tried_again_with_another_seed() -> None:
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


def test_an_arm_that_always_fails_costs_some_pulls_and_the_others_go_on() -> None:
    def broken(count: int) -> Any:
        raise Broken

    done = mm.run({**arms(), "broken": broken}, same, RKE, budget=60, retries=1)
    given_up = {arm.name: arm.abandoned for arm in done.report.arms}
    assert given_up == {"left": 0, "middle": 0, "right": 0, "broken": given_up["broken"]}
    assert 0 < given_up["broken"] < 10
    assert len(done.failures["broken"]) == done.calls["broken"] == 2 * given_up["broken"]
    assert done.report.samples == 60 - given_up["broken"]


@pytest.mark.parametrize("where", ["embed", "rate", "nan", "width", "integers", "score", "names"])
def test_whatever_is_wrong_with_an_answer_is_a_failure_of_its_arm(where: str) -> None:
    def embed(rows: Any) -> Any:
        if rows[0, 0] > 50:
            if where == "embed":
                raise Broken("embed")
            return {
                "nan": [[0.0, float("nan")]],
                "width": [[0.0, 0.0, 0.0]],
                "integers": np.array([[1, 2]]),
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
        "width": "its features have 3 columns where 2 are expected",
        "integers": "its values are int64",
        "score": "looks",
        "names": "looks",
    }
    assert all(said[where] in kept.error for kept in done.failures["bad"])


def test_what_the_session_refuses_is_tried_again() -> None:
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
def test_when_all_arms_fail_the_last_exception_is_raised_as_it_is(workers: int, tmp_path: Path) -> None:
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
    # with the same file it goes on, and does not count what failed before
    mended = True
    done = mm.run(generators, same, RKE, budget=100, retries=0, workers=workers, checkpoint=path)
    assert done.pulls == 100
    assert done.report.samples == 100 - sum(arm.abandoned for arm in done.report.arms) > 60


def test_arms_that_fail_now_and_then_do_not_end_the_run() -> None:
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


def test_a_resumed_run_does_not_hold_the_past_against_its_arms(tmp_path: Path) -> None:
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


def test_a_policy_that_insists_on_a_broken_arm_ends_too() -> None:
    def broken(count: int) -> Any:
        raise Broken

    with pytest.raises(Broken):
        mm.run({"broken": broken}, same, RKE, budget=1000, retries=0)


def test_failures_do_not_hold_on_to_what_the_call_held() -> None:
    class Large:
        pass

    held: list[weakref.ref[Large]] = []

    def make(count: int) -> Any:
        large = Large()
        held.append(weakref.ref(large))
        gc.collect()
        # a retry must be able to have the memory of the try before
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


def test_an_exception_without_a_message_is_kept_all_the_same() -> None:
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
def test_what_is_no_exception_ends_the_run_at_once(kind: type[BaseException], workers: int, tmp_path: Path) -> None:
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


# Several at once


@pytest.mark.parametrize("workers", [2, 5])
def test_ordered_answers_do_not_depend_on_which_comes_first(workers: int) -> None:
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


def test_workers_call_at_the_same_time_and_no_more_of_them() -> None:
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


def test_one_worker_is_the_caller() -> None:
    def make(count: int) -> Any:
        assert threading.current_thread() is threading.main_thread()
        return np.zeros((count, 2))

    assert not mm.run({"only": make}, same, RKE, budget=3).failures["only"]


def test_unordered_answers_do_not_wait_for_a_slow_arm(tmp_path: Path) -> None:
    quick_done = threading.Event()
    told: list[int] = []

    def make(count: int, seed: int) -> Any:
        # the first pull ends only after another one was told
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


def test_threads_go_home() -> None:
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


# The result


def test_it_prints_converts_and_pickles(tmp_path: Path) -> None:
    path = tmp_path / "run"
    mm.run(faulty(), same, RKE, budget=6, seed=1, checkpoint=path)
    done = mm.run(faulty(), same, RKE, budget=12, seed=1, checkpoint=path)
    text = str(done)
    assert "12 pulls, 6 of them from the checkpoint" in text and "failed" in text
    assert "<table" in done._repr_html_()
    back = pickle.loads(pickle.dumps(done))
    assert back == done and state(back) == state(done)
    assert back.session.ask() == done.session.ask()
    pytest.importorskip("pandas")
    frame = done.to_pandas()
    assert frame["calls"].to_dict() == done.calls
    assert frame["failures"].sum() == sum(map(len, done.failures.values()))


def test_progress_is_shown_where_it_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tqdm")
    mm.run(arms(), same, RKE, budget=5, progress=True)
    assert "pulling" in capsys.readouterr().err
    mm.run(arms(), same, RKE, budget=5)
    assert not capsys.readouterr().err
