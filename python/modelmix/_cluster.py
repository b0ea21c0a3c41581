"""What the engines of clusters share: a job that workers do with blocks of rows, and the two passes of the driver."""

from __future__ import annotations

import functools
import json
import logging
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import _check, _modelmix
from ._accumulator_plan import AccumulatorPlan, MethodName
from ._arrays import as_array
from ._blocks import Columns, NamedRows, Part, Refused, parts
from ._cluster_files import Task, find_shards
from ._compute import compute
from ._files import rows
from ._lazy import Lazy
from ._problem import _same, of
from .accumulation import Accumulator
from .objectives import Objective

if TYPE_CHECKING:
    import numpy.typing as npt
else:
    npt = Lazy("numpy.typing")

#: The fix for rows of different widths.
_SAME = "all rows must come from the same encoder"

#: How many accumulators a task merges.
FAN_IN = 8

#: Sums as bytes, with the file or block that the first rows come from.
Summed = tuple[bytes, str]

#: What errors of workers begin with.
_MARK = "modelmix refuses: "

#: The errors of workers that are errors of the driver.
_TOLD: dict[str, type[Exception]] = {"value": ValueError, "type": TypeError, "file": OSError}

_LOGGER = logging.getLogger("modelmix")

#: The empty accumulators of the latest jobs of this process, which sum or merge: preparing a plan takes longer than a small block.
_PREPARED: dict[str, _modelmix.Accumulator] = {}


@dataclass(frozen=True)
class Job:
    """What workers do with blocks of rows: a survey, or the sums of a plan."""

    columns: Columns
    survey: tuple[int, int, int | None, list[str]]
    plan: bytes | None = None
    threads: int = 1
    engine: str = "auto"
    #: The whole reference, if the plan needs it.
    whole: npt.NDArray[Any] | None = field(default=None, repr=False)

    def empty(self, engine: str | None = None) -> _modelmix.Accumulator:
        """Return an empty accumulator. Only tasks that sum pairs have a GPU, so the others compute on the processor."""
        engine = engine or ("cpu" if self.engine == "cuda" else self.engine)
        key = repr((self.survey, self.plan, self.threads, engine))
        found = _PREPARED.get(key)
        if found is None:
            found = (
                _modelmix.Accumulator.survey(*self.survey)
                if self.plan is None
                else _modelmix.Accumulator.planned(self.plan, self.whole, compute(self.threads, engine, None))
            )
            if len(_PREPARED) > 1:
                _PREPARED.clear()
            _PREPARED[key] = found
        return found.empty()

    def add(self, sums: _modelmix.Accumulator, table: Any, arm: str | None, is_reference: bool) -> None:
        """Add the rows of a table."""
        for part in parts(table, self.columns, arm, is_reference):
            name = None if is_reference else _check.arm_name(part.arm)
            scores = {key: values.tolist() for key, values in part.scores.items()}
            try:
                # Buffers of other programs may be unaligned; then they are copied.
                sums.update(name, as_array("features", part.rows), scores)
            except ValueError as problem:
                raise _refused(part, name, problem) from None

    def tables(self, tables: Iterable[Any], arm: str | None = None, is_reference: bool = False) -> Summed:
        """Return the sums of tables."""
        sums, label = self.empty(), "a block"
        for table in tables:
            label = _label(table, label)
            self.add(sums, table, arm, is_reference)
        return sums.to_bytes(), label

    def array(self, array: npt.NDArray[Any], arm: str | None) -> Summed:
        """Return the sums of rows of one arm, or of the reference."""
        sums = self.empty()
        if len(array):
            sums.update(arm, as_array("features", array), {})
        return sums.to_bytes(), f"a block of arm {arm}"

    def shards(self, task: Task) -> Summed:
        """Return the sums of shards of a file."""
        found = find_shards([task.source], self.columns)
        sums = self.empty()
        for index in task.indices:
            sums.update_shard(found, index)
        return sums.to_bytes(), _modelmix.source_path(task.source)

    def pair(self, first: NamedRows, second: NamedRows | None) -> Summed:
        """Return the sums over the pairs of rows of two blocks, or of one."""
        sums = self.empty(self.engine)
        sums.update_pairs(first, second)
        return sums.to_bytes(), first[0]

    def merged(self, summed: Sequence[Summed]) -> Summed:
        """Return the sums of several parts."""
        sums, label = self.empty(), summed[0][1]
        for data, other in summed:
            width = sums.width()
            label = other if width is None else label
            try:
                sums.merge_bytes(data)
            except ValueError:
                found = _modelmix.Accumulator.from_bytes(data, None).width()
                if width is None or width == found:
                    raise
                sentence = f"{other}: its features have {found} columns, but those of {label} have {width}; {_SAME}"
                raise Refused(sentence, [label, other]) from None
        return sums.to_bytes(), label


def _label(table: Any, before: str) -> str:
    if before == "a block" and "path" in table.schema.names and table.num_rows:
        return str(table.column("path")[0].as_py())
    return before


def _refused(part: Part, arm: str | None, problem: ValueError) -> Refused:
    """Return the problem with the file of its first bad row. The place within the block says nothing about that in the file."""
    import numpy

    bad = numpy.argwhere(~numpy.isfinite(part.rows))
    row, column = bad[0] if len(bad) else (0, None)
    origin, files = part.origin(int(row))
    if column is None:
        return Refused(f"{origin}: {problem}", files)
    whose = "the reference" if arm is None else f"arm {arm}"
    value = "NaN" if numpy.isnan(part.rows[row, column]) else part.rows[row, column]
    sentence = f"{whose}: column {column} of a row is {value}, but features must be finite 32-bit floats"
    return Refused(f"{origin}: {sentence}; remove the row or repair the encoder (columns are counted from 0)", files)


def tree(parts: Iterable[Any], merge: Callable[[list[Any]], Any]) -> Any:
    """Merge all parts, a few at a time and as they come. Sums are exact, so the order does not matter."""
    levels: list[list[Any]] = []

    def push(part: Any, level: int) -> None:
        while len(levels) <= level:
            levels.append([])
        levels[level].append(part)
        if len(levels[level]) == FAN_IN:
            full, levels[level] = levels[level], []
            push(merge(full), level + 1)

    for part in parts:
        push(part, 0)
    left = [part for level in levels for part in level]
    if not left:
        raise ValueError("the dataset has no rows; give at least one sample of each arm")
    while True:
        left = [merge(left[at : at + FAN_IN]) for at in range(0, len(left), FAN_IN)]
        if len(left) == 1:
            return left[0]


@dataclass
class Request:
    """The arguments of an engine's ``solve``, checked."""

    objective: Objective | str | None
    features: str | None
    arm: str | None
    scores: Sequence[str]
    reference: Any
    costs: Mapping[str, float] | None
    method: MethodName | None
    random_features: int | None
    error: float | None
    sample: int
    expected_rows: int | None
    seed: int
    memory: int | str | None
    threads: int = 1
    engine: str = "auto"
    progress: bool = False
    #: The rows of the reference, if the driver has them.
    array: npt.NDArray[Any] | None = field(default=None, init=False, repr=False)
    #: The rows of the smallest arm, if the headers of files state them.
    smallest: int | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self.objective = of(self.objective)
        for term in () if self.objective is None else self.objective._terms:
            self.reference = _same("reference", term.reference, self.reference)
            self.costs = _same("costs", term.costs, self.costs)
        self.scores = _check.name_list("scores", self.scores)
        _check.text_or_none("features", self.features)
        _check.text_or_none("arm", self.arm)

    @property
    def columns(self) -> Columns:
        """The columns of tables and files."""
        return Columns(self.features, self.arm, tuple(self.scores))

    @property
    def needs_whole_reference(self) -> bool:
        """Whether the objective has terms with the reference's nearest-neighbour balls."""
        terms = () if self.objective is None else self.objective._terms  # type: ignore[union-attr]
        return any(term.text.startswith(("precision", "density")) for term in terms)

    def expect(self, work: list[tuple[str | None, Any]]) -> None:
        """Take the number of rows of the smallest arm from tasks, if each arm has its own: parts of the survey are then small."""
        rows: dict[str, int] = {}
        for arm, one in work:
            if (
                arm is None
                or self.arm is not None
                or not (isinstance(one, list) and all(isinstance(task, Task) for task in one))
            ):
                return
            rows[arm] = rows.get(arm, 0) + sum(task.rows for task in one)
        self.smallest = min(rows.values(), default=0) or None

    def _job(self, is_known: bool) -> Job:
        """Return the job of the survey; ``is_known``: the driver knows all rows of the reference, if there is one."""
        sample, expected = _check.whole("sample", self.sample, 2), self.expected_rows
        if expected is None and self.smallest is not None and is_known:
            expected = self.smallest if self.array is None else min(self.smallest, len(self.array))
        survey = (_check.seed(self.seed), sample, _check.whole_or_none("expected_rows", expected, 1), list(self.scores))
        return Job(self.columns, survey, threads=self.threads, engine=self.engine)

    def accumulate(
        self,
        run: Callable[[Job, Any], Summed],
        collect: Callable[[Any], npt.NDArray[Any]] | None = None,
        is_dataset: Callable[[Any], bool] = lambda given: False,
    ) -> Accumulator:
        """Survey all rows, plan, and sum them if the plan needs it.

        ``run`` sums all rows of a job, with those of a reference if one is passed; ``collect`` returns all rows of a reference of
        the engine, which ``is_dataset`` recognises.
        """
        dataset = self.reference if self.reference is not None and is_dataset(self.reference) else None
        array = None
        if self.reference is not None and dataset is None:
            array = rows("the reference", self.reference)
        elif dataset is not None and self.needs_whole_reference and collect is not None:
            array, dataset = _sorted(collect(dataset)), None
        self.array = array
        job = self._job(is_known=dataset is None)
        survey = self._pass(run, job, dataset, array)
        whole = array if self.needs_whole_reference else None
        objective = None if self.objective is None else _without_references(self.objective)
        plan = survey.plan(
            objective,
            reference=whole,
            method=self.method,
            random_features=self.random_features,
            error=self.error,
            costs=self.costs,
            memory=self.memory,
        )
        self._tell(plan)
        if not plan.needs_second_pass:
            return survey.with_plan(plan, whole)
        job = Job(job.columns, job.survey, plan.data, job.threads, job.engine, whole)
        return self._pass(run, job, dataset, array)

    def _pass(self, run: Callable[[Job, Any], Summed], job: Job, dataset: Any, array: Any) -> Accumulator:
        try:
            summed = [run(job, dataset)]
            if array is not None:
                summed.append((job.array(array, None)[0], "the reference"))
            return Accumulator.from_bytes(job.merged(summed)[0])
        except Refused as refused:
            raise self._located(refused) from None

    def _tell(self, plan: AccumulatorPlan) -> None:
        _LOGGER.info("%s", plan.text)
        if _check.flag("progress", self.progress):
            print(f"modelmix: {plan.text}", file=sys.stderr)

    def _located(self, refused: Refused) -> ValueError:
        """Return the problem with the row group that has it, if the driver can read the files again: those on its disks."""
        paths = dict.fromkeys(path.removeprefix("file://") for path in refused.paths)
        files = [path for path in paths if os.path.isfile(path)]
        for arm in dict.fromkeys((self.arm, "arm", None)) if files else ():
            try:
                find_shards(files, replace(self.columns, arm=arm)).check()
            except OSError:
                break
            except ValueError as problem:
                if any(part in str(problem) for part in (", row group ", ", rows ")):
                    return ValueError(str(problem))
        return ValueError(str(refused))


def _without_references(objective: Objective | str) -> Objective:
    """The objective alone: the reference was added to the survey."""
    return Objective(str(objective))


def _sorted(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Rows in an order that does not depend on how they were collected."""
    import numpy

    array = numpy.ascontiguousarray(array, dtype=numpy.float32)
    return array[numpy.argsort(array.view(f"S{4 * array.shape[1]}").ravel(), kind="stable")]


def told(work: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function on a worker raise its errors in a form that :func:`told_in` finds within the traces of engines."""

    @functools.wraps(work)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return work(*args, **kwargs)
        except (ValueError, TypeError, OSError) as problem:
            kind = next(name for name, one in _TOLD.items() if isinstance(problem, one))
            paths = problem.paths if isinstance(problem, Refused) else ()
            found = json.dumps({"kind": kind, "sentence": str(problem), "paths": paths})
            raise ValueError(f"{_MARK}{found}") from None

    return call


def told_in(trace: str) -> Exception | None:
    """Return the error of a worker that is in the trace of an engine."""
    at = trace.find(_MARK)
    if at < 0:
        return None
    found, _ = json.JSONDecoder().raw_decode(trace[at + len(_MARK) :])
    kind = _TOLD[found["kind"]]
    return Refused(found["sentence"], found["paths"]) if kind is ValueError else kind(found["sentence"])


def imported(engine: str, package: str) -> Any:
    """Import an engine; raise with the command that installs it if it is absent."""
    try:
        return import_module(engine)
    except ImportError as problem:
        if problem.name is not None and problem.name.split(".")[0] != engine.split(".")[0]:
            raise
        raise ImportError(f"{engine} is not installed; install it with pip install '{package}'") from None


def refuse_pairs(method: str | None, engine: str) -> None:
    """Refuse sums over pairs of blocks, which only Ray does."""
    if method == "pairs":
        raise ValueError(
            f"method is 'pairs', which {engine} does not do; use mm.ray.solve, or modelmix solve --method pairs"
        )
