"""Rust, the command line and Python return the same document for the same case, to the last bit."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from places import PROGRAMS, ROOT

import modelmix as mm

CASES: list[dict[str, Any]] = json.loads((ROOT / "python/tests/cases.json").read_text())


def printed(program: str, *arguments: str) -> Any:
    done = subprocess.run([PROGRAMS / program, *arguments], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def from_rust() -> list[dict[str, Any]]:
    documents = printed("examples/documents", "python/tests/cases.json")
    assert len(documents) == len(CASES)
    return list(documents)


def by_arm(values: dict[str, float]) -> str:
    return ",".join(f"{arm}={value}" for arm, value in values.items())


def from_command_line(case: dict[str, Any]) -> Any:
    words = [case["command"], *case["arms"], "--json", "--seed", str(case.get("seed", 0))]
    options = (
        "reference objective bandwidth rounds seeds until samples within front bandwidths count proportions pool select"
    )
    for name in options.split():
        if name in case:
            words += [f"--{name}={case[name]}"]
    for name in ("costs", "floor", "cap", "weights", "fees"):
        if name in case:
            words += [f"--{name}={by_arm(case[name])}"]
    if case.get("subsets"):
        words += ["--subsets"]
    if "metrics" in case:
        words += [f"--metrics={','.join(case['metrics'])}"]
    if "policies" in case:
        words += ["--policy", ",".join(case["policies"])]
    return printed("modelmix", *words)


def from_python(case: dict[str, Any]) -> Any:
    arms = mm.load(*case["arms"])
    reference = mm.load_array(case["reference"]) if "reference" in case else None
    given = {name: case[name] for name in ("bandwidth", "costs", "seed") if name in case}
    objective = case.get("objective")
    settings = mm.SessionSettings(select=case.get("select", "all"))
    if case["command"] == "solve":
        names = ("floor", "cap", "subsets", "fees", "samples", "within", "front", "bandwidths")
        more = {name: case[name] for name in names if name in case}
        return mm.solve(arms, objective, reference=reference, **given, **more).to_dict()
    if case["command"] == "score":
        more = {name: case[name] for name in ("metrics", "weights") if name in case}
        return mm.score(arms, reference, objective=objective, **given, **more).to_dict()
    if case["command"] == "simulate":
        more = {name: case[name] for name in ("policies", "rounds", "seeds", "until") if name in case}
        return mm.simulate(arms, objective, reference=reference, settings=settings, **given, **more).to_dict()
    if case["command"] == "curate":
        more = {name: case[name] for name in ("count", "proportions", "pool", "floor", "cap") if name in case}
        return mm.curate(arms, objective, reference=reference, **given, **more).to_dict()
    more = {"until": case["until"]} if "until" in case else {}
    policy = case["policies"][0]
    session = mm.Session(arms, objective, reference=reference, policy=policy, settings=settings, **given, **more)
    rows = {arm: iter(features) for arm, features in arms.items()}
    for _ in range(case["rounds"]):
        pull = session.ask()
        session.tell(pull, next(rows[pull.arm]))
    return session.report(bounds=True).to_dict()


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda number: f"{number}-{CASES[number]['command']}")
def test_all_interfaces_return_the_same_document(number: int, from_rust: list[dict[str, Any]]) -> None:
    case = CASES[number]
    in_python = from_python(case)
    provenance = in_python.pop("provenance", None)
    assert in_python == from_rust[number]
    if case["command"] != "session":
        typed = from_command_line(case)
        same = ("version", "engine", "seed", "bandwidths")
        told = typed.pop("provenance")
        assert provenance is not None and {name: told[name] for name in same} == {
            name: provenance[name] for name in same
        }
        assert in_python == typed


def test_terms_equal_their_text(specialists: Any, reference: Any) -> None:
    terms = mm.Mmd(reference, bandwidth=20) - 0.2 * mm.Precision(reference, neighbours=3)
    written = mm.solve(specialists, "mmd(bandwidth=20) - 0.2*precision(neighbours=3)", reference=reference)
    assert mm.solve(specialists, terms) == written
    assert (
        mm.solve(specialists, "mmd - 0.2*precision(neighbours=3)", reference=reference, bandwidth=20).weights
        == written.weights
    )
