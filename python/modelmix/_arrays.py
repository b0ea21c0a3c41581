"""Arrays of any kind as NumPy's, without a copy where that can be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, Union, runtime_checkable

if TYPE_CHECKING:
    import numpy.typing as npt


@runtime_checkable
class SupportsArray(Protocol):
    """Anything that NumPy can read: ``__array__``."""

    def __array__(self) -> Any: ...


@runtime_checkable
class SupportsArrayInterface(Protocol):
    """Anything that NumPy can read: ``__array_interface__``."""

    @property
    def __array_interface__(self) -> dict[str, Any]: ...


@runtime_checkable
class SupportsDlpack(Protocol):
    """Anything that can be exchanged by DLPack."""

    def __dlpack__(self, **kwargs: Any) -> Any: ...

    def __dlpack_device__(self) -> tuple[Any, int]: ...


#: Rows of floats: NumPy arrays, torch tensors, pandas and polars frames, lists of rows, and anything with ``__array__``,
#: ``__array_interface__`` or DLPack.
ArrayLike: TypeAlias = Union[
    "npt.NDArray[Any]", SupportsArray, SupportsArrayInterface, SupportsDlpack, "list[Any]", "tuple[Any, ...]"
]

#: Samples of several models: features by the model's name.
Arms: TypeAlias = Mapping[str, ArrayLike]


def as_array(origin: str, values: ArrayLike) -> npt.NDArray[Any]:
    """NumPy's view of ``values``, or its copy where there can be no view; ``origin`` names it in messages."""
    import numpy as np

    array = _read(np, origin, values)
    if not array.dtype.isnative or not array.flags.aligned:
        array = np.require(array.astype(array.dtype.newbyteorder("=")), requirements="A")
    return array


def as_rows(origin: str, values: ArrayLike) -> npt.NDArray[Any]:
    """The same, a single row being rows too."""
    array = as_array(origin, values)
    return array[None, :] if array.ndim == 1 else array


def _read(np: Any, origin: str, values: Any) -> npt.NDArray[Any]:
    if isinstance(values, np.ndarray):
        array: npt.NDArray[Any] = values
        return array
    if isinstance(values, (list, tuple)):
        return _from_list(np, origin, values)
    # torch: gradients and devices stand between a tensor and its numbers, and NumPy has no bfloat16
    if hasattr(values, "detach") and hasattr(values, "cpu"):
        values = values.detach().cpu()
        if hasattr(values, "resolve_neg"):
            values = values.resolve_neg()
        if "bfloat16" in str(getattr(values, "dtype", "")):
            values = values.float()
    if hasattr(values, "to_numpy"):  # pandas, polars
        array = np.asarray(values.to_numpy())
        return array
    if hasattr(values, "__array__") or hasattr(values, "__array_interface__"):
        array = np.asarray(values)
        return array
    if hasattr(values, "__dlpack__"):
        array = np.from_dlpack(values)
        return array
    kind = type(values).__name__
    raise ValueError(
        f"{origin}: a {kind} is not an array; give rows of floats, such as a NumPy array or a torch tensor"
    )


def _from_list(np: Any, origin: str, values: list[Any] | tuple[Any, ...]) -> npt.NDArray[Any]:
    if values and any(hasattr(values[0], door) for door in ("__array__", "__array_interface__", "__dlpack__")):
        rows = [_read(np, origin, row) for row in values]
        try:
            stacked: npt.NDArray[Any] = np.stack(rows)
        except ValueError:
            shapes = sorted({str(row.shape) for row in rows})
            raise ValueError(
                f"{origin}: its rows have different shapes ({', '.join(shapes[:5])}); give rows of one width"
            ) from None
        return stacked
    try:
        # numbers written by hand have no type of their own: 1 is as good as 1.0
        array: npt.NDArray[Any] = np.asarray(values, dtype=np.float64)
    except (ValueError, TypeError):
        raise ValueError(f"{origin}: its rows are not lists of numbers of one length; give rows of one width") from None
    return array


def named(arms: Arms) -> list[tuple[str, npt.NDArray[Any]]]:
    """Arms as the extension takes them."""
    if not isinstance(arms, Mapping):
        kind = type(arms).__name__
        raise ValueError(f'arms are given by name, as in {{"flux": flux, "sdxl": sdxl}}, and a {kind} has no names')
    pairs = []
    for name, values in arms.items():
        if not isinstance(name, str):
            raise ValueError(f"the arm {name!r} has a {type(name).__name__} for a name; names are text")
        pairs.append((name, as_array(f"arm {name}", values)))
    return pairs


def floats(origin: str, values: Iterable[float] | ArrayLike) -> list[float]:
    """A value a sample."""
    whole: Any = values if hasattr(values, "__array__") or not isinstance(values, Iterable) else list(values)
    array = as_array(origin, whole)
    if array.ndim != 1:
        raise ValueError(f"{origin}: its shape is {array.shape}, and it has one value a sample")
    return [float(value) for value in array]
