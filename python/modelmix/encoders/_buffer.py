"""Features of many samples in one array: rows are written where they belong, so that none is held twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .._lazy import Lazy

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
else:
    np, npt = Lazy("numpy"), Lazy("numpy.typing")

#: By how much a full array grows. Its memory is extended in place if the system can do that.
_GROWTH = 1.25

#: Rows that are moved at a time.
_BLOCK = 4096


class RowBuffer:
    """Rows that are appended to one array, which grows if there are more than expected."""

    def __init__(self, expected: int, width: int) -> None:
        """Reserve memory for the expected number of rows; it is used when rows are written."""
        import numpy

        self._array: npt.NDArray[np.float32] = numpy.empty((expected, width), dtype=numpy.float32)
        self._count = 0

    def append(self, rows: npt.NDArray[np.float32]) -> None:
        """Add rows; raise if they have another width than those before."""
        width = self._array.shape[1]
        if rows.shape[1] != width:
            raise ValueError(
                f"the encoder returned {rows.shape[1]} features per sample after {width} for earlier ones; "
                "it must return the same number for every sample"
            )
        end = self._count + len(rows)
        if end > len(self._array):
            _resize(self._array, max(end, int(len(self._array) * _GROWTH)))
        self._array[self._count : end] = rows
        self._count = end

    def finished(self) -> npt.NDArray[np.float32]:
        """Return all rows; the buffer cannot be used afterwards."""
        _resize(self._array, self._count)
        return self._array


def keep_rows(array: npt.NDArray[np.float32], rows: Sequence[int]) -> npt.NDArray[np.float32]:
    """Return the array with only these rows, which are in ascending order, without a second array."""
    import numpy

    if len(rows) == len(array):
        return array
    for start in range(0, len(rows), _BLOCK):
        block = numpy.asarray(rows[start : start + _BLOCK])
        # Rows only move forward, so that no row is overwritten before it is moved.
        array[start : start + len(block)] = array[block]
    _resize(array, len(rows))
    return array


def _resize(array: npt.NDArray[np.float32], count: int) -> None:
    """Change the number of rows in place. Nothing else refers to the memory of the array."""
    if count != len(array):
        array.resize((count, array.shape[1]), refcheck=False)
