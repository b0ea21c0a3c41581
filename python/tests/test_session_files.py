"""Snapshots on disk: written atomically, and rejected with the name of the file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import modelmix as mm

RKE = mm.Rke(bandwidth=1.0)


def session() -> mm.Session:
    made = mm.Session(["a", "b"], RKE)
    rows = np.random.default_rng(0).normal(size=(400, 8))
    for row in rows[:20]:
        made.tell(made.ask(), row)
    made.known("a", rows)
    return made


def test_threads_that_save_to_one_file_leave_it_complete_at_any_time(tmp_path: Path) -> None:
    path, saved = tmp_path / "session.json", session()
    saved.save(path)
    over, problems = threading.Event(), list[BaseException]()

    def save() -> None:
        try:
            for _ in range(60):
                saved.save(path)
        except BaseException as problem:
            problems.append(problem)

    def read() -> None:
        try:
            while not over.is_set():
                json.loads(path.read_text(encoding="utf-8"))
        except BaseException as problem:
            problems.append(problem)

    writers = [threading.Thread(target=save) for _ in range(3)]
    reader = threading.Thread(target=read)
    for thread in (*writers, reader):
        thread.start()
    for thread in writers:
        thread.join()
    over.set()
    reader.join()
    assert not problems
    assert os.listdir(tmp_path) == ["session.json"]
    assert mm.Session.restore(path, RKE).report() == saved.report()


def test_a_folder_is_rejected_and_no_file_is_left(tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    folder.mkdir()
    with pytest.raises(IsADirectoryError, match=r"sessions is a folder; name a file in it, such as .*session\.json"):
        session().save(folder)
    with pytest.raises(FileNotFoundError, match=r"nowhere.session\.json'$"):
        session().save(tmp_path / "nowhere" / "session.json")
    assert os.listdir(tmp_path) == ["sessions"] and not os.listdir(folder)


def test_a_failed_save_leaves_the_file_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "session.json"
    path.write_text("before")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    for step in ("fsync", "replace"):
        with monkeypatch.context() as patched:
            patched.setattr(os, step, full)
            with pytest.raises(OSError, match="No space left"):
                session().save(path)
        assert path.read_text() == "before" and os.listdir(tmp_path) == ["session.json"]


@pytest.mark.skipif(sys.platform == "win32", reason="permissions and links of Unix")
def test_permissions_and_links_are_kept(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    real, link, new = tmp_path / "real" / "session.json", tmp_path / "link.json", tmp_path / "new.json"
    real.write_text("")
    real.chmod(0o640)
    link.symlink_to(real)
    session().save(link)
    assert link.is_symlink() and real.stat().st_mode & 0o777 == 0o640 and real.stat().st_size > 0
    session().save(new)
    beside = tmp_path / "beside"
    beside.write_text("")
    assert new.stat().st_mode == beside.stat().st_mode


def test_unreadable_snapshots_are_named(tmp_path: Path) -> None:
    array, path = tmp_path / "x.npy", tmp_path / "session.json"
    np.save(array, np.full((3, 3), 0.1))
    with pytest.raises(
        ValueError, match=r"x\.npy cannot be restored: it is not a text file; pass a file that Session\.save wrote"
    ):
        mm.Session.restore(array, RKE)
    session().save(path)
    whole = path.read_text()
    for text, problem in {
        "hello": r"it is damaged or not a snapshot: it is not JSON from line 1, column 1 on; start from an earlier one",
        "{}": r"it is damaged or not a snapshot: unexpected content at line 1, column 2",
        '{"version": "two"}': r"it is damaged or not a snapshot: unexpected content at line 1, column 1[0-9]",
        '{"version": 1}': r"it was written by modelmix 0\.1",
        '{"version": 9}': r"it has version 9, but this release reads version 2",
        whole[:200]: r"it ends too early, at line 1, column 200; start from an earlier one",
    }.items():
        path.write_text(text)
        with pytest.raises(ValueError, match=rf"session\.json cannot be restored: {problem}") as raised:
            mm.Session.restore(path, RKE)
        assert not any(
            word in str(raised.value) for word in ("expected value", "missing field", "invalid type", "EOF", "`")
        )
    path.write_text(whole)
    with pytest.raises(ValueError, match=r"session\.json cannot be restored: it belongs to another objective"):
        mm.Session.restore(path, mm.Rke(bandwidth=2.0))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is limited by setrlimit")
def test_running_out_of_memory_is_a_memory_error(tmp_path: Path) -> None:
    program = """
import resource
import numpy as np
import modelmix as mm
session = mm.Session(["a"], mm.Rke(bandwidth=1.0), threads=1)
session.tell(session.ask(), np.zeros((1, 20_000_000), dtype=np.float32))
row = np.zeros((1, 20_000_000), dtype=np.float32)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (40 << 20), used + (40 << 20)))
try:
    session.tell(session.ask(), row)
except MemoryError as error:
    print(error, session.report().samples)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "bytes of host memory" in done.stdout and done.stdout.endswith(" 1\n"), done.stderr
