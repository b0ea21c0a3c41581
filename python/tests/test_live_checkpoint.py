"""Checkpoints that cannot be resumed: other runs, other files, damage, other releases; and verification of decisions."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from live_arms import RKE, arms, around, faulty, lines, same, state

import modelmix as mm

OTHER: list[tuple[dict[str, Any], str]] = [
    (
        {
            "generators": {**arms(), "more": around(0)},
            "costs": dict.fromkeys([*arms(), "more"], 1.0),
        },
        "arms",
    ),
    ({"generators": {"right": around(0), "middle": around(0), "left": around(0)}}, "arms"),
    ({"objective": "rke(bandwidth=2)"}, "objective"),
    ({"policy": "uniform"}, "policy"),
    ({"seed": 1}, "seed"),
    ({"batch": 2}, "batch"),
    ({"settings": mm.SessionSettings(storage="half")}, "storage"),
    ({"settings": mm.SessionSettings(select="better-half")}, "select"),
    ({"settings": mm.SessionSettings(alarm=0.01)}, "alarm"),
    ({"settings": mm.SessionSettings(retention=mm.Window(50))}, "retention"),
    ({"until": "5%"}, "until"),
    ({"known": {"left": np.zeros((3, 2))}}, "known"),
    ({"kappa_range": (0, 2)}, "kappa_range"),
    ({"score_ranges": {"looks": (0, 2)}}, "score_ranges"),
    ({"costs": {"left": 1.0, "middle": 1.0, "right": 2.0}}, "another reference, kernel or costs"),
]


@pytest.mark.parametrize(("other", "said"), OTHER)
def test_a_run_with_other_settings_is_rejected(other: dict[str, Any], said: str, tmp_path: Path) -> None:
    path = tmp_path / "run"
    usual: dict[str, Any] = {
        "generators": arms(),
        "objective": "rke(bandwidth=1) + 0.1*cost",
        "costs": {"left": 1.0, "middle": 1.0, "right": 1.0},
        "embed": same,
        "budget": 5,
        "checkpoint": path,
    }
    mm.run(**usual)
    data = path.read_bytes()
    if said == "objective":
        other = {"objective": "rke(bandwidth=1) + 0.2*cost"}
    with pytest.raises(ValueError, match=f"the checkpoint .*run .*{said}"):
        mm.run(**{**usual, **other})
    assert path.read_bytes() == data
    mm.run(**{**usual, "budget": 6, "retries": 5, "workers": 2, "threads": 1, "keep": False})


def test_another_reference_is_rejected(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(20, 2))

    def go(reference: Any) -> mm.Run:
        objective = mm.Mmd(reference, bandwidth=1.0)
        return mm.run(arms(), same, objective, budget=4, checkpoint=tmp_path / "run")

    go(rows)
    go(rows.copy())
    with pytest.raises(ValueError, match="belongs to another reference, kernel or costs"):
        go(rows + 1e-3)


def test_policies_are_compared_by_value(tmp_path: Path) -> None:
    path = tmp_path / "run"
    for policy in ("cab(sensitivity=0.10)", mm.Cab(sensitivity=0.1), " cab( sensitivity=0.1 )"):
        assert mm.run(arms(), same, RKE, budget=4, policy=policy, checkpoint=path).pulls == 4


def test_only_halving_depends_on_the_budget(tmp_path: Path) -> None:
    mm.run(arms(), same, RKE, budget=6, policy="halving", checkpoint=tmp_path / "run")
    with pytest.raises(ValueError, match="has budget 6, and this run has 9"):
        mm.run(arms(), same, RKE, budget=9, policy="halving", checkpoint=tmp_path / "run")
    for budget in (6, 9):
        policy = mm.Halving(rounds=9)
        done = mm.run(arms(), same, RKE, budget=budget, policy=policy, checkpoint=tmp_path / "more")
    assert done.pulls == 9


@pytest.mark.parametrize(
    "content",
    [
        b"no checkpoint",
        b"no checkpoint\n",
        b"\x00\xff\x80\n",
        b"{}\n",
        b"[]\n",
        b"\n",
        b'{"journal":2}\n',
        b'{"journal":2,"modelmix":"0.2.0","run":"{}","crc":5}\n',
    ],
)
def test_another_file_is_rejected_and_left_unchanged(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "thesis.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"thesis\.txt is not a journal"):
        mm.run(arms(), same, RKE, budget=3, checkpoint=path)
    assert path.read_bytes() == content


def test_an_empty_file_is_a_new_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.touch()
    assert mm.run(arms(), same, RKE, budget=3, checkpoint=str(path)).resumed == 0
    with pytest.raises(FileNotFoundError):
        mm.run(arms(), same, RKE, budget=3, checkpoint=tmp_path / "nowhere" / "run")


def test_damage_is_found_at_any_byte(tmp_path: Path) -> None:
    path = tmp_path / "run"
    mm.run(faulty(), same, RKE, budget=6, seed=1, checkpoint=path)
    data = path.read_bytes()
    first = data.index(b"\n") + 1
    luck = random.Random(5)
    for at in [
        *range(first, first + 60),
        *(luck.randrange(first, len(data) - 1) for _ in range(150)),
    ]:
        flipped = data[at] ^ (1 << luck.randrange(7))
        path.write_bytes(data[:at] + bytes([flipped]) + data[at + 1 :])
        with pytest.raises(ValueError, match=r"is damaged at line \d+ .*delete that line and all after it"):
            mm.run(faulty(), same, RKE, budget=6, seed=1, checkpoint=path)


def test_missing_and_repeated_lines_are_found(tmp_path: Path) -> None:
    path = tmp_path / "run"
    mm.run(arms(), same, RKE, budget=6, checkpoint=path)
    whole = path.read_bytes().splitlines(keepends=True)
    for at in range(1, len(whole) - 1):
        for changed in (whole[:at] + whole[at + 1 :], [*whole[:at], whole[at], *whole[at:]]):
            path.write_bytes(b"".join(changed))
            with pytest.raises(ValueError, match=r"the checkpoint .*run is damaged at line"):
                mm.run(arms(), same, RKE, budget=6, checkpoint=path)


def forged(path: Path, number: int, change: Callable[[Any], object]) -> None:
    """Change a line and recompute the checksums: each covers its line without the checksum, and all lines before."""
    written, crc = b"", 0
    for at, record in enumerate(lines(path)):
        del record["crc"]
        if at == number:
            change(record)
        text = json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode()
        crc = zlib.crc32(text, crc)
        written += b'%s,"crc":%d}\n' % (text[:-1], crc)
    path.write_bytes(written)


def told(**changes: Any) -> Callable[[Any], object]:
    return lambda record: record["event"]["told"].update(changes)


def features(**changes: Any) -> Callable[[Any], object]:
    return lambda record: record["event"]["told"]["answer"]["features"].update(changes)


def note(text: Any) -> Callable[[Any], object]:
    return lambda record: record.update(note=text)


@pytest.mark.parametrize(
    "change",
    [
        told(pull=99),
        told(pull=0),
        told(pull=None),
        told(more=1),
        told(decisions={"kept": [True, False]}),
        features(width=3),
        features(width=0),
        features(values="AAAA"),
        features(values="?"),
        features(values=3),
        features(values="AADAfwAAwH8="),  # two NaN
        features(scores=3),
        lambda record: record.update(event={"asked": {"pull": 7, "arm": 0, "count": 1}}),
        lambda record: record.update(event={"asked": {"pull": 2, "arm": 9, "count": 1}}),
        lambda record: record.update(event={"known": {"arm": 9, "answer": {"features": {"width": 1, "values": ""}}}}),
        lambda record: record.update(event={"slept": {}}),
        lambda record: record.update(more=1),
        note(None),
        note("[]"),
        note('{"calls":1,"failures":[[1]]}'),
        note('{"calls":1,"failures":null}'),
        note('{"calls":"many","failures":[]}'),
        note("{"),
    ],
)
def test_invalid_lines_are_rejected_with_their_number(change: Callable[[Any], object], tmp_path: Path) -> None:
    path = tmp_path / "run"
    mm.run(arms(), same, RKE, budget=4, checkpoint=path)
    forged(path, 4, lambda record: None)
    assert mm.run(arms(), same, RKE, budget=4, checkpoint=path).resumed == 4
    forged(path, 4, change)
    with pytest.raises(ValueError, match="is damaged at line 5 .*delete that line and all after it"):
        mm.run(arms(), same, RKE, budget=4, checkpoint=path)


def test_later_releases_are_named(tmp_path: Path) -> None:
    path = tmp_path / "run"
    mm.run(arms(), same, RKE, budget=4, checkpoint=path)
    forged(path, 0, lambda record: record.update(modelmix="9.0.7"))
    assert mm.run(arms(), same, RKE, budget=4, checkpoint=path).resumed == 4
    forged(path, 0, lambda record: record.update(journal=3))
    with pytest.raises(ValueError, match=r"the checkpoint .*run was written by modelmix 9.0.7 in format version 3"):
        mm.run(arms(), same, RKE, budget=4, checkpoint=path)


def test_a_checkpoint_of_the_first_release_is_rejected_with_its_version(tmp_path: Path) -> None:
    path = tmp_path / "run"
    # as modelmix 0.1.0 wrote it, except for the numbers
    first = (
        b'{"modelmix":"0.1.0","checkpoint":1,"arms":["left","middle","right"],"objective":"rke(bandwidth=1)",'
        b'"policy":"adaptive","seed":0,"batch":1,"budget":null,"kappa_range":null,"score_ranges":{},"fingerprint":7,'
        b'"storage":"single","crc":7}\n{"ask":0,"arm":"left","crc":8}\n'
    )
    path.write_bytes(first)
    with pytest.raises(
        ValueError, match=r"the checkpoint .*run was written by modelmix 0\.1\.0 .*continue with that release"
    ):
        mm.run(arms(), same, RKE, budget=4, checkpoint=path)
    assert path.read_bytes() == first


def test_decisions_are_read_from_the_file_and_verified_only_on_request(tmp_path: Path) -> None:
    path = tmp_path / "run"

    def go(**more: Any) -> mm.Run:
        return mm.run(faulty(), same, RKE, budget=12, seed=1, checkpoint=path, known={"left": around(-3)(4, 9)}, **more)

    done = go()
    verified = go(verify=True)
    assert verified.resumed == 12 and state(verified) == state(done)
    # the file has another arm than this release would ask: the file is right, and the answer counts for that arm
    asked = next(at for at, line in enumerate(lines(path)) if at > 4 and "asked" in line["event"])
    before = lines(path)[asked]["event"]["asked"]
    forged(path, asked, lambda record: record["event"]["asked"].update(arm=1 - before["arm"]))
    again = go()
    assert again.resumed == 12
    assert sum(arm.samples for arm in again.report.arms) == sum(arm.samples for arm in done.report.arms)
    assert state(again) != state(done)
    message = (
        rf"differs from the recomputed decision at line {asked + 1}: the asked \(pull {before['pull']}\) event asks"
    )
    with pytest.raises(ValueError, match=message):
        go(verify=True)


def test_known_samples_are_read_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "run"
    recorded = {"right": around(3)(5, 1), "left": around(-3)(4, 2)}

    def go(known: Any, **more: Any) -> mm.Run:
        return mm.run(arms(), same, RKE, budget=5, known=known, checkpoint=path, **more)

    done = go(recorded)
    assert (done.report.known, done.report["left"].known, done.report.samples) == (9, 4, 5)
    # samples are compared in single precision, and the order of the mapping does not matter
    again = go({arm: rows.astype(np.float32).tolist() for arm, rows in sorted(recorded.items())}, verify=True)
    assert state(again) == state(done) and again.resumed == 5
    for other in (None, {"left": recorded["left"]}, {**recorded, "right": recorded["right"] + 0.01}):
        with pytest.raises(ValueError, match="the checkpoint .*run has known .*, and this run has "):
            go(other)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"left": [[np.nan, 1.0]]}, "known samples of arm left: row 0, column 0 is NaN"),
        (
            {"left": np.zeros((3, 2)), "right": np.zeros((3, 5))},
            "known samples of arm right: its features have 5 columns",
        ),
        ({"left": np.zeros((3, 2)), "right": [[np.inf, 1.0]]}, "known samples of arm right: row 0, column 0 is inf"),
    ],
)
def test_rejected_known_samples_leave_no_checkpoint(wrong: dict[str, Any], said: str, tmp_path: Path) -> None:
    def call(known: dict[str, Any], path: Path) -> mm.Run:
        return mm.run(arms(), same, RKE, budget=5, known=known, checkpoint=path)

    path, empty = tmp_path / "run", tmp_path / "empty"
    empty.touch()
    for file in (path, empty):
        with pytest.raises(ValueError, match=said):
            call(wrong, file)
    assert not path.exists() and empty.read_bytes() == b""
    right = {"left": np.zeros((3, 2)), "right": np.ones((3, 2))}
    for file in (path, empty):
        done = call(right, file)
        assert (done.report.known, done.pulls) == (6, 5)
        assert state(call(right, file)) == state(done)


def test_rejected_known_samples_leave_an_earlier_checkpoint_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "run"
    mm.run(arms(), same, RKE, budget=5, checkpoint=path)
    data = path.read_bytes()
    with pytest.raises(ValueError, match="known"):
        mm.run(arms(), same, RKE, budget=5, known={"left": [[np.nan, 1.0]]}, checkpoint=path)
    assert path.read_bytes() == data


def test_an_incomplete_line_is_truncated_and_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "run"
    whole = mm.run(arms(), same, RKE, budget=9, checkpoint=path)
    data = path.read_bytes()
    for end in (3, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:end])
        again = mm.run(arms(), same, RKE, budget=9, checkpoint=path)
        assert state(again) == state(whole)
        assert path.read_bytes() == data


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is limited by setrlimit")
@pytest.mark.parametrize("verify", [False, True])
def test_running_out_of_memory_is_not_damage(verify: bool, tmp_path: Path) -> None:
    """Nine rows and the line from which they are read do not fit into 100 MB."""
    program = """
import resource, sys
import numpy as np
import modelmix as mm
row = np.zeros((1, 1_000_000), dtype=np.float32)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
if len(sys.argv) > 1:
    resource.setrlimit(resource.RLIMIT_AS, (used + (100 << 20), used + (100 << 20)))
arms, rke = {"a": lambda count: row}, mm.Rke(bandwidth=1.0)
try:
    run = dict(budget=10, checkpoint="run", threads=1, keep=False, verify=sys.argv[1:] == ["verify"])
    print(mm.run(arms, lambda rows: rows, rke, **run).pulls)
except MemoryError as error:
    print(error)
"""

    def call(*words: str) -> str:
        run = [sys.executable, "-c", program, *words]
        done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert call() == "10\n"
    data = (tmp_path / "run").read_bytes()
    assert "bytes of host memory" in call("verify" if verify else "limit")
    assert (tmp_path / "run").read_bytes() == data
