"""What accumulators hold, and how they become bytes and files again."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from . import _check, _modelmix
from ._arguments import checked
from ._files import Rows, recorded

_S = TypeVar("_S", bound="StoredSums")


class StoredSums:
    """Sums that are counted, written and read."""

    _inner: _modelmix.Accumulator

    @classmethod
    def _around(cls: type[_S], inner: _modelmix.Accumulator) -> _S:
        made = object.__new__(cls)
        made._inner = inner
        return made

    @property
    def counts(self) -> dict[str, int]:
        """The number of rows of each arm."""
        return dict(self._inner.counts())

    @property
    def reference_count(self) -> int:
        """The number of rows of the reference."""
        return self._inner.reference_count()

    @property
    def shards(self) -> dict[str, int]:
        """The named shards that are included, with their numbers of rows."""
        return self._inner.shards()

    @property
    def width(self) -> int | None:
        """The number of columns of the features; ``None`` without rows."""
        return self._inner.width()

    @checked
    def to_bytes(self) -> bytes:
        """Return the sums as bytes; those of equal sums are equal.

        Returns
        -------
        bytes
            Versioned bytes with a checksum.

        Raises
        ------
        TypeError
            If there is an argument.

        Examples
        --------
        >>> import modelmix as mm
        >>> mm.Accumulator.survey().to_bytes()[:7]
        b'mmixacc'
        """
        return self._inner.to_bytes()

    @classmethod
    @checked
    def from_bytes(cls: type[_S], data: bytes, reference: Rows | None = None) -> _S:
        """Read sums from bytes.

        Parameters
        ----------
        data
            What :meth:`to_bytes` returned.
        reference
            The whole reference, which only :class:`Precision` and :class:`Density` need, to add more rows.

        Returns
        -------
        Accumulator
            The sums.

        Raises
        ------
        TypeError
            If an argument has the wrong type.
        ValueError
            If the bytes are damaged, or another release wrote them.

        Examples
        --------
        >>> import modelmix as mm
        >>> sums = mm.Accumulator.survey()
        >>> mm.Accumulator.from_bytes(sums.to_bytes()).counts
        {}
        """
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise _check.wrong_type("data", data, "bytes, from to_bytes of an accumulator")
        return cls._around(_modelmix.Accumulator.from_bytes(bytes(data), whole_reference(reference)))

    @checked
    def save(self, path: str | PathLike[str]) -> None:
        """Write the sums to a file, which ``modelmix solve`` reads too.

        Parameters
        ----------
        path
            The file, such as ``"part.acc"``.

        Raises
        ------
        TypeError
            If ``path`` is no path.
        OSError
            If the file cannot be written.

        Examples
        --------
        >>> import os, tempfile
        >>> import modelmix as mm
        >>> path = os.path.join(tempfile.mkdtemp(), "part.acc")
        >>> mm.Accumulator.survey().save(path)
        >>> mm.Accumulator.load(path).counts
        {}
        """
        Path(_check.file("path", path)).write_bytes(self.to_bytes())

    @classmethod
    @checked
    def load(cls: type[_S], path: str | PathLike[str], reference: Rows | None = None) -> _S:
        """Read sums from a file.

        Parameters
        ----------
        path
            A file that :meth:`save` or ``modelmix accumulate`` wrote.
        reference
            As in :meth:`from_bytes`.

        Returns
        -------
        Accumulator
            The sums.

        Raises
        ------
        TypeError
            If ``path`` is no path.
        ValueError
            If the file is damaged.
        OSError
            If it cannot be read.

        Examples
        --------
        >>> import modelmix as mm
        >>> mm.Accumulator.load("no.acc")
        Traceback (most recent call last):
        ...
        FileNotFoundError: [Errno 2] No such file or directory: 'no.acc'
        """
        return cls.from_bytes(Path(_check.file("path", path)).read_bytes(), reference)

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self).from_bytes, (self.to_bytes(),))

    def __repr__(self) -> str:
        method, objective = self._inner.current_plan()
        rows = ", ".join(f"{arm} {count:,}" for arm, count in self.counts.items()) or "no rows"
        return f"Accumulator({method if objective is None else f'{method}, {objective}'}: {rows})"


def whole_reference(given: Rows | None) -> Any:
    """Return the whole reference as an array, if there is one."""
    return None if given is None else recorded("the reference", given)
