"""Files of arms, references and scores. The extension reads features; this module interprets paths."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, TypeAlias

from . import _check, _modelmix
from ._arrays import ArrayLike, as_array, as_rows, device_or_host, floats
from ._cuda import DeviceArray
from ._lazy import Lazy

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
else:
    np, npt = Lazy("numpy"), Lazy("numpy.typing")

#: A file: ``path``, or ``path:key`` for one array of a file with several.
Path: TypeAlias = str | PathLike[str]

#: Rows of numbers, or a file with them.
Rows: TypeAlias = ArrayLike | Path

#: One number per sample, or a file with them.
Values: TypeAlias = Iterable[float] | ArrayLike | Path

_TORCH = re.compile(r"\.(pt|pth)(:[^/\\]*)?$", re.IGNORECASE)


def is_path(given: object) -> bool:
    """Whether a value is a path."""
    return isinstance(given, (str, PathLike))


def load_arms(sources: Iterable[Path]) -> list[tuple[str, npt.NDArray[np.float32]]]:
    """Read the arms of files, each written ``[name=]path[:key]``."""
    return _modelmix.load([_supported(source) for source in sources])


def load_one(source: Path) -> npt.NDArray[np.float32]:
    """Read one array, written ``path[:key]``."""
    return _modelmix.load_array(_supported(source))


def rows(origin: str, given: Rows) -> npt.NDArray[Any]:
    """Return features, from a file or an array."""
    return load_one(given) if isinstance(given, (str, PathLike)) else as_array(origin, given)


def device_rows(origin: str, given: Rows) -> npt.NDArray[Any] | DeviceArray:
    """Return the same, but an array on a GPU as it is, for functions that may compute there."""
    return load_one(given) if isinstance(given, (str, PathLike)) else device_or_host(origin, given)


def recorded(origin: str, given: Rows) -> npt.NDArray[Any]:
    """Return features, from a file or an array; a single row becomes a matrix of one row."""
    return load_one(given) if isinstance(given, (str, PathLike)) else as_rows(origin, given)


def score_values(origin: str, given: Values) -> list[float]:
    """Return one number per sample, from a file or an array. A ``.npy`` file may be one-dimensional and keeps its precision."""
    if not isinstance(given, (str, PathLike)):
        return floats(origin, given)
    path = _supported(given)
    if path.lower().endswith(".npy"):
        import numpy

        return floats(origin, numpy.load(path, allow_pickle=False))
    return floats(origin, load_one(path))


def score_arms(origin: str, given: Path) -> dict[str, Any]:
    """Read the values of one score for all arms: an ``.npz`` file with one array per arm."""
    path = _supported(given)
    if not path.lower().endswith(".npz"):
        raise ValueError(f"{origin}: {path} has no arms; pass an .npz file with one array per arm, or one file per arm")
    import numpy

    with numpy.load(path, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def scores_file(given: Path) -> dict[str, dict[str, Any]]:
    """Read the scores of all samples in the format of ``--scores``: ``{"score": {"arm": [one number per sample]}}``."""
    path = fspath(given)
    form = 'scores must be a JSON object, {"score": {"arm": [one number per sample]}}'
    with open(path, encoding="utf-8") as file:
        try:
            read = json.load(file)
        except ValueError as problem:
            raise ValueError(f"{path}: {problem}; {form}") from None
    if not isinstance(read, Mapping) or not all(isinstance(arms, Mapping) for arms in read.values()):
        raise ValueError(f"{path}: {form}")
    return {str(score): dict(arms) for score, arms in read.items()}


def long_parquet(path: Path, columns: Sequence[str] | None) -> Any:
    """Read a Parquet file with pyarrow or polars; only these columns, or all if ``None``."""
    source = fspath(path)
    if not source.lower().endswith((".parquet", ".pq")):
        raise ValueError(
            f"{source}: arm= is for frames and .parquet files; read other files yourself, "
            'as in mm.solve(pandas.read_csv("samples.csv"), arm="model")'
        )
    wanted = None if columns is None else list(columns)
    try:
        parquet: Any = import_module("pyarrow.parquet")
    except ImportError:
        pass
    else:
        _exists(source)
        present = parquet.read_schema(source).names
        return parquet.read_table(source, columns=_known(source, wanted, present))
    try:
        polars: Any = import_module("polars")
    except ImportError:
        raise ImportError(
            f"{source}: arm= needs pyarrow or polars to read a Parquet file of several arms; "
            "install one of them, as in pip install pyarrow"
        ) from None
    _exists(source)
    present = list(polars.read_parquet_schema(source))
    return polars.read_parquet(source, columns=_known(source, wanted, present))


def _known(source: str, wanted: list[str] | None, present: Sequence[str]) -> list[str] | None:
    for column in wanted or ():
        if column not in present:
            raise ValueError(missing(source, column, present))
    return wanted


def missing(origin: str, column: str, present: Sequence[str]) -> str:
    """Return the message for a missing column."""
    near = _modelmix.nearest(column, [str(name) for name in present])
    meant = f" (did you mean {near}?)" if near else ""
    shown = ", ".join(str(name) for name in present[:10]) + (", …" if len(present) > 10 else "")
    return f"{origin} has no column {column}{meant}; it has {shown}"


def _exists(source: str) -> None:
    with open(source, "rb"):  # the same exception with either library
        pass


def _supported(source: object) -> str:
    """Return the path as text; raise if the file type is not supported."""
    text = _check.file("the file", source)
    kind = _modelmix.sample_kind(text, False)
    if kind is not None:
        path = _modelmix.source_path(text)
        name = {"images": "dinov2-vitl14", "texts": "all-minilm-l6-v2"}[kind]
        raise ValueError(
            f"{path} has {kind}, which need an encoder; encode them, as in mm.encode({path!r}, {name!r}), "
            f"or name the encoder, as in mm.solve(…, encoder={name!r})"
        )
    if _TORCH.search(text):
        file = text.split("=", 1)[-1] if "=" in text and "/" not in text.split("=", 1)[0] else text
        file = _TORCH.sub(lambda found: f".{found[1]}", file)
        raise ValueError(
            f"{file} is a PyTorch file, which modelmix does not read; convert it to .npy or .safetensors, as in "
            f'numpy.save("features.npy", torch.load({file!r}, weights_only=True).float().cpu().numpy())'
        )
    return text
