"""Encoders: networks that turn images and texts into features, with the preprocessing of the tools that people compare with.

>>> import modelmix as mm
>>> encoder = mm.encoders.open("data/fashion/models/encoder.onnx")     # or a name, such as "dinov2-vitl14"
>>> mm.encode("data/fashion/images/reference.npz", encoder, cache=False).features.shape
(60, 64)

:func:`list` has the names, :func:`open` an encoder that is ready to run, :func:`pull` downloads weights, and :func:`preprocess` gives
the tensors that a network of your own takes.
"""

from ._encoder import Encoder
from ._registry import NamedEncoder, Preset, list, open, preprocess, pull

__all__ = ["Encoder", "NamedEncoder", "Preset", "list", "open", "preprocess", "pull"]


def __dir__() -> "list[str]":  # type: ignore[valid-type]
    return __all__
