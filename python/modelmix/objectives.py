"""What is to be minimised: terms that add and scale.

>>> import modelmix as mm
>>> objective = mm.Rke(bandwidth=30) - 0.2 * mm.Precision()
>>> str(objective)
'rke(bandwidth=30) - 0.2*precision'
>>> objective == mm.Objective("rke(bandwidth=30) - 0.2*precision")
True
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from . import _modelmix
from ._arrays import ArrayLike, as_array, floats
from ._numbers import by_arm, real_or_none, whole, whole_or_none

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = [
    "Cost",
    "Density",
    "Fid",
    "Kid",
    "Mmd",
    "Objective",
    "Precision",
    "Rke",
    "SampleScore",
    "Vendi",
]

#: The kernels' names.
KernelName: TypeAlias = Literal["gaussian", "laplacian", "polynomial", "cosine", "kid"]

#: A score's values: for every arm a value a sample.
ScoreValues: TypeAlias = Mapping[str, Iterable[float]]


@dataclass(frozen=True)
class _Term:
    """A term: its weight, its text without the weight, and what it was given."""

    weight: float
    text: str
    reference: ArrayLike | None = None
    costs: Mapping[str, float] | None = None
    score: str | None = None
    values: ScoreValues | None = None
    range: tuple[float, float] | None = None


class Objective:
    """A weighted sum of terms, to be minimised.

    Made of :class:`Rke`, :class:`Kid` and the others with ``+``, ``-`` and ``*``, or of text, as the command line takes it.
    What is better when there is more of it (precision, density) is subtracted.

    >>> str(Objective("kid - 0.2*precision"))
    'kid - 0.2*precision'
    >>> Objective("rke - 0.2 precision")
    Traceback (most recent call last):
    ...
    ValueError: cannot read "rke - 0.2 precision" at character 11: "*" is expected after a number, as in 0.2*precision
    """

    __slots__ = ("_terms",)
    _terms: tuple[_Term, ...]

    def __init__(self, text: str) -> None:
        """Read ``text``, such as ``"rke - 0.2*precision"``."""
        self._terms = tuple(_Term(weight, term) for weight, term in _modelmix.objective(str(text)))

    @classmethod
    def _of(cls, terms: Iterable[_Term]) -> Objective:
        made = Objective.__new__(Objective)
        made._terms = tuple(terms)
        return made

    def _one(self, name: str, settings: Mapping[str, object], **given: Any) -> None:
        """Make this a single term; the library checks its settings."""
        text = ", ".join(f"{key}={value}" for key, value in settings.items() if value is not None)
        [(weight, term)] = _modelmix.objective(f"{name}({text})" if text else name)
        self._terms = (_Term(weight, term, **given),)

    def __add__(self, other: Objective) -> Objective:
        """Both together."""
        if not isinstance(other, Objective):
            return NotImplemented
        return Objective._of(self._terms + other._terms)

    def __sub__(self, other: Objective) -> Objective:
        """This, and less of the other."""
        if not isinstance(other, Objective):
            return NotImplemented
        return self + -other

    def __neg__(self) -> Objective:
        """Its opposite."""
        return self * -1.0

    def __pos__(self) -> Objective:
        """Itself."""
        return self * 1.0

    def __mul__(self, factor: float) -> Objective:
        """So many times as much of every term."""
        if isinstance(factor, Objective) or not hasattr(factor, "__float__"):
            return NotImplemented
        if not math.isfinite(factor):
            raise ValueError(f"a term is multiplied by {factor}, but it must be by a finite number")
        return Objective._of(replace(term, weight=term.weight * float(factor)) for term in self._terms)

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> Objective:
        """So many times less of every term."""
        if isinstance(divisor, Objective) or not hasattr(divisor, "__float__"):
            return NotImplemented
        if not math.isfinite(divisor) or float(divisor) == 0.0:
            raise ValueError(f"a term is divided by {divisor}, but it must be by a finite number other than 0")
        return Objective._of(replace(term, weight=term.weight / float(divisor)) for term in self._terms)

    def __str__(self) -> str:
        """Its text, as the command line takes it."""
        return _modelmix.objective_text([(term.weight, term.text) for term in self._terms])

    def __repr__(self) -> str:
        """How to write it."""
        return f"Objective({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        """Whether it has the same text and was given the same objects."""
        if not isinstance(other, Objective):
            return NotImplemented
        mine, theirs = self._given(), other._given()
        return str(self) == str(other) and len(mine) == len(theirs) and all(a is b for a, b in zip(mine, theirs))

    def __hash__(self) -> int:
        """By its text."""
        return hash(str(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return (Objective._of, (self._terms,))

    def _given(self) -> list[object]:
        return [given for term in self._terms for given in (term.reference, term.costs, term.values)]


class _Quadratic(Objective):
    """A mean over pairs of samples, with a kernel."""

    __slots__ = ()
    _name = ""

    def __init__(
        self,
        reference: ArrayLike | None,
        kernel: KernelName | None,
        bandwidth: float | Literal["auto"] | None,
        scale: float | None,
        offset: float | None,
        degree: int | None,
    ) -> None:
        settings = {"kernel": kernel, "bandwidth": bandwidth, "scale": scale, "offset": offset, "degree": degree}
        self._one(self._name, settings, reference=reference)


class Rke(_Quadratic):
    """Diversity alone: the mean of k² over pairs, whose inverse is the RKE mode count.

    ``kernel`` is gaussian unless another is named, ``bandwidth`` the median distance between samples unless it is given.

    >>> str(Rke(bandwidth=30))
    'rke(bandwidth=30)'
    >>> Rke(kernel="gausian")
    Traceback (most recent call last):
    ...
    ValueError: cannot read "rke(kernel=gausian)" at character 5: there is no kernel gausian (did you mean gaussian?); there are gaussian, laplacian, polynomial, cosine, kid
    """

    __slots__ = ()
    _name = "rke"

    def __init__(
        self,
        *,
        kernel: Literal["gaussian", "laplacian", "cosine"] | None = None,
        bandwidth: float | Literal["auto"] | None = None,
    ) -> None:
        """Name a kernel or give its bandwidth σ."""
        super().__init__(None, kernel, bandwidth, None, None, None)


class Mmd(_Quadratic):
    """The squared maximum mean discrepancy to a reference: small when samples are like it.

    >>> str(Mmd(kernel="laplacian", bandwidth=5))
    'mmd(kernel=laplacian, bandwidth=5)'
    """

    __slots__ = ()
    _name = "mmd"

    def __init__(
        self,
        reference: ArrayLike | None = None,
        *,
        kernel: KernelName | None = None,
        bandwidth: float | Literal["auto"] | None = None,
        scale: float | None = None,
        offset: float | None = None,
        degree: int | None = None,
    ) -> None:
        """Give the features of real samples, and name a kernel or give its numbers."""
        super().__init__(reference, kernel, bandwidth, scale, offset, degree)


class Kid(Mmd):
    """The same as :class:`Mmd`, printed × 100. The kernel is Gaussian, as in the paper; ``kernel="kid"`` is (x·y/d + 1)³.

    >>> str(Kid(kernel="kid"))
    'kid(kernel=kid)'
    """

    __slots__ = ()
    _name = "kid"


class Fid(Objective):
    """The Fréchet distance to a reference: small when samples have its mean and covariance. Offline only."""

    __slots__ = ()

    def __init__(self, reference: ArrayLike | None = None) -> None:
        """Give the features of real samples."""
        self._one("fid", {}, reference=reference)


class Vendi(Objective):
    """Diversity by the Vendi score, to be added: more diverse is less loss. Offline only.

    >>> str(Vendi(order=2))
    'vendi(order=2)'
    """

    __slots__ = ()

    def __init__(
        self,
        *,
        order: float = 1.0,
        kernel: Literal["gaussian", "laplacian", "cosine"] | None = None,
        bandwidth: float | Literal["auto"] | None = None,
    ) -> None:
        """Choose an order above 0 and a kernel; cosine, unless another is named."""
        self._one("vendi", {"order": order, "kernel": kernel, "bandwidth": bandwidth})


class Precision(Objective):
    """The share of samples that lie near the reference. More is better, so subtract it.

    >>> str(Kid() - 0.2 * Precision())
    'kid - 0.2*precision'
    """

    __slots__ = ()

    def __init__(self, reference: ArrayLike | None = None, *, neighbours: int | None = None) -> None:
        """Give the features of real samples, and up to which neighbour (5) their balls reach."""
        self._one("precision", {"neighbours": neighbours}, reference=reference)


class Density(Objective):
    """How densely the reference surrounds the samples. More is better, so subtract it."""

    __slots__ = ()

    def __init__(self, reference: ArrayLike | None = None, *, neighbours: int | None = None) -> None:
        """Give the features of real samples, and up to which neighbour (5) their balls reach."""
        self._one("density", {"neighbours": neighbours}, reference=reference)


class Cost(Objective):
    """What a sample costs, arm by arm.

    >>> str(Rke(bandwidth=30) + 0.5 * Cost({"flux": 0.04, "sdxl": 0.01}))
    'rke(bandwidth=30) + 0.5*cost'
    """

    __slots__ = ()

    def __init__(self, costs: Mapping[str, float] | None = None) -> None:
        """Give the price of a sample of every arm."""
        self._one("cost", {}, costs=costs)


class SampleScore(Objective):
    """A score of your own. Subtract it where more is better.

    Offline it is given here, for every arm one value per sample; in a session it is told with the samples. In
    :func:`modelmix.run`, values given here are those of the known samples.

    >>> str(Rke(bandwidth=30) - 0.1 * SampleScore("aesthetic"))
    'rke(bandwidth=30) - 0.1*aesthetic'
    """

    __slots__ = ()

    def __init__(
        self,
        name: str,
        values: ScoreValues | None = None,
        *,
        range: tuple[float, float] | None = None,
    ) -> None:
        """Name it, and give its values and, for policies with constants, its smallest and largest value."""
        self._one(name, {}, score=name, values=values, range=range)


@dataclass(frozen=True)
class Problem:
    """An objective with all it needs, as the extension takes it."""

    objective: str | None
    reference: npt.NDArray[Any] | None
    costs: dict[str, float] | None
    scores: dict[str, dict[str, list[float]]]
    bandwidth: float | None
    kappa_range: tuple[float, float] | None
    score_ranges: dict[str, tuple[float, float]]
    width: int | None
    seed: int
    threads: int | None


def of(objective: Objective | str | None) -> Objective | None:
    """The objective that was given or written, where there is one."""
    if isinstance(objective, str):
        return Objective(objective)
    if objective is not None and not isinstance(objective, Objective):
        kind = type(objective).__name__
        raise ValueError(f"an objective is text or made of terms such as mm.Rke(), and a {kind} is neither")
    return objective


def problem(
    objective: Objective | str | None,
    *,
    beside: Objective | None = None,
    reference: ArrayLike | None = None,
    costs: Mapping[str, float] | None = None,
    scores: Mapping[str, ScoreValues] | None = None,
    bandwidth: float | None = None,
    kappa_range: tuple[float, float] | None = None,
    score_ranges: Mapping[str, tuple[float, float]] | None = None,
    width: int | None = None,
    seed: int = 0,
    threads: int | None = None,
) -> Problem:
    """Gather what the terms of the objective, and of another beside it, and the call were given."""
    objective = of(objective)
    terms = tuple(term for part in (objective, beside) if part is not None for term in part._terms)
    all_scores = {name: values for name, values in (scores or {}).items()}
    ranges = dict(score_ranges or {})
    for term in terms:
        reference = _same("reference", term.reference, reference)
        costs = _same("costs", term.costs, costs)
        if term.score is not None and term.values is not None:
            all_scores[term.score] = _same(f"values of {term.score}", term.values, all_scores.get(term.score)) or {}
        if term.score is not None and term.range is not None:
            ranges[term.score] = term.range
    return Problem(
        objective=None if objective is None else str(objective),
        reference=None if reference is None else as_array("the reference", reference),
        costs=None if costs is None else by_arm("cost", costs),
        scores={
            name: {arm: floats(f"score {name} of arm {arm}", given) for arm, given in by_arm.items()}
            for name, by_arm in all_scores.items()
        },
        bandwidth=real_or_none("bandwidth", bandwidth),
        kappa_range=kappa_range,
        score_ranges=ranges,
        width=width,
        seed=whole("seed", seed),
        threads=whole_or_none("threads", threads),
    )


def _same(what: str, one: Any, other: Any) -> Any:
    """The one that was given, if not two different ones were."""
    if one is not None and other is not None and one is not other:
        raise ValueError(
            f"the objective has two different {what}; give the same object to all terms, or give it once, as in mm.solve(…, {what.split()[0]}=…)"
        )
    return other if one is None else one
