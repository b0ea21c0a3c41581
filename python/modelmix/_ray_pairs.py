"""Exact sums over all pairs of rows on a Ray cluster: blocks of equal size in the object store, and one task per pair of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ._blocks import Columns, NamedRows, parts
from ._cluster import Job, Request, Summed, told
from ._cluster_files import Task, find_shards
from ._progress import Bar

#: A block is one of 64, but it has at least 4096 rows, and at most 64 MiB. Rows are cut by their number alone, so bits depend
#: neither on workers nor on the blocks of a dataset.
_BLOCKS, _LEAST_ROWS, _MOST_BYTES = 64, 4096, 64 << 20

#: Tasks that are started, per task that fits on the cluster, and their smallest number.
_STARTED, _LEAST_STARTED = 2, 16

#: Pairs are in squares of this many blocks, so that tasks that run at once share blocks.
_SQUARE = 4


def ordered(dataset: Any) -> Any:
    """Return a dataset in the object store, with its rows in order, which is not that in which workers finish."""
    options = dataset.context.execution_options
    before, options.preserve_order = options.preserve_order, True
    try:
        return dataset.materialize()
    finally:
        options.preserve_order = before


class Pairs:
    """The tasks of all pairs of blocks."""

    def __init__(self, ray: Any, request: Request, resources: dict[str, float]) -> None:
        self._ray, self._request, self._resources = ray, request, resources
        self._sum = ray.remote(num_returns=2, **resources)(_pair_summed)
        self._count, self._read, self._cut = (ray.remote(num_cpus=1)(work) for work in (_counted, _rows_read, _cut))

    def sums(self, work: list[tuple[str | None, Any]], job: Job, there: Any, reference: Any) -> Iterator[Any]:
        """Start the sums of all pairs, a few at a time, and yield them. ``there`` is the job in the object store."""
        blocks = self._blocks(work, job, reference)
        running: list[Any] = []
        total = len(blocks) * (len(blocks) + 1) // 2
        with Bar(self._request.progress, "summing pairs", "pair of blocks") as bar:
            bar.started(total)
            for at, (i, j) in enumerate(squares(len(blocks))):
                while len(running) >= self._most():
                    running = self._waited(running)
                    bar.done(at - len(running))
                # Blocks of earlier squares have all their pairs.
                blocks[: i - i % _SQUARE] = [None] * (i - i % _SQUARE)
                summed, done = self._sum.remote(there, blocks[i], None if i == j else blocks[j])
                running.append(done)
                yield summed
            while running:
                running = self._waited(running)
                bar.done(total - len(running))

    def _waited(self, running: list[Any]) -> list[Any]:
        """Wait for a task, and raise its error at once."""
        ready, left = self._ray.wait(running)
        self._ray.get(ready)
        return list(left)

    def _most(self) -> int:
        """The number of tasks that may be started: more would only fill the memory of the cluster."""
        there = self._ray.cluster_resources()
        amounts = (("CPU", self._resources["num_cpus"]), ("GPU", self._resources.get("num_gpus", 0)))
        fitting = min((there.get(kind, 0) / amount for kind, amount in amounts if amount), default=1)
        return max(_LEAST_STARTED, int(_STARTED * fitting))

    def _blocks(self, work: list[tuple[str | None, Any]], job: Job, reference: Any) -> list[Any]:
        """Start to cut all rows into blocks, and return these."""
        columns = job.columns
        sources: list[tuple[str, list[Any], list[int], tuple[Any, ...]]] = []
        given = [(f"part {at}", one, arm, False) for at, (arm, one) in enumerate(work)]
        given += [] if reference is None else [("the reference", reference, None, True)]
        for name, one, arm, is_reference in given:
            if isinstance(one, list):
                items, counts = one, [task.rows for task in one]
            else:
                items = one.to_arrow_refs()
                counts = self._ray.get([self._count.remote(item) for item in items])
            sources.append((name, items, counts, (columns, arm, is_reference)))
        array = self._request.array
        rows = sum(sum(counts) for _, _, counts, _ in sources) + (0 if array is None else len(array))
        most = rows_of_block(rows, job.empty("cpu").width() or 1)
        blocks: list[Any] = []
        for name, items, counts, how in sources:
            refs = [self._read.remote(columns, item) if isinstance(item, Task) else item for item in items]
            for start, stop in spans(sum(counts), most):
                inside = list(overlaps(counts, start, stop))
                given_rows = [refs[at] for at, *_ in inside]
                bounds = [bound for _, *bound in inside]
                label = f"{name}, rows {start} to {stop - 1}"
                blocks.append(self._cut.remote(label, *how, bounds, *given_rows))
        if array is None:
            return blocks
        for start, stop in spans(len(array), most):
            rows_there = array[start:stop].astype("float32", copy=False)
            blocks.append(self._ray.put((f"the reference, rows {start} to {stop - 1}", [(None, rows_there)])))
        return blocks


def rows_of_block(rows: int, width: int) -> int:
    """Return the largest number of rows of a block."""
    return max(1, min(max(_LEAST_ROWS, -(-rows // _BLOCKS)), _MOST_BYTES // (4 * width)))


def spans(rows: int, most: int) -> list[tuple[int, int]]:
    """Cut rows into parts of equal size, up to one row."""
    count = -(-rows // most)
    return [(rows * at // count, rows * (at + 1) // count) for at in range(count)]


def overlaps(counts: Sequence[int], start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """Yield the items with rows of a span: their index, and these rows within the item."""
    first = 0
    for at, count in enumerate(counts):
        if count and first < stop and start < first + count:
            yield at, max(start - first, 0), min(stop - first, count)
        first += count


def squares(count: int) -> Iterator[tuple[int, int]]:
    """Yield every pair of blocks, and every block with itself, in squares."""
    for top in range(0, count, _SQUARE):
        for left in range(top, count, _SQUARE):
            for i in range(top, min(top + _SQUARE, count)):
                yield from ((i, j) for j in range(max(i, left), min(left + _SQUARE, count)))


@told
def _counted(table: Any) -> int:
    return int(table.num_rows)


@told
def _rows_read(columns: Columns, task: Task) -> list[tuple[str, Any]]:
    """Read shards of a file, on a worker."""
    found = find_shards([task.source], columns)
    return [part for index in task.indices for part in found.read(index)]


@told
def _cut(
    name: str, columns: Columns, arm: str | None, is_reference: bool, bounds: Sequence[Sequence[int]], *items: Any
) -> NamedRows:
    """Return rows of tables, or of shards that were read, as a block, on a worker."""
    import numpy

    found: dict[str | None, list[Any]] = {}
    for (start, stop), item in zip(bounds, items):
        if isinstance(item, list):
            for at, first, last in overlaps([len(rows) for _, rows in item], start, stop):
                found.setdefault(item[at][0], []).append(item[at][1][first:last])
            continue
        for part in parts(item.slice(start, stop - start), columns, arm, is_reference):
            found.setdefault(part.arm, []).append(part.rows)
    whole = {side: numpy.concatenate(rows).astype("float32", copy=False) for side, rows in found.items()}
    return name, sorted(whole.items(), key=lambda side: side[0] or "")


@told
def _pair_summed(job: Job, first: NamedRows, second: NamedRows | None) -> tuple[Summed, None]:
    """Sum a pair of blocks, on a worker; what comes second says only that it is done."""
    return job.pair(first, second), None
