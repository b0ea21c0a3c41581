"""Plans of numbers of samples: documents, tables and refusals. That widths are met is tested in Rust."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import numpy as np
import pytest
from places import ROOT

import modelmix as mm
from modelmix import results


def pilot() -> dict[str, Any]:
    generator = np.random.default_rng(5)
    return {name: generator.normal(size=(150, 2)) + 3 * index for index, name in enumerate(("a", "b"))}


def test_documents_follow_their_schema_and_come_back() -> None:
    planned = mm.plan(pilot(), mm.Rke(bandwidth=1.0), gain_error="2%", weight_error=0.02, costs={"a": 1, "b": 5})
    schema = json.loads((ROOT / "crates/modelmix-cli/schema/plan.schema.json").read_text(encoding="utf-8"))
    document = json.loads(json.dumps(planned.to_dict()))
    jsonschema.Draft202012Validator(schema).validate(document)
    assert mm.SamplePlan._read(document, planned.sentence) == planned
    assert planned.equal is not None and planned.best is not None
    assert planned.gain_error == pytest.approx(0.02 * planned.gain)
    assert planned.equal.expected.gain <= planned.gain_error and planned.equal.expected.weight <= 0.02
    costs = sum(arm.more * cost for arm, cost in zip(planned.equal.arms, (1, 5), strict=True))
    assert planned.equal.cost == pytest.approx(costs)
    assert list(planned) == ["a", "b"] and int(planned["a"]) == planned.best.arms[0].samples
    assert list(planned.to_pandas().index) == ["a", "b"]
    assert planned.sentence in str(planned) and "pilot" in str(planned)


def test_the_pilot_has_the_intervals_of_solve() -> None:
    arms = pilot()
    planned, best = mm.plan(arms, mm.Rke(bandwidth=1.0), gain_error="loss=1"), mm.solve(arms, mm.Rke(bandwidth=1.0))
    assert planned.gain_interval == best.gain_interval and planned.p_value == best.p_value
    assert planned.is_enough and planned.sentence.startswith("The pilot is enough")


def test_refusals_name_the_unit() -> None:
    for given, words in (("0.05", "loss=0.05"), ("five", "5%")):
        with pytest.raises(ValueError, match=words):
            mm.plan(pilot(), mm.Rke(bandwidth=1.0), gain_error=given)
    wrong: Any = 0.05
    with pytest.raises(TypeError, match="gain_error"):
        mm.plan(pilot(), mm.Rke(bandwidth=1.0), gain_error=wrong)
    with pytest.raises(ValueError, match="wanted width"):
        mm.plan(pilot(), mm.Rke(bandwidth=1.0))
    with pytest.raises(ValueError, match="positive"):
        mm.plan(pilot(), mm.Rke(bandwidth=1.0), gain_error="5%", costs={"a": 0, "b": 1})


def test_a_plan_without_an_allocation_says_so() -> None:
    reference = np.random.default_rng(6).normal(size=(30, 2))
    planned = mm.plan(pilot(), mm.Mmd(reference, bandwidth=1.0), gain_error="loss=1e-5")
    assert planned.equal is None and len(planned) == 0 and isinstance(planned.limit, results.HalfWidths)
    assert "30 rows" in " ".join(planned.notes)
    with pytest.raises(ValueError, match="no allocation"):
        planned.plot()
