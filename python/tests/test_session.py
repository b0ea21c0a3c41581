"""Sessions: ask, tell, abandon, report; pickles, snapshots, threads."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import modelmix as mm

Array = npt.NDArray[Any]


def spend(session: mm.Session, arms: dict[str, Array], rounds: int) -> list[str]:
    pulled = []
    for _ in range(rounds):
        pull = session.ask()
        pulled.append(pull.arm)
        row = sum(arm.samples for arm in session.report().arms) % len(arms[pull.arm])
        session.tell(pull, arms[pull.arm][row])
    return pulled


def test_a_session_finds_the_mixture(specialists: dict[str, Array], reference: Array) -> None:
    session = mm.Session(specialists, mm.Kid(reference, bandwidth=20))
    spend(session, specialists, 400)
    report = session.report()
    best = mm.solve(specialists, mm.Kid(reference, bandwidth=20))
    assert report.samples == 400
    assert sum(abs(report.weights[arm] - best.weights[arm]) for arm in best.weights) < 0.25
    assert report.loss is not None and report.mixture_loss is not None
    assert report.mixture_loss <= report.loss + 1e-12
    assert list(report.shares.values()) == pytest.approx([arm.samples / 400 for arm in report.arms])


@pytest.mark.parametrize("storage", ["single", "half"])
def test_a_pickled_session_goes_on_as_it_would_have(
    storage: Any, specialists: dict[str, Array], reference: Array
) -> None:
    objective = mm.Kid(reference, bandwidth=20) - 0.1 * mm.Density(reference)
    session = mm.Session(specialists, objective, policy=mm.Cab(sensitivity=0.1), seed=4, storage=storage)
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
    session = mm.Session(specialists, mm.Kid(reference, bandwidth=20), seed=9)
    spend(session, specialists, 30)
    session.save(tmp_path / "session.json")
    assert [path.name for path in tmp_path.iterdir()] == ["session.json"]
    again = mm.Session.restore(tmp_path / "session.json", mm.Kid(reference, bandwidth=20))
    assert spend(again, specialists, 30) == spend(session, specialists, 30)
    with pytest.raises(ValueError, match="it belongs to another objective"):
        mm.Session.restore(tmp_path / "session.json", mm.Kid(reference, bandwidth=21))
    with pytest.raises(ValueError, match="it belongs to another objective"):
        mm.Session.restore(tmp_path / "session.json", mm.Kid(reference[:-1], bandwidth=20))
    (tmp_path / "torn.json").write_text((tmp_path / "session.json").read_text()[:-100])
    with pytest.raises(ValueError, match="it is damaged"):
        mm.Session.restore(tmp_path / "torn.json", mm.Kid(reference, bandwidth=20))


def test_batches_and_single_rows(blobs: dict[str, Array]) -> None:
    session = mm.Session(blobs, mm.Rke(bandwidth=2.0), batch=3)
    session.tell(session.ask(), blobs["left"][:2])  # fewer than asked for may come back
    session.tell(session.ask(), blobs["left"][0])  # a row is rows
    session.tell(session.ask().id, [list(row) for row in blobs["left"][:3]])
    assert session.report().samples == 6
    assert session.samples is not None and session.samples.shape == (6, 4)
    pull = session.ask()
    with pytest.raises(ValueError, match="4 samples were told where 3 were asked for"):
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
    with pytest.raises(ValueError, match="is no pull"):
        session.tell("left", blobs["left"][0])  # type: ignore[arg-type]


def test_scores_are_told_with_samples(blobs: dict[str, Array]) -> None:
    session = mm.Session(blobs, mm.Rke(bandwidth=2.0) - 0.5 * mm.Score("taste"), batch=2)
    session.tell(session.ask(), blobs["left"][:2], scores={"taste": [1.0, 3.0]})
    session.tell(session.ask(), blobs["right"][0], scores={"taste": 4.0})
    assert sorted(session.report().linear) == pytest.approx([-2.0, -1.0, 0.0])
    with pytest.raises(ValueError, match="score taste needs a value for every sample"):
        session.tell(session.ask(), blobs["left"][:2])


def test_a_policy_with_constants_needs_ranges(blobs: dict[str, Array]) -> None:
    objective = mm.Mmd(blobs["left"], kernel="polynomial") - mm.Score("taste")
    with pytest.raises(ValueError, match="give the range of κ"):
        mm.Session(blobs, objective, policy="cab")
    mm.Session(blobs, objective, policy="cab", kappa_range=(0, 9), score_ranges={"taste": (0, 1)})
    mm.Session(blobs, mm.Mmd(blobs["left"], bandwidth=2) - mm.Score("taste", range=(0, 1)), policy=mm.Cab())
    with pytest.raises(ValueError, match="it knows the answer"):
        mm.Session(blobs, mm.Rke(bandwidth=2), policy=mm.MixtureOracle())
    with pytest.raises(ValueError, match="halving needs the number of samples"):
        mm.Session(blobs, mm.Rke(bandwidth=2), policy="halving")
    mm.Session(blobs, mm.Rke(bandwidth=2), policy="halving", rounds=100)
    with pytest.raises(ValueError, match='storage is "double", but it must be single or half'):
        mm.Session(blobs, mm.Rke(bandwidth=2), storage="double")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="bandwidth"):
        mm.Session(blobs, mm.Rke())


def test_a_session_on_values(blobs: dict[str, Array]) -> None:
    """κ and f by hand are as good as features."""
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
    with pytest.raises(ValueError, match="give one a sample"):
        session.tell_values(session.ask(), [[0.1, 0.1]], [1.0, 1.0])


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


def test_names_must_differ() -> None:
    with pytest.raises(ValueError, match="at least one arm"):
        mm.Session([], mm.Rke(bandwidth=1))
    with pytest.raises(ValueError, match="different from every other"):
        mm.Session(["a", "a"], mm.Rke(bandwidth=1))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from(["ask", "tell", "abandon", "pickle"]), max_size=60), st.integers(0, 5))
def test_any_order_of_calls_keeps_the_books(calls: list[str], seed: int) -> None:
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


def test_a_session_says_when_it_may_stop(specialists: dict[str, Array], reference: Array) -> None:
    session = mm.Session(specialists, mm.Kid(reference, bandwidth=20), until="30%", confidence=0.9)
    assert not session.is_done and session.report().bound_on_weights is None
    rounds = 0
    while not session.is_done:
        pull = session.ask()
        session.tell(pull, specialists[pull.arm][rounds % 1500])
        rounds += 1
        assert rounds < 1500
    report = session.report()
    best = mm.solve(specialists, mm.Kid(reference, bandwidth=20))
    assert report.is_done and report.verdict is not None and report.verdict.samples == rounds
    assert report.bound_on_weights is not None and report.bound_on_weights < 0.3 * best.gain
    assert "the session may stop" in str(report)
    assert min(arm.samples for arm in report.arms) >= 10
    assert pickle.loads(pickle.dumps(session)).is_done
    weights = np.array(list(report.verdict.mixture.values()))
    loss = weights @ np.array(best.quadratic) @ weights + np.array(best.linear) @ weights + best.constant
    assert loss - best.loss < 0.3 * best.gain


@pytest.mark.parametrize(
    ("until", "confidence", "sentence"),
    [("lots", 0.95, "such as 5%"), (-1.0, 0.95, "such as 5%"), ("5%", 1.5, "between 0 and 1")],
)
def test_when_to_stop_is_checked(until: Any, confidence: float, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        mm.Session(["a", "b"], mm.Rke(bandwidth=1), until=until, confidence=confidence)


def test_a_run_ends_early(specialists: dict[str, Array], reference: Array, tmp_path: Path) -> None:
    def run(budget: int, **more: Any) -> mm.Run:
        made = dict.fromkeys(specialists, 0)

        def generator(arm: str) -> Any:
            def make(count: int) -> Array:
                made[arm] += count
                return specialists[arm][[number % 1500 for number in range(made[arm] - count, made[arm])]]

            return make

        generators = {arm: generator(arm) for arm in specialists}
        objective = mm.Kid(reference, bandwidth=20)
        return mm.run(generators, lambda rows: rows, objective, budget=budget, until="30%", **more)

    path = tmp_path / "journal"
    done = run(3000, checkpoint=path)
    assert done.pulls < 3000 and done.report.is_done
    assert run(3000, checkpoint=path).pulls == done.pulls
    assert run(3000, workers=3).report.is_done
    with pytest.raises(ValueError, match="has confidence 0.95 where this run has 0.99"):
        run(3000, checkpoint=path, confidence=0.99)


def test_a_session_without_end(blobs: dict[str, Array]) -> None:
    # by turns, so that both have the same samples
    exact = mm.Session(blobs, mm.Rke(bandwidth=3), policy="uniform", seed=1)
    capped = mm.Session(blobs, mm.Rke(bandwidth=3), policy="uniform", seed=1, hold=50, feature_error=0.05)
    assert spend(exact, blobs, 50) == spend(capped, blobs, 50)
    assert exact.report() == capped.report()
    assert "feature_error" not in exact.report().to_dict()
    spend(exact, blobs, 150)
    spend(capped, blobs, 150)
    report = capped.report()
    error = report.feature_error
    assert error is not None and (error.features, error.held, report.samples) == (400, 50, 200)
    assert error.score_bias is not None and "of the pairs is estimated by 400 features" in str(report)
    assert report.to_dict()["feature_error"]["features"] == 400
    assert capped.samples is not None and len(capped.samples) == 50
    assert np.allclose(report.quadratic, exact.report().quadratic, atol=0.1)
    again = pickle.loads(pickle.dumps(capped))
    assert spend(again, blobs, 40) == spend(capped, blobs, 40)
    assert again.report() == capped.report()
    with pytest.raises(ValueError, match="hold is 3, but it must be at least 12"):
        mm.Session(blobs, mm.Rke(bandwidth=3), hold=3)


def test_a_session_that_forgets(blobs: dict[str, Array]) -> None:
    session = mm.Session(blobs, mm.Rke(bandwidth=3), forget="window=30")
    spend(session, blobs, 100)
    assert session.report().samples == 30
    session.forget("left")
    assert session.report()["left"].samples == 0
    assert session.ask().arm == "left"
    with pytest.raises(ValueError, match="no arm 'top'"):
        session.forget("top")
    with pytest.raises(ValueError, match="window=N or half-life=N"):
        mm.Session(blobs, mm.Rke(bandwidth=3), forget="soon")


def test_an_alarm_rings_when_an_arm_changes() -> None:
    random = np.random.default_rng(3)
    session = mm.Session(["api"], mm.Rke(bandwidth=4), alarm=0.01)
    for number in range(200):
        session.tell(session.ask(), random.normal(size=4) + (0 if number < 150 else 3))
        if number == 149:
            assert session.report()["api"].changed is None
            assert "changed" not in session.report().to_dict()["arms"][0]
    changed = session.report()["api"].changed
    assert changed is not None and 150 <= changed < 180
    assert f"changed: api in round {changed}" in str(session.report())
    session.forget("api")
    assert session.report()["api"].changed is None
