"""mm.run in processes that are killed, interrupted, forked or out of disk space: real crashes."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from live_arms import RKE, arms, faulty, same, state

import modelmix as mm

PROGRAM = Path(__file__).parent / "live_program.py"
unix = pytest.mark.skipif(sys.platform == "win32", reason="there are no such limits and forks there")


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
    """Wait until the file has ``size`` bytes, or the program has ended."""
    while process.poll() is None and (not path.exists() or path.stat().st_size < size):
        time.sleep(0.001)


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


@pytest.mark.parametrize("workers", [1, 3])
def test_a_killed_and_resumed_run_ends_like_an_uninterrupted_one(workers: int, tmp_path: Path) -> None:
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
def test_control_c_ends_a_run_at_once_and_it_resumes(workers: int, tmp_path: Path) -> None:
    undisturbed = finished(program(tmp_path / "whole", tmp_path / "saved whole", workers=workers, pace=0))
    path, saved = tmp_path / "run", tmp_path / "saved"
    # from the thirtieth on, each call takes half a minute, and Ctrl-C does not wait for it
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


def test_two_runs_of_one_process_do_not_write_to_one_file(tmp_path: Path) -> None:
    path = tmp_path / "run"
    refused: list[str] = []

    def save(pull: mm.Pull, rows: Any) -> None:
        def other() -> None:
            try:
                mm.run(arms(), same, RKE, budget=3, checkpoint=path)
            except ValueError as error:
                refused.append(str(error))

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()

    done = mm.run(arms(), same, RKE, budget=3, save=save, checkpoint=path)
    assert len(refused) == 3 and all("is being written by another run" in sentence for sentence in refused)
    assert state(mm.run(arms(), same, RKE, budget=3, checkpoint=path)) == state(done)


def script(text: str, path: Path) -> subprocess.CompletedProcess[str]:
    package = os.pathsep.join([str(Path(mm.__file__).parents[1]), str(Path(__file__).parent)])
    return subprocess.run(
        [sys.executable, "-c", text, str(path)],
        env={**os.environ, "PYTHONPATH": package},
        capture_output=True,
        text=True,
        timeout=120,
    )


@unix
def test_a_full_disk_ends_the_run_and_the_file_stays_valid(tmp_path: Path) -> None:
    path = tmp_path / "run"
    whole = mm.run(faulty(), same, RKE, budget=8, seed=1, checkpoint=tmp_path / "whole")
    size = (tmp_path / "whole").stat().st_size
    for share in (0.3, 0.7):
        # limits the size of every file of the process
        limited = f"""
import resource, sys
import modelmix as mm
from live_arms import RKE, faulty, same
resource.setrlimit(resource.RLIMIT_FSIZE, ({int(share * size)}, {int(share * size)}))
try:
    mm.run(faulty(), same, RKE, budget=8, seed=1, checkpoint=sys.argv[1])
except OSError as error:
    print(error.errno, error.filename == sys.argv[1])
"""
        done = script(limited, path)
        assert done.stdout == "27 True\n", done.stderr
        assert path.stat().st_size == int(share * size) and not path.read_bytes().endswith(b"\n")
    assert state(mm.run(faulty(), same, RKE, budget=8, seed=1, checkpoint=path)) == state(whole)
    assert path.read_bytes() == (tmp_path / "whole").read_bytes()


@unix
def test_a_forked_child_that_outlives_the_run_does_not_lock_its_file(tmp_path: Path) -> None:
    path = tmp_path / "run"
    forking = """
import os, signal, sys, time
import modelmix as mm
from live_arms import RKE, arms, same

def save(pull, rows):
    if pull.id == 2:
        child = os.fork()
        if child == 0:
            os.close(1), os.close(2)
            time.sleep(60)
            os._exit(0)
        print(child, flush=True)
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)

mm.run(arms(), same, RKE, budget=6, save=save, checkpoint=sys.argv[1])
"""
    died = script(forking, path)
    assert died.returncode == -signal.SIGKILL, died.stderr
    child = int(died.stdout)
    try:
        os.kill(child, 0)  # it is alive
        done = mm.run(arms(), same, RKE, budget=6, checkpoint=path)
        assert done.resumed == 2 and state(done) == state(mm.run(arms(), same, RKE, budget=6))
    finally:
        os.kill(child, signal.SIGKILL)


@unix
def test_a_device_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the checkpoint /dev/full is not a regular file"):
        mm.run(arms(), same, RKE, budget=3, checkpoint="/dev/full")
    with pytest.raises(IsADirectoryError):
        mm.run(arms(), same, RKE, budget=3, checkpoint=tmp_path)
