"""Provenance of a result: version, engine, seed, inputs and bandwidths."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

from .._names import plain as shown
from .encoded import Encoding

__all__ = ["InputFile", "Provenance", "UsedBandwidth"]


def __dir__() -> list[str]:
    return __all__


@dataclass(frozen=True)
class InputFile:
    """A file, or a data set in memory, that a result was computed from.

    Attributes
    ----------
    role
        Its role: ``"arms"``, ``"reference"`` or ``"scores"``.
    arguments
        The sources that name it, such as ``flow=specialists.npz:flow``; the arm's name if the data was in memory.
    path
        The path as written; ``None`` if the data was in memory.
    bytes
        The file's size; ``None`` if the data was in memory or in a folder.
    sha256
        The SHA-256 checksum of the file, or of the ids and contents of the samples in a folder; ``None`` if the data was in memory.

    Examples
    --------
    >>> import modelmix as mm
    >>> best = mm.solve("data/fashion/specialists.npz", mm.Rke(bandwidth=20))
    >>> best.provenance.inputs[0].path, best.provenance.inputs[0].bytes
    ('data/fashion/specialists.npz', 961156)
    """

    role: str
    arguments: tuple[str, ...]
    path: str | None = None
    bytes: int | None = None
    sha256: str | None = None


@dataclass(frozen=True)
class UsedBandwidth:
    """A bandwidth, and its source.

    Attributes
    ----------
    of
        The term or the metric whose kernel it belongs to.
    bandwidth
        σ.
    rule
        Its source: ``"given"`` or ``"median"``.
    samples
        The number of samples in the median rule; ``None`` if the bandwidth was given.
    seed
        The seed that drew these samples; ``None`` if the bandwidth was given.

    Examples
    --------
    >>> import modelmix as mm
    >>> mm.solve("data/fashion/specialists.npz", mm.Rke(bandwidth=20)).provenance.bandwidths
    (UsedBandwidth(of='rke', bandwidth=20.0, rule='given', samples=None, seed=None),)
    """

    of: str
    bandwidth: float
    rule: str
    samples: int | None = None
    seed: int | None = None


@dataclass(frozen=True)
class Provenance:
    """The provenance of a result.

    Attributes
    ----------
    version
        The version of modelmix.
    inputs
        The inputs of the result: one entry per file, and one per data set in memory.
    bandwidths
        The bandwidth of each kernel that has one, and its source.
    encoding
        How the features of the arms were made; ``None`` if unknown.
    command
        The command line; ``None`` in Python.
    engine
        The engine that computed it: name, precision, instruction set and threads.
    seed
        The random seed.
    date
        When a command computed it, in UTC; ``None`` in Python.

    Examples
    --------
    >>> import modelmix as mm
    >>> best = mm.solve({"a": [[0.0], [1.0]], "b": [[5.0], [6.0]]}, mm.Rke(bandwidth=1), seed=7)
    >>> best.provenance.version == mm.__version__, best.provenance.seed
    (True, 7)
    >>> [(given.role, given.arguments) for given in best.provenance.inputs]
    [('arms', ('a',)), ('arms', ('b',))]
    """

    version: str
    inputs: tuple[InputFile, ...] = ()
    bandwidths: tuple[UsedBandwidth, ...] = ()
    encoding: Encoding | None = None
    command: str | None = None
    engine: str | None = None
    seed: int | None = None
    date: str | None = None

    @classmethod
    def _read(cls, document: dict[str, Any] | None) -> Provenance | None:
        if document is None:
            return None
        inputs = tuple(InputFile(**{**one, "arguments": tuple(one["arguments"])}) for one in document["inputs"])
        bandwidths = tuple(UsedBandwidth(**one) for one in document["bandwidths"])
        encoding = Encoding._read(document.get("encoding"))
        return cls(**{**document, "inputs": inputs, "bandwidths": bandwidths, "encoding": encoding})

    def _document(self) -> dict[str, Any]:
        """The fields of a document; unknown ones are absent."""

        def known(one: Any) -> dict[str, Any]:
            fields = {name: getattr(one, name) for name in one.__dataclass_fields__}
            return {name: list(v) if isinstance(v, tuple) else v for name, v in fields.items() if v is not None}

        lists = {"inputs": [known(one) for one in self.inputs], "bandwidths": [known(one) for one in self.bandwidths]}
        encoding = {} if self.encoding is None else {"encoding": self.encoding._document()}
        return {**known(self), **lists, **encoding}

    def _html(self) -> str:
        """The provenance as HTML for notebooks, collapsed below the table."""
        facts = [f"modelmix {self.version}", self.engine, None if self.seed is None else f"seed {self.seed}"]
        for used in self.bandwidths:
            rule = (
                "given" if used.rule == "given" else f"median distance between {used.samples} samples, seed {used.seed}"
            )
            facts.append(f"bandwidth of {used.of}: {used.bandwidth:.6g} ({rule})")
        if self.encoding is not None:
            facts.append(f"features by {self.encoding}")
        for one in self.inputs:
            name = f"{', '.join(one.arguments)} (in memory)" if one.path is None else one.path
            size = "" if one.bytes is None else f", {one.bytes:,} bytes"
            checksum = "" if one.sha256 is None else f", SHA-256 {one.sha256}"
            facts.append(f"{one.role}: {name}{size}{checksum}")
        lines = "<br>".join(escape(shown(fact)) for fact in facts if fact)
        return f"<details><summary>Provenance</summary><small>{lines}</small></details>"


def documented(provenance: Provenance | None) -> dict[str, Any]:
    """The provenance field of a document; empty if there is none."""
    return {} if provenance is None else {"provenance": provenance._document()}
