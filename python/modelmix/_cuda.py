"""Arrays on NVIDIA GPUs: torch, CuPy, JAX and others, by DLPack or ``__cuda_array_interface__``."""

from __future__ import annotations

import ctypes
import glob
import importlib.util
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ._lazy import Lazy

if TYPE_CHECKING:
    import numpy.typing as npt
else:
    npt = Lazy("numpy.typing")

#: The types of CUDA memory and of managed CUDA memory in DLPack.
_DLPACK_CUDA = (2, 13)

#: Floats by the end of their name in all libraries.
_FLOATS = ("float16", "float32", "float64", "bfloat16")


class DeviceArray:
    """Rows of floats on a GPU, on their way to the extension. They are converted or copied only when it asks for them."""

    def __init__(self, source: Any, device: int | None, host: Callable[[], npt.NDArray[Any]]) -> None:
        self._source = source
        self.shape: tuple[int, int] = tuple(map(int, source.shape))  # type: ignore[assignment]
        #: The number of the GPU; ``None`` if the array does not say.
        self.device = device
        #: Returns the rows as a NumPy array.
        self.host = host

    def single(self) -> Any:
        """Return the rows as 32-bit floats in C order, on the GPU; a copy is made only if they are not."""
        source = self._source
        if hasattr(source, "is_contiguous") and hasattr(source, "float"):  # torch
            return source.float().contiguous()
        if not str(source.dtype).endswith("float32"):
            source = source.astype("float32")
        flags = getattr(source, "flags", None)
        if flags is not None and not getattr(flags, "c_contiguous", True):  # CuPy
            source = source.copy(order="C")
        return source


def device_array(values: Any, host: Callable[[Any], npt.NDArray[Any]]) -> DeviceArray | None:
    """Return a two-dimensional array of floats on an NVIDIA GPU; ``None`` for everything else. ``host`` copies it to the host."""
    device = _device(values)
    if device is None or len(getattr(values, "shape", ())) != 2:
        return None
    dtype = str(getattr(values, "dtype", ""))
    convertible = hasattr(values, "astype") or hasattr(values, "float")
    if not dtype.endswith(_FLOATS) or (not dtype.endswith("float32") and not convertible):
        return None
    source = values
    if hasattr(source, "detach"):  # torch: without gradients, and with values as they are
        source = source.detach()
        source = source.resolve_neg() if hasattr(source, "resolve_neg") else source
    return DeviceArray(source, None if device < 0 else device, lambda: host(values))


def _device(values: Any) -> int | None:
    """Return the number of the GPU that holds an array, -1 if it is unknown, ``None`` if the array is not on one."""
    if hasattr(values, "__dlpack_device__"):
        try:
            kind, number = values.__dlpack_device__()
        except Exception:
            return None
        return int(number) if int(kind) in _DLPACK_CUDA else None
    return -1 if hasattr(values, "__cuda_array_interface__") else None


def to_host(values: Any) -> Any:
    """Return an array that NumPy can read: CuPy and Numba copy from the GPU only if they are told to."""
    if hasattr(values, "__cuda_array_interface__") and not hasattr(values, "detach"):
        for copy in ("get", "copy_to_host"):
            if callable(getattr(values, copy, None)):
                return getattr(values, copy)()
    return values


def load_compiler() -> None:
    """Load the NVRTC library of a wheel from PyPI, if one is installed, so that the extension finds it by its name."""
    spec = importlib.util.find_spec("nvidia")
    for folder in () if spec is None else spec.submodule_search_locations or ():
        found = glob.glob(os.path.join(folder, "*", "lib", "libnvrtc.so.1[0-9]"))
        for path in sorted(found, reverse=True):
            try:
                ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
                return
            except OSError:
                continue
