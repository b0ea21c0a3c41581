"""What people met in their first hour: words that were not true, and shares that did not add up."""

from __future__ import annotations

import re
import warnings
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest

import modelmix as mm
from modelmix._table import percents, shares

mpl.use("Agg")


def twins() -> dict[str, Any]:
    """Two draws of one distribution: what mixing seems to gain is noise."""
    draw = np.random.default_rng(9)
    return {"left": draw.normal(size=(40, 2)), "right": draw.normal(size=(40, 2))}


def sixty() -> dict[str, Any]:
    """Three arms apart, and 57 that have nothing to add: a point of the first one."""
    draw = np.random.default_rng(1)
    places = {7: (0.0, 1.0), 27: (40.0, 1.0), 47: (-40.0, 1.0)}
    return {f"m{at:02}": draw.normal(*places.get(at, (0.0, 0.001)), size=(20, 3)) for at in range(60)}


def test_a_gain_that_is_not_significant_is_called_so() -> None:
    best = mm.solve(twins(), mm.Rke(bandwidth=1))
    assert best.p_value is not None and best.p_value > 0.05
    assert best.gain > 0
    start = f"No significant gain over the best single model, {best.best_single} (p = {best.p_value:.2f}; 95% CI 0 to "
    assert best.sentence.startswith(start)
    one, other = re.findall(r"RKE ([\d.]+) instead of ([\d.]+)\.$", best.sentence)[0]
    assert one != other
    assert best.plot().get_title(loc="left").endswith(f"not significant (p = {best.p_value:.2f})")
    untested = mm.solve(twins(), mm.Rke(bandwidth=1), intervals=False)
    assert untested.sentence.startswith("Mix ") and untested.certainty is None
    assert "ignificant" not in str(untested)


def test_shares_add_up_to_a_hundred() -> None:
    draw = np.random.default_rng(3)
    for count in range(1, 60):
        weights = draw.dirichlet(np.full(count, 0.5))
        texts = percents(weights.tolist())
        tenths = [0 if text.startswith("<") else round(10 * float(text.strip(">%"))) for text in texts]
        assert sum(tenths) == 1000 or ">99.9%" in texts, texts
    assert shares({"a": 1 / 3, "b": 1 / 3, "c": 1 / 3}) == "a 33.4%, b 33.3%, c 33.3%"


def test_arms_without_weight_are_folded() -> None:
    best = mm.solve(sixty(), mm.Rke(bandwidth=3), intervals=False)
    used = [name for name, weight in best.weights.items() if weight > 1e-9]
    assert 3 <= len(used) <= 6
    lines = str(best).split("\n")
    row = next(at for at, line in enumerate(lines) if "arms with weight 0" in line)
    listed = [line.split()[0] for line in lines[3:row]]
    assert lines[row].strip() == f"and {60 - len(listed)} arms with weight 0"
    assert set(used) <= set(listed) and len(listed) <= len(used) + 1
    weights = [best.weights[name] for name in listed]
    assert weights == sorted(weights, reverse=True)
    assert len(best.to_pandas()) == 60 and len(best) == 60
    ax = best.plot()
    assert len(ax.get_yticks()) == len(listed) + 1
    assert f"{60 - len(listed)} arms with weight 0" in ax.get_xlabel()


def test_every_term_has_a_column_and_axes() -> None:
    arms = {"a": [[0.0], [1.0], [2.0]], "b": [[5.0], [6.0], [8.0]]}
    best = mm.solve(arms, "rke(bandwidth=1) + 0.1*cost", costs={"a": 1, "b": 2})
    frame = best.to_pandas()
    assert frame["cost"].tolist() == [1, 2]
    # RKE is one over the mean of k², by hand
    rows = np.array(arms["a"])
    assert frame["RKE"]["a"] == pytest.approx(1 / np.exp(-((rows - rows.T) ** 2)).mean())
    figure = best.plot().figure
    labels = [ax.get_xlabel() for ax in figure.axes]
    assert labels == ["weight, with 95% intervals", "RKE", "cost", "loss, less is better"]
    assert len(mm.solve(arms, mm.Rke(bandwidth=1)).plot().figure.axes) == 2


def test_a_term_against_its_direction_warns_where_it_was_written() -> None:
    arms, reference = twins(), np.random.default_rng(2).normal(size=(30, 2))
    objective = mm.Rke(bandwidth=1) + 0.1 * mm.Precision(reference)
    sentence = r'minimises precision, but higher precision is better; write "rke\(bandwidth=1\) - 0.1\*precision"'
    calls = [
        lambda: mm.solve(arms, objective),
        lambda: mm.simulate(arms, objective, rounds=5, seeds=1),
        lambda: mm.curate(arms, objective, count=4),
        lambda: mm.Session(["a", "b"], objective),
    ]
    for call in calls:
        with pytest.warns(UserWarning, match=sentence) as caught:
            call()
        assert [warning.filename for warning in caught] == [__file__]
    with pytest.warns(UserWarning, match="maximises cost"):
        best = mm.solve(arms, "rke(bandwidth=1) - cost", costs={"left": 1, "right": 2})
    assert len(best.warnings) == 1 and best.to_dict()["warnings"] == list(best.warnings)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert mm.solve(arms, mm.Rke(bandwidth=1) - 0.1 * mm.Precision(reference)).warnings == ()
        mm.solve(arms, mm.Rke(bandwidth=1), front=mm.Precision(reference))


def test_a_simulation_says_what_it_can() -> None:
    arms = twins()
    one = str(mm.simulate(arms, mm.Rke(bandwidth=1), rounds=10, seeds=1))
    assert "±" not in one
    assert "±" in str(mm.simulate(arms, mm.Rke(bandwidth=1), rounds=10, seeds=2))
    only = str(mm.simulate({"left": arms["left"]}, mm.Rke(bandwidth=1), rounds=10, seeds=2))
    assert only.startswith("left is the only arm, so there is no mixture to find.")
    with pytest.raises(ValueError, match="less than the gain of these arms"):
        mm.simulate(arms, mm.Rke(bandwidth=1), rounds=10, until=mm.Until(loss=0.5))


def test_constant_arms_have_no_intervals() -> None:
    best = mm.solve({"a": np.zeros((20, 2)), "b": np.full((20, 2), 9.0)}, mm.Rke(bandwidth=1))
    assert best.intervals == "unavailable" and best.p_value is None
    assert "interval" not in str(best)
