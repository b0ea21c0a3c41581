"""The class of encoders that are ready to run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from itertools import chain
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from .. import _check, _modelmix
from .._arguments import checked
from .._lazy import Lazy
from .._names import plain
from .._progress import Bar
from .._samples import Chunk, Kind, Samples, chunks, is_array, total
from .._warnings import warn
from ..results import Encoded, Encoding, Skipped
from ._buffer import RowBuffer
from ._networks import Job, Network, Rows, nothing_read, unreadable

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
else:
    np, npt = Lazy("numpy"), Lazy("numpy.typing")

#: What to do with samples that cannot be read.
OnError: TypeAlias = Literal["refuse", "skip"]

#: The number of skipped samples that a warning names.
_NAMED_PROBLEMS = 3


@checked
class Encoder:
    """An encoder that is ready to run: call it with images or texts, or let :meth:`encode` read them from files.

    :func:`modelmix.encoders.open` opens one. Functions that take features accept it as ``encoder``, and :func:`modelmix.run` calls it.

    Examples
    --------
    >>> import modelmix as mm
    >>> encoder = mm.encoders.open("data/fashion/models/encoder.onnx")
    >>> encoder.kind, encoder.width
    ('images', 64)
    >>> import numpy as np
    >>> encoder(np.zeros((5, 28, 28), dtype=np.uint8)).shape
    (5, 64)
    """

    _name: str
    _network: Network

    def __init__(self) -> None:
        raise TypeError('an encoder is opened by name or path, as in mm.encoders.open("dinov2-vitl14")')

    @classmethod
    def _around(cls, name: str, network: Network) -> Encoder:
        made = object.__new__(cls)
        made._name, made._network = name, network
        return made

    @property
    def name(self) -> str:
        """The name of the encoder, or of its file."""
        return self._name

    @property
    def kind(self) -> Kind | None:
        """What it takes: ``"images"`` or ``"texts"``; ``None`` for a function, which may take both."""
        return self._network.kind

    @property
    def width(self) -> int | None:
        """The number of features per sample; ``None`` for a function."""
        return self._network.width

    @property
    def encoding(self) -> Encoding | None:
        """How its features are made: weights, preprocessing, runtime; ``None`` for a function."""
        return self._network.encoding

    def __repr__(self) -> str:
        how = "a function" if self.encoding is None else str(self.encoding)
        return f"Encoder({plain(how)})"

    def __call__(self, samples: Samples) -> npt.NDArray[np.float32]:
        """Return the features of a batch of images or texts; it is not cached."""
        return self.encode(samples, cache=False).features

    @checked
    def encode(
        self,
        samples: Samples,
        *,
        on_error: OnError = "refuse",
        cache: bool | str | PathLike[str] = True,
        threads: int | None = None,
        progress: bool = False,
    ) -> Encoded:
        """Encode images or texts.

        Parameters
        ----------
        samples, on_error, cache, threads, progress
            As in :func:`modelmix.encode`.

        Returns
        -------
        Encoded
            The features, with the ids of the samples.

        Raises
        ------
        TypeError
            If an argument or a sample has the wrong type.
        ValueError
            If a sample cannot be read or decoded, or the encoder takes others.
        OSError
            If a file cannot be read.

        Examples
        --------
        >>> import modelmix as mm
        >>> encoder = mm.encoders.open("data/fashion/models/encoder.onnx")
        >>> len(encoder.encode("data/fashion/images/reference.npz", cache=False))
        60
        """
        run = _Run(self, on_error, cache, threads, progress)
        if isinstance(samples, (str, PathLike)):
            sets = run.sets(_check.file("samples", samples))
            if len(sets) > 1:
                path = _modelmix.source_path(_check.file("samples", samples))
                names = ", ".join(name for name, _ in sets[:5]) + (", …" if len(sets) > 5 else "")
                raise ValueError(
                    f"{path} has {len(sets)} sets of samples ({names}); pick one, as in {path}:{sets[0][0]}"
                )
            return run.encode_set(*sets[0])
        return run.encode_memory(samples)

    def _encode_sets(self, source: str, threads: int | None, progress: bool) -> list[tuple[str, Encoded]]:
        """Encode all sets of a source, each with its name."""
        run = _Run(self, "refuse", True, threads, progress)
        return [(name, run.encode_set(name, samples)) for name, samples in run.sets(source)]


class _Run:
    """An encoder with the settings of one call."""

    def __init__(self, encoder: Encoder, on_error: Any, cache: Any, threads: Any, progress: bool) -> None:
        self._encoder, self._network, self._progress = encoder, encoder._network, progress
        self._skip = _check.choice("on_error", on_error, "refuse", "skip") == "skip"
        self._threads = _check.threads(threads)
        self._cache = self._opened(cache)

    def _opened(self, given: Any) -> _modelmix.Cache | None:
        """Return the cache of the features; ``None`` if none is wanted or possible."""
        folder = None
        if isinstance(given, (str, PathLike)):
            folder = _check.file("cache", given)
        elif not _check.flag("cache", given):
            return None
        name, width = self._network.cache_name, self._network.width
        if name is None or width is None:
            return None
        try:
            return _modelmix.Cache.open(folder, name, width)
        except (OSError, ValueError) as problem:
            if folder is not None:
                raise
            # The user did not ask for the usual folder, so a read-only home is no reason to stop.
            warn([f"features are not cached: {problem}"])
            return None

    def sets(self, source: str) -> list[tuple[str, _modelmix.Samples]]:
        """Return the sets of a source, each with its name."""
        try:
            sets = _modelmix.Samples.open(source)
        except FileNotFoundError as problem:
            if self._network.kind == "texts":
                raise FileNotFoundError(f"{problem}; to encode this text, pass a list of texts") from None
            raise
        for _, samples in sets:
            if self._network.kind not in (None, samples.kind):
                path = _modelmix.source_path(source)
                raise ValueError(
                    f"{path} has {samples.kind}, but {self._encoder.name} encodes {self._network.kind}; choose another encoder"
                )
        return sets

    def encode_set(self, name: str, samples: _modelmix.Samples) -> Encoded:
        """Encode a set of samples that are in files."""
        with Bar(self._progress, f"encoding {name}", samples.kind[:-1]) as bar:
            bar.started(len(samples))
            found = self._network.run(samples, self._job(bar.done if self._progress else None))
        self._warn(name, found.skipped, len(samples))
        return Encoded(
            features=found.features,
            ids=tuple(samples.ids(found.rows)),
            files=tuple(samples.files(found.rows)),
            skipped=tuple(Skipped(*one) for one in found.skipped),
            encoding=self._network.encoding,
            cached=found.cached,
            sha256=found.sha256,
        )

    def encode_memory(self, samples: Any) -> Encoded:
        """Encode samples in memory, or those of an iterable, chunk by chunk."""
        kind = self._network.kind
        if kind is None:
            kind, samples = _kind_of(samples)
        count = total(samples, kind)
        gathered = _Gathered(count)
        with Bar(self._progress, f"encoding {kind}", kind[:-1]) as bar:
            bar.started(count)
            for chunk in chunks(samples, kind):
                if chunk.failed and not self._skip:
                    raise unreadable(*chunk.failed[0])
                start = chunk.start
                job = self._job((lambda done, start=start: bar.done(start + done)) if self._progress else None)
                gathered.add(chunk, None if chunk.samples is None else self._network.run(chunk.samples, job))
                bar.done(chunk.start + chunk.count)
        self._warn("", gathered.skipped, gathered.count)
        return Encoded(
            features=gathered.features(),
            ids=tuple(gathered.ids),
            files=tuple(gathered.files),
            skipped=tuple(Skipped(*one) for one in gathered.skipped),
            encoding=self._network.encoding,
            cached=gathered.cached,
        )

    def _job(self, done: Any) -> Job:
        return Job(self._skip, self._cache, self._threads, done)

    def _warn(self, name: str, skipped: list[tuple[str, str]], count: int) -> None:
        if self._cache is not None and self._cache.problem is not None:
            warn([f"new features are not in the cache: {self._cache.problem}"])
        if not skipped:
            return
        named = "; ".join(f"{plain(one)}: {problem}" for one, problem in skipped[:_NAMED_PROBLEMS])
        more = len(skipped) - _NAMED_PROBLEMS
        others = f"; and {more:,} more" if more > 0 else ""
        whose = f" of {plain(name)}" if name else ""
        warn([f"{len(skipped):,} of {count:,} samples{whose} were skipped ({named}{others})"])


class _Gathered:
    """The features of all chunks, with the ids and files of their samples."""

    def __init__(self, expected: int | None) -> None:
        self._expected = expected or 0
        self._first: npt.NDArray[np.float32] | None = None
        self._buffer: RowBuffer | None = None
        self.ids: list[str] = []
        self.files: list[str | None] = []
        self.skipped: list[tuple[str, str]] = []
        self.cached = 0
        self.count = 0

    def add(self, chunk: Chunk, found: Rows | None) -> None:
        """Add the features of a chunk."""
        self.count = chunk.start + chunk.count
        self.skipped += chunk.failed
        if chunk.samples is None or found is None:
            return
        self.files += chunk.samples.files(found.rows)
        # Ids of texts count from the start of the chunk.
        texts = chunk.samples.kind == "texts"
        self.ids += [str(chunk.start + row) for row in found.rows] if texts else chunk.samples.ids(found.rows)
        self.skipped += found.skipped
        self.cached += found.cached
        rows = found.features
        if self._buffer is not None:
            self._buffer.append(rows)
        elif self._first is None:  # often the only chunk, which is not copied
            self._first = rows
        else:
            self._buffer = RowBuffer(max(self._expected, len(self._first)), self._first.shape[1])
            self._buffer.append(self._first)
            self._buffer.append(rows)
            self._first = None

    def features(self) -> npt.NDArray[np.float32]:
        """Return all rows."""
        if self._buffer is not None:
            return self._buffer.finished()
        if self._first is None:
            raise nothing_read(self.skipped)
        return self._first


def _kind_of(samples: Any) -> tuple[Kind, Any]:
    """Return what samples for a function are, and the samples again: texts, unless they are paths of files."""
    if is_array(samples):
        return "images", samples
    items: Iterator[Any] = iter(samples)
    first = next(items, None)
    again = chain([] if first is None else [first], items) if isinstance(samples, Iterator) else samples
    if isinstance(first, Mapping):
        return ("texts" if "text" in first else "images"), again
    while isinstance(first, (tuple, list)) and first:
        first = first[0]
    return ("texts" if isinstance(first, str) and not os.path.isfile(first) else "images"), again
