"""Objectives as sums of weighted terms: their algebra and their text. The terms are in `objectives`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from . import _check, _modelmix
from ._arguments import checked
from ._arms import ScoreValues
from ._files import Rows


@dataclass(frozen=True)
class _Term:
    """A term: its weight, its text without the weight, and its arguments."""

    weight: float
    text: str
    reference: Rows | None = None
    costs: Mapping[str, float] | None = None
    score: str | None = None
    values: ScoreValues | None = None
    range: tuple[float, float] | None = None


class Objective:
    """A weighted sum of terms, to be minimised.

    Combine :class:`Rke`, :class:`Mmd` and the other terms with ``+``, ``-``, ``*`` and ``/``, or write the sum as text.
    Subtract a term for which higher is better, such as precision or density.

    Parameters
    ----------
    text
        The terms in the syntax of the command line, such as ``"rke - 0.2*precision"``.

    Raises
    ------
    ValueError
        If the text cannot be parsed; the message names the position.

    Examples
    --------
    >>> str(Objective("mmd - 0.2*precision"))
    'mmd - 0.2*precision'
    >>> Objective("rke - 0.2 precision")
    Traceback (most recent call last):
    ...
    ValueError: cannot read "rke - 0.2 precision" at character 11: "*" is expected after a number, as in 0.2*precision
    """

    __slots__ = ("_terms",)
    _terms: tuple[_Term, ...]

    @checked
    def __init__(self, text: str) -> None:
        self._terms = tuple(
            _Term(weight, term) for weight, term in _modelmix.objective(_check.text("an objective", text))
        )

    @classmethod
    def _of(cls, terms: Iterable[_Term]) -> Objective:
        made = Objective.__new__(Objective)
        made._terms = tuple(terms)
        return made

    def _one(self, name: str, settings: Mapping[str, object], **given: Any) -> None:
        """Make this a single term; the library checks its settings."""
        text = ", ".join(f"{key}={checked_setting(key, value)}" for key, value in settings.items() if value is not None)
        [(weight, term)] = _modelmix.objective(f"{name}({text})" if text else name)
        self._terms = (_Term(weight, term, **given),)

    def __add__(self, other: Objective) -> Objective:
        """The sum of both."""
        if not isinstance(other, Objective):
            return NotImplemented
        return Objective._of(self._terms + other._terms)

    def __sub__(self, other: Objective) -> Objective:
        """The difference of both."""
        if not isinstance(other, Objective):
            return NotImplemented
        return self + -other

    def __neg__(self) -> Objective:
        """Every term multiplied by -1."""
        return self * -1.0

    def __pos__(self) -> Objective:
        """The same objective."""
        return self * 1.0

    def __mul__(self, factor: float) -> Objective:
        """Every term multiplied by ``factor``."""
        if isinstance(factor, Objective) or not hasattr(factor, "__float__"):
            return NotImplemented
        if not math.isfinite(factor):
            raise ValueError(f"a term is multiplied by {factor}, but it must be by a finite number")
        return Objective._of(replace(term, weight=term.weight * float(factor)) for term in self._terms)

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> Objective:
        """Every term divided by ``divisor``."""
        if isinstance(divisor, Objective) or not hasattr(divisor, "__float__"):
            return NotImplemented
        if not math.isfinite(divisor) or float(divisor) == 0.0:
            raise ValueError(f"a term is divided by {divisor}, but it must be by a finite number other than 0")
        return Objective._of(replace(term, weight=term.weight / float(divisor)) for term in self._terms)

    def __str__(self) -> str:
        """The text, in the syntax of the command line."""
        return _modelmix.objective_text([(term.weight, term.text) for term in self._terms])

    def __repr__(self) -> str:
        """The Python expression."""
        return f"Objective({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        """Whether it has the same text and the same arguments."""
        if not isinstance(other, Objective):
            return NotImplemented
        mine, theirs = self._given(), other._given()
        return str(self) == str(other) and len(mine) == len(theirs) and all(map(_same, mine, theirs))

    def __hash__(self) -> int:
        """The hash of its text."""
        return hash(str(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return (Objective._of, (self._terms,))

    def _given(self) -> list[object]:
        return [given for term in self._terms for given in (term.reference, term.costs, term.values)]


def checked_setting(name: str, value: object) -> object:
    """A term's setting, if it has the right type; the library checks its range."""
    if name == "kernel":
        return _check.text(name, value)
    if name in ("degree", "neighbours"):
        return _check.whole(name, value, 1)
    if name == "bandwidth" and not _check.is_number(value):
        if value is None or not isinstance(value, str) or value != "auto":
            raise _check.wrong_type(name, value, "a positive number, or auto")
        return value
    _check.real(name, value)
    return value


def _same(one: object, other: object) -> bool:
    """Whether two terms have the same argument: one object, or one path."""
    return one is other or (isinstance(one, str) and one == other)
