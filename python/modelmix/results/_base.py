"""What results have in common: their ways out, and how documents are read and written."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from .._table import Table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


class Result(ABC):
    """A result: a table, plain data, a frame, a figure."""

    @abstractmethod
    def _table(self) -> Table: ...

    @abstractmethod
    def to_dict(self) -> dict[str, Any] | list[dict[str, Any]]:
        """All of it as plain data, as the command line prints it with ``--json``."""

    @abstractmethod
    def to_pandas(self) -> pd.DataFrame:
        """A frame, by pandas."""

    @abstractmethod
    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw it with matplotlib: into ``ax``, or into a figure of its own."""

    def __str__(self) -> str:
        """A table."""
        return self._table().here()

    def __repr__(self) -> str:
        """The same, for whoever looks at it in an interactive session."""
        return str(self)

    def _repr_html_(self) -> str:
        return self._table().html()


@dataclass(frozen=True)
class TermValue:
    """What a term of the objective comes to."""

    term: str
    weight: float
    #: In the loss, before the weight.
    value: float
    #: As people read it: the RKE mode count, the unbiased KID × 100.
    score: float


def terms(document: Iterable[dict[str, Any]]) -> tuple[TermValue, ...]:
    """The terms of a document."""
    return tuple(TermValue(**term) for term in document)


def pair(ends: Sequence[float] | None) -> tuple[float, float] | None:
    """An interval, where there is one."""
    return None if ends is None else (ends[0], ends[1])


def matrix(rows: Iterable[Iterable[float]]) -> tuple[tuple[float, ...], ...]:
    """Rows of numbers."""
    return tuple(tuple(row) for row in rows)


def mixed(given: dict[str, Any], arms: Sequence[str]) -> dict[str, Any]:
    """The fields of a document's part, with the weights of these arms by name."""
    others = {name: value for name, value in given.items() if name != "arms"}
    return {**others, "weights": dict(zip(arms, given["weights"]))}


def plain(value: Any) -> Any:
    """Dataclasses and tuples as dictionaries and lists."""
    if hasattr(value, "__dataclass_fields__"):
        return {name: plain(getattr(value, name)) for name in value.__dataclass_fields__}
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    return value


def present(fields: dict[str, Any], *optional: str) -> dict[str, Any]:
    """Fields less those of the optional ones that are none: documents have them only where they were asked for."""
    return {name: value for name, value in fields.items() if value is not None or name not in optional}


def frame(*args: Any, **kwargs: Any) -> pd.DataFrame:
    """A frame by pandas, where it is installed."""
    try:
        import pandas
    except ImportError:
        remedy = "install it with pip install pandas, or use to_dict()"
        raise ImportError(f"to_pandas() needs pandas; {remedy}") from None
    made: pd.DataFrame = pandas.DataFrame(*args, **kwargs)
    return made


def floating(value: float | None) -> float:
    """A number, and not one where there is none: so that a column of frames is always of floats."""
    return math.nan if value is None else value


class _Named(Protocol):
    @property
    def name(self) -> str: ...


_Arm = TypeVar("_Arm", bound=_Named)


def by_name(arms: Iterable[_Arm], name: str) -> _Arm:
    """The arm of that name."""
    for arm in arms:
        if arm.name == name:
            return arm
    raise KeyError(name)
