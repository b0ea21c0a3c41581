"""The one place that turns anything into arms: mappings of arrays, files, and frames with one row per sample of any arm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from . import _check
from ._files import Path, Rows, Values, is_path, load_arms, long_parquet, missing, rows, score_values, scores_file
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


#: Samples of several models: features or files by the model's name; one file or several; or, with ``arm=``, a frame.
Arms: TypeAlias = Mapping[str, Rows] | Path | Sequence[Path] | Frame

#: A score's values: for every arm one per sample, or an ``.npz`` file with one array per arm.
ScoreValues: TypeAlias = Mapping[str, Values] | Path

#: Scores by name; a JSON file that has them; or, with ``arm=``, columns of the frame.
Scores: TypeAlias = Mapping[str, ScoreValues] | Path | Sequence[str]

#: Arms as the extension takes them.
Named: TypeAlias = "list[tuple[str, npt.NDArray[Any]]]"


def arms_and_scores(
    arms: Arms, arm: str | None, features: str | Sequence[str] | None, scores: Scores | None
) -> tuple[Named, Mapping[str, ScoreValues] | None]:
    """Arms by name, as the extension takes them, and the scores of their samples by name and arm."""
    if isinstance(scores, (str, PathLike)):
        return named(arms, arm, features), scores_file(scores)
    if scores is None or isinstance(scores, Mapping):
        return named(arms, arm, features), scores
    _check.items("scores", scores, 'numbers by score and arm, such as {"taste": {"flux": [0.5, …]}}')
    if arm is None:
        raise ValueError(
            'scores are given by name and arm, as in scores={"taste": {"flux": [0.5, …]}}; '
            "a list names columns of a frame, and needs arm= as well"
        )
    columns = _check.name_list("scores", scores)
    return named(arms, arm, features, columns), _by_arm(arms, arm, columns)


def named(
    arms: Arms,
    arm: str | None = None,
    features: str | Sequence[str] | None = None,
    apart: Sequence[str] = (),
) -> Named:
    """Arms by name, as the extension takes them.

    With ``arm``, a column, ``arms`` is a frame or a Parquet file with one row per sample; ``features`` are the columns with
    numbers, or the one column with lists of them. Columns ``apart`` are not features unless they are named.
    """
    given: Any = arms
    if arm is not None or features is not None:
        return _long(given, arm, features, apart)
    if isinstance(given, (str, PathLike)):
        return list(load_arms([given]))
    if isinstance(given, (list, tuple)) and given and all(is_path(source) for source in given):
        return list(load_arms(given))
    if not isinstance(given, Mapping) and _columns(given) is not None:
        raise TypeError(
            f"arms is a {type(given).__name__}, whose columns are not arms; "
            'name the column that says which arm a row is of, as in mm.solve(frame, arm="model")'
        )
    by_name = _check.mapping("arms", given, 'features or files by name, such as {"flux": flux, "sdxl": sdxl}')
    return [(_check.arm_name(name), rows(f"arm {name}", values)) for name, values in by_name.items()]


def sets_of(samples: Arms | Rows, arm: str | None = None, features: str | Sequence[str] | None = None) -> Named:
    """Samples of several arms by name, or of one model, whose name is then empty."""
    given: Any = samples
    files = is_path(given) or (isinstance(given, (list, tuple)) and bool(given) and all(map(is_path, given)))
    if arm is not None or features is not None or files or isinstance(given, Mapping):
        sets = named(given, arm, features)
        return [("", sets[0][1])] if files and len(sets) == 1 else sets
    return [("", rows("samples", given))]


def _columns(frame: Any) -> list[Any] | None:
    """The names of a frame's columns; ``None`` if it is no frame."""
    for attribute in ("column_names", "columns"):  # a table of pyarrow has both, and its columns are not names
        names = getattr(frame, attribute, None)
        if names is not None and not callable(names):
            return list(names)
    return None


def _long(given: Any, arm: str | None, features: str | Sequence[str] | None, apart: Sequence[str]) -> Named:
    """Arms from rows that say which arm they are of."""
    if arm is None:
        raise ValueError('features= names columns of a frame; name the column of the arms as well, as in arm="model"')
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
        raise ValueError(f"the frame has no columns besides {arm}; name the features, as in features=[…]")
    matrix = _matrix(frame, wanted, features is None)
    return [(name, matrix[places]) for name, places in _places(frame, arm).items()]


def _by_arm(given: Any, arm: str, columns: Sequence[str]) -> dict[str, dict[str, list[float]]]:
    """Columns of scores, by arm."""
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
    """A frame that has rows, read from its file if need be."""
    if isinstance(given, (str, PathLike)):
        given = long_parquet(given, columns)
    if hasattr(given, "collect_schema") and not hasattr(given, "to_numpy"):  # polars
        raise ValueError("a LazyFrame has no rows yet; give frame.collect()")
    if _columns(given) is None:
        raise _check.wrong_type("arms", given, "a frame or a .parquet file, of which arm= names a column")
    return given


def _places(frame: Any, arm: str) -> dict[str, list[int]]:
    """The rows of every arm, in the order in which arms first appear."""
    places: dict[str, list[int]] = {}
    for at, label in enumerate(_labels(frame, arm)):
        places.setdefault(label, []).append(at)
    return {_check.arm_name(label): found for label, found in places.items()}


def _labels(frame: Any, arm: str) -> list[str]:
    """The arm of every row."""
    column = frame[arm]
    listed = column.to_pylist() if hasattr(column, "to_pylist") else list(column)
    for at, label in enumerate(listed):
        if not isinstance(label, str):
            missing_too = label is None or str(label) in ("nan", "NaN", "<NA>", "NaT")
            found = "missing" if missing_too else f"a {type(label).__name__}"
            raise ValueError(
                f"column {arm} is {found} in row {at}, and arms are named by text; "
                f'drop such rows, or convert the column, as in frame["{arm}"].astype(str)'
            )
    return listed


def _matrix(frame: Any, columns: Sequence[Any], guessed: bool) -> npt.NDArray[Any]:
    """The features of all rows: columns of numbers side by side, or one column of lists."""
    import numpy

    parts = []
    for column in columns:
        part = rows(f"column {column}", frame[column])
        if part.dtype.kind not in "f" or (part.ndim != 1 and len(columns) > 1):
            held = "lists" if part.dtype.kind == "f" else str(part.dtype)
            others = "name the columns of numbers, as in features=[…]" if guessed else "leave it out"
            single = ' (or the one column of lists, as in features="embedding")'
            raise ValueError(f"column {column} holds {held}, and features are numbers; {others}{single}")
        parts.append(part)
    if len(parts) == 1 and parts[0].ndim == 2:
        return parts[0]
    return numpy.stack(parts, axis=1)
