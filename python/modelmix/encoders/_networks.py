"""Networks: what turns samples into features. One runs in the extension, the others are functions in Python."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .. import _modelmix
from .._arrays import as_rows
from .._lazy import Lazy
from .._samples import Kind
from ..results import Encoding
from ._buffer import RowBuffer

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
else:
    np, npt = Lazy("numpy"), Lazy("numpy.typing")

#: Samples per call of a function.
_BATCH = 64


@dataclass(frozen=True)
class Job:
    """How samples are encoded."""

    #: Whether samples that cannot be read are left out.
    skip: bool
    cache: _modelmix.Cache | None
    threads: int | None
    #: Called with the number of samples that are done.
    done: Callable[[int], object] | None


@dataclass(frozen=True)
class Rows:
    """Features of a set of samples."""

    features: npt.NDArray[np.float32]
    #: The index of the sample of each row.
    rows: list[int]
    #: Samples that were left out: id and problem.
    skipped: list[tuple[str, str]]
    cached: int
    #: The checksum of the ids and contents of the samples.
    sha256: str


class Network(ABC):
    """What turns samples into features."""

    #: What it takes; ``None`` if it takes both.
    kind: Kind | None = None
    #: The number of features per sample, if it is known.
    width: int | None = None
    #: How features are made; ``None`` if unknown.
    encoding: Encoding | None = None
    #: The name of its cache; ``None`` if its features cannot be cached.
    cache_name: str | None = None
    #: The preprocessing of images, as JSON.
    preprocessing: str | None = None

    @abstractmethod
    def run(self, samples: _modelmix.Samples, job: Job) -> Rows:
        """Return the features of samples."""


class OnnxNetwork(Network):
    """A network that the extension runs."""

    def __init__(self, inner: _modelmix.Encoder) -> None:
        """Take the attributes of the extension's encoder."""
        self._inner = inner
        self.kind, self.width = inner.kind, inner.width
        self.encoding = Encoding._read(inner.encoding)
        self.cache_name, self.preprocessing = inner.cache_name, inner.preprocessing

    def run(self, samples: _modelmix.Samples, job: Job) -> Rows:
        """Return the features of samples."""
        return Rows(*self._inner.encode(samples, job.skip, job.cache, job.threads, job.done))


class FunctionNetwork(Network):
    """A function of the user: a list of images (arrays of height × width × 3) or of texts → one row per sample."""

    def __init__(self, function: Callable[[list[Any]], Any]) -> None:
        """Store the function."""
        self._function = function

    def run(self, samples: _modelmix.Samples, job: Job) -> Rows:
        """Return the features of samples."""
        features: RowBuffer | None = None
        rows: list[int] = []
        skipped: list[tuple[str, str]] = []
        digests = bytearray()
        for start in range(0, len(samples), _BATCH):
            stop = min(start + _BATCH, len(samples))
            batch: list[Any]
            if samples.kind == "images":
                batch, found, read, failed = samples.images(start, stop, job.threads)
                digests += read
                skipped += refuse_or_skip(samples, failed, job.skip)
            else:
                batch, found = samples.texts(start, stop), list(range(start, stop))
                digests += b"".join(map(text_digest, batch))
            if batch:
                made = checked_rows(self._function(batch), len(batch))
                if features is None:
                    features = RowBuffer(len(samples), made.shape[1])
                features.append(made)
                rows += found
            if job.done is not None:
                job.done(stop)
        if features is None:
            raise nothing_read(skipped)
        return Rows(features.finished(), rows, skipped, 0, samples.checksum(rows, bytes(digests)))


def checked_rows(result: Any, count: int) -> npt.NDArray[np.float32]:
    """Return the result of a function as single-precision rows, one per sample."""
    import numpy

    rows = as_rows("the features that the encoder returned", result)
    if rows.ndim != 2 or len(rows) != count:
        raise ValueError(
            f"the encoder returned an array of shape {rows.shape} for {count} samples; it must return one row per sample"
        )
    return rows.astype(numpy.float32, copy=False)


def text_digest(text: str) -> bytes:
    """Return the SHA-256 checksum that a text is known by in the cache."""
    return hashlib.sha256(text.encode()).digest()


def nothing_read(skipped: list[tuple[str, str]]) -> ValueError:
    """Return the exception for samples of which none could be read."""
    name, problem = skipped[0]
    return ValueError(f"no sample could be read; the first problem is that of {name}: {problem}")


def refuse_or_skip(samples: _modelmix.Samples, failed: Iterable[tuple[int, str]], skip: bool) -> list[tuple[str, str]]:
    """Return the ids of samples that cannot be read, or raise the problem of the first."""
    skipped = []
    for row, problem in failed:
        name = samples.ids([row])[0]
        if not skip:
            raise unreadable(samples.files([row])[0] or name, problem)
        skipped.append((name, problem))
    return skipped


def unreadable(name: str, problem: str) -> ValueError:
    """Return the exception for a sample that cannot be read."""
    return ValueError(f"{name}: {problem} (or {_modelmix.SKIP_HINT})")
