"""Conversion of array-likes to NumPy arrays, without a copy if possible. Values that are not numbers are rejected here."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from . import _check
from ._cuda import DeviceArray, device_array, to_host
from ._lazy import Lazy

if TYPE_CHECKING:
    import numpy.typing as npt
else:
    npt = Lazy("numpy.typing")


@runtime_checkable
class SupportsArray(Protocol):
    """An object that NumPy can read through ``__array__``."""

    def __array__(self) -> Any: ...


@runtime_checkable
class SupportsArrayInterface(Protocol):
    """An object that NumPy can read through ``__array_interface__``."""

    @property
    def __array_interface__(self) -> dict[str, Any]: ...


@runtime_checkable
class SupportsDlpack(Protocol):
    """An object that supports the DLPack protocol."""

    def __dlpack__(self, **kwargs: Any) -> Any: ...

    def __dlpack_device__(self) -> tuple[Any, int]: ...


#: Rows of numbers: NumPy arrays, torch tensors, pandas and polars frames, lists of rows, and anything with ``__array__``,
#: ``__array_interface__`` or DLPack.
ArrayLike: TypeAlias = SupportsArray | SupportsArrayInterface | SupportsDlpack | list[Any] | tuple[Any, ...]

#: All integers up to this magnitude are exact in single precision.
_EXACT = 1 << 24


def device_or_host(origin: str, values: ArrayLike) -> npt.NDArray[Any] | DeviceArray:
    """Return the same as :func:`as_array`, but rows of floats on a GPU as they are."""
    return device_array(values, lambda given: as_array(origin, given)) or as_array(origin, values)


def as_array(origin: str, values: ArrayLike) -> npt.NDArray[Any]:
    """Return ``values`` as a NumPy view, or as a copy if a view is impossible; ``origin`` names them in messages."""
    import numpy as np

    array = _read(np, origin, values)
    if array.dtype.kind == "b":
        raise ValueError(
            f"{origin}: its values are bool, but features must be numbers; "
            'to use 0 and 1, convert them, as in x.astype("float32")'
        )
    if array.dtype.kind in "iu":
        return _exact(np, origin, array)
    if not array.dtype.isnative or not array.flags.aligned:
        array = np.require(array.astype(array.dtype.newbyteorder("=")), requirements="A")
    return array


def as_rows(origin: str, values: ArrayLike) -> npt.NDArray[Any]:
    """Return the same as :func:`as_array`, but a single row as a matrix of one row."""
    array = as_array(origin, values)
    return array[None, :] if array.ndim == 1 else array


def floats(origin: str, values: Iterable[float] | ArrayLike) -> list[float]:
    """Return one number per sample, such as a score; true and false become 1 and 0."""
    import numpy as np

    given: Any = values
    is_array = _is_array(given) or hasattr(given, "to_numpy")
    if isinstance(given, (str, bytes)) or not (is_array or isinstance(given, Iterable)):
        raise _check.wrong_type(origin, given, "a list of numbers")
    array = _read(np, origin, given if is_array else list(given))
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(f"{origin}: its shape is {array.shape}, but it must have one value per sample")
    if array.dtype.kind == "c":
        raise ValueError(f"{origin}: its values are complex numbers, but they must be real; convert them first")
    try:
        found: list[float] = array.astype(np.float64).tolist()
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{origin}: its values are {array.dtype}, but they must be numbers") from None
    return found


def _is_array(values: Any) -> bool:
    return any(hasattr(values, way) for way in ("__array__", "__array_interface__", "__dlpack__"))


def _read(np: Any, origin: str, values: Any) -> npt.NDArray[Any]:
    if isinstance(values, np.ndarray):
        return _unfolded(np, origin, _unmasked(np, origin, values))
    if isinstance(values, (list, tuple)):
        return _from_list(np, origin, values)
    # torch: detach gradients and move to the CPU before NumPy reads the tensor; NumPy has no bfloat16.
    if hasattr(values, "detach") and hasattr(values, "cpu"):
        values = values.detach().cpu()
        if hasattr(values, "resolve_neg"):
            values = values.resolve_neg()
        if "bfloat16" in str(getattr(values, "dtype", "")):
            values = values.float()
    values = to_host(values)
    array: npt.NDArray[Any]
    if hasattr(values, "to_numpy"):  # pandas, polars
        array = np.asarray(values.to_numpy())
        return _unfolded(np, origin, array)
    if hasattr(values, "__array__") or hasattr(values, "__array_interface__"):
        array = np.asanyarray(values)
        return _unfolded(np, origin, _unmasked(np, origin, array))
    if hasattr(values, "__dlpack__"):
        array = np.from_dlpack(values)
        return array
    if not isinstance(values, (str, bytes, bytearray)):
        with suppress(TypeError):  # such as an array.array
            array = np.asarray(memoryview(values))
            return array
    raise _check.wrong_type(origin, values, "rows of numbers, such as a NumPy array or a torch tensor")


def _from_list(np: Any, origin: str, values: list[Any] | tuple[Any, ...]) -> npt.NDArray[Any]:
    if any(value is np.ma.masked for row in values for value in (row if isinstance(row, (list, tuple)) else [row])):
        raise ValueError(f"{origin}: some of its values are masked; drop their samples or fill the values in")
    if values and _is_array(values[0]):
        rows = [_read(np, origin, row) for row in values]
        try:
            stacked: npt.NDArray[Any] = np.stack(rows)
        except ValueError:
            shapes = sorted({str(row.shape) for row in rows})
            raise ValueError(
                f"{origin}: its rows have different shapes ({', '.join(shapes[:5])}); all rows must have the same width"
            ) from None
        return stacked
    ragged = ValueError(
        f"{origin}: its rows are not lists of numbers of the same length; all rows must have the same width"
    )
    try:
        # Lists of integers or bools are treated like such arrays; floats become doubles.
        array: npt.NDArray[Any] = np.asarray(values)
    except (ValueError, TypeError, OverflowError):
        raise ragged from None
    if array.dtype.kind in "iubf" and array.size:
        return array
    try:
        array = np.asarray(values, dtype=np.float64)
    except OverflowError:
        raise ValueError(f"{origin}: a number is too large for a float; drop its sample or scale it down") from None
    except (ValueError, TypeError):
        held = {"c": "complex numbers", "U": "text", "S": "bytes"}.get(array.dtype.kind)
        if held is None:
            raise ragged from None
        raise ValueError(
            f"{origin}: its values are {held}, but they must be real numbers; convert them first"
        ) from None
    return array


def _unmasked(np: Any, origin: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the values of an array; raise if any is masked."""
    if not isinstance(array, np.ma.MaskedArray):
        return array
    masked = int(np.ma.count_masked(array))
    if masked:
        raise ValueError(
            f"{origin}: {masked} of its {array.size} values are masked; drop the rows with masked values, as in "
            "x[~x.mask.any(axis=1)].data, or fill the values in with x.filled(…)"
        )
    values: npt.NDArray[Any] = array.data
    return values


def _unfolded(np: Any, origin: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a column whose cells are rows (embeddings in a frame) as a matrix."""
    if array.dtype != object or array.ndim != 1 or not len(array) or isinstance(array[0], (str, bytes)):
        return array
    return _from_list(np, origin, list(array)) if hasattr(array[0], "__len__") else array


def _exact(np: Any, origin: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Convert integers to single precision; raise if that changes a value."""
    if array.size and (int(array.max()) > _EXACT or int(array.min()) < -_EXACT):
        signed = array.dtype.kind == "i"
        # The magnitude of the smallest int64 exceeds the largest int64 by one, so only uint64 can hold it.
        size = np.abs(array.astype(np.int64)).view(np.uint64) if signed else array.astype(np.uint64)
        odd = size // np.maximum(size & (~size + np.uint64(1)), np.uint64(1))
        places = np.argwhere(odd >= _EXACT)
        if len(places):
            at = tuple(int(place) for place in places[0])
            where = f"row {at[0]}, column {at[1]}" if len(at) == 2 else f"value {at}"
            raise ValueError(
                f"{origin}: {where} is {int(array[at])}, which is not exact as a 32-bit float; "
                'to accept rounding, convert the features, as in x.astype("float32")'
            )
    converted: npt.NDArray[Any] = array.astype(np.float32)
    return converted
