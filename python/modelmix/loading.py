"""Reading of arms and arrays from files and frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import _check
from ._arguments import checked
from ._arms import Arms, Frame, named
from ._files import Path, is_path, load_arms, load_one
from ._lazy import Lazy

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
else:
    np, npt = Lazy("numpy"), Lazy("numpy.typing")

__all__ = ["load", "load_array"]


def __dir__() -> list[str]:
    return __all__


@checked
def load(
    source: Path | Sequence[Path] | Frame,
    /,
    *more: Path,
    arm: str | None = None,
    features: str | Sequence[str] | None = None,
) -> dict[str, npt.NDArray[np.float32]]:
    """Read arms from files, or from a frame with one row per sample.

    All functions that accept arms also accept files and frames; use ``load`` to get the arrays themselves.

    Parameters
    ----------
    source, *more
        Files: ``.npy``, ``.npz``, ``.safetensors``, ``.csv``, ``.tsv``, ``.parquet``, each written ``[name=]path[:key]``. In an
        ``.npz`` or ``.safetensors`` file each array is one arm; any other file is one arm, named after the file. With ``arm``: a
        pandas or polars frame, a pyarrow table, or a ``.parquet`` file.
    arm
        The column that contains the arm of each row.
    features
        With ``arm``, the numeric columns, or one column with lists of numbers; all other columns if ``None``.

    Returns
    -------
    dict of str to numpy.ndarray
        Features by arm, in single precision. Arrays read from files are read-only; large files are memory-mapped.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If a file or a column has the wrong contents.
    OSError
        If a file cannot be read.
    ImportError
        If ``arm`` is given for a ``.parquet`` file and neither pyarrow nor polars is installed.

    Examples
    --------
    >>> import modelmix as mm
    >>> arms = mm.load("data/fashion/specialists.npz")
    >>> list(arms)
    ['tops_gan', 'shoes_gan', 'legs_bags_gan', 'vae', 'flow']
    >>> mm.load("a=data/fashion/specialists.npz:vae")["a"].shape
    (1500, 64)

    A pandas frame with one row per sample:

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"model": ["a", "b", "a"], "x": [0.0, 9.0, 1.0], "y": [2.0, 5.0, 3.0]})
    >>> mm.load(frame, arm="model")["a"].tolist()
    [[0.0, 2.0], [1.0, 3.0]]
    """
    sources: list[Any] = list(source) if isinstance(source, (list, tuple)) else [source]
    sources += more
    if arm is None and features is None and all(is_path(one) for one in sources):
        return dict(load_arms(sources))
    for one in sources if arm is None and features is None else ():
        if not isinstance(one, Frame):
            _check.file("source", one)
    if len(sources) != 1:
        raise ValueError(f"arm= needs one frame or file, but {len(sources)} are given; load them one by one")
    given: Arms = sources[0]
    import numpy

    with numpy.errstate(over="ignore"):  # functions that use the features reject infinity
        return {name: numpy.asarray(array).astype(numpy.float32) for name, array in named(given, arm, features)}


@checked
def load_array(source: Path) -> npt.NDArray[np.float32]:
    """Read one array from a file, such as a reference.

    Parameters
    ----------
    source
        The file: ``path``, or ``path:key`` for one array of a file with several. File types are those of :func:`load`.

    Returns
    -------
    numpy.ndarray
        The features, read-only; large files are memory-mapped.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If the contents do not match the file type, or the file has several arrays and none is named.
    OSError
        If the file cannot be read.

    Examples
    --------
    >>> import modelmix as mm
    >>> mm.load_array("data/fashion/reference.npy").shape
    (2000, 64)
    """
    return load_one(source)
