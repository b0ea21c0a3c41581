"""Results as mappings of arms, policies and sizes, and as sequences of points."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from by_hand import hand_asked, hand_curated, hand_mixture, hand_run, hand_scores, hand_session, hand_simulation

import modelmix as mm

ARMS = ["flux", "sdxl", "pixart"]


def of_arms() -> dict[str, tuple[Any, list[str]]]:
    """Every result that is a mapping of arms, with the names of the arms."""
    asked = hand_asked()
    assert asked.cheapest is not None
    return {
        "mixture": (hand_mixture(), ARMS),
        "scores": (hand_scores(), ["flux", "sdxl"]),
        "session": (hand_session(), ARMS),
        "run": (hand_run(), ARMS),
        "curated": (hand_curated(), ARMS),
        "cheapest": (asked.cheapest, ["flux", "sdxl"]),
    }


@pytest.mark.parametrize("kind", of_arms())
def test_a_result_is_a_mapping_of_arms(kind: str) -> None:
    result, names = of_arms()[kind]
    assert isinstance(result, Mapping)
    assert [arm for arm in result] == list(result) == list(result.keys()) == names
    assert len(result) == len(names) and result
    assert "flux" in result and "midjourney" not in result and 0 not in result and ["flux"] not in result
    assert list(result.items()) == [(name, result[name]) for name in names]
    assert dict(result) == dict(result.items()) and list(result.values()) == [result[name] for name in names]
    assert result.get("midjourney") is None and result.get("flux") == result["flux"]
    assert {**result}.keys() == set(names)


@pytest.mark.parametrize("kind", of_arms())
def test_an_unknown_name_gets_a_suggestion(kind: str) -> None:
    result, names = of_arms()[kind]
    with pytest.raises(KeyError) as raised:
        result["flx"]
    expected = f"there is no 'flx' here (did you mean flux?); there are {', '.join(names)}"
    assert raised.value.args == (expected,)


def test_arms_convert_to_their_weights() -> None:
    for result in (hand_mixture(), hand_session(), hand_run(), hand_curated()):
        assert {name: float(arm) for name, arm in result.items()} == {arm.name: arm.weight for arm in result.values()}
    assert np.array(list(hand_mixture().values()), dtype=float) == pytest.approx([0.625, 0.3748, 0.0002])


def test_a_mixture_is_accepted_as_weights(blobs: dict[str, npt.NDArray[Any]]) -> None:
    best = mm.solve(blobs, mm.Rke(bandwidth=2.0))
    given: Any = best
    table = mm.score(blobs, metrics=["rke"], weights=given, bandwidth=2.0)
    assert table.mixture is not None and table.mixture["rke"] == pytest.approx(best.score)
    assert mm.metrics.rke(blobs, weights=given, bandwidth=2.0).value == pytest.approx(best.score)


def test_scores_are_also_mappings_of_metrics() -> None:
    table = hand_scores()
    assert list(table["flux"]) == list(table["flux"].scores) and "fid" in table["flux"]
    assert dict(table["flux"]) == table["flux"].scores and len(table["flux"]) == len(table["flux"].scores)
    assert table.mixture is not None and dict(table.mixture) == table.mixture.scores
    with pytest.raises(KeyError, match="did you mean fid"):
        table["flux"]["fidd"]


def test_a_simulation_is_a_mapping_of_policies() -> None:
    report = hand_simulation()
    assert isinstance(report, Mapping)
    assert list(report) == list(report.policies) == ["uniform", "adaptive"] and len(report) == 2
    there: Any = mm.Adaptive()
    assert "uniform" in report and there in report and "greedy" not in report
    assert dict(report) == report.policies and report[mm.Uniform()] == report["uniform"]
    with pytest.raises(KeyError, match="did you mean uniform"):
        report["unifrom"]


def test_subsets_are_a_mapping_of_sizes() -> None:
    few = hand_asked().subsets
    assert few is not None and isinstance(few, Mapping)
    assert list(few) == [1, 2, 3] and len(few) == 3 and dict(few) == {subset.size: subset for subset in few.sizes}
    # more arms do not help
    assert 2 in few and few[9] == few[3] and 9 in few
    unknown: Any = "flux"
    assert 0 not in few and unknown not in few
    with pytest.raises(KeyError, match="at most 0 arms"):
        few[0]


def test_fronts_and_sensitivities_are_sequences() -> None:
    asked = hand_asked()
    for points in (asked.front, asked.sensitivity):
        assert isinstance(points, Sequence)
        assert list(points) == list(points.points) and points[-1] in points and len(points) == len(points.points)
        assert list(points[1:]) == list(points.points[1:]) and next(reversed(points)) == points[-1]
        assert points.index(points[1]) == 1


def test_results_compare_and_pickle_as_before() -> None:
    best = hand_mixture()
    assert best == hand_mixture() and best != replace(best, loss=1.0) and best != dict(best)
    for result, _ in of_arms().values():
        if not isinstance(result, mm.Run):
            assert pickle.loads(pickle.dumps(result)) == result
