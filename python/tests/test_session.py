"""Sessions: ask, tell, abandon, report; pickles, snapshots, threads."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spending import spend

import modelmix as mm

Array = npt.NDArray[Any]


def test_a_session_finds_the_mixture(specialists: dict[str, Array], reference: Array) -> None:
    session = mm.Session(specialists, mm.Mmd(reference, bandwidth=20))
    spend(session, specialists, 400)
    report = session.report()
    best = mm.solve(specialists, mm.Mmd(reference, bandwidth=20))
    assert report.samples == 400
    assert sum(abs(report.weights[arm] - best.weights[arm]) for arm in best.weights) < 0.25
    assert report.loss is not None and report.mixture_loss is not None
    assert report.mixture_loss <= report.loss + 1e-12
    assert list(report.shares.values()) == pytest.approx([arm.samples / 400 for arm in report.arms])


@pytest.mark.parametrize("storage", ["single", "half"])
def test_a_pickled_session_continues_unchanged(storage: Any, specialists: dict[str, Array], reference: Array) -> None:
    objective = mm.Mmd(reference, bandwidth=20) - 0.1 * mm.Density(reference)
    settings = mm.SessionSettings(storage=storage)
    session = mm.Session(specialists, objective, policy=mm.Cab(sensitivity=0.1), seed=4, settings=settings)
    spend(session, specialists, 60)
    in_flight = session.ask()
    again = pickle.loads(pickle.dumps(session))
    assert again.in_flight == [in_flight]
    for one in (session, again):
        one.abandon(in_flight)
    assert spend(again, specialists, 60) == spend(session, specialists, 60)
    assert again.report() == session.report()
    assert np.array_equal(again.samples, session.samples)


def test_a_snapshot_on_disk(tmp_path: Path, specialists: dict[str, Array], reference: Array) -> None:
    session = mm.Session(specialists, mm.Mmd(reference, bandwidth=20), seed=9)
    spend(session, specialists, 30)
    session.save(tmp_path / "session.json")
    assert [path.name for path in tmp_path.iterdir()] == ["session.json"]
    again = mm.Session.restore(tmp_path / "session.json", mm.Mmd(reference, bandwidth=20))
    assert spend(again, specialists, 30) == spend(session, specialists, 30)
    with pytest.raises(ValueError, match="it belongs to another objective"):
        mm.Session.restore(tmp_path / "session.json", mm.Mmd(reference, bandwidth=21))
    with pytest.raises(ValueError, match="it belongs to another objective"):
        mm.Session.restore(tmp_path / "session.json", mm.Mmd(reference[:-1], bandwidth=20))
    (tmp_path / "torn.json").write_text((tmp_path / "session.json").read_text()[:-100])
    with pytest.raises(ValueError, match=r"torn\.json cannot be restored: it ends too early"):
        mm.Session.restore(tmp_path / "torn.json", mm.Mmd(reference, bandwidth=20))


def test_batches_and_single_rows(blobs: dict[str, Array]) -> None:
    session = mm.Session(blobs, mm.Rke(bandwidth=2.0), batch=3)
    session.tell(session.ask(), blobs["left"][:2])  # fewer samples than requested are accepted
    session.tell(session.ask(), blobs["left"][0])  # a single row is accepted
    session.tell(session.ask().id, [list(row) for row in blobs["left"][:3]])
    assert session.report().samples == 6
    assert session.samples is not None and session.samples.shape == (6, 4)
    pull = session.ask()
    with pytest.raises(ValueError, match="4 samples were told, but 3 were asked for"):
        session.tell(pull, blobs["left"][:4])
    with pytest.raises(ValueError, match="use the same encoder throughout"):
        session.tell(pull, np.zeros((1, 5), np.float32))
    with pytest.raises(ValueError, match="row 0, column 3 is"):
        session.tell(pull, np.array([0, 0, 0, np.inf], np.float32))
    assert session.in_flight == [pull]
    session.tell(pull, blobs["left"][:1])


def test_pulls_are_told_once(blobs: dict[str, Array]) -> None:
    session = mm.Session(blobs, mm.Rke(bandwidth=2.0))
    pull = session.ask()
    session.tell(pull, blobs["left"][0])
    for again in (lambda: session.tell(pull, blobs["left"][0]), lambda: session.abandon(pull)):
        with pytest.raises(ValueError, match="already answered or abandoned"):
            again()
    with pytest.raises(ValueError, match="was never asked for"):
        session.tell(77, blobs["left"][0])
    with pytest.raises(TypeError, match="pull is 'left', but it must be a pull that ask returned, or its id"):
        session.tell("left", blobs["left"][0])  # type: ignore[arg-type]


def test_scores_are_told_with_samples(blobs: dict[str, Array]) -> None:
    session = mm.Session(blobs, mm.Rke(bandwidth=2.0) - 0.5 * mm.SampleScore("taste"), batch=2)
    session.tell(session.ask(), blobs["left"][:2], scores={"taste": [1.0, 3.0]})
    session.tell(session.ask(), blobs["right"][0], scores={"taste": 4.0})
    assert sorted(session.report().linear) == pytest.approx([-2.0, -1.0, 0.0])
    with pytest.raises(ValueError, match="score taste needs a value for every sample"):
        session.tell(session.ask(), blobs["left"][:2])


def test_a_policy_with_constants_needs_ranges(blobs: dict[str, Array]) -> None:
    objective = mm.Mmd(blobs["left"], kernel="polynomial") - mm.SampleScore("taste")
    with pytest.raises(ValueError, match="give the range of the kernel"):
        mm.Session(blobs, objective, policy="cab")
    mm.Session(blobs, objective, policy="cab", kappa_range=(0, 9), score_ranges={"taste": (0, 1)})
    mm.Session(blobs, mm.Mmd(blobs["left"], bandwidth=2) - mm.SampleScore("taste", range=(0, 1)), policy=mm.Cab())
    with pytest.raises(ValueError, match="it uses the optimum"):
        mm.Session(blobs, mm.Rke(bandwidth=2), policy=mm.MixtureOracle())
    with pytest.raises(ValueError, match="halving needs the number of samples"):
        mm.Session(blobs, mm.Rke(bandwidth=2), policy="halving")
    mm.Session(blobs, mm.Rke(bandwidth=2), policy="halving", rounds=100)


def test_a_session_on_values(blobs: dict[str, Array]) -> None:
    """A session on values of κ and f equals a session on features."""
    session = mm.Session(blobs, mm.Rke(bandwidth=2.0), seed=3)
    by_hand = mm.Session.on_values(blobs, seed=3)
    held: list[Array] = []
    for number in range(40):
        pull, same = session.ask(), by_hand.ask()
        assert pull == same
        row = blobs[pull.arm][number % 60]
        kappa = [float(np.exp(-((row.astype(float) - other.astype(float)) ** 2).sum() / 4.0)) for other in held]
        session.tell(pull, row)
        by_hand.tell_values(pull, kappa, 1.0)
        held.append(row)
    assert by_hand.report().loss == pytest.approx(session.report().loss, rel=1e-6)
    assert by_hand.samples is None and by_hand.report().objective is None
    again = pickle.loads(pickle.dumps(by_hand))
    assert again.ask() == by_hand.ask()
    with pytest.raises(ValueError, match="has 1 values of κ for 40 earlier samples"):
        by_hand.tell_values(by_hand.in_flight[0], [1.0], 1.0)
    with pytest.raises(ValueError, match="tell it values"):
        by_hand.tell(by_hand.in_flight[0], blobs["left"][0])


def test_a_batch_on_values() -> None:
    session = mm.Session.on_values(["a", "b"], batch=2)
    session.tell_values(session.ask(), [[], [0.5]], [1.0, 1.0], [0.1, 0.2])
    assert session.report().samples == 2
    with pytest.raises(ValueError, match="give one of each per sample"):
        session.tell_values(session.ask(), [[0.1, 0.1]], [1.0, 1.0])


def test_names_must_differ() -> None:
    with pytest.raises(ValueError, match="at least one arm"):
        mm.Session([], mm.Rke(bandwidth=1))
    with pytest.raises(ValueError, match="different from every other"):
        mm.Session(["a", "a"], mm.Rke(bandwidth=1))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from(["ask", "tell", "abandon", "pickle"]), max_size=60), st.integers(0, 5))
def test_any_order_of_calls_keeps_the_counts(calls: list[str], seed: int) -> None:
    random = np.random.default_rng(seed)
    session = mm.Session(["a", "b", "c"], mm.Rke(bandwidth=1.0), seed=seed)
    flying: list[mm.Pull] = []
    told = given_up = 0
    for call in calls:
        if call == "ask":
            flying.append(session.ask())
        elif call == "pickle":
            session = pickle.loads(pickle.dumps(session))
        elif flying:
            pull = flying.pop(int(random.integers(len(flying))))
            if call == "tell":
                session.tell(pull, random.normal(size=2))
                told += 1
            else:
                session.abandon(pull)
                given_up += 1
    report = session.report()
    assert (report.samples, sum(arm.abandoned for arm in report.arms)) == (told, given_up)
    assert session.in_flight == sorted(flying, key=lambda pull: pull.id)
    assert sum(report.weights.values()) == pytest.approx(1.0 if told else 0.0)
