"""The dataclasses against the JSON Schemas, which are generated from the Rust types: no field is missing on either side."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

import pytest
from by_hand import hand_asked, hand_curated, hand_scores, hand_simulation, hand_stopped
from conftest import ROOT

from modelmix import results

#: A dataclass, the schema and the definition in it that it is, fields that only the schema has, and fields that only Python has.
PAIRS: list[tuple[type, str, str, set[str], set[str]]] = [
    (results.MixtureArm, "solve", "MixtureArm", set(), set()),
    (results.TermValue, "solve", "TermValue", set(), set()),
    # names and shares are one dictionary in Python
    (results.Subset, "solve", "SubsetDocument", {"arms"}, set()),
    (results.Cheapest, "solve", "CheapestDocument", {"arms"}, {"score_name"}),
    (results.FrontPoint, "solve", "FrontPoint", set(), set()),
    (results.SensitivityPoint, "solve", "SensitivityPoint", set(), set()),
    (results.ScoredSet, "score", "ScoredArm", set(), set()),
    (results.ScoredMixture, "score", "ScoredMixture", set(), set()),
    (results.Spread, "simulate", "Spread", set(), set()),
    (results.Stopped, "simulate", "Stopped", set(), set()),
    (results.SimulatedFeatures, "simulate", "SimulatedFeatures", set(), set()),
    (results.SimulatedPolicy, "simulate", "PolicyReport", set(), set()),
    (results.CuratedArm, "curate", "CuratedArm", set(), set()),
    (results.RandomDraws, "curate", "RandomDraws", set(), set()),
    (results.Tried, "curate", "Tried", set(), set()),
]


def _schema(command: str) -> dict[str, Any]:
    path = ROOT / "crates" / "modelmix-cli" / "schema" / f"{command}.schema.json"
    schema: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return schema


def _may_be_none(schema: dict[str, Any], name: str) -> bool:
    """Whether a property may be null or absent."""
    given = schema["properties"][name]
    kinds = given.get("type", [])
    choices = [choice.get("type") for choice in given.get("anyOf", [])]
    return "null" in kinds or "null" in choices or name not in schema["required"]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[0].__name__)
def test_dataclasses_have_the_fields_of_the_schema(pair: tuple[type, str, str, set[str], set[str]]) -> None:
    kind, command, definition, only_schema, only_python = pair
    schema = _schema(command)["$defs"][definition]
    fields = {field.name: str(field.type) for field in dataclasses.fields(kind)}
    assert set(fields) - only_python == set(schema["properties"]) - only_schema
    for name in set(fields) - only_python:
        # None inside a container is about its values
        choices = re.sub(r"\[.*\]", "", fields[name]).split(" | ")
        assert ("None" in choices) == _may_be_none(schema, name), name


@pytest.mark.parametrize(
    ("command", "made"),
    [
        ("solve", [hand_asked]),
        ("score", [hand_scores]),
        ("simulate", [hand_simulation, hand_stopped]),
        ("curate", [hand_curated]),
    ],
)
def test_documents_have_every_field_of_the_schema(command: str, made: list[Any]) -> None:
    written = {name for make in made for name in make().to_dict()}
    properties = set(_schema(command)["properties"])
    assert written <= properties
    assert properties - written <= {"select", "note", "known"}, "only what such results do not have"
