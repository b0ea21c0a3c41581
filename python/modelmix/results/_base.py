"""Shared parts of results: mappings and sequences, tables in several formats, and reading and writing documents."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

from .. import _modelmix
from .._arguments import checked
from .._lazy import Lazy
from .._table import Table
from .._writers import csv_text, latex, markdown
from .provenance import Provenance

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib import axes
else:
    pd, axes = Lazy("pandas"), Lazy("matplotlib.axes")

_K = TypeVar("_K")
_V = TypeVar("_V", covariant=True)


class Result(ABC):
    """A result: a table, plain data, a data frame, a figure."""

    @abstractmethod
    def _table(self) -> Table: ...

    @abstractmethod
    def to_dict(self) -> dict[str, Any] | list[dict[str, Any]]:
        """Return the result as plain data, as the command line prints it with ``--json``.

        Returns
        -------
        dict or list
            Fields by name.

        Examples
        --------
        >>> import modelmix as mm
        >>> best = mm.solve({"a": [[0.0], [1.0]], "b": [[5.0], [6.0]]}, mm.Rke(bandwidth=1))
        >>> best.to_dict()["best_single"]["name"]
        'a'
        """

    @abstractmethod
    def to_pandas(self) -> pd.DataFrame:
        """Return the result as a pandas data frame.

        Returns
        -------
        pandas.DataFrame
            The frame.

        Raises
        ------
        ImportError
            If pandas is not installed.

        Examples
        --------
        >>> import modelmix as mm
        >>> best = mm.solve({"a": [[0.0], [1.0]], "b": [[5.0], [6.0]]}, mm.Rke(bandwidth=1))
        >>> list(best.to_pandas().index)
        ['a', 'b']
        """

    @abstractmethod
    def plot(self, ax: axes.Axes | None = None) -> axes.Axes:
        """Draw the result with matplotlib.

        Parameters
        ----------
        ax
            The axes to draw into; ``None`` for a new figure.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.

        Examples
        --------
        >>> import matplotlib, modelmix as mm
        >>> matplotlib.use("Agg")
        >>> best = mm.solve({"a": [[0.0], [1.0]], "b": [[5.0], [6.0]]}, mm.Rke(bandwidth=1))
        >>> type(best.plot()).__name__
        'Axes'
        """

    @checked
    def to_latex(
        self, path: str | PathLike[str] | None = None, *, caption: str | None = None, label: str | None = None
    ) -> str:
        r"""Return the printed table as LaTeX for the package ``booktabs``.

        Parameters
        ----------
        path
            A file to write the text to, in addition to returning it.
        caption, label
            Caption and label of a ``table`` environment around the table; without either, only a ``tabular`` is returned.

        Returns
        -------
        str
            The text. Special characters are escaped; highlighted cells are bold.

        Raises
        ------
        OSError
            If the file cannot be written.

        Examples
        --------
        >>> import modelmix as mm
        >>> table = mm.score({"my_model": [[0.0], [100.0]]}, metrics=["rke"], bandwidth=1)
        >>> print(table.to_latex())
        \begin{tabular}{lr}
        \toprule
        arm & rke $\uparrow$ \\
        \midrule
        my\_model & \textbf{2.00 $\pm$ 0.0} \\
        \bottomrule
        \end{tabular}
        """
        return _written(path, latex(self._table(), caption, label))

    @checked
    def to_markdown(self, path: str | PathLike[str] | None = None) -> str:
        r"""Return the printed table as Markdown.

        Parameters
        ----------
        path
            A file to write the text to, in addition to returning it.

        Returns
        -------
        str
            The text.

        Raises
        ------
        OSError
            If the file cannot be written.

        Examples
        --------
        >>> import modelmix as mm
        >>> print(mm.score({"my_model": [[0.0], [100.0]]}, metrics=["rke"], bandwidth=1).to_markdown())
        | arm | rke ↑ |
        | :-- | --: |
        | my\_model | **2.00 ± 0.0** |
        """
        return _written(path, markdown(self._table()))

    @checked
    def to_csv(self, path: str | PathLike[str] | None = None) -> str:
        """Return the printed table as CSV with all digits.

        Errors, interval ends and the weights of several arms have their own columns; a share is a number from 0 to 1.

        Parameters
        ----------
        path
            A file to write the text to, in addition to returning it.

        Returns
        -------
        str
            The text.

        Raises
        ------
        OSError
            If the file cannot be written.

        Examples
        --------
        >>> import modelmix as mm
        >>> print(mm.score({"my_model": [[0.0], [100.0]]}, metrics=["rke"], bandwidth=1).to_csv(), end="")
        arm,rke,rke error
        my_model,2.0,0.0
        """
        return _written(path, csv_text(self._table()))

    def __str__(self) -> str:
        """The result as a table of text."""
        return self._table().here()

    def __repr__(self) -> str:
        """The same table, for interactive sessions."""
        return str(self)

    def _repr_html_(self) -> str:
        return self._table().html() + self._provenance_html()

    def _provenance_html(self) -> str:
        """The provenance as a collapsed block; an empty string without provenance."""
        provenance: Provenance | None = getattr(self, "provenance", None)
        return "" if provenance is None else provenance._html()


class Keyed(Result, Mapping[_K, _V]):
    """A result that is a mapping, for example of arms, policies or sizes."""

    @abstractmethod
    def _entries(self) -> Mapping[Any, _V]: ...

    def __getitem__(self, key: Any) -> _V:
        """The entry with this name."""
        return entry(self._entries(), key)

    def __iter__(self) -> Iterator[Any]:
        """The names."""
        return iter(self._entries())

    def __len__(self) -> int:
        """The number of entries."""
        return len(self._entries())


class Points(Result, Sequence[_V]):
    """A result that is a sequence of points."""

    points: tuple[_V, ...]

    @overload
    def __getitem__(self, index: int) -> _V: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[_V]: ...

    def __getitem__(self, index: int | slice) -> _V | Sequence[_V]:
        """One point, or a slice of points."""
        return self.points[index]

    def __len__(self) -> int:
        """The number of points."""
        return len(self.points)


def entry(entries: Mapping[Any, _V], key: Any) -> _V:
    """The entry with this name; the error suggests the nearest name."""
    try:
        return entries[key]
    except (KeyError, TypeError):
        pass
    names = [str(name) for name in entries]
    near = _modelmix.nearest(key, names) if isinstance(key, str) else None
    meant = f" (did you mean {near}?)" if near else ""
    raise KeyError(f"there is no {key!r} here{meant}; there are {', '.join(names)}")


def _written(path: str | PathLike[str] | None, text: str) -> str:
    if path is not None:
        Path(path).write_text(text if text.endswith("\n") else text + "\n", encoding="utf-8", newline="")
    return text


@dataclass(frozen=True)
class TermValue:
    """The value of one term of the objective.

    Attributes
    ----------
    term
        The term's text.
    weight
        Its weight in the objective.
    value
        Its value in the loss, without the weight.
    score
        Its value as reported: the RKE mode count, 100 times the unbiased MMD², the unbiased KID.

    Examples
    --------
    >>> import modelmix as mm
    >>> best = mm.solve("data/fashion/specialists.npz", "rke(bandwidth=20)", intervals=False)
    >>> [(part.term, part.weight) for part in best.terms]
    [('rke(bandwidth=20)', 1.0)]
    """

    term: str
    weight: float
    value: float
    score: float


def terms(document: Iterable[dict[str, Any]]) -> tuple[TermValue, ...]:
    """The terms of a document."""
    return tuple(TermValue(**term) for term in document)


def pair(ends: Sequence[float] | None) -> tuple[float, float] | None:
    """An interval; ``None`` if the document has none."""
    return None if ends is None else (ends[0], ends[1])


def matrix(rows: Iterable[Iterable[float]]) -> tuple[tuple[float, ...], ...]:
    """Rows of numbers."""
    return tuple(tuple(row) for row in rows)


def mixed(given: dict[str, Any], arms: Sequence[str]) -> dict[str, Any]:
    """The fields of a part of a document, with the weights of these arms by name."""
    others = {name: value for name, value in given.items() if name != "arms"}
    return {**others, "weights": dict(zip(arms, given["weights"]))}


def plain(value: Any) -> Any:
    """Convert dataclasses and tuples to dictionaries and lists."""
    if hasattr(value, "__dataclass_fields__"):
        return {name: plain(getattr(value, name)) for name in value.__dataclass_fields__}
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    return value


def present(fields: dict[str, Any], *optional: str) -> dict[str, Any]:
    """Fields without optional ones that are ``None``: documents contain them only if they were requested."""
    return {name: value for name, value in fields.items() if value is not None or name not in optional}


def frame(*args: Any, **kwargs: Any) -> pd.DataFrame:
    """A pandas data frame, if pandas is installed."""
    try:
        import pandas
    except ImportError:
        remedy = "install it with pip install pandas, or use to_dict()"
        raise ImportError(f"to_pandas() needs pandas; {remedy}") from None
    made: pd.DataFrame = pandas.DataFrame(*args, **kwargs)
    return made


def floating(value: float | None) -> float:
    """A number, or NaN for ``None``, so that a column of a data frame contains only floats."""
    return math.nan if value is None else value


class _Named(Protocol):
    @property
    def name(self) -> str: ...


_Arm = TypeVar("_Arm", bound=_Named)


def by_name(arms: Iterable[_Arm]) -> dict[str, _Arm]:
    """Arms by their names."""
    return {arm.name: arm for arm in arms}
