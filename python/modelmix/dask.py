"""Accumulators on Dask. Dask is imported when a function is called.

>>> import modelmix as mm
>>> mm.dask.solve.__name__
'solve'
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import _check
from ._accumulator_plan import MethodName
from ._arguments import checked
from ._blocks import column_rows, is_array, table_of
from ._cluster import Job, Request, Summed, imported, refuse_pairs, told, told_in, tree
from ._cluster_files import Task, work_of
from .accumulation import Accumulator
from .results import Mixture

__all__ = ["accumulate", "solve"]

_PACKAGE = "dask[distributed,dataframe]"


def __dir__() -> list[str]:
    return __all__


@checked
def solve(
    dataset: Any,
    objective: Any = None,
    *,
    features: str | None = None,
    arm: str | None = None,
    scores: Sequence[str] = (),
    reference: Any = None,
    costs: Mapping[str, float] | None = None,
    method: MethodName | None = None,
    random_features: int | None = None,
    error: float | None = None,
    sample: int = 2000,
    expected_rows: int | None = None,
    seed: int = 0,
    memory: int | str | None = None,
    floor: Mapping[str, float] | None = None,
    cap: Mapping[str, float] | None = None,
    intervals: bool = True,
    threads: int = 1,
    progress: bool = False,
) -> Mixture:
    """Find the best mixture of arms whose features are in Dask collections or in files.

    Two passes over the rows at most, with the scheduler that Dask uses: the client of a cluster, if there is one. The weights have
    the same bits for any number of workers.

    Parameters
    ----------
    dataset
        - A Dask DataFrame, or a list of delayed Arrow tables or pandas frames, with a column that names the arm of each row.
        - A mapping from the name of an arm to such a frame, to a Dask array with one row per sample, or to files.
        - Files, as in :func:`modelmix.ray.solve`.
    reference
        Features of real samples: a Dask DataFrame or array, an array in memory, or a file.
    threads
        The number of threads of a task.
    progress
        Whether to print the plan.
    objective, features, arm, scores, costs, method, random_features, error, sample, expected_rows, seed, memory
        As in :func:`modelmix.ray.solve`.
    floor, cap, intervals
        As in :func:`modelmix.solve`.

    Returns
    -------
    Mixture
        The weights; ``Mixture.approximation`` says what was sampled or random.

    Raises
    ------
    ImportError
        If Dask is not installed.
    TypeError
        If an argument has the wrong type.
    ValueError
        If rows cannot be summed; the message names their file, if the dataset has files or a column ``path``, and the row group if
        the driver can read that file from a disk.
    """
    given = dict(locals())
    limits = {name: given.pop(name) for name in ("floor", "cap", "intervals")}
    sums: Accumulator = accumulate(**given)
    return sums.solve(**limits)


@checked
def accumulate(
    dataset: Any,
    objective: Any = None,
    *,
    features: str | None = None,
    arm: str | None = None,
    scores: Sequence[str] = (),
    reference: Any = None,
    costs: Mapping[str, float] | None = None,
    method: MethodName | None = None,
    random_features: int | None = None,
    error: float | None = None,
    sample: int = 2000,
    expected_rows: int | None = None,
    seed: int = 0,
    memory: int | str | None = None,
    threads: int = 1,
    progress: bool = False,
) -> Accumulator:
    """Sum all rows of Dask collections or of files, as :func:`solve` does; its result can be stored, merged and solved.

    Parameters, exceptions and inputs are those of :func:`solve`.
    """
    dask = imported("dask", _PACKAGE)
    refuse_pairs(method, "Dask")
    request = Request(
        objective, features, arm, scores, reference, costs, method, random_features, error, sample, expected_rows,
        seed, memory, _check.whole("threads", threads, 1), "cpu", progress,
    )  # fmt: skip
    must = "a Dask DataFrame, delayed tables, files, or a mapping from arms to them"
    work = work_of(dataset, request.columns, _is_dataset, must)
    request.expect(work)
    return request.accumulate(
        lambda job, other: _run(dask, work, job, other),
        lambda given: _collected(dask, given, features or "features"),
        _is_dataset,
    )


def _run(dask: Any, work: list[tuple[str | None, Any]], job: Job, reference: Any) -> Summed:
    """Sum all parts and merge the sums in a tree of tasks."""
    there = dask.delayed(job, pure=False)
    summed, merged = dask.delayed(_part_summed, pure=False), dask.delayed(_merged, pure=False)
    parts = [summed(there, part, arm, False) for arm, one in work for part in _delayed(one)]
    parts += [] if reference is None else [summed(there, part, None, True) for part in _delayed(reference)]
    try:
        found: Summed = tree(parts, lambda some: merged(there, some)).compute()
        return found
    except ValueError as error:
        raise told_in(str(error)) or error from None


def _delayed(one: Any) -> list[Any]:
    """Return the partitions of a collection, or the tasks of files."""
    if isinstance(one, (list, tuple)):
        return list(one)
    if _is_delayed(one):
        return [one]
    if isinstance(one, imported("dask.array", _PACKAGE).Array):
        return list(one.rechunk({1: -1}).to_delayed().ravel())
    return list(one.to_delayed())


def _is_dataset(given: Any) -> bool:
    """Whether this is a collection of Dask, a delayed table, or a list of them."""
    if isinstance(given, (list, tuple)):
        return bool(given) and all(map(_is_delayed, given))
    return _is_delayed(given) or (hasattr(given, "to_delayed") and hasattr(given, "dask"))


def _is_delayed(given: Any) -> bool:
    kind: type = imported("dask.delayed", _PACKAGE).Delayed
    return isinstance(given, kind)


@told
def _part_summed(job: Job, part: Any, arm: str | None, is_reference: bool) -> Summed:
    """Sum a partition, on a worker."""
    if isinstance(part, Task):
        return job.shards(part)
    if is_array(part):
        return job.array(part, arm)
    return job.tables([table_of(part)], arm, is_reference)


@told
def _merged(job: Job, parts: list[Summed]) -> Summed:
    return job.merged(parts)


def _collected(dask: Any, given: Any, column: str) -> Any:
    """Return all rows of a reference."""
    import numpy

    parts = dask.compute(*_delayed(given))
    rows = [part if is_array(part) else column_rows(table_of(part), column) for part in parts]
    return numpy.concatenate([numpy.asarray(block, dtype="float32") for block in rows])
