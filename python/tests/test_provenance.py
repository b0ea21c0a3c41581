"""Where results come from: what Python knows about its inputs, and the tables that the command line writes too."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from places import ROOT
from test_same_everywhere import PROGRAMS

import modelmix as mm

DATA = ROOT / "data" / "fashion"
ARMS, REFERENCE = DATA / "specialists.npz", DATA / "reference.npy"


def checksum(path: Path) -> tuple[int, str]:
    contents = path.read_bytes()
    return len(contents), hashlib.sha256(contents).hexdigest()


def test_files_have_sizes_and_checksums() -> None:
    best = mm.solve({"flow": f"{ARMS}:flow", "vae": f"{ARMS}:vae"}, mm.Mmd(str(REFERENCE)), seed=3)
    assert best.provenance is not None
    arms, reference = best.provenance.inputs
    # a file of many arms is one input
    assert arms.arguments == (f"flow={ARMS}:flow", f"vae={ARMS}:vae") and arms.path == str(ARMS)
    assert (arms.bytes, arms.sha256) == checksum(ARMS)
    assert (reference.role, reference.bytes, reference.sha256) == ("reference", *checksum(REFERENCE))
    [used] = best.provenance.bandwidths
    assert (used.of, used.rule, used.samples, used.seed) == ("mmd", "median", 500, 3)
    assert used.bandwidth == mm.median_bandwidth(str(REFERENCE), seed=3) == best.kernels[0]["bandwidth"]
    assert best.provenance.version == mm.__version__ and best.provenance.seed == 3
    assert best.provenance.engine is not None and best.provenance.engine.startswith("cpu")


def test_arrays_are_named() -> None:
    random = np.random.default_rng(0)
    arms = {name: random.normal(size=(20, 3)).astype(np.float32) for name in ("a", "b")}
    scores = mm.score(arms, metrics=["rke"], bandwidth=2)
    assert scores.provenance is not None
    assert [(one.role, one.arguments, one.path, one.sha256) for one in scores.provenance.inputs] == [
        ("arms", ("a",), None, None),
        ("arms", ("b",), None, None),
    ]
    assert scores.provenance.bandwidths[0].rule == "given"


@pytest.mark.parametrize("command", ["solve", "score", "simulate", "curate"])
def test_documents_with_provenance_follow_their_schema(command: str) -> None:
    source = f"{ARMS}:flow", f"{ARMS}:vae"
    made = {
        "solve": lambda: mm.solve(source, mm.Rke(bandwidth=20)),
        "score": lambda: mm.score(source, metrics=["rke"]),
        "simulate": lambda: mm.simulate(source, mm.Rke(bandwidth=20), rounds=5, seeds=1),
        "curate": lambda: mm.curate(source, mm.Rke(bandwidth=20), count=5),
    }[command]()
    document = json.loads(json.dumps(made.to_dict()))
    assert document["provenance"]["inputs"][0]["sha256"] == checksum(ARMS)[1]
    schema = json.loads((ROOT / "crates" / "modelmix-cli" / "schema" / f"{command}.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(document)
    assert "<summary>Provenance</summary>" in made._repr_html_() and checksum(ARMS)[1] in made._repr_html_()


def test_provenance_plays_no_part_in_comparisons() -> None:
    arms = mm.load(f"{ARMS}:flow", f"{ARMS}:vae")
    in_memory, from_file = mm.solve(arms, "rke", bandwidth=20), mm.solve(str(ARMS), "rke", bandwidth=20)
    assert in_memory == mm.solve([f"{ARMS}:flow", f"{ARMS}:vae"], "rke", bandwidth=20)
    assert in_memory.provenance != from_file.provenance


@pytest.mark.parametrize("way", ["latex", "markdown", "csv"])
@pytest.mark.parametrize("command", ["solve", "score"])
def test_tables_are_those_of_the_command_line(command: str, way: str) -> None:
    words = [command, str(ARMS), f"--reference={REFERENCE}", "--objective=rke", "--bandwidth=20", f"--{way}"]
    if command == "score":
        words.append("--metrics=rke,fid,precision")
        result: mm.Mixture | mm.Scores = mm.score(
            str(ARMS), str(REFERENCE), objective="rke", bandwidth=20, metrics=["rke", "fid", "precision"]
        )
    else:
        result = mm.solve(str(ARMS), "rke", reference=str(REFERENCE), bandwidth=20)
    done = subprocess.run([PROGRAMS / "modelmix", *words], capture_output=True, check=True)
    assert done.stdout.decode().rstrip("\n") == getattr(result, f"to_{way}")().rstrip("\n")


def test_two_hyphens_stay_two() -> None:
    text = mm.solve({"a--b": [[0.0], [1.0]], "c": [[5.0], [6.0]]}, mm.Rke(bandwidth=1)).to_latex()
    assert "a-{}-b & " in text
