"""The files that workers of clusters read: sources as the user wrote them, and tasks for their shards."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from glob import glob
from typing import Any

from . import _check, _modelmix
from ._blocks import Columns
from ._files import Path, is_path

#: The number of tasks for files, roughly, if there are many rows.
_TASKS = 4096

#: The least number of rows of a task, unless its file has fewer: starting a task takes as long as summing some thousand rows.
_LEAST_ROWS = 1 << 16


@dataclass(frozen=True)
class Task:
    """Shards of a source that one task sums."""

    source: str
    indices: tuple[int, ...]
    rows: int


def find_shards(sources: list[str], columns: Columns) -> _modelmix.Shards:
    """Return the shards of files, each written ``[name=]path[:key]``."""
    return _modelmix.Shards.find(sources, columns.features, columns.arm, list(columns.scores))


def tasks(sources: list[str], columns: Columns) -> list[Task]:
    """Return tasks for all shards of files and folders, of about the same number of rows.

    A task reads one file: if it read a folder, every task would open all files, and files that are added would change the numbers of
    the shards.
    """
    found: list[tuple[str, int, int]] = []
    for source in sources:
        is_folder = os.path.isdir(_modelmix.source_path(source))
        seen: dict[str, int] = {}
        for index, (path, key, arm, count) in enumerate(find_shards([source], columns).parts()):
            if not is_folder:
                found.append((source, index, count))
                continue
            one = str(path) if key is None else f"{path}:{key}"
            one = one if arm is None else _named(arm, one)
            at = seen[one] = seen.get(one, -1) + 1
            found.append((one, at, count))
    most = max(_LEAST_ROWS, sum(count for *_, count in found) // _TASKS)
    made: list[Task] = []
    for source, index, count in found:
        if not made or made[-1].source != source or made[-1].rows + count > most:
            made.append(Task(source, (), 0))
        made[-1] = Task(source, (*made[-1].indices, index), made[-1].rows + count)
    return made


def work_of(
    dataset: Any, columns: Columns, is_dataset: Callable[[Any], bool], must: str
) -> list[tuple[str | None, Any]]:
    """Return the parts of the data, each with its arm: datasets of the engine, or tasks that read files."""
    if is_dataset(dataset):
        return [(None, dataset)]
    if is_path(dataset) or isinstance(dataset, (list, tuple)):
        return [(None, tasks(listed(dataset), columns))]
    work: list[tuple[str | None, Any]] = []
    for name, one in _check.mapping("dataset", dataset, must).items():
        arm = _check.arm_name(name)
        work.append((arm, one if is_dataset(one) else tasks([_named(arm, file) for file in listed(one)], columns)))
    return work


def _named(arm: str, source: str) -> str:
    """Return a file as a source of an arm."""
    wrong = next((mark for mark in "/\\=" if mark in arm), None)
    if wrong is not None:
        raise ValueError(
            f"arm {arm} has files, but the name of an arm that is read from files has no {wrong}; "
            f"give it another name, such as {re.sub('[/=]', '-', arm.replace(chr(92), '-'))}, or pass a dataset of the engine"
        )
    return f"{arm}={source}"


def listed(given: Path | Sequence[Path]) -> list[str]:
    """Return sources, each written ``[name=]path[:key]``; the path may be a pattern such as ``part-*.parquet``.

    Paths become absolute, as workers have other working directories.
    """
    sources = [given] if is_path(given) else _check.items("dataset", given, "a dataset, a path or a list of paths")
    found: list[str] = []
    for source in sources:
        text = _check.file("dataset", source)
        is_named = "=" in text and "/" not in text.split("=", 1)[0] and not os.path.exists(text)
        name, path = text.split("=", 1) if is_named else ("", text)
        if "://" in path:
            raise ValueError(
                f"{path} is not on a disk of the workers; pass a dataset of the engine that reads it, such as ray.data.read_parquet({path!r})"
            )
        files = sorted(glob(path)) if any(mark in path for mark in "*?[") and not os.path.exists(path) else [path]
        if not files:
            raise ValueError(f"no file matches {path}; check the pattern")
        found += [f"{name}={os.path.abspath(file)}" if name else os.path.abspath(file) for file in files]
    return found
