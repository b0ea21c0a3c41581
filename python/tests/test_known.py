"""Warm starts: known samples in sessions, runs and simulations."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from live_arms import RKE, around, same, state
from live_arms import arms as generators
from spending import spend

import modelmix as mm

Array = npt.NDArray[Any]


def means(first: Array, second: Array, bandwidth: float) -> float:
    """The mean of k² over pairs, with NumPy in double precision."""
    squares = ((first[:, None].astype(float) - second[None].astype(float)) ** 2).sum(-1)
    return float(np.exp(-squares / bandwidth**2).mean())


def warm(blobs: dict[str, Array], count: int = 10, **more: Any) -> mm.Session:
    session = mm.Session(blobs, mm.Rke(bandwidth=2.0), **more)
    for arm, rows in blobs.items():
        session.known(arm, rows[:count])
    return session


def test_known_samples_are_evidence_but_not_collected(blobs: dict[str, Array]) -> None:
    session = warm(blobs)
    report = session.report()
    assert (report.known, report.samples, report.rounds, report.loss) == (30, 0, 0, None)
    assert [arm.known for arm in report.arms] == [10] * 3
    assert set(report.shares.values()) == {0.0}
    expected = [[means(one[:10], two[:10], 2.0) for two in blobs.values()] for one in blobs.values()]
    assert np.allclose(report.quadratic, expected, rtol=1e-6)
    assert report.weights == pytest.approx(mm.solve({a: x[:10] for a, x in blobs.items()}, mm.Rke(bandwidth=2)).weights)
    pull = session.ask()
    session.tell(pull, blobs[pull.arm][10])
    report = session.report()
    assert (report.known, report.samples) == (30, 1)
    assert report.loss == pytest.approx(1.0)  # one sample collected: k²(x, x)
    assert report[pull.arm].share == 1.0


def test_known_samples_can_be_collected(blobs: dict[str, Array]) -> None:
    session = mm.Session(blobs, mm.Rke(bandwidth=2.0))
    session.known("left", blobs["left"][:4], collected=True)
    session.known("right", blobs["right"][:2])
    report = session.report()
    assert (report.known, report.samples) == (2, 4)
    assert report.shares == {"left": 1.0, "middle": 0.0, "right": 0.0}
    assert report.loss == pytest.approx(means(blobs["left"][:4], blobs["left"][:4], 2.0), rel=1e-6)


def test_the_report_before_the_first_round(blobs: dict[str, Array]) -> None:
    session = warm(blobs, 60, until="90%")
    report = session.report(bounds=True)
    assert report.rounds == 0 and report.bound_on_weights is not None and report.bound_on_shares is None
    assert session.is_done and report.verdict is not None and report.verdict.samples == 180
    text = str(report)
    assert "From 180 known samples alone: " in text and "the session may stop" in text and "known" in text
    assert "the weights are at most " in text
    document = report.to_dict()
    assert document["known"] == 180 and document["arms"][0]["known"] == 60
    cold = mm.Session(blobs, mm.Rke(bandwidth=2.0)).report()
    assert "known" not in str(cold) and "known" not in cold.to_dict() and "known" not in cold.to_dict()["arms"][0]


def test_known_arms_need_no_first_pull() -> None:
    random = np.random.default_rng(0)
    # the third is a point in the middle of the first, which has no weight in any best mixture
    arms = {
        "wide": random.normal(size=(80, 2)),
        "far": random.normal(size=(80, 2)) + 40,
        "point": 0.01 * random.normal(size=(80, 2)),
    }
    rke = mm.Rke(bandwidth=1.0)
    cold, session = mm.Session(arms, rke), mm.Session(arms, rke)
    for arm, rows in arms.items():
        session.known(arm, rows[40:])
    assert "point" in spend(cold, arms, 10)
    assert "point" not in spend(session, arms, 30)


def test_known_samples_are_pickled_and_never_kept(blobs: dict[str, Array]) -> None:
    session = warm(blobs, 3, settings=mm.SessionSettings(select="better-half"))
    spend(session, blobs, 20)
    assert len(session.kept) == 29 and not any(session.kept[:9]) and any(session.kept)
    again = pickle.loads(pickle.dumps(session))
    assert again.report() == session.report() and spend(again, blobs, 20) == spend(session, blobs, 20)


def test_rejected_samples_change_nothing(blobs: dict[str, Array]) -> None:
    session = mm.Session(blobs, mm.Rke(bandwidth=2.0) - 0.1 * mm.SampleScore("taste"))
    session.known("left", blobs["left"][:2], scores={"taste": [1.0, 2.0]})
    before = session._inner.snapshot()
    for arm, rows, scores, sentence in [
        ("top", blobs["left"], None, "there is no arm 'top'; there are left, middle, right"),
        ("left", blobs["left"][:2], None, "score taste needs a value for every sample"),
        ("left", blobs["left"][:2, :3], {"taste": [1.0, 2.0]}, "3 columns"),
        ("left", blobs["left"][:0], {"taste": []}, "left"),
        ("left", blobs["left"][:2] * np.nan, {"taste": [1.0, 2.0]}, "known samples of arm left"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            session.known(arm, rows, scores=scores)
    assert session._inner.snapshot() == before


def test_values_can_be_known(blobs: dict[str, Array]) -> None:
    session, by_hand = mm.Session(blobs, mm.Rke(bandwidth=2.0)), mm.Session.on_values(blobs)
    rows = np.concatenate([blobs["left"][:3], blobs["right"][:2]]).astype(float)
    kappa = np.exp(-((rows[:, None] - rows[None]) ** 2).sum(-1) / 4.0)
    session.known("left", rows[:3])
    by_hand.known_values("left", [kappa[0, :0], kappa[1, :1], kappa[2, :2]], [1.0] * 3)
    session.known("right", rows[3:], collected=True)
    by_hand.known_values("right", [kappa[3, :3], kappa[4, :4]], [1.0] * 2, collected=True)
    assert by_hand.report().weights == pytest.approx(session.report().weights, abs=1e-6)
    assert (by_hand.report().known, by_hand.report().samples) == (3, 2)


# Runs


def test_a_run_uses_known_samples_like_a_session() -> None:
    recorded = {"right": around(3)(6, 1), "left": around(-3)(5, 2)}
    done = mm.run(generators(), same, RKE, budget=12, known=recorded)
    session = mm.Session(generators(), RKE, rounds=12)
    for arm in ("left", "right"):  # in the order of the arms
        session.known(arm, recorded[arm].astype(np.float32))
    from modelmix._loop import seed_of

    for _ in range(12):
        pull = session.ask()
        session.tell(pull, generators()[pull.arm](1, seed_of(0, pull.id, 1)))
    assert state(done) == session._inner.snapshot()
    assert done.report.known == 11 and done.report.samples == 12


def test_a_run_that_may_stop_at_once_spends_nothing(tmp_path: Path) -> None:
    def never(count: int) -> Any:
        raise AssertionError

    recorded = {arm: make(80, number) for number, (arm, make) in enumerate(generators().items())}
    for _ in range(2):
        done = mm.run(
            dict.fromkeys(recorded, never),
            same,
            RKE,
            budget=100,
            until="90%",
            known=recorded,
            checkpoint=tmp_path / "run",
        )
        assert done.pulls == 0 and done.report.is_done and done.report.known == 240


def test_scores_of_known_samples_are_those_of_the_objective(tmp_path: Path) -> None:
    recorded = {"left": around(-3)(4, 1), "right": around(3)(3, 2)}
    looks = mm.SampleScore("looks", {"left": [1.0, 2.0, 3.0, 4.0], "right": [0.0, 0.0, 3.0]})
    objective = mm.Rke(bandwidth=1.0) - 0.1 * looks

    def go(given: mm.Objective, **more: Any) -> mm.Run:
        rate = {"rate": lambda rows: {"looks": [2.5] * len(rows)}}
        return mm.run(generators(), same, given, budget=1, known=recorded, **rate, **more)

    for path in (None, tmp_path / "run"):
        done = go(objective, checkpoint=path)
        [asked] = [arm.name for arm in done.report.arms if arm.samples]
        sums = {"left": (10.0, 4), "middle": (0.0, 0), "right": (3.0, 3)}
        sums[asked] = (sums[asked][0] + 2.5, sums[asked][1] + 1)
        assert done.report.linear == pytest.approx([-0.1 * total / max(n, 1) for total, n in sums.values()])
    with pytest.raises(ValueError, match="score looks needs a value for every sample"):
        go(mm.Rke(bandwidth=1.0) - 0.1 * mm.SampleScore("looks"))
    with pytest.raises(ValueError, match="there is no arm 'top'"):
        mm.run(generators(), same, RKE, budget=1, known={"top": [[0.0, 0.0]]})
    with pytest.raises(TypeError, match="known is .*, but it must be features or files by arm"):
        mm.run(generators(), same, RKE, budget=1, known=[[0.0, 0.0]])  # type: ignore[arg-type]


# Simulations


def test_known_samples_improve_a_simulation() -> None:
    arms = mm.load("data/fashion/truncated.npz")
    given: dict[str, Any] = {"policies": ["adaptive"], "rounds": 600, "seeds": 8, "bandwidth": 20}
    cold, warmed = mm.simulate(arms, "rke", **given), mm.simulate(arms, "rke", known=10, **given)
    needed = [report["adaptive"].reached["95"] for report in (cold, warmed)]
    assert needed[0] is not None and needed[1] is not None
    assert needed[1] < 0.7 * needed[0]
    assert warmed.known == 10 and cold.known is None
    assert "10 recorded samples per arm were known before the first round" in str(warmed)
    assert "known" not in cold.to_dict() and mm.Simulation._read(warmed.to_dict()) == warmed
    assert mm.simulate(arms, "rke", known=0, **given) == cold
