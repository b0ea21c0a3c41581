"""Where to compute, in the form that the extension accepts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import _check, _modelmix


@dataclass(frozen=True)
class Compute:
    """The engine and its limits."""

    threads: int | None = None
    engine: str = "auto"
    #: In bytes.
    gpu_memory: int | None = None
    precision: str = "auto"


def compute(threads: Any, engine: Any, gpu_memory: Any, precision: Any = "auto") -> Compute:
    """Return checked settings.

    >>> compute(None, "cuda:1", "8GB", "exact")
    Compute(threads=None, engine='cuda:1', gpu_memory=8000000000, precision='exact')
    >>> compute(None, "gpu", None)
    Traceback (most recent call last):
    ValueError: engine is gpu, but it must be auto, cpu, cuda, or a device such as cuda:1
    """
    if isinstance(gpu_memory, str):
        gpu_memory = _modelmix.memory_size(gpu_memory)
    return Compute(
        threads=_check.threads(threads),
        engine=_modelmix.engine_name(_check.text("engine", engine)),
        gpu_memory=_check.whole_or_none("gpu_memory", gpu_memory, 1),
        precision=_check.choice("precision", precision, "auto", "exact"),
    )
