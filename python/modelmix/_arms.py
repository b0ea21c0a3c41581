"""Conversion of all supported inputs to arms: mappings of arrays, files, and long-format frames (one row per sample, with an arm column)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from . import _check
from ._cuda import DeviceArray
from ._files import Path, Rows, Values, device_rows, is_path, long_parquet, missing, rows, score_values, scores_file
from ._inputs import Inputs
from ._lazy import Lazy

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
else:
    np, npt = Lazy("numpy"), Lazy("numpy.typing")


@runtime_checkable
class Frame(Protocol):
    """A frame of pandas or polars, or a table of pyarrow: named columns."""

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def columns(self) -> Any: ...


#: Samples of several models: a mapping from model name to features, a file or a folder; one or several of these; or, with ``arm=``, a
#: frame.
Arms: TypeAlias = Mapping[str, Rows] | Path | Sequence[Path] | Frame

#: Values of one score: a mapping from arm to one value per sample, or an ``.npz`` file with one array per arm.
ScoreValues: TypeAlias = Mapping[str, Values] | Path

#: Scores: a mapping from name to values; a JSON file with such a mapping; or, with ``arm=``, columns of the frame.
Scores: TypeAlias = Mapping[str, ScoreValues] | Path | Sequence[str]

#: Arms in the form that the extension accepts.
Named: TypeAlias = "list[tuple[str, npt.NDArray[Any] | DeviceArray]]"


def arms_and_scores(
    arms: Arms, arm: str | None, features: str | Sequence[str] | None, scores: Scores | None, inputs: Inputs
) -> tuple[Named, Mapping[str, ScoreValues] | None]:
    """Return named arms in the form that the extension accepts, and the scores of their samples by name and arm."""
    if isinstance(scores, (str, PathLike)):
        return named(arms, arm, features, inputs=inputs), scores_file(scores)
    if scores is None or isinstance(scores, Mapping):
        return named(arms, arm, features, inputs=inputs), scores
    _check.items("scores", scores, 'numbers by score and arm, such as {"taste": {"flux": [0.5, …]}}')
    if arm is None:
        raise ValueError(
            'scores must be given by name and arm, as in scores={"taste": {"flux": [0.5, …]}}; '
            "a list names columns of a frame and also needs arm="
        )
    columns = _check.name_list("scores", scores)
    return named(arms, arm, features, columns), _by_arm(arms, arm, columns)


def named(
    arms: Arms,
    arm: str | None = None,
    features: str | Sequence[str] | None = None,
    apart: Sequence[str] = (),
    inputs: Inputs | None = None,
) -> Named:
    """Return named arms in the form that the extension accepts.

    If ``arm`` (the name of a column) is given, ``arms`` is a frame or a Parquet file with one row per sample. ``features`` are the
    columns with numbers, or the one column with lists of numbers. Columns in ``apart`` are not features unless ``features`` names
    them. ``inputs`` encodes images and texts; without it, they are refused.
    """
    given: Any = arms
    inputs = Inputs(None) if inputs is None else inputs
    if arm is not None or features is not None:
        return _long(given, arm, features, apart)
    if isinstance(given, (str, PathLike)):
        return inputs.arms([given])
    if isinstance(given, (list, tuple)) and given and all(is_path(source) for source in given):
        return inputs.arms(given)
    if not isinstance(given, Mapping) and _columns(given) is not None:
        raise TypeError(
            f"arms is a {type(given).__name__}, whose columns are not arms; "
            'name the column that contains the arm of each row, as in mm.solve(frame, arm="model")'
        )
    by_name = _check.mapping("arms", given, 'features or files by name, such as {"flux": flux, "sdxl": sdxl}')
    return [(_check.arm_name(name), inputs.rows(f"arm {name}", values, name)) for name, values in by_name.items()]


def sets_of(samples: Arms | Rows, arm: str | None = None, features: str | Sequence[str] | None = None) -> Named:
    """Return the samples of several arms by name, or those of one model with an empty name."""
    given: Any = samples
    files = is_path(given) or (isinstance(given, (list, tuple)) and bool(given) and all(map(is_path, given)))
    if arm is not None or features is not None or files or isinstance(given, Mapping):
        sets = named(given, arm, features)
        return [("", sets[0][1])] if files and len(sets) == 1 else sets
    return [("", device_rows("samples", given))]


def _columns(frame: Any) -> list[Any] | None:
    """Return the column names of a frame, or ``None`` if it is not a frame."""
    for attribute in ("column_names", "columns"):  # pyarrow tables have both, and their `columns` are not names
        names = getattr(frame, attribute, None)
        if names is not None and not callable(names):
            return list(names)
    return None


def _long(given: Any, arm: str | None, features: str | Sequence[str] | None, apart: Sequence[str]) -> Named:
    """Return the arms of a long-format frame, in which a column names the arm of each row."""
    if arm is None:
        raise ValueError('features= names columns of a frame; also name the column of arms, as in arm="model"')
    wanted = (
        None
        if features is None
        else [features]
        if isinstance(features, str)
        else _check.name_list("features", features)
    )
    arm = _check.text("arm", arm)
    frame = _frame(given, None if wanted is None else [arm, *wanted])
    names = _columns(frame) or []
    for column in [arm, *(wanted or ())]:
        if column not in names:
            raise ValueError(missing("the frame", column, names))
    if wanted is None:
        wanted = [column for column in names if column != arm and column not in apart]
    if not wanted:
        raise ValueError(f"the frame has no columns besides {arm}; name the feature columns, as in features=[…]")
    matrix = _matrix(frame, wanted, features is None)
    return [(name, matrix[places]) for name, places in _places(frame, arm).items()]


def _by_arm(given: Any, arm: str, columns: Sequence[str]) -> dict[str, dict[str, list[float]]]:
    """Return the values of score columns, by column and arm."""
    import numpy

    frame = _frame(given, [arm, *columns])
    names = _columns(frame) or []
    for column in columns:
        if column not in names:
            raise ValueError(missing("the frame", column, names))
    places = _places(frame, arm)
    whole = {column: numpy.asarray(score_values(f"column {column}", frame[column])) for column in columns}
    return {
        column: {name: values[found].tolist() for name, found in places.items()} for column, values in whole.items()
    }


def _frame(given: Any, columns: Sequence[str] | None) -> Any:
    """Return the frame, or read it if a file is given."""
    if isinstance(given, (str, PathLike)):
        given = long_parquet(given, columns)
    if hasattr(given, "collect_schema") and not hasattr(given, "to_numpy"):  # polars
        raise ValueError("a LazyFrame has no rows yet; pass frame.collect()")
    if _columns(given) is None:
        raise _check.wrong_type("arms", given, "a frame or a .parquet file, because arm= names a column")
    return given


def _places(frame: Any, arm: str) -> dict[str, list[int]]:
    """Return the row indices of each arm; arms are in order of first appearance."""
    places: dict[str, list[int]] = {}
    for at, label in enumerate(_labels(frame, arm)):
        places.setdefault(label, []).append(at)
    return {_check.arm_name(label): found for label, found in places.items()}


def _labels(frame: Any, arm: str) -> list[str]:
    """Return the arm name of each row."""
    column = frame[arm]
    listed = column.to_pylist() if hasattr(column, "to_pylist") else list(column)
    for at, label in enumerate(listed):
        if not isinstance(label, str):
            missing_too = label is None or str(label) in ("nan", "NaN", "<NA>", "NaT")
            found = "missing" if missing_too else f"of type {type(label).__name__}"
            raise ValueError(
                f"column {arm} is {found} in row {at}, but names of arms must be text; "
                f'drop such rows, or convert the column, as in frame["{arm}"].astype(str)'
            )
    return listed


def _matrix(frame: Any, columns: Sequence[Any], guessed: bool) -> npt.NDArray[Any]:
    """Return the features of all rows: numeric columns stacked, or one column of lists."""
    import numpy

    parts = []
    for column in columns:
        part = rows(f"column {column}", frame[column])
        if part.dtype.kind not in "f" or (part.ndim != 1 and len(columns) > 1):
            held = "lists" if part.dtype.kind == "f" else str(part.dtype)
            others = "name the numeric columns, as in features=[…]" if guessed else "leave it out"
            single = ' (or name one column of lists, as in features="embedding")'
            raise ValueError(f"column {column} contains {held}, but features must be numbers; {others}{single}")
        parts.append(part)
    if len(parts) == 1 and parts[0].ndim == 2:
        return parts[0]
    return numpy.stack(parts, axis=1)
