"""Settings of sessions besides the policy: early stopping, retention, drift detection; and invalid settings."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from spending import spend

import modelmix as mm

Array = npt.NDArray[Any]


def test_a_session_reports_when_it_may_stop(specialists: dict[str, Array], reference: Array) -> None:
    session = mm.Session(specialists, mm.Mmd(reference, bandwidth=20), until=mm.Until(gain=0.3, confidence=0.9))
    assert not session.is_done and session.report(bounds=True).bound_on_weights is None
    rounds = 0
    while not session.is_done:
        pull = session.ask()
        session.tell(pull, specialists[pull.arm][rounds % 1500])
        rounds += 1
        assert rounds < 1500
    report = session.report(bounds=True)
    best = mm.solve(specialists, mm.Mmd(reference, bandwidth=20))
    assert report.is_done and report.verdict is not None and report.verdict.samples == rounds
    assert report.bound_on_weights is not None and report.bound_on_weights < 0.3 * best.gain
    assert "the session may stop" in str(report)
    assert min(arm.samples for arm in report.arms) >= 10
    assert pickle.loads(pickle.dumps(session)).is_done
    weights = np.array(list(report.verdict.mixture.values()))
    loss = weights @ np.array(best.quadratic) @ weights + np.array(best.linear) @ weights + best.constant
    assert loss - best.loss < 0.3 * best.gain


@pytest.mark.parametrize("until", ["lots", -1.0])
def test_invalid_conditions_for_stopping(until: Any) -> None:
    with pytest.raises(ValueError, match="such as 5%"):
        mm.Session(["a", "b"], mm.Rke(bandwidth=1), until=until)


def test_a_run_ends_early(specialists: dict[str, Array], reference: Array, tmp_path: Path) -> None:
    def run(budget: int, **more: Any) -> mm.Run:
        made = dict.fromkeys(specialists, 0)

        def generator(arm: str) -> Any:
            def make(count: int) -> Array:
                made[arm] += count
                return specialists[arm][[number % 1500 for number in range(made[arm] - count, made[arm])]]

            return make

        generators = {arm: generator(arm) for arm in specialists}
        objective = mm.Mmd(reference, bandwidth=20)
        return mm.run(generators, lambda rows: rows, objective, budget=budget, **{"until": "30%", **more})

    path = tmp_path / "journal"
    done = run(3000, checkpoint=path)
    assert done.pulls < 3000 and done.report.is_done
    assert run(3000, checkpoint=path).pulls == done.pulls
    assert run(3000, workers=3).report.is_done
    with pytest.raises(
        ValueError, match=r'has until \{"gain":0.3,"confidence":0.95,.* and this run has \{"gain":0.3,"confidence":0.99'
    ):
        run(3000, checkpoint=path, until=mm.Until(gain=0.3, confidence=0.99))


def test_a_session_with_bounded_memory(blobs: dict[str, Array]) -> None:
    few = mm.SessionSettings(retention=mm.Capped(50, error=0.05))
    # alternating arms, so that both sessions have the same samples
    exact = mm.Session(blobs, mm.Rke(bandwidth=3), policy="uniform", seed=1)
    capped = mm.Session(blobs, mm.Rke(bandwidth=3), policy="uniform", seed=1, settings=few)
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
        mm.Session(blobs, mm.Rke(bandwidth=3), settings=mm.SessionSettings(retention=mm.Capped(3)))


def test_a_session_with_a_sliding_window(blobs: dict[str, Array]) -> None:
    session = mm.Session(blobs, mm.Rke(bandwidth=3), settings=mm.SessionSettings(retention=mm.Window(30)))
    spend(session, blobs, 100)
    assert session.report().samples == 30
    session.forget("left")
    assert session.report()["left"].samples == 0
    assert session.ask().arm == "left"
    with pytest.raises(ValueError, match="no arm 'top'"):
        session.forget("top")


def test_drift_of_an_arm_raises_an_alarm() -> None:
    random = np.random.default_rng(3)
    session = mm.Session(["api"], mm.Rke(bandwidth=4), settings=mm.SessionSettings(alarm=0.01))
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


def test_a_half_life_may_have_a_cap(blobs: dict[str, Array]) -> None:
    settings = mm.SessionSettings(retention=mm.HalfLife(40, cap=mm.Capped(30, error=0.1)))
    session = mm.Session(blobs, mm.Rke(bandwidth=3), settings=settings)
    spend(session, blobs, 60)
    assert session.samples is not None and len(session.samples) == 30
    # after many samples, the weights add up to 1/(1 - 2^(-1/40))
    assert session.report().samples <= 58


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: mm.Until(), "Until needs a share of the gain or a loss"),
        (lambda: mm.Until(gain=0.1, loss=0.1), "give one of them"),
        (lambda: mm.Until(gain=0.0), "the gain of Until is 0.0, but it must be a finite number above 0"),
        (lambda: mm.Until(loss=float("inf")), "the loss of Until is inf"),
        (lambda: mm.Until(gain="5%"), "the gain of Until is '5%', but it must be a number"),
        (lambda: mm.Until(gain=0.1, confidence=1.0), "confidence is 1.0, but it must be between 0 and 1"),
        (lambda: mm.Until(gain=0.1, of="share"), "of is 'share' (did you mean shares?)"),
        (lambda: mm.Window(0), "the samples of Window is 0, but it must be a whole number, at least 1"),
        (lambda: mm.HalfLife("long"), "the samples of HalfLife is 'long'"),
        (lambda: mm.HalfLife(50, cap=1000), "such as mm.Capped(1000)"),
        (lambda: mm.Capped(2.5), "the hold of Capped is 2.5"),
        (lambda: mm.SessionSettings(retention="window=500"), "write mm.Window(500)"),
        (lambda: mm.SessionSettings(retention="half-life = 50"), "write mm.HalfLife(50)"),
        (lambda: mm.SessionSettings(retention=500), "write mm.Window(500), mm.HalfLife(500) or mm.Capped(1000)"),
        (lambda: mm.SessionSettings(storage="double"), "storage is 'double', but it must be single or half"),
        (lambda: mm.SessionSettings(alarm="often"), "alarm is 'often', but it must be a number"),
    ],
)
def test_invalid_settings_are_rejected_at_once(make: Any, sentence: str) -> None:
    with pytest.raises((TypeError, ValueError)) as refused:
        make()
    assert sentence in str(refused.value)


def test_settings_that_do_not_fit_the_arms_are_named(blobs: dict[str, Array]) -> None:
    def session(**more: Any) -> mm.Session:
        return mm.Session(blobs, mm.Rke(bandwidth=3), **more)

    with pytest.raises(ValueError, match="retention is window=3, but it must be a window of at least 12"):
        session(settings=mm.SessionSettings(retention=mm.Window(3)))
    with pytest.raises(ValueError, match="until is given to a session with `retention`"):
        session(settings=mm.SessionSettings(retention=mm.Window(30)), until="5%")
    with pytest.raises(ValueError, match="retention is window=30, .*all with the policy halving"):
        session(settings=mm.SessionSettings(retention=mm.Window(30)), policy="halving", rounds=100)
    with pytest.raises(ValueError, match="needs features"):
        mm.Session.on_values(["a"], settings=mm.SessionSettings(retention=mm.Window(30)))


def test_text_and_objects_are_equivalent(blobs: dict[str, Array]) -> None:
    for given, said in [
        ("7%", mm.Until(gain=0.07)),
        ("loss=0.001", mm.Until(loss=0.001)),
        (" gain=0.5 ", mm.Until(gain=0.5)),
    ]:
        assert mm.Until._read(given) == said
        texts = [mm.Session(blobs, mm.Rke(bandwidth=3), until=until)._inner.snapshot() for until in (given, said)]
        assert texts[0] == texts[1]
    with pytest.raises(
        ValueError, match=r"until is .0\.1., but it must be a number with its meaning: 10% .* or loss=0\.1"
    ):
        mm.Session(blobs, mm.Rke(bandwidth=3), until=0.1)  # type: ignore[arg-type]


def test_stopping_by_shares(blobs: dict[str, Array]) -> None:
    session = mm.Session(blobs, mm.Rke(bandwidth=3), until=mm.Until(gain=0.9, of="shares"))
    spend(session, blobs, 150)
    report = session.report()
    assert report.verdict is not None
    total = sum(report.verdict.mixture.values())
    assert total == pytest.approx(1)
    # shares are multiples of one over the number of samples; weights are not
    counts = [share * report.verdict.samples for share in report.verdict.mixture.values()]
    assert counts == pytest.approx([round(count) for count in counts])


def test_simulations_share_the_settings(blobs: dict[str, Array]) -> None:
    given: dict[str, Any] = {"policies": ["uniform"], "rounds": 100, "seeds": 2}
    settings = mm.SessionSettings(retention=mm.Window(30), alarm=0.01)
    short, plain = (mm.simulate(blobs, mm.Rke(bandwidth=3), settings=one, **given) for one in (settings, None))
    # with equal shares, the loss of a window is that of fewer samples, in which self-pairs have more weight
    assert short["uniform"].loss.mean[-1] > plain["uniform"].loss.mean[-1]
    with pytest.raises(ValueError, match="retention is window=3, but it must be a window of at least 12"):
        mm.simulate(blobs, mm.Rke(bandwidth=3), settings=mm.SessionSettings(retention=mm.Window(3)))
