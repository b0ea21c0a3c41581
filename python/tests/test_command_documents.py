"""Documents of the command line follow the JSON Schemas in crates/modelmix-cli/schema, by an independent validator."""

from __future__ import annotations

import copy
import json
import shlex
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
import referencing
from places import ROOT
from test_same_everywhere import PROGRAMS

COMMANDS = ("solve", "score", "simulate", "curate", "reproduce", "compare")
PAIR = "a.npy b.npy --json"
REFERENCE = "--reference reference.npy"
LINES = [
    "solve a.npy --json",
    f"solve {PAIR} --objective cost --costs a=1,b=2",
    f"solve {PAIR} --no-intervals",
    f"solve {PAIR} --objective vendi",
    f"solve {PAIR} --objective fid {REFERENCE}",
    f"solve {PAIR} --objective 'rke(kernel=laplacian) + mmd(kernel=kid) + wit' {REFERENCE} --scores scores.json",
    f"solve {PAIR} --objective 'mmd(kernel=cosine)' {REFERENCE} --floor a=0.9",
    f"solve {PAIR} --subsets --bandwidths auto --front vendi",
    f"solve {PAIR} --subsets --objective 'vendi(kernel=gaussian)' --bandwidths 1,2 --front=-wit --scores scores.json",
    f"solve {PAIR} --fees a=3,b=0 --within loss=0.01",
    f"solve {PAIR} --costs a=1,b=2 --samples 10 --front cost",
    "solve a.npy --subsets --bandwidths auto --front 'rke(bandwidth=1)' --fees a=1 --json",
    f"score {PAIR} --no-mixture --order inf",
    f"score {PAIR} --metrics vendi",
    f"score {PAIR} {REFERENCE} --weights a=0.25,b=0.75",
    f"score {PAIR} {REFERENCE} --metrics kid,kid_full,mmd,cmmd,recall --subset-size 10 --subsets 3",
    f"score {PAIR} {REFERENCE} --preset prdc",
    f"score {PAIR} {REFERENCE} --preset torch-fidelity --subset-size 10",
    f"simulate {PAIR} --rounds 7 --seeds 1 --checkpoints 3 --policy 'cab(sensitivity=0.1),halving'",
    f"simulate {PAIR} --rounds 7 --objective cost --costs a=1,b=2 --policy uniform",
    f"simulate {PAIR} --rounds 30 --seeds 2 --hold 10 --feature-error 0.1 --forget half-life=20",
    f"simulate {PAIR} --rounds 9 --seeds 2 --checkpoints 3 --select better-half --policy uniform,greedy",
    f"simulate {PAIR} --rounds 9 --seeds 2 --known 3",
    f"curate {PAIR} --count 5 --proportions free",
    f"curate {PAIR} --count 5 --objective cost --costs a=1,b=2",
    f"curate {PAIR} --count 7 --pool 20 --objective 'mmd + wit' {REFERENCE} --scores scores.json",
]


@cache
def _validators() -> dict[str, jsonschema.Draft202012Validator]:
    folder = ROOT / "crates" / "modelmix-cli" / "schema"
    schemas = {name: json.loads((folder / f"{name}.schema.json").read_text(encoding="utf-8")) for name in COMMANDS}
    for schema in schemas.values():
        jsonschema.Draft202012Validator.check_schema(schema)
    resources = [(schema["$id"], referencing.Resource.from_contents(schema)) for schema in schemas.values()]
    registry: Any = referencing.Registry().with_resources(resources)
    return {name: jsonschema.Draft202012Validator(schema, registry=registry) for name, schema in schemas.items()}


def _validate(document: Any) -> None:
    _validators()[document["command"]].validate(document)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("arms")
    random = np.random.default_rng(11)
    for name, rows, shift in (("a", 20, 0.0), ("b", 20, 1.0), ("reference", 30, 0.5)):
        np.save(folder / f"{name}.npy", random.normal(shift, 1.0, (rows, 6)).astype(np.float32))
    scores = {"wit": {"a": [0.5] * 20, "b": [2.0] * 20}}
    (folder / "scores.json").write_text(json.dumps(scores), encoding="utf-8")
    return folder


def _printed(line: str, folder: Path) -> Any:
    done = subprocess.run([PROGRAMS / "modelmix", *shlex.split(line)], cwd=folder, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


@pytest.mark.parametrize("line", LINES)
def test_every_document_follows_its_schema(line: str, folder: Path) -> None:
    _validate(_printed(line, folder))


def test_experiments_contain_documents_of_other_commands(folder: Path) -> None:
    paths = [ROOT / "experiments" / name for name in ("fashion/categories-rke.toml", "paper/sofa-rke.toml")]
    document = _printed(f"reproduce {shlex.join(map(str, paths))} --json", folder)
    _validate(document)
    assert document["experiments"][0]["solve"]["command"] == "solve"
    document["experiments"][0]["simulate"]["policies"]["adaptive"]["rounds"] = "many"
    with pytest.raises(jsonschema.ValidationError):
        _validate(document)


def test_a_comparison_follows_its_schema(folder: Path) -> None:
    for name in ("one", "two"):
        document = _printed(f"solve a={name}a.npy b={name}b.npy --json", _halves(folder))
        (folder / f"{name}.json").write_text(json.dumps(document), encoding="utf-8")
    document = _printed("report one.json two.json --compare --json", folder)
    _validate(document)
    assert document["overlap"] == "none" and document["weights"][0]["interval"] is not None


def _halves(folder: Path) -> Path:
    for arm in ("a", "b"):
        whole = np.load(folder / f"{arm}.npy")
        np.save(folder / f"one{arm}.npy", whole[:10])
        np.save(folder / f"two{arm}.npy", whole[10:])
    return folder


SPOILS: dict[str, Callable[[Any], Any]] = {
    "an unknown field": lambda document: document.update(more=1),
    "an unknown field of an arm": lambda document: document["arms"][0].update(more=1),
    "a weight above 1": lambda document: document["arms"][0].update(weight=1.5),
    "a negative bandwidth": lambda document: document["kernel"].update(bandwidth=-1),
    "a loss that is null": lambda document: document["mixture"].update(loss=None),
    "no gain": lambda document: document.pop("gain"),
}


@pytest.mark.parametrize("spoil", SPOILS.values(), ids=SPOILS)
def test_schemas_reject(spoil: Callable[[Any], Any], folder: Path) -> None:
    document = copy.deepcopy(_printed(LINES[1].replace("--objective cost --costs a=1,b=2", ""), folder))
    _validate(document)
    spoil(document)
    with pytest.raises(jsonschema.ValidationError):
        _validate(document)
