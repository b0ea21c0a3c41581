"""Sessions, simulations and runs with ``select="better-half"``."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import modelmix as mm

WARNING = "no longer an i.i.d. mixture"


def told(session: mm.Session, rounds: int = 60) -> list[str]:
    generator = np.random.default_rng(3)
    asked = []
    for _ in range(rounds):
        pull = session.ask()
        asked.append(pull.arm)
        session.tell(pull, generator.normal(3.0 * pull.index, 1.0, (pull.count, 2)))
    return asked


def session(**more: Any) -> mm.Session:
    return mm.Session(["left", "right"], mm.Rke(bandwidth=1.5), seed=1, **more)


HALF = mm.SessionSettings(select="better-half")


def test_the_kept_loss_is_that_of_the_kept_samples() -> None:
    half = session(settings=HALF, batch=2)
    told(half)
    samples = half.samples
    assert samples is not None and len(half.kept) == len(samples) == 120
    kept = samples[half.kept].astype(np.float64)
    squares = ((kept[:, None] - kept[None]) ** 2).sum(-1)
    report = half.report()
    assert report.kept == len(kept) < 120
    assert report.kept_loss == pytest.approx(np.exp(-squares / 1.5**2).mean(), rel=1e-6)
    assert sum(arm.kept or 0 for arm in report.arms) == report.kept
    assert WARNING in str(report) and report.note is not None and WARNING in report.note
    assert pickle.loads(pickle.dumps(half)).kept == half.kept


def test_the_policy_does_not_depend_on_it() -> None:
    all_kept, half = session(), session(settings=HALF)
    assert told(all_kept) == told(half)
    assert all_kept.report().quadratic == half.report().quadratic
    assert all(all_kept.kept) and not all(half.kept)
    report = all_kept.report()
    assert report.kept is None and report.note is None and WARNING not in str(report)


def test_values_can_be_selected() -> None:
    half = mm.Session.on_values(["one"], settings=HALF)
    for number in range(6):
        half.tell_values(half.ask(), [1.0] * number, 1.0, linear=float(number))
    # the first four are always kept, and each later one is worse than those before
    assert half.kept == [True] * 4 + [False] * 2
    with pytest.raises(ValueError, match="did you mean better-half"):
        mm.SessionSettings(select="better_half")  # type: ignore[arg-type]


def test_simulations_report_it() -> None:
    arms = mm.load("data/fashion/truncated.npz")
    given: dict[str, Any] = {"policies": ["adaptive"], "rounds": 300, "seeds": 2, "bandwidth": 20}
    done, plain = mm.simulate(arms, "rke", settings=HALF, **given), mm.simulate(arms, "rke", **given)
    policy = done["adaptive"]
    assert policy.kept_loss is not None and policy.kept_samples is not None
    assert policy.kept_loss.mean[-1] < done.optimal_loss < policy.loss.mean[-1]
    assert policy.kept_reached is not None and policy.kept_reached <= 300
    assert policy.loss == plain["adaptive"].loss
    assert done.select == "better-half" and WARNING in str(done)
    assert "kept_loss" in done.to_pandas() and "kept_loss" not in plain.to_pandas()
    assert "select" not in plain.to_dict() and "kept_loss" not in plain.to_dict()["policies"]["adaptive"]
    assert mm.Simulation._read(done.to_dict()) == done


def test_a_run_keeps_the_samples_that_the_session_keeps(tmp_path: Path) -> None:
    def generator(centre: float) -> Any:
        draws = np.random.default_rng(int(centre))
        return lambda count: [float(value) for value in draws.normal(centre, 1.0, count)]

    def run(**more: Any) -> mm.Run:
        generators = {"left": generator(0.0), "right": generator(6.0)}
        return mm.run(
            generators, lambda rows: [[row] for row in rows], mm.Rke(bandwidth=1.0), budget=30, batch=2, **more
        )

    saved: list[Any] = []
    half = run(settings=HALF, save=lambda pull, samples: saved.extend(samples))
    everything = run()
    assert half.report.samples == everything.report.samples == len(saved) == 60
    assert sum(map(len, everything.samples.values())) == 60
    assert sum(map(len, half.samples.values())) == half.report.kept
    assert all(set(half.samples[arm]) <= set(everything.samples[arm]) for arm in half.samples)
    run(settings=HALF, checkpoint=tmp_path / "half.jsonl")
    with pytest.raises(ValueError, match='has select "better-half", and this run has "all"'):
        run(checkpoint=tmp_path / "half.jsonl")
