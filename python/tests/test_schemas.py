"""The dataclasses and the JSON Schemas, which are generated from the Rust types, have the same fields."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from typing import Any

import jsonschema
import numpy as np
import pytest
from by_hand import (
    hand_asked,
    hand_curated,
    hand_kept,
    hand_scores,
    hand_session,
    hand_simulation,
    hand_stopped,
    hand_warned,
)
from places import ROOT

import modelmix as mm
from modelmix import results

#: A dataclass, its schema, its definition in the schema, fields that only the schema has, and fields that only Python has.
PAIRS: list[tuple[type, str, str, set[str], set[str]]] = [
    (results.MixtureArm, "solve", "MixtureArm", set(), set()),
    (results.TermValue, "solve", "TermValue", set(), set()),
    # names and weights are one dictionary in Python
    (results.Subset, "solve", "SubsetDocument", {"arms"}, set()),
    (results.Cheapest, "solve", "CheapestDocument", {"arms"}, {"score_name"}),
    (results.FrontPoint, "solve", "FrontPoint", set(), set()),
    (results.SensitivityPoint, "solve", "SensitivityPoint", set(), set()),
    (results.Provenance, "solve", "Provenance", set(), set()),
    (results.InputFile, "solve", "InputFile", set(), set()),
    (results.UsedBandwidth, "solve", "UsedBandwidth", set(), set()),
    (results.ScoredSet, "score", "ScoredArm", set(), set()),
    (results.ScoredMixture, "score", "ScoredMixture", set(), set()),
    (results.Spread, "simulate", "Spread", set(), set()),
    (results.Stopped, "simulate", "Stopped", set(), set()),
    (results.SimulatedFeatures, "simulate", "SimulatedFeatures", set(), set()),
    (results.SimulatedPolicy, "simulate", "PolicyReport", set(), set()),
    (results.CuratedArm, "curate", "CuratedArm", set(), set()),
    (results.RandomDraws, "curate", "RandomDraws", set(), set()),
    (results.Tried, "curate", "Tried", set(), set()),
    # 0 in Python if absent
    (results.SessionArm, "session", "SessionArm", {"known"}, {"known"}),
    (results.FeatureError, "session", "FeatureError", set(), set()),
    (results.Verdict, "session", "Verdict", set(), set()),
    (results.ChosenBandwidth, "session", "ChosenBandwidth", set(), set()),
    (results.HalfWidths, "plan", "HalfWidths", set(), set()),
    (results.PlannedArm, "plan", "PlannedArm", set(), set()),
    (results.Allocation, "plan", "Allocation", set(), set()),
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
        # None inside a container concerns its values
        choices = re.sub(r"\[.*\]", "", fields[name]).split(" | ")
        assert ("None" in choices) == _may_be_none(schema, name), name


def _summed() -> mm.Mixture:
    """The mixture of an accumulator, which says what was random."""
    rows = np.random.default_rng(4).normal(size=(40, 3)).astype(np.float32)
    survey = mm.Accumulator.survey()
    survey.update("a", rows)
    survey.update("b", 2 * rows)
    sums = mm.Accumulator(survey.plan(mm.Rke(bandwidth=1.0), method="features", random_features=64))
    sums.update("a", rows)
    sums.update("b", 2 * rows)
    return sums.solve()


def test_the_document_of_an_accumulator_follows_the_schema() -> None:
    document = json.loads(json.dumps(_summed().to_dict()))
    assert document["approximation"]["random_features"] == 64 and document["approximation"]["sampled_rows"] is None
    jsonschema.validate(document, _schema("solve"))


@pytest.mark.parametrize(
    ("command", "made"),
    [
        ("solve", [hand_asked, hand_warned, _summed]),
        ("score", [hand_scores]),
        ("simulate", [hand_simulation, hand_stopped]),
        ("curate", [hand_curated]),
        ("session", [hand_session, hand_kept]),
    ],
)
def test_documents_have_every_field_of_the_schema(command: str, made: list[Any]) -> None:
    written = {name for make in made for name in make().to_dict()}
    properties = set(_schema(command)["properties"])
    assert written <= properties
    absent = {"select", "note", "known", "feature_error", "bandwidth", "is_bandwidth_open", "provenance"}
    assert properties - written <= absent, "only what such results do not have"


def _sessions() -> dict[str, Callable[[], mm.Session]]:
    rows = np.random.default_rng(3).normal(size=(40, 3)).astype(np.float32)

    def spent(rounds: int, **given: Any) -> mm.Session:
        session = mm.Session(["a", "b"], mm.Rke(bandwidth=1.0), batch=2, **given)
        for number in range(rounds):
            pull = session.ask()
            session.tell(pull, rows[number : number + 2] + pull.index)
        return session

    def warm() -> mm.Session:
        session = spent(3, until="loss=0.5")
        session.known("a", rows)
        session.known("b", rows + 9)
        session.abandon(session.ask())
        return session

    def on_values() -> mm.Session:
        session = mm.Session.on_values(["a", "b"])
        session.tell_values(session.ask(), [], 1.0)
        return session

    def measured(rounds: int) -> mm.Session:
        session = mm.Session(["a", "b"], mm.Rke(), batch=2)
        for number in range(rounds):
            pull = session.ask()
            session.tell(pull, rows[number : number + 2] + pull.index)
        return session

    return {
        "open": lambda: measured(3),
        "chosen": lambda: measured(12),
        "new": lambda: spent(0),
        "in flight": lambda: spent(4),
        "stopped": warm,
        "capped": lambda: spent(19, settings=mm.SessionSettings(retention=mm.Capped(10), alarm=0.01)),
        "kept": lambda: spent(9, settings=mm.SessionSettings(select="better-half")),
        "on values": on_values,
    }


@pytest.mark.parametrize("kind", _sessions())
def test_reports_of_sessions_follow_their_schema(kind: str) -> None:
    report = _sessions()[kind]().report(bounds=True)
    validator = jsonschema.Draft202012Validator(_schema("session"))
    document = json.loads(json.dumps(report.to_dict()))
    validator.validate(document)
    assert mm.SessionReport._read(document) == report
    for spoiled in ({**document, "more": 1}, {**document, "samples": -1}, {**document, "arms": [{"name": "a"}]}):
        assert not validator.is_valid(spoiled)


def test_sessions_of_the_schema_have_the_expected_fields() -> None:
    made = {kind: make().report(bounds=True) for kind, make in _sessions().items()}
    assert made["stopped"].verdict is not None and made["capped"].feature_error is not None
    assert made["open"].is_bandwidth_open and made["chosen"].bandwidth is not None
    assert made["kept"].note is not None and made["on values"].objective is None
