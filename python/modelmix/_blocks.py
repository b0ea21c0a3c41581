"""Rows of Arrow tables for accumulators: features, arms and scores of a block, without a copy where the memory layout allows it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

from ._files import missing
from ._lazy import Lazy

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
else:
    np, npt = Lazy("numpy"), Lazy("numpy.typing")

#: The name of a block, and rows of each of its arms; of the reference if the arm is ``None``.
NamedRows: TypeAlias = "tuple[str, list[tuple[str | None, npt.NDArray[Any]]]]"

#: The column with which Ray Data and others name the file of each row.
PATH = "path"


class Refused(ValueError):
    """Rows that cannot be summed, with the files that they come from, if these are known."""

    def __init__(self, sentence: str, paths: Sequence[str] = ()) -> None:
        super().__init__(sentence, tuple(paths))
        self.paths = tuple(paths)

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True)
class Columns:
    """The columns of tables."""

    #: ``None``: ``"features"`` in tables, the only column of lists in files.
    features: str | None
    #: ``None``: ``"arm"`` in tables, and files are one arm each.
    arm: str | None
    scores: tuple[str, ...] = ()


@dataclass(frozen=True)
class Part:
    """Rows of one arm."""

    arm: str | None
    rows: npt.NDArray[Any]
    scores: dict[str, npt.NDArray[np.float64]]
    #: The places of the rows in the block.
    places: npt.NDArray[np.int64] | slice
    #: The files of all rows of the block, if there is such a column.
    paths: Any

    def origin(self, row: int) -> tuple[str, list[str]]:
        """Return what a row of this part is called in messages, and its file."""
        import numpy

        place = int(numpy.arange(len(self.paths))[self.places][row]) if self.paths is not None else row
        if self.paths is None:
            return "a block", []
        path = str(self.paths[place].as_py())
        return path, [path]


def parts(table: Any, columns: Columns, arm: str | None, is_reference: bool) -> Iterator[Part]:
    """Yield the rows of each arm of a table, or all rows if ``arm`` names the arm of all, or if they are the reference's."""
    import numpy

    names = list(table.schema.names)
    features, labelled = (
        columns.features or "features",
        None if is_reference or arm is not None else columns.arm or "arm",
    )
    scored = () if is_reference else columns.scores
    for needed in [features, *([] if labelled is None else [labelled]), *scored]:
        if needed not in names:
            raise Refused(missing("the dataset", needed, names))
    if table.num_rows == 0:
        return
    paths = table.column(PATH).combine_chunks() if PATH in names else None
    rows = matrix(table.column(features), features, paths)
    scores = {name: _score(table.column(name), name) for name in scored}
    if labelled is None:
        yield Part(arm, rows, scores, slice(0, len(rows)), paths)
        return
    labels = table.column(labelled).combine_chunks()
    labels = labels if _is_dictionary(labels.type) else labels.dictionary_encode()
    if labels.null_count or not _is_text(labels.dictionary.type):
        held = "missing in some rows" if labels.null_count else str(labels.dictionary.type)
        raise Refused(f"column {labelled} is {held}, but names of arms must be text; drop or convert such rows")
    codes = labels.indices.to_numpy(zero_copy_only=False)
    for code, name in enumerate(labels.dictionary.to_pylist()):
        found = numpy.flatnonzero(codes == code)
        if len(found) == 0:
            continue
        first, last = int(found[0]), int(found[-1])
        places: Any = slice(first, last + 1) if last - first + 1 == len(found) else found
        yield Part(name, rows[places], {key: values[places] for key, values in scores.items()}, places, paths)


def is_array(part: Any) -> bool:
    """Whether a partition is an array of NumPy: frames and tables may have columns of any name."""
    import numpy

    return isinstance(part, numpy.ndarray)


def table_of(part: Any) -> Any:
    """Return a partition as an Arrow table: a table, a record batch or a pandas frame."""
    pa: Any = import_module("pyarrow")
    if isinstance(part, pa.RecordBatch):
        return pa.Table.from_batches([part])
    return part if isinstance(part, pa.Table) else pa.Table.from_pandas(part, preserve_index=False)


def column_rows(table: Any, name: str) -> npt.NDArray[Any]:
    """Return a column of a table as rows."""
    if name not in table.schema.names:
        raise ValueError(missing("the dataset", name, list(table.schema.names)))
    return matrix(table.column(name), name)


def matrix(column: Any, name: str, paths: Any = None) -> npt.NDArray[Any]:
    """Return a column of lists of floats as rows: a view if it is one chunk."""
    import numpy

    chunks = [
        _chunk(chunk, name, None if paths is None else paths.slice(first, len(chunk)))
        for first, chunk in _with_offsets(column)
        if len(chunk)
    ]
    if len(chunks) == 1:
        return chunks[0]
    widths = [chunk.shape[1] for chunk in chunks]
    for at, width in enumerate(widths):
        if width != widths[0]:
            row = sum(len(chunk) for chunk in chunks[:at])
            raise _other_width(name, width, widths[0], [0, row], paths)
    return numpy.concatenate(chunks)


def _with_offsets(column: Any) -> Iterator[tuple[int, Any]]:
    first = 0
    for chunk in column.chunks if hasattr(column, "chunks") else [column]:
        yield first, chunk
        first += len(chunk)


def _chunk(chunk: Any, name: str, paths: Any) -> npt.NDArray[Any]:
    import numpy

    pa: Any = import_module("pyarrow")
    if isinstance(chunk, pa.ExtensionArray):  # tensors, such as those of Ray
        chunk = chunk.storage
    if pa.types.is_struct(chunk.type) and chunk.type.get_field_index("data") >= 0:  # tensors of several shapes
        chunk = chunk.field("data")
    kind = chunk.type
    is_fixed = pa.types.is_fixed_size_list(kind)
    if not (is_fixed or pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        raise Refused(f"column {name} contains {kind}, but features must be lists of floats, one list per row")
    if not pa.types.is_floating(kind.value_type):
        raise Refused(f"column {name} contains lists of {kind.value_type}, but features must be floats")
    if chunk.null_count:
        row = int(numpy.flatnonzero(chunk.is_null().to_numpy(zero_copy_only=False))[0])
        raise Refused(
            f"{_where(paths, row)[0]}: column {name} is missing in a row; drop the row", _where(paths, row)[1]
        )
    if is_fixed:
        width = kind.list_size
    else:
        lengths = numpy.diff(chunk.offsets.to_numpy())
        width = int(lengths[0])
        others = numpy.flatnonzero(lengths != width)
        if len(others):
            raise _other_width(name, int(lengths[others[0]]), width, [0, int(others[0])], paths)
    values = chunk.flatten()
    if values.null_count:
        row = int(numpy.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0]) // max(width, 1)
        origin, files = _where(paths, row)
        raise Refused(f"{origin}: a value of column {name} is missing; drop or fill it", files)
    found: npt.NDArray[Any] = values.to_numpy(zero_copy_only=True).reshape(len(chunk), width)
    return found


def _other_width(name: str, width: int, expected: int, rows: list[int], paths: Any) -> Refused:
    (other, first), (origin, second) = (_where(paths, row) for row in rows)
    return Refused(
        f"{origin}: column {name} has {width} columns in a row, but {expected} in another one of {other}; "
        "all rows must come from the same encoder",
        [*first, *second],
    )


def _where(paths: Any, row: int) -> tuple[str, list[str]]:
    """What a row's file is called, and the file."""
    if paths is None:
        return "a block", []
    path = str(paths[row].as_py())
    return path, [path]


def _score(column: Any, name: str) -> npt.NDArray[np.float64]:
    if column.null_count:
        raise Refused(f"score {name} is missing in some rows; give every row a value")
    try:
        values: npt.NDArray[np.float64] = column.to_numpy().astype("float64")
    except (ValueError, TypeError):
        raise Refused(f"column {name} contains {column.type}, but scores must be numbers") from None
    return values


def _is_dictionary(kind: Any) -> bool:
    return str(kind).startswith("dictionary")


def _is_text(kind: Any) -> bool:
    return str(kind) in ("string", "large_string", "string_view")
