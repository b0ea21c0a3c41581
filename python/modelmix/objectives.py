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
from typing import Any, Literal, TypeAlias

from . import _check, _modelmix
from ._arguments import checked
from ._arms import ScoreValues
from ._files import Rows

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

#: A kernel's bandwidth, or the median rule.
Bandwidth: TypeAlias = float | Literal["auto"]


def __dir__() -> list[str]:
    return __all__


@dataclass(frozen=True)
class _Term:
    """A term: its weight, its text without the weight, and what it was given."""

    weight: float
    text: str
    reference: Rows | None = None
    costs: Mapping[str, float] | None = None
    score: str | None = None
    values: ScoreValues | None = None
    range: tuple[float, float] | None = None


class Objective:
    """A weighted sum of terms, to be minimised.

    Combine :class:`Rke`, :class:`Kid` and the other terms with ``+``, ``-``, ``*`` and ``/``, or write the sum as text. Subtract
    a term of which more is better, such as precision or density.

    Parameters
    ----------
    text
        The terms as the command line takes them, such as ``"rke - 0.2*precision"``.

    Raises
    ------
    ValueError
        If the text cannot be read; the message says where.

    Examples
    --------
    >>> str(Objective("kid - 0.2*precision"))
    'kid - 0.2*precision'
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
        return str(self) == str(other) and len(mine) == len(theirs) and all(map(_same, mine, theirs))

    def __hash__(self) -> int:
        """By its text."""
        return hash(str(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return (Objective._of, (self._terms,))

    def _given(self) -> list[object]:
        return [given for term in self._terms for given in (term.reference, term.costs, term.values)]


def checked_setting(name: str, value: object) -> object:
    """A term's setting, if it has the type of its kind; the library checks its range."""
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
    """Whether two terms were given the same: one object, or one path."""
    return one is other or (isinstance(one, str) and one == other)


class _Quadratic(Objective):
    """A mean over pairs of samples, with a kernel."""

    __slots__ = ()
    _name = ""

    def __init__(
        self,
        reference: Rows | None,
        kernel: KernelName | None,
        bandwidth: Bandwidth | None,
        scale: float | None,
        offset: float | None,
        degree: int | None,
    ) -> None:
        settings = {"kernel": kernel, "bandwidth": bandwidth, "scale": scale, "offset": offset, "degree": degree}
        self._one(self._name, settings, reference=reference)


class Rke(_Quadratic):
    """Diversity without a reference: the mean of k² over pairs of samples, whose inverse is the RKE mode count.

    Parameters
    ----------
    kernel
        ``"gaussian"`` (the default), ``"laplacian"`` or ``"cosine"``.
    bandwidth
        The kernel's bandwidth σ. ``None`` or ``"auto"``: the median distance between samples
        (:func:`modelmix.median_bandwidth`).

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If the kernel is unknown or the bandwidth is not a positive number.

    Examples
    --------
    >>> str(Rke(bandwidth=30))
    'rke(bandwidth=30)'
    >>> Rke(kernel="gausian")
    Traceback (most recent call last):
    ...
    ValueError: cannot read "rke(kernel=gausian)" at character 5: there is no kernel gausian (did you mean gaussian?); there are gaussian, laplacian, polynomial, cosine, kid
    """

    __slots__ = ()
    _name = "rke"

    @checked
    def __init__(
        self,
        *,
        kernel: Literal["gaussian", "laplacian", "cosine"] | None = None,
        bandwidth: Bandwidth | None = None,
    ) -> None:
        super().__init__(None, kernel, bandwidth, None, None, None)


class Mmd(_Quadratic):
    """The squared maximum mean discrepancy (MMD²) to a reference: small if samples are like it.

    Parameters
    ----------
    reference
        Features of real samples, one row per sample, or a file. May be given to :func:`modelmix.solve` instead.
    kernel
        ``"gaussian"`` (the default), ``"laplacian"``, ``"polynomial"``, ``"cosine"`` or ``"kid"``.
    bandwidth
        σ of a Gaussian or Laplacian kernel. ``None`` or ``"auto"``: the median distance within the reference
        (:func:`modelmix.median_bandwidth`).
    scale, offset, degree
        The polynomial kernel (scale·x·y + offset)^degree.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If the kernel is unknown or has no such setting.

    Examples
    --------
    >>> str(Mmd(kernel="laplacian", bandwidth=5))
    'mmd(kernel=laplacian, bandwidth=5)'
    """

    __slots__ = ()
    _name = "mmd"

    @checked
    def __init__(
        self,
        reference: Rows | None = None,
        *,
        kernel: KernelName | None = None,
        bandwidth: Bandwidth | None = None,
        scale: float | None = None,
        offset: float | None = None,
        degree: int | None = None,
    ) -> None:
        super().__init__(reference, kernel, bandwidth, scale, offset, degree)


class Kid(Mmd):
    """The same as :class:`Mmd`, printed × 100. The kernel is Gaussian, as in the paper; ``kernel="kid"`` is (x·y/d + 1)³.

    Parameters
    ----------
    reference, kernel, bandwidth, scale, offset, degree
        As in :class:`Mmd`.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If the kernel is unknown or has no such setting.

    Examples
    --------
    >>> str(Kid(kernel="kid"))
    'kid(kernel=kid)'
    >>> Kid(sigma=3)
    Traceback (most recent call last):
    TypeError: Kid has no argument sigma (did you mean bandwidth?)
    """

    __slots__ = ()
    _name = "kid"


class Fid(Objective):
    """The Fréchet distance to a reference: small if samples have its mean and covariance. Offline only.

    Parameters
    ----------
    reference
        Features of real samples, one row per sample, or a file.

    Raises
    ------
    TypeError
        If there is any other argument.

    Examples
    --------
    >>> str(Fid())
    'fid'
    """

    __slots__ = ()

    @checked
    def __init__(self, reference: Rows | None = None) -> None:
        self._one("fid", {}, reference=reference)


class Vendi(Objective):
    """Diversity by the Vendi score. Add it: more diversity is less loss. Offline only.

    Parameters
    ----------
    order
        The order of the entropy, more than 0.
    kernel
        ``"cosine"`` (the default), ``"gaussian"`` or ``"laplacian"``.
    bandwidth
        σ of a Gaussian or Laplacian kernel; ``None`` or ``"auto"`` for the median distance between samples.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If the kernel is unknown, or the order or bandwidth is not positive.

    Examples
    --------
    >>> str(Vendi(order=2))
    'vendi(order=2)'
    """

    __slots__ = ()

    @checked
    def __init__(
        self,
        *,
        order: float = 1.0,
        kernel: Literal["gaussian", "laplacian", "cosine"] | None = None,
        bandwidth: Bandwidth | None = None,
    ) -> None:
        self._one("vendi", {"order": order, "kernel": kernel, "bandwidth": bandwidth})


class Precision(Objective):
    """The share of samples within the reference's k-nearest-neighbour balls. More is better, so subtract it.

    Parameters
    ----------
    reference
        Features of real samples, one row per sample, or a file.
    neighbours
        k of the balls' radii; 5 if ``None``.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If ``neighbours`` is not a whole number, at least 1.

    Examples
    --------
    >>> str(Kid() - 0.2 * Precision())
    'kid - 0.2*precision'
    """

    __slots__ = ()

    @checked
    def __init__(self, reference: Rows | None = None, *, neighbours: int | None = None) -> None:
        self._one("precision", {"neighbours": neighbours}, reference=reference)


class Density(Objective):
    """The mean number of the reference's k-nearest-neighbour balls that a sample is in, divided by k. Subtract it.

    Parameters
    ----------
    reference
        Features of real samples, one row per sample, or a file.
    neighbours
        k of the balls' radii; 5 if ``None``.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If ``neighbours`` is not a whole number, at least 1.

    Examples
    --------
    >>> str(Rke(bandwidth=30) - 0.1 * Density(neighbours=3))
    'rke(bandwidth=30) - 0.1*density(neighbours=3)'
    """

    __slots__ = ()

    @checked
    def __init__(self, reference: Rows | None = None, *, neighbours: int | None = None) -> None:
        self._one("density", {"neighbours": neighbours}, reference=reference)


class Cost(Objective):
    """The price of a sample, by arm.

    Parameters
    ----------
    costs
        The price of one sample of every arm. May be given to :func:`modelmix.solve` instead.

    Raises
    ------
    TypeError
        If there is any other argument.

    Examples
    --------
    >>> str(Rke(bandwidth=30) + 0.5 * Cost({"flux": 0.04, "sdxl": 0.01}))
    'rke(bandwidth=30) + 0.5*cost'
    """

    __slots__ = ()

    @checked
    def __init__(self, costs: Mapping[str, float] | None = None) -> None:
        self._one("cost", {}, costs=costs)


class SampleScore(Objective):
    """A score of your own, one value per sample. Subtract it if more is better.

    In a session, scores are told with the samples instead; in :func:`modelmix.run`, values given here are those of the known
    samples.

    Parameters
    ----------
    name
        The score's name.
    values
        One value per sample, by arm; or files: one by arm, or an ``.npz`` file with one array per arm.
    range
        The least and greatest value, for policies with constants.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If the name is that of a built-in term, or no name.

    Examples
    --------
    >>> str(Rke(bandwidth=30) - 0.1 * SampleScore("aesthetic"))
    'rke(bandwidth=30) - 0.1*aesthetic'
    """

    __slots__ = ()

    @checked
    def __init__(
        self,
        name: str,
        values: ScoreValues | None = None,
        *,
        range: tuple[float, float] | None = None,
    ) -> None:
        ends = None if range is None else _check.interval("range", range)
        self._one(_check.text("name", name), {}, score=name, values=values, range=ends)
