"""Analyses of ``solve`` besides the best mixture."""

from __future__ import annotations

import pickle
from html import escape
from typing import Any

import pytest

import modelmix as mm


@pytest.fixture(scope="module")
def asked(specialists: Any, reference: Any) -> mm.Mixture:
    return mm.solve(
        specialists,
        mm.Mmd(reference, bandwidth=20),
        subsets=True,
        fees=dict.fromkeys(specialists, 0.0) | {"tops_gan": 50},
        costs=dict.fromkeys(specialists, 0.1),
        samples=100,
        within="20%",
        front=mm.Precision(reference),
        bandwidths=[10, 20, 40],
    )


def test_analyses_are_absent_unless_requested(specialists: Any, reference: Any) -> None:
    best = mm.solve(specialists, mm.Mmd(reference, bandwidth=20))
    assert (best.subsets, best.cheapest, best.front, best.sensitivity) == (None, None, None, None)
    assert not {"subsets", "cheapest", "front", "sensitivity"} & set(best.to_dict())


def test_documents_round_trip(asked: mm.Mixture) -> None:
    assert mm.Mixture._read(asked.to_dict(), asked.sentence, asked.certainty) == asked
    assert pickle.loads(pickle.dumps(asked)) == asked


def test_the_best_subsets(asked: mm.Mixture) -> None:
    assert asked.subsets is not None
    assert [subset.size for subset in asked.subsets.sizes] == [1, 2, 3]
    assert asked.subsets[1].arms == (asked.best_single,) and asked.subsets[1].gain_kept == 0
    assert asked.subsets[5] == asked.subsets[3] and asked.subsets[3].loss == pytest.approx(asked.loss)
    with pytest.raises(KeyError):
        asked.subsets[0]
    frame = asked.subsets.to_pandas()
    assert list(frame.index) == [1, 2, 3] and frame["gain_kept"].is_monotonic_increasing
    assert frame[asked.best_single][1] == 1


def test_the_cheapest(asked: mm.Mixture) -> None:
    cheapest = asked.cheapest
    assert cheapest is not None
    assert cheapest.total == pytest.approx(cheapest.fee + cheapest.cost) and cheapest.total <= cheapest.total_of_best
    assert cheapest.above_best <= cheapest.within * (1 + 1e-9) and sum(cheapest.weights.values()) == pytest.approx(1)
    assert cheapest.within == pytest.approx(0.2 * asked.gain)


def test_the_front(asked: mm.Mixture) -> None:
    front = asked.front
    assert front is not None and front.objective == "-precision" and front.exact
    assert front[0].weights == pytest.approx(asked.weights, abs=1e-6) and front.second_more_is_better
    frame = front.to_pandas()
    assert frame["second_score"].is_monotonic_increasing and frame["loss"].is_monotonic_increasing
    assert len(frame) == len(front)


def test_bandwidths(asked: mm.Mixture, specialists: Any, reference: Any) -> None:
    tried = asked.sensitivity
    assert tried is not None and [point.bandwidth for point in tried.points] == [10, 20, 40] and tried.in_use == 20
    wide = mm.solve(specialists, mm.Mmd(reference, bandwidth=40))
    assert tried.points[2].weights == wide.weights and tried.points[2].score == wide.score
    assert f"{100 * tried.largest_change:.1f} percent" in tried.verdict
    assert list(tried.to_pandas().index) == [10, 20, 40]


def test_all_analyses_print_and_convert_to_html(asked: mm.Mixture) -> None:
    text, html = str(asked), asked._repr_html_()
    for words in ("Best mixtures of few arms", "least money", "MMD² ×100 against precision", "20.00 *"):
        assert words in text and words in html
    assert html.count("<table ") == 5
    assert asked.certainty is not None and asked.certainty in text and escape(asked.certainty) in html


def test_invalid_arguments(specialists: Any, reference: Any) -> None:
    mmd = mm.Mmd(reference, bandwidth=20)
    with pytest.raises(ValueError, match="there is no arm midjourney"):
        mm.solve(specialists, mmd, fees={"midjourney": 1})
    with pytest.raises(ValueError, match="needs prices"):
        mm.solve(specialists, mmd, within="5%")
    with pytest.raises(ValueError, match='within is "much"'):
        mm.solve(specialists, mmd, fees={"vae": 1}, within="much")
    with pytest.raises(ValueError, match=r'within is "0.05", but .*: 5% for .* or loss=0.05 for'):
        mm.solve(specialists, mmd, fees=dict.fromkeys(specialists, 1.0), within=0.05)
    with pytest.raises(ValueError, match=r"arm shoes_gan has no fee; give one for every arm, 0 if it has none"):
        mm.solve(specialists, mmd, fees={"tops_gan": 1})
    with pytest.raises(ValueError, match="bandwidths is"):
        mm.solve(specialists, mmd, bandwidths=[])
    with pytest.raises(ValueError, match='bandwidths is "wide"'):
        mm.solve(specialists, mmd, bandwidths="wide")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="two different reference"):
        mm.solve(specialists, mmd, front=mm.Precision(reference.copy()))
