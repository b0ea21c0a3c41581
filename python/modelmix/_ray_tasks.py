"""Tasks and actors on a Ray cluster: sums of blocks and of shards, their merges, and encoders."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from ._blocks import column_rows
from ._cluster import Job, Request, Summed, imported, told, told_in, tree
from ._cluster_files import Task, work_of
from ._progress import Bar
from ._ray_pairs import Pairs, ordered

PACKAGE = "ray[data]>=2.50"


class Cluster:
    """Tasks of a job on the cluster."""

    def __init__(self, ray: Any, request: Request, resources: dict[str, float]) -> None:
        # The sums of single rows are computed on the processor.
        self._ray, self._request, self._resources = ray, request, {"num_cpus": resources["num_cpus"]}
        self._merge = ray.remote(num_cpus=1)(_merged)
        self._sum = ray.remote(**self._resources)(_shards_summed)
        self._pairs = Pairs(ray, request, resources) if request.method == "pairs" else None
        if self._pairs is not None and is_dataset(request.reference):
            request.reference = ordered(request.reference)

    def work(self, dataset: Any) -> list[tuple[str | None, Any]]:
        """Return the parts of the data, each with its arm: datasets, or tasks that read files."""
        work = work_of(
            dataset, self._request.columns, is_dataset, "a Ray Dataset, files, or a mapping from arms to them"
        )
        return [(arm, self._held(one) if is_dataset(one) else one) for arm, one in work]

    def _held(self, dataset: Any) -> Any:
        """Return a dataset as it is read: pairs need its rows more than twice."""
        return dataset if self._pairs is None else ordered(dataset)

    def run(self, work: list[tuple[str | None, Any]], job: Job, reference: Any) -> Summed:
        """Sum all parts and merge the sums in a tree of tasks."""
        there: Any = self._ray.put(job)
        #: Only for the progress bar: they keep the sums in memory.
        merges: list[Any] = []

        def merge(some: list[Any]) -> Any:
            merged = self._merge.remote(there, *some)
            if self._request.progress:
                merges.append(merged)
            return merged

        datasets = [(one, arm, False) for arm, one in work]
        datasets += [] if reference is None else [(reference, None, True)]
        try:
            parts: Iterator[Any] = (part for one in datasets for part in self._parts(there, *one))
            if self._pairs is not None and job.plan is not None:
                parts = chain(parts, self._pairs.sums(work, job, there, reference))
            root = tree(parts, merge)
            with Bar(self._request.progress, "merging", "task") as bar:
                bar.started(len(merges))
                left = merges
                while left:
                    _, left = self._ray.wait(left)
                    bar.done(len(merges) - len(left))
            summed: Summed = self._ray.get(root)
            return summed
        except self._ray.exceptions.RayError as error:
            problem = told_in(str(error))
            if problem is None:
                raise
            raise problem from None

    def _parts(self, job: Any, one: Any, arm: str | None, is_reference: bool) -> Iterator[Any]:
        """Start the sums of a part, and yield them as they come; each is a tuple, or a table with one in each row."""
        if isinstance(one, list):
            yield from [self._sum.remote(job, task) for task in one]
            return
        summed = one.map_batches(
            _block_summed, batch_size=None, batch_format="pyarrow", fn_args=(job, arm, is_reference), **self._resources
        )
        # Without waiting for all blocks, whose sums would fill the memory of the cluster.
        for bundle in summed.iter_internal_ref_bundles():
            yield from bundle.block_refs


def is_dataset(given: Any) -> bool:
    return hasattr(given, "map_batches") and hasattr(given, "to_arrow_refs")


@told
def _block_summed(table: Any, job: Any, arm: str | None, is_reference: bool) -> Any:
    """Sum a block, on a worker."""
    pa, ray = imported("pyarrow", PACKAGE), imported("ray", PACKAGE)
    data, source = ray.get(job).tables([table], arm, is_reference)
    return pa.table({"sums": pa.array([data], pa.large_binary()), "source": [source]})


@told
def _shards_summed(job: Job, task: Task) -> Summed:
    return job.shards(task)


@told
def _merged(job: Job, *parts: Any) -> Summed:
    return job.merged([one for part in parts for one in _summed_in(part)])


def _summed_in(part: Any) -> list[Summed]:
    if isinstance(part, tuple):
        return [part]
    return [(data.as_buffer().to_pybytes(), str(source)) for data, source in zip(part["sums"], part["source"])]


def collected(dataset: Any, column: str) -> Any:
    """Return all rows of a reference."""
    import numpy

    tables = dataset.iter_batches(batch_size=None, batch_format="pyarrow")
    blocks = [column_rows(table, column) for table in tables if table.num_rows]
    if not blocks:
        raise ValueError("the reference has no rows; give at least two")
    return numpy.concatenate([block.astype("float32", copy=False) for block in blocks])
