"""Accumulators on Spark. Spark is imported when a function is called.

>>> import modelmix as mm
>>> mm.spark.solve.__name__
'solve'
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from . import _check
from ._accumulator_plan import MethodName
from ._arguments import checked
from ._blocks import PATH, column_rows
from ._cluster import Job, Request, Summed, imported, refuse_pairs, told, told_in
from ._files import missing
from .accumulation import Accumulator
from .results import Mixture

__all__ = ["accumulate", "solve"]

_PACKAGE = "pyspark>=4.0"

#: The first version with ``DataFrame.toArrow``.
_LEAST_VERSION = 4


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
    """Find the best mixture of arms whose features are in Spark DataFrames.

    Each partition becomes the bytes of one accumulator (``mapInArrow``), and partitions merge in a tree (``treeReduce``). The weights
    have the same bits for any number of workers and partitions.

    Parameters
    ----------
    dataset
        A DataFrame with a column that names the arm of each row, or a mapping from the name of an arm to a DataFrame.
    reference
        Features of real samples: a DataFrame, an array or a file.
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
        If Spark is not installed.
    TypeError
        If an argument has the wrong type.
    ValueError
        If rows cannot be summed; the message names their file, if the frame has a column ``path``, as from
        ``withColumn("path", input_file_name())``, and the row group if the driver can read that file from a disk.
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
    """Sum all rows of Spark DataFrames, as :func:`solve` does; its result can be stored, merged and solved.

    Parameters, exceptions and inputs are those of :func:`solve`.
    """
    spark = imported("pyspark", _PACKAGE)
    refuse_pairs(method, "Spark")
    if int(spark.__version__.split(".")[0]) < _LEAST_VERSION:
        raise ImportError(f"pyspark is {spark.__version__}, but 4.0 or newer is needed; run pip install '{_PACKAGE}'")
    request = Request(
        objective, features, arm, scores, reference, costs, method, random_features, error, sample, expected_rows,
        seed, memory, _check.whole("threads", threads, 1), "cpu", progress,
    )  # fmt: skip
    if _is_frame(dataset):
        work: list[tuple[str | None, Any]] = [(None, dataset)]
    else:
        frames = _check.mapping("dataset", dataset, "a Spark DataFrame, or a mapping from arms to DataFrames")
        wrong = next((frame for frame in frames.values() if not _is_frame(frame)), None)
        if wrong is not None:
            raise _check.wrong_type("a dataset", wrong, "a Spark DataFrame")
        work = [(_check.arm_name(name), frame) for name, frame in frames.items()]
    return request.accumulate(
        lambda job, other: _run(work, job, other),
        lambda given: column_rows(given.toArrow(), features or "features"),
        _is_frame,
    )


def _run(work: list[tuple[str | None, Any]], job: Job, reference: Any) -> Summed:
    """Sum all partitions and merge the sums in a tree."""
    frames = [(arm, frame, False) for arm, frame in work]
    frames += [] if reference is None else [(None, reference, True)]
    try:
        return job.merged([_summed(frame, job, arm, is_reference) for arm, frame, is_reference in frames])
    except Exception as error:
        problem = told_in(str(error))
        if problem is None:
            raise
        raise problem from None


def _summed(frame: Any, job: Job, arm: str | None, is_reference: bool) -> Summed:
    columns = [job.columns.features or "features", *(() if is_reference else job.columns.scores)]
    columns += [] if is_reference or arm is not None else [job.columns.arm or "arm"]
    absent = next((column for column in columns if column not in frame.columns), None)
    if absent is not None:
        raise ValueError(missing("the dataset", absent, list(frame.columns)))
    columns += [PATH] if PATH in frame.columns else []

    @told
    def partition(batches: Iterable[Any]) -> Any:
        pa = imported("pyarrow", "pyarrow")
        tables = (pa.Table.from_batches([batch]) for batch in batches)
        data, source = job.tables(tables, arm, is_reference)
        return pa.RecordBatch.from_pydict({"sums": [data], "source": [source]})

    def summed(batches: Iterable[Any]) -> Iterator[Any]:
        yield partition(batches)

    merged = told(lambda one, other: job.merged([one, other]))
    sums = frame.select(*columns).mapInArrow(summed, "sums binary, source string")
    found: Summed = sums.rdd.map(lambda row: (bytes(row[0]), row[1])).treeReduce(merged)
    return found


def _is_frame(given: Any) -> bool:
    if type(given).__module__.startswith("pyspark.sql.connect"):
        raise TypeError(
            "a DataFrame of Spark Connect has no RDDs, which sums merge in; pass one of a classic Spark session"
        )
    return hasattr(given, "mapInArrow")
