"""Arms and arrays from files and frames."""

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

    All functions that take arms take files and frames too; ``load`` is for those who want the arrays.

    Parameters
    ----------
    source, *more
        Files: ``.npy``, ``.npz``, ``.safetensors``, ``.csv``, ``.tsv``, ``.parquet``, each written ``[name=]path[:key]``. Every array
        of an ``.npz`` or ``.safetensors`` file is one arm; any other file is one arm, named by its stem. With ``arm``: a frame of
        pandas or polars, a table of pyarrow, or a ``.parquet`` file.
    arm
        The column that says which arm a row is of.
    features
        With ``arm``, the columns with numbers, or the one column with lists of numbers; all other columns if ``None``.

    Returns
    -------
    dict of str to numpy.ndarray
        Features by arm, in single precision. Arrays of files are read-only; large files stay on disk and are mapped.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If a file or a column is not what is needed.
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

    A frame with one row per sample, here of pandas:

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
        raise ValueError(f"arm= is for one frame or file, and {len(sources)} are given; load them one by one")
    given: Arms = sources[0]
    import numpy

    with numpy.errstate(over="ignore"):  # infinite features are refused where they are used
        return {name: array.astype(numpy.float32) for name, array in named(given, arm, features)}


@checked
def load_array(source: Path) -> npt.NDArray[np.float32]:
    """Read one array from a file, such as a reference.

    Parameters
    ----------
    source
        The file, ``path`` or, for one array of several, ``path:key``; types as in :func:`load`.

    Returns
    -------
    numpy.ndarray
        The features, read-only; large files stay on disk and are mapped.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If the file is not what its name says, or has several arrays and none is named.
    OSError
        If the file cannot be read.

    Examples
    --------
    >>> import modelmix as mm
    >>> mm.load_array("data/fashion/reference.npy").shape
    (2000, 64)
    """
    return load_one(source)
