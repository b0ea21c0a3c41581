"""Inputs of offline functions: features as they are, and images and texts that an encoder turns into features."""

from __future__ import annotations

import os
from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from . import _check, _modelmix
from ._cuda import DeviceArray
from ._files import Rows, device_rows, is_path, load_arms, rows
from ._lazy import Lazy
from .results import Encoded

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from .encoders._encoder import Encoder
else:
    np, npt = Lazy("numpy"), Lazy("numpy.typing")


class Inputs:
    """Features of arms and references. What is not features yet is encoded; the encoder is opened when it is needed first."""

    def __init__(self, encoder: Any, threads: Any = None, progress: bool = False, preset: str | None = None) -> None:
        """``preset`` is a tool whose preprocessing is used if the encoder has it and is given by name."""
        self._given, self._threads, self._progress, self._preset = encoder, threads, progress, preset
        self._opened: Encoder | None = None
        #: What was encoded here or before, by arm.
        self.encoded: dict[str, Encoded] = {}
        #: The checksums of the samples of folders that were encoded here, by path. Files have checksums of their own.
        self.digests: dict[str, str] = {}

    def arms(self, sources: Sequence[str | PathLike[str]]) -> list[tuple[str, npt.NDArray[Any] | DeviceArray]]:
        """Return the arms of sources, each written ``[name=]path[:key]``."""
        if self._given is None:
            return list(load_arms(sources))
        found: list[tuple[str, npt.NDArray[Any] | DeviceArray]] = []
        for source in sources:
            if self._has_samples(source):
                found += [(name, self._keep(name, one, source)) for name, one in self._encoded_sets(source)]
            else:
                found += load_arms([source])
        return found

    def rows(self, origin: str, given: Rows, arm: str | None = None) -> npt.NDArray[Any] | DeviceArray:
        """Return the features of one arm or reference; ``origin`` names it in messages."""
        if isinstance(given, Encoded):
            if arm is not None:
                self.encoded[arm] = given
            return given.features
        if self._given is None:
            return device_rows(origin, given)
        if is_path(given):
            source = _check.file(origin, given)
            if not self._has_samples(source):
                return rows(origin, source)
            sets = self._encoded_sets(source)
            if len(sets) > 1:
                path = _modelmix.source_path(source)
                raise ValueError(f"{path} has {len(sets)} sets of samples; pick one, as in {path}:{sets[0][0]}")
            return self._keep(arm, sets[0][1], source)
        if _is_features(given):
            return device_rows(origin, given)
        encoded = self._encoder().encode(given, threads=self._threads, progress=self._progress)
        return self._keep(arm, encoded, None)

    def check_encoder(self) -> None:
        """Raise if an encoder is given and nothing needed it."""
        if self._given is not None and self._opened is None:
            raise ValueError(
                "every input has features already, so there is nothing to encode; leave out encoder=, "
                "or pass folders of images or files of texts"
            )

    def _has_samples(self, source: object) -> bool:
        return _modelmix.sample_kind(_check.file("the file", source), True) is not None

    def _encoded_sets(self, source: object) -> list[tuple[str, Encoded]]:
        return self._encoder()._encode_sets(_check.file("the file", source), self._threads, self._progress)

    def _encoder(self) -> Encoder:
        if self._opened is None:
            from .encoders._registry import opened

            self._opened = opened(self._given, like=self._preset)
        return self._opened

    def _keep(self, arm: str | None, encoded: Encoded, source: object) -> npt.NDArray[np.float32]:
        if arm is not None:
            self.encoded[arm] = encoded
        if source is not None and encoded.sha256 is not None:
            path = _modelmix.source_path(_check.file("the file", source))
            if os.path.isdir(path):
                self.digests[path] = encoded.sha256
        return encoded.features


def _is_features(given: Any) -> bool:
    """Whether a value in memory has features: rows of floats, as opposed to images and texts."""
    shape = getattr(given, "shape", None)
    if shape is not None:
        return len(shape) == 2
    first = next(iter(given), None) if isinstance(given, (list, tuple)) else None
    while isinstance(first, (list, tuple)) and first:
        first = first[0]
    if first is None:
        return False
    shape = getattr(first, "shape", None)
    return _check.is_number(first) or (shape is not None and len(shape) == 1)
