"""mm.run with a checkpoint: going on is the same as never having stopped, whatever stopped it."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from live_arms import RKE, SEED, Stop, arms, around, faulty, lines, same, state

import modelmix as mm
from modelmix import _journal

PROGRAM = Path(__file__).parent / "live_program.py"


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("storage", ["single", "half"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_going_on_is_the_same_as_not_stopping(workers: int, storage: Any, dtype: str, tmp_path: Path) -> None:
    def embed(rows: Any) -> Any:
        return (rows * np.pi).astype(dtype)

    def rate(rows: Any) -> Any:
        return {"looks": np.sin(rows[:, 0]).astype(dtype)}

    def go(budget: int, path: Path | None) -> mm.Run:
        return mm.run(
            arms(),
            embed,
            "rke(bandwidth=1) - 0.01*looks",
            budget=budget,
            batch=2,
            storage=storage,
            rate=rate,
            workers=workers,
            checkpoint=path,
        )

    whole = go(30, tmp_path / "whole")
    assert state(go(30, None)) == state(whole)
    read = go(30, tmp_path / "whole")
    assert read.resumed == read.pulls == 30 and read.samples == {arm: [] for arm in arms()}
    assert state(read) == state(whole) and read.report == whole.report
    # and later pulls are the same
    assert [read.session.ask() for _ in range(5)] == [whole.session.ask() for _ in range(5)]
    if workers == 1:
        path = tmp_path / "parts"
        for budget in (1, 7, 8, 30):
            part = go(budget, path)
            assert part.pulls == budget
        assert part.resumed == 8 and state(part) == state(go(30, None))
        assert path.read_bytes() == (tmp_path / "whole").read_bytes()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_file_cut_off_anywhere_is_gone_on_with(workers: int, tmp_path: Path) -> None:
    def go(path: Path) -> mm.Run:
        return mm.run(faulty(), same, RKE, budget=5, retries=1, seed=SEED, workers=workers, checkpoint=path)

    path = tmp_path / "run"
    whole = go(path)
    assert any(whole.failures.values())
    data = path.read_bytes()
    ends = {at + 1 for at, byte in enumerate(data) if byte == ord("\n")}
    # every byte of the header and of the first lines, then around every end and here and there
    cuts = {
        *range(0, len(data), 37),
        *ends,
        *(end - 1 for end in ends),
        *(end + 1 for end in ends),
        *range(0, 600, 11),
    }
    for cut in sorted(cut for cut in cuts if cut <= len(data)):
        path.write_bytes(data[:cut])
        done = go(path)
        assert path.read_bytes() == data, cut
        assert state(done) == state(whole) and done.report == whole.report
        assert done.calls == whole.calls and done.failures == whole.failures


@pytest.mark.parametrize("workers", [1, 2])
def test_stopped_at_any_step_it_goes_on_as_if_it_had_not(
    workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every step that leaves a trace (a call, a save, a write) is the last one in turn."""
    steps = 0
    last = 10**9

    def step() -> None:
        nonlocal steps
        steps += 1
        if steps > last:
            raise Stop

    write = _journal.Journal._write

    def written(self: Any, record: Any, synced: bool = True) -> None:
        step()
        write(self, record, synced)
        step()

    monkeypatch.setattr(_journal.Journal, "_write", written)

    def go(path: Path, saved: dict[int, Any]) -> mm.Run:
        def save(pull: mm.Pull, rows: Any) -> None:
            step()
            saved[pull.id] = rows.tolist()
            step()

        def embed(rows: Any) -> Any:
            if workers == 1:
                step()
            return rows

        return mm.run(
            faulty(),
            embed,
            RKE,
            budget=4,
            retries=1,
            seed=SEED,
            workers=workers,
            save=save,
            checkpoint=path,
        )

    kept: dict[int, Any] = {}
    whole = go(tmp_path / "whole", kept)
    total = steps
    assert total > 20
    for stop in range(total):
        path, saved = tmp_path / f"run{stop}", dict[int, Any]()
        steps, last = 0, stop
        with pytest.raises(Stop):
            go(path, saved)
        steps, last = 0, 10**9
        done = go(path, saved)
        assert path.read_bytes() == (tmp_path / "whole").read_bytes()
        assert state(done) == state(whole) and done.failures == whole.failures
        assert saved == kept


@pytest.mark.parametrize("workers", [1, 3])
def test_what_save_raises_passes_and_its_pull_is_repeated(workers: int, tmp_path: Path) -> None:
    full = OSError(28, "No space left on device")
    calls: list[int] = []

    def save(pull: mm.Pull, rows: Any) -> None:
        calls.append(pull.id)
        if calls.count(4) == 1 and pull.id == 4:
            raise full

    path = tmp_path / "run"
    with pytest.raises(OSError) as caught:
        mm.run(arms(), same, RKE, budget=9, workers=workers, save=save, checkpoint=path)
    assert caught.value is full
    assert [line["pull"] for line in lines(path) if "pull" in line] == [0, 1, 2, 3]
    done = mm.run(arms(), same, RKE, budget=9, workers=workers, save=save, checkpoint=path)
    assert calls == [0, 1, 2, 3, 4, 4, 5, 6, 7, 8]
    assert done.resumed == 4 and not any(done.failures.values())
    assert state(done) == state(mm.run(arms(), same, RKE, budget=9, workers=workers))


def test_a_disk_that_is_full_ends_the_run_and_the_file_stays_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run"

    def go() -> mm.Run:
        return mm.run(faulty(), same, RKE, budget=8, seed=1, checkpoint=path)

    write, written = _journal.Journal._write, 0

    def full(self: Any, record: Any, synced: bool = True) -> None:
        nonlocal written
        written += 1
        if written == 9:
            self.file.write(_journal._line(record, self.crc)[:50])
            raise OSError(28, "No space left on device")
        write(self, record, synced)

    with monkeypatch.context() as patch:
        patch.setattr(_journal.Journal, "_write", full)
        with pytest.raises(OSError, match="No space left"):
            go()
    assert not path.read_bytes().endswith(b"\n")
    assert state(go()) == state(mm.run(faulty(), same, RKE, budget=8, seed=1))


def test_failures_are_read_back(tmp_path: Path) -> None:
    path = tmp_path / "run"
    first = mm.run(faulty(), same, RKE, budget=12, seed=1, checkpoint=path)
    second = mm.run(faulty(), same, RKE, budget=12, seed=1, checkpoint=path)
    assert first.failures == second.failures and any(first.failures.values())
    assert all(kept.exception is None for failed in second.failures.values() for kept in failed)
    assert first.to_dict() == {**second.to_dict(), "resumed": 0}
    json.dumps(first.to_dict())


def test_a_spent_budget_calls_nobody(tmp_path: Path) -> None:
    def never(count: int) -> Any:
        raise AssertionError

    path = tmp_path / "run"
    done = mm.run(arms(), same, RKE, budget=10, checkpoint=path)
    data = path.read_bytes()
    for budget in (10, 3):
        again = mm.run(dict.fromkeys(arms(), never), same, RKE, budget=budget, checkpoint=path)
        assert again.pulls == again.resumed == 10 and state(again) == state(done)
    assert path.read_bytes() == data


def test_more_or_fewer_workers_may_go_on(tmp_path: Path) -> None:
    path = tmp_path / "run"

    def save(pull: mm.Pull, rows: Any) -> None:
        if pull.id == 3:
            raise Stop

    with pytest.raises(Stop):
        mm.run(arms(), same, RKE, budget=20, workers=5, save=save, checkpoint=path)
    done = mm.run(arms(), same, RKE, budget=20, workers=1, checkpoint=path)
    assert done.resumed == 3 and done.pulls == done.report.samples == 20
    assert not done.session.in_flight


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
    ({"storage": "half"}, "storage"),
    ({"kappa_range": (0, 2)}, "kappa_range"),
    ({"score_ranges": {"looks": (0, 2)}}, "score_ranges"),
    ({"costs": {"left": 1.0, "middle": 1.0, "right": 2.0}}, "another reference, kernel or costs"),
]


@pytest.mark.parametrize(("other", "said"), OTHER)
def test_a_run_with_other_settings_is_refused(other: dict[str, Any], said: str, tmp_path: Path) -> None:
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


def test_another_reference_is_refused(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(20, 2))

    def go(reference: Any) -> mm.Run:
        objective = mm.Kid(reference, bandwidth=1.0)
        return mm.run(arms(), same, objective, budget=4, checkpoint=tmp_path / "run")

    go(rows)
    go(rows.copy())
    with pytest.raises(ValueError, match="belongs to another reference, kernel or costs"):
        go(rows + 1e-3)


def test_policies_are_compared_by_what_they_mean(tmp_path: Path) -> None:
    path = tmp_path / "run"
    for policy in ("cab(sensitivity=0.10)", mm.Cab(sensitivity=0.1), " cab( sensitivity=0.1 )"):
        assert mm.run(arms(), same, RKE, budget=4, policy=policy, checkpoint=path).pulls == 4


def test_halving_plans_by_its_budget_and_others_do_not(tmp_path: Path) -> None:
    mm.run(arms(), same, RKE, budget=6, policy="halving", checkpoint=tmp_path / "run")
    with pytest.raises(ValueError, match="has budget 6 where this run has 9"):
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
        b'{"checkpoint":1}\n',
    ],
)
def test_a_file_of_another_kind_is_refused_and_left_alone(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "thesis.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"thesis\.txt is no checkpoint"):
        mm.run(arms(), same, RKE, budget=3, checkpoint=path)
    assert path.read_bytes() == content


def test_an_empty_file_is_a_new_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.touch()
    assert mm.run(arms(), same, RKE, budget=3, checkpoint=str(path)).resumed == 0
    with pytest.raises(FileNotFoundError):
        mm.run(arms(), same, RKE, budget=3, checkpoint=tmp_path / "nowhere" / "run")


def test_damage_is_found_wherever_it_is(tmp_path: Path) -> None:
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
        with pytest.raises(ValueError, match=r"is damaged at line \d+ .*cut it off before that line"):
            mm.run(faulty(), same, RKE, budget=6, seed=1, checkpoint=path)


def test_lines_that_are_missing_or_twice_are_found(tmp_path: Path) -> None:
    path = tmp_path / "run"
    mm.run(arms(), same, RKE, budget=6, checkpoint=path)
    whole = path.read_bytes().splitlines(keepends=True)
    for at in range(1, len(whole) - 1):
        for changed in (whole[:at] + whole[at + 1 :], [*whole[:at], whole[at], *whole[at:]]):
            path.write_bytes(b"".join(changed))
            with pytest.raises(ValueError, match=r"the checkpoint .*run (is damaged at|has pull)"):
                mm.run(arms(), same, RKE, budget=6, checkpoint=path)


def forged(path: Path, number: int, **changes: Any) -> None:
    """Change a line, with checksums that fit."""
    written, crc = b"", 0
    for at, record in enumerate(lines(path)):
        del record["crc"]
        line = _journal._line({**record, **changes} if at == number else record, crc)
        written, crc = written + line, _journal._crc(line)
    path.write_bytes(written)


@pytest.mark.parametrize(
    "changes",
    [
        {"pull": 99},
        {"pull": None},
        {"rows": 3},
        {"rows": 0},
        {"rows": "2"},
        {"features": "AAAA"},
        {"features": "?"},
        {"features": 3},
        {"features": "AADAfwAAwH8="},  # two NaN
        {"failures": [[1]]},
        {"failures": None},
        {"scores": 3},
    ],
)
def test_lines_that_make_no_sense_are_refused_with_their_number(changes: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "run"
    mm.run(arms(), same, RKE, budget=4, checkpoint=path)
    forged(path, 4, **changes)
    with pytest.raises(ValueError, match="is damaged at line 5 "):
        mm.run(arms(), same, RKE, budget=4, checkpoint=path)


def test_other_releases_are_named(tmp_path: Path) -> None:
    path = tmp_path / "run"
    mm.run(arms(), same, RKE, budget=4, checkpoint=path)
    data = path.read_bytes()
    forged(path, 0, modelmix="0.0.7")
    assert mm.run(arms(), same, RKE, budget=4, checkpoint=path).resumed == 4
    forged(path, 0, checkpoint=2)
    with pytest.raises(ValueError, match=r"was written by modelmix 0.0.7 in another form"):
        mm.run(arms(), same, RKE, budget=4, checkpoint=path)
    path.write_bytes(data)
    asked = lines(path)[1]["arm"]
    forged(path, 1, arm="left" if asked == "right" else "right")
    with pytest.raises(ValueError, match=f"where this release asks {asked}; go on with the release"):
        mm.run(arms(), same, RKE, budget=4, checkpoint=path)


# Real crashes


def program(path: Path, saved: Path, *, workers: int, pace: float) -> subprocess.Popen[str]:
    saved.mkdir(exist_ok=True)
    command = [sys.executable, str(PROGRAM), str(path), str(saved), str(workers), str(pace)]
    package = str(Path(mm.__file__).parents[1])
    return subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": package},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(process: subprocess.Popen[str]) -> str:
    said, complaint = process.communicate(timeout=120)
    assert process.returncode == 0, complaint
    return said


def until_grown(process: subprocess.Popen[str], path: Path, size: int) -> None:
    """Wait until the file has so many bytes, or the program has ended."""
    while process.poll() is None and (not path.exists() or path.stat().st_size < size):
        time.sleep(0.001)


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


@pytest.mark.parametrize("workers", [1, 3])
def test_killed_and_gone_on_with_it_ends_as_if_it_had_not_been(workers: int, tmp_path: Path) -> None:
    undisturbed = finished(program(tmp_path / "whole", tmp_path / "saved whole", workers=workers, pace=0))
    size = (tmp_path / "whole").stat().st_size
    path, saved = tmp_path / "run", tmp_path / "saved"
    luck = random.Random(workers)
    killed = 0
    for share in (0.0, 0.1, 0.3, 0.35, 0.6, 0.8):
        process = program(path, saved, workers=workers, pace=0.002)
        until_grown(process, path, int(share * size))
        time.sleep(luck.random() * 0.02)
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        killed += process.returncode == -signal.SIGKILL
    assert killed >= 4
    assert finished(program(path, saved, workers=workers, pace=0)) == undisturbed
    assert path.read_bytes() == (tmp_path / "whole").read_bytes()
    assert contents(saved) == contents(tmp_path / "saved whole")


@pytest.mark.parametrize("workers", [1, 3])
def test_control_c_ends_it_at_once_and_it_goes_on(workers: int, tmp_path: Path) -> None:
    undisturbed = finished(program(tmp_path / "whole", tmp_path / "saved whole", workers=workers, pace=0))
    path, saved = tmp_path / "run", tmp_path / "saved"
    # calls last half a minute each from the thirtieth on, and nobody waits for them
    process = program(path, saved, workers=workers, pace=-30)
    until_grown(process, path, (tmp_path / "whole").stat().st_size // 10)
    time.sleep(0.3)
    assert process.poll() is None
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate(timeout=25)
    assert time.monotonic() - begun < 5
    assert complaint.rstrip().endswith("KeyboardInterrupt")
    assert process.returncode in (-signal.SIGINT, 130)
    assert finished(program(path, saved, workers=workers, pace=0)) == undisturbed
    assert path.read_bytes() == (tmp_path / "whole").read_bytes()


@pytest.mark.skipif(sys.platform == "win32", reason="files are not locked there")
def test_two_runs_do_not_write_to_one_file(tmp_path: Path) -> None:
    path = tmp_path / "run"
    process = program(path, tmp_path / "saved", workers=1, pace=-30)
    try:
        until_grown(process, path, 1000)
        data = path.read_bytes()
        with pytest.raises(ValueError, match="is being written by another run"):
            mm.run(arms(), same, RKE, budget=3, checkpoint=path)
        assert path.read_bytes().startswith(data)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
