"""Sessions in files: snapshots, and pickles of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from . import _check, _modelmix
from ._arguments import checked
from ._files import Rows
from ._problem import Problem, problem
from ._writing import write_whole
from .objectives import Objective

Own = TypeVar("Own", bound="StoredSession")


class StoredSession:
    """The methods of a session that write and read snapshots."""

    _inner: _modelmix.Session
    _problem: Problem | None

    @classmethod
    def _around(cls: type[Own], inner: _modelmix.Session, given: Problem | None) -> Own:
        session = cls.__new__(cls)
        session._inner, session._problem = inner, given
        return session

    @checked
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a snapshot, from which :meth:`restore` recreates the session exactly.

        Parameters
        ----------
        path
            The file. An existing file is replaced atomically, so several threads and processes may save to it.

        Raises
        ------
        OSError
            If the file cannot be written.

        Examples
        --------
        >>> import modelmix as mm, os, tempfile
        >>> session = mm.Session(["flux", "sdxl"], mm.Rke(bandwidth=1.0))
        >>> file = os.path.join(tempfile.mkdtemp(), "session.json")
        >>> session.save(file)
        >>> mm.Session.restore(file, mm.Rke(bandwidth=1.0)).arms
        ['flux', 'sdxl']
        """
        write_whole("path", path, self._inner.snapshot())

    @classmethod
    @checked
    def restore(
        cls: type[Own],
        path: str | os.PathLike[str],
        objective: Objective | str | None = None,
        *,
        reference: Rows | None = None,
        bandwidth: float | None = None,
        costs: Mapping[str, float] | None = None,
        kappa_range: tuple[float, float] | None = None,
        score_ranges: Mapping[str, tuple[float, float]] | None = None,
        width: int | None = None,
        threads: int | None = None,
        engine: str = "auto",
        gpu_memory: int | str | None = None,
        precision: str = "auto",
        values: bool = False,
    ) -> Own:
        """Read a snapshot of :meth:`save`.

        Parameters
        ----------
        path
            The file.
        objective, reference, bandwidth, costs, kappa_range, score_ranges, width, threads, engine, gpu_memory, precision
            The same values as when the session was started.
        values
            Whether the snapshot is of a session on values, which has no objective (:meth:`on_values`).

        Returns
        -------
        Session
            The session as it was saved.

        Raises
        ------
        TypeError
            If an argument has the wrong type.
        ValueError
            If the file is not a snapshot, or the objective differs.
        OSError
            If the file cannot be read.

        Examples
        --------
        >>> import modelmix as mm, os, tempfile
        >>> session = mm.Session(["flux"], mm.Rke(bandwidth=1.0))
        >>> session.tell(session.ask(), [1.0])
        >>> file = os.path.join(tempfile.mkdtemp(), "session.json")
        >>> session.save(file)
        >>> mm.Session.restore(file, "rke(bandwidth=1)").report().samples
        1
        """
        given = problem(
            objective,
            reference=reference,
            costs=costs,
            bandwidth=bandwidth,
            kappa_range=kappa_range,
            score_ranges=score_ranges,
            width=width,
            threads=threads,
            engine=engine,
            gpu_memory=gpu_memory,
            precision=precision,
        )
        origin, on_values = _check.file("path", path), _check.flag("values", values)
        try:
            text = Path(origin).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise ValueError(
                f"{origin} cannot be restored: it is not a text file; pass a file that Session.save wrote"
            ) from None
        known = None if on_values else given
        return cls._around(_modelmix.Session.restore(text, origin, known), known)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the snapshot and the inputs of the objective."""
        return (_restored, (type(self), self._inner.snapshot(), self._problem))


def _restored(cls: type[Own], snapshot: str, given: Problem | None) -> Own:
    return cls._around(_modelmix.Session.restore(snapshot, "the pickled session", given), given)
