"""mm.run: its calls, what it tells the session, and its result."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from live_arms import RKE, arms, faulty, same, state

import modelmix as mm
from modelmix import _loop


def test_spends_the_budget_and_counts() -> None:
    done = mm.run(arms(), same, RKE, budget=30)
    assert done.pulls == done.report.samples == sum(done.calls.values()) == 30
    assert done.resumed == 0 and not any(done.failures.values())
    assert {arm: len(made) for arm, made in done.samples.items()} == done.calls
    assert done.weights == done.report.weights
    assert sum(done.weights.values()) == pytest.approx(1)


def test_asks_and_tells_like_a_session() -> None:
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
        settings=mm.SessionSettings(storage="half"),
        costs=costs,
        score_ranges=ranges,
        rate=lambda rows: {"looks": [0.5] * len(rows)},
        width=2,
        threads=1,
    )
    half = mm.SessionSettings(storage="half")
    session = mm.Session(arms(), text, policy="cab", rounds=9, settings=half, costs=costs, score_ranges=ranges)
    for _ in range(9):
        pull = session.ask()
        rows = arms()[pull.arm](1, _loop.seed_of(0, pull.id, 1))
        session.tell(pull, rows, scores={"looks": 0.5})
    assert state(done) == session._inner.snapshot()


@pytest.mark.parametrize("workers", [1, 3])
def test_a_generator_gets_a_seed_only_if_it_requires_one(workers: int) -> None:
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


def test_seeds_depend_on_the_run_the_pull_and_the_attempt() -> None:
    seeds = {_loop.seed_of(*of) for of in [(0, 0, 1), (1, 0, 1), (0, 1, 1), (0, 0, 2), (0, 11, 1), (0, 1, 11)]}
    assert len(seeds) == 6
    # the same on every machine; printf '0 0 1' | sha256sum begins with 8dc72de8
    assert _loop.seed_of(0, 0, 1) == 0xE82DC78D >> 1


def test_fewer_samples_than_requested_are_accepted_but_not_more() -> None:
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
    assert "4 samples were told, but 3 were asked for" in done.failures["many"][0].error
    assert done.report.samples == 2 * done.calls["few"] == len(done.samples["few"])


class Tensor:
    """A stand-in for a torch tensor: it must be detached and copied to the CPU to be read."""

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
    """A stand-in for a PIL image: it has no length."""


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


def test_an_iterator_is_read_once_and_passed_to_all_functions() -> None:
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


def test_a_buffer_that_the_encoder_reuses_is_copied(tmp_path: Path) -> None:
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


def test_invalid_functions_are_rejected_before_the_first_pull() -> None:
    anything: Any
    for anything in ([same], "flux", None):
        with pytest.raises(TypeError, match="generators is .*, but it must be functions by arm"):
            mm.run(anything, same, RKE, budget=1)
    with pytest.raises(TypeError, match="the generator of arm flux is 'model', but it must be a function"):
        anything = {"flux": "model"}
        mm.run(anything, same, RKE, budget=1)
    with pytest.raises(TypeError, match="the name of an arm is 3, but it must be a single line of text"):
        anything = {3: same}
        mm.run(anything, same, RKE, budget=1)
    for name in ("embed", "rate", "save"):
        with pytest.raises(TypeError, match=f"{name} is 3, but it must be a function"):
            anything = {"embed": same, name: 3}
            mm.run(arms(), objective=RKE, budget=1, **anything)
    for name, value in {"budget": 0, "retries": -1, "workers": 0, "batch": 1.5, "seed": -1}.items():
        with pytest.raises(ValueError, match=f"{name} is {value}, but it must be a whole number, at least"):
            anything = {"budget": 1, name: value}
            mm.run(arms(), same, RKE, **anything)
    with pytest.raises(ValueError, match="at least one arm"):
        mm.run({}, same, RKE, budget=1)


def test_numpy_numbers_are_accepted(tmp_path: Path) -> None:
    for _ in range(2):
        budget: Any = np.int64(4)
        seed: Any = np.int32(3)
        done = mm.run(arms(), same, RKE, budget=budget, seed=seed, checkpoint=tmp_path / "run")
        assert done.pulls == 4


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


def test_progress_is_shown_if_requested(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tqdm")
    mm.run(arms(), same, RKE, budget=5, progress=True)
    assert "pulling" in capsys.readouterr().err
    mm.run(arms(), same, RKE, budget=5)
    assert not capsys.readouterr().err
