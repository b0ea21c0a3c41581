"""Tasks for files: every row is in one task, and each task finds its shards again from any working directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import clusters
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import modelmix as mm
from modelmix import _cluster_files
from modelmix._blocks import Columns
from modelmix._cluster import Job
from modelmix._cluster_files import Task, listed, tasks, work_of

NAMED, BY_FILE = Columns("features", "arm"), Columns(None, None)


def counted(made: list[Task], columns: Columns) -> tuple[dict[str, int], float]:
    """The rows of each arm, and the sum of all values, as workers read them."""
    counts: dict[str, int] = {}
    total = 0.0
    for task in made:
        found = _cluster_files.find_shards([task.source], columns)
        for index in task.indices:
            for arm, rows in found.read(index):
                counts[arm] = counts.get(arm, 0) + len(rows)
                total += float(rows.astype(np.float64).sum())
    return counts, total


def nested(folder: Path) -> tuple[dict[str, int], float]:
    """A folder with files of several kinds, one in a folder of its own; their rows by arm, and the sum of all values."""
    (folder / "date=2026-11-18").mkdir(parents=True)
    random = np.random.default_rng(4)
    parts = [random.normal(size=(count, 5)).astype(np.float32) for count in (7, 8, 9, 10, 11)]
    np.save(folder / "a.npy", parts[0])
    np.savez(folder / "b.npz", first=parts[1], second=parts[2])
    pq.write_table(
        pa.table({"features": clusters.fixed(parts[3])}), folder / "date=2026-11-18" / "c.parquet", row_group_size=4
    )
    np.save(folder / "d.npy", parts[4])
    return {folder.name: 45}, float(sum(part.astype(np.float64).sum() for part in parts))


def test_every_row_of_a_folder_is_in_one_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts, total = nested(tmp_path / "flux")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    made = tasks(listed("flux"), BY_FILE)
    # Workers have other working directories.
    monkeypatch.chdir(tmp_path / "elsewhere")
    found, value = counted(made, BY_FILE)
    assert found == counts and value == pytest.approx(total)
    assert not [task for task in made if Path(task.source).is_dir()], "a task opens one file"
    assert sum(task.rows for task in made) == 45
    # One file that is added later changes the tasks of no other.
    np.save(tmp_path / "flux" / "aa.npy", np.full((3, 5), 1e6, dtype=np.float32))
    assert counted(made, BY_FILE)[1] == pytest.approx(total)


def test_tasks_are_cut_by_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = clusters.written(tmp_path)
    whole = tasks(listed(files), NAMED)
    assert [task.indices for task in whole] == [(0, 1, 2)] * 4
    monkeypatch.setattr(_cluster_files, "_LEAST_ROWS", 500)
    pairs = tasks(listed(files), NAMED)
    assert [task.indices for task in pairs] == [(0, 1), (2,)] * 4
    expected = {name: clusters.COUNT for name in clusters.arms()}
    assert counted(whole, NAMED)[0] == counted(pairs, NAMED)[0] == expected


def test_arms_are_named_by_mappings_names_and_files(tmp_path: Path) -> None:
    nested(tmp_path / "flux")
    np.save(tmp_path / "sdxl=1.npy", np.ones((4, 5), dtype=np.float32))
    given: Any = {"first": tmp_path / "flux", "second": [tmp_path / "sdxl=1.npy"]}
    work = work_of(given, BY_FILE, lambda one: False, "files")
    assert [arm for arm, _ in work] == ["first", "second"]
    assert counted([task for _, made in work for task in made], BY_FILE)[0] == {"first": 45, "second": 4}
    assert counted(tasks(listed(f"third={tmp_path}/flux/*.npy"), BY_FILE), BY_FILE)[0] == {"third": 18}
    assert listed(str(tmp_path / "sdxl=1.npy")) == [str(tmp_path / "sdxl=1.npy")]


def test_a_file_with_a_mark_of_patterns_is_a_file(tmp_path: Path) -> None:
    np.save(tmp_path / "sdxl[1].npy", np.ones((4, 5), dtype=np.float32))
    assert listed(tmp_path / "sdxl[1].npy") == [str(tmp_path / "sdxl[1].npy")]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("s3://bucket/features", r"s3://bucket/features is not on a disk of the workers; .* ray\.data\.read_parquet"),
        ("flux=s3://bucket/features", "is not on a disk of the workers"),
        ("none-*.parquet", r"no file matches none-\*\.parquet"),
        ({"black/flux": "flux.npy"}, "has no /; give it another name, such as black-flux"),
    ],
)
def test_mistakes_are_sentences(given: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        work_of(given, BY_FILE, lambda one: False, "files")
    assert "\n" not in str(raised.value)


def test_workers_have_the_sums_of_one_process(tmp_path: Path) -> None:
    files = clusters.written(tmp_path)
    job = Job(NAMED, (0, clusters.SAMPLE, None, []))
    survey = mm.Accumulator.from_bytes(job.merged([job.shards(task) for task in tasks(listed(files), NAMED)])[0])
    alone = mm.Accumulator.survey(sample=clusters.SAMPLE)
    for name, rows in clusters.arms().items():
        alone.update(name, rows)
    assert survey.counts == alone.counts
    assert survey.plan("rke").data == alone.plan("rke").data
