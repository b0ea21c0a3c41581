"""Features of images or texts, with the ids of their samples and the encoder that made them."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import _check, _modelmix
from .._arguments import checked
from .._lazy import Lazy
from .._names import plain, shorten
from .._writing import replaced

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
else:
    np, npt = Lazy("numpy"), Lazy("numpy.typing")

__all__ = ["Encoded", "Encoding", "Skipped"]


def __dir__() -> list[str]:
    return __all__


@dataclass(frozen=True)
class Encoding:
    """How features were made: the encoder, its weights and its preprocessing.

    Attributes
    ----------
    encoder
        The encoder's name, or the name of its file.
    fingerprint
        The SHA-256 checksum of weights, preprocessing and choice of output. Features with the same fingerprint are comparable. An
        ONNX file and the original network in torch have different fingerprints, and so has every ``torch.nn.Module`` of your own.
    preset
        The tool whose preprocessing was applied; ``None`` if none has a name.
    runtime
        The runtime that evaluated the network.
    version
        The version of modelmix.

    Examples
    --------
    >>> import modelmix as mm
    >>> encoder = mm.encoders.open("data/fashion/models/encoder.onnx")
    >>> encoder.encoding.encoder, len(encoder.encoding.fingerprint)
    ('encoder.onnx', 64)
    """

    encoder: str
    fingerprint: str
    preset: str | None = None
    runtime: str | None = None
    version: str | None = None

    @classmethod
    def _read(cls, document: dict[str, Any] | None) -> Encoding | None:
        """Read the fields of a document; those of later releases are ignored."""
        if document is None:
            return None
        return cls(**{name: document[name] for name in cls.__dataclass_fields__ if name in document})

    def _document(self) -> dict[str, Any]:
        """Return the fields of a document, in its order; unknown ones are absent."""
        fields = ("encoder", "preset", "fingerprint", "runtime", "version")
        return {name: getattr(self, name) for name in fields if getattr(self, name) is not None}

    def __str__(self) -> str:
        preset = "" if self.preset is None else f" with the preprocessing of {self.preset}"
        return f"{self.encoder}{preset} ({self.fingerprint[:8]})"


@dataclass(frozen=True)
class Skipped:
    """A sample that was left out.

    Attributes
    ----------
    id
        Its id.
    problem
        Why it could not be used.

    Examples
    --------
    >>> import modelmix as mm, numpy as np, warnings
    >>> encoder = mm.encoders.open("data/fashion/models/encoder.onnx")
    >>> images = [np.zeros((28, 28), np.uint8), b"not an image"]
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     encoded = mm.encode(images, encoder, on_error="skip", cache=False)
    >>> [one.id for one in encoded.skipped]
    ['1']
    """

    id: str
    problem: str


@dataclass(frozen=True, eq=False, repr=False)
class Encoded:
    """Features of samples. Use it wherever features are accepted: it converts to a NumPy array without a copy.

    Attributes
    ----------
    features
        One row per sample, in single precision; read-only.
    ids
        The id of the sample of each row: the path of an image in its folder or archive, the line or row of a text, or the position
        in a list.
    files
        The path of the sample of each row; ``None`` for one that is not a file of its own.
    skipped
        The samples that were left out, if ``on_error="skip"``.
    encoding
        How the features were made; ``None`` if a function of the user made them.
    cached
        The number of rows that were in the cache.
    sha256
        The SHA-256 checksum of the ids and contents of the samples of the rows; ``None`` if they were in memory.

    Examples
    --------
    >>> import modelmix as mm
    >>> import numpy as np
    >>> encoder = mm.encoders.open("data/fashion/models/encoder.onnx")
    >>> encoded = mm.encode("data/fashion/images/reference.npz", encoder, cache=False)
    >>> encoded
    Encoded(60 × 64 by encoder.onnx)
    >>> np.asarray(encoded) is encoded.features, encoded.ids[:3]
    (True, ('0', '1', '2'))
    """

    features: npt.NDArray[np.float32]
    ids: tuple[str, ...]
    files: tuple[str | None, ...]
    skipped: tuple[Skipped, ...] = ()
    encoding: Encoding | None = None
    cached: int = 0
    sha256: str | None = None

    def __post_init__(self) -> None:
        """Check that there is one sample per row, and let the features state their encoding, which arms are compared by."""
        if not len(self.features) == len(self.ids) == len(self.files):
            raise ValueError(
                f"there are {len(self.features)} rows of features, {len(self.ids)} ids and {len(self.files)} files; "
                "give one id and one file per row"
            )
        object.__setattr__(self, "features", _stated(self.features, self.encoding))

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a copy, whose features are a new array."""
        self.__dict__.update(state)
        self.__post_init__()

    def __eq__(self, other: object) -> bool:
        """Whether features, samples and encoding are equal."""
        if not isinstance(other, Encoded):
            return NotImplemented
        import numpy

        same = all(getattr(self, name) == getattr(other, name) for name in ("ids", "files", "skipped", "encoding"))
        return same and numpy.array_equal(self.features, other.features)

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self.ids)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Return the features; without a copy, unless another type is asked for."""
        if copy or (dtype is not None and dtype != self.features.dtype):
            converted: npt.NDArray[Any] = self.features.astype(dtype or self.features.dtype)
            return converted
        return self.features

    def __repr__(self) -> str:
        rows, width = self.features.shape
        by = "a function" if self.encoding is None else shorten(plain(self.encoding.encoder), 60)
        skipped = f", {len(self.skipped)} skipped" if self.skipped else ""
        return f"Encoded({rows} × {width} by {by}{skipped})"

    @checked
    def save(self, path: str | PathLike[str], *, name: str | None = None) -> None:
        """Write the features, the ids and the encoding to a file that :func:`modelmix.load` and the command line read.

        Parameters
        ----------
        path
            The file: ``.npz`` or ``.safetensors``. It is replaced atomically.
        name
            The name of the array; that of the file without its extension if ``None``.

        Raises
        ------
        TypeError
            If an argument has the wrong type.
        ValueError
            If the extension is another one, or a function of the user made the features.
        OSError
            If the file cannot be written.

        Examples
        --------
        >>> import modelmix as mm, os, tempfile
        >>> encoded = mm.encode("data/fashion/images/reference.npz", "data/fashion/models/encoder.onnx", cache=False)
        >>> file = os.path.join(tempfile.mkdtemp(), "reference.npz")
        >>> encoded.save(file)
        >>> mm.load(file)["reference"].shape
        (60, 64)
        """
        target = _check.file("path", path)
        array = Path(target).stem if name is None else _check.arm_name(name)
        if self.encoding is None:
            raise ValueError(
                "a function made these features, so nothing states how; save the array itself, "
                f"as in numpy.savez({os.path.basename(target)!r}, {array}=encoded.features)"
            )
        encoding = json.dumps(self.encoding._document())
        with replaced("path", target) as partial:
            _modelmix.write_features(partial, target, [(array, self.features, list(self.ids))], encoding)


def _stated(features: npt.NDArray[np.float32], encoding: Encoding | None) -> npt.NDArray[np.float32]:
    """Return features that state their encoding, without a copy."""
    if encoding is None or _modelmix.encoding_of(features) is not None:
        return features
    return _modelmix.with_encoding(features, json.dumps(encoding._document()))
