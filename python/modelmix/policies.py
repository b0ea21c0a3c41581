"""Policies: how a session chooses which arm to pull next. Each is a small object that prints as the command line takes it.

>>> import modelmix as mm
>>> mm.Cab(sensitivity=0.03)
Cab(sensitivity=0.03)
>>> str(mm.Cab(sensitivity=0.03))
'cab(sensitivity=0.03)'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import ClassVar

from . import _modelmix

__all__ = [
    "Adaptive",
    "Cab",
    "Fixed",
    "Greedy",
    "Halving",
    "MixtureOracle",
    "Ogd",
    "OneArmOracle",
    "Policy",
    "Sparse",
    "Uniform",
    "Vanilla",
]


@dataclass(frozen=True, repr=False)
class Policy:
    """A policy and its settings. Settings that are none are the library's."""

    _name: ClassVar[str] = ""

    def __post_init__(self) -> None:
        """Have the library check the settings."""
        if type(self) is Policy:
            raise TypeError("Policy is what policies have in common; use one of them, such as mm.Adaptive()")
        _modelmix.policy(self._text())

    def _text(self) -> str:
        settings = ", ".join(f"{name}={value}" for name, value in self._settings() if value)
        return f"{self._name}({settings})" if settings else self._name

    def _settings(self) -> list[tuple[str, str]]:
        return [(field.name, _written(getattr(self, field.name))) for field in fields(self)]

    def __str__(self) -> str:
        """The policy, as the command line takes it."""
        return _modelmix.policy(self._text())

    def __repr__(self) -> str:
        """How to write it, without what is left as it is."""
        changed = [field for field in fields(self) if getattr(self, field.name) != field.default]
        return f"{type(self).__name__}({', '.join(f'{field.name}={getattr(self, field.name)!r}' for field in changed)})"


def _written(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else ""
    if isinstance(value, tuple):
        return " ".join(repr(float(number)) for number in value)
    return str(value)


@dataclass(frozen=True, repr=False)
class Adaptive(Policy):
    """The default: widths from the samples' own variance, so that there is no constant to choose."""

    _name = "adaptive"


@dataclass(frozen=True, repr=False)
class Cab(Policy):
    """Mixture-UCB-CAB of the paper. ``sensitivity`` (Δ_L) is what one tunes; without it theory's constants are used."""

    _name = "cab"
    beta: float | None = None
    sensitivity: float | None = None
    kappa: float | None = None


@dataclass(frozen=True, repr=False)
class Ogd(Policy):
    """Mixture-UCB-OGD of the paper: a gradient step instead of a program a round."""

    _name = "ogd"
    beta: float | None = None
    sensitivity: float | None = None
    kappa: float | None = None


@dataclass(frozen=True, repr=False)
class Vanilla(Policy):
    """UCB for a single best arm, which the paper compares with."""

    _name = "vanilla"
    beta: float | None = None
    sensitivity: float | None = None
    kappa: float | None = None


@dataclass(frozen=True, repr=False)
class Sparse(Policy):
    """Few arms: either a ``fee`` a round for every arm in use, or ``keep`` so many arms in the end.

    >>> Sparse(keep=2)
    Sparse(keep=2)
    >>> Sparse()
    Traceback (most recent call last):
    ...
    ValueError: cannot read "sparse" at character 1: sparse needs either fee=…, the price of an arm a round, or keep=…, the number of arms to end with (then step=…, how fast the fee grows, is optional)
    """

    _name = "sparse"
    fee: float | None = None
    keep: int | None = None
    step: float | None = None
    beta: float | None = None
    sensitivity: float | None = None
    kappa: float | None = None


@dataclass(frozen=True, repr=False)
class Greedy(Policy):
    """The best mixture of what is known, without exploring."""

    _name = "greedy"


@dataclass(frozen=True, repr=False)
class Halving(Policy):
    """Successive Halving for a single best arm; ``rounds`` is the session's where it is left out."""

    _name = "halving"
    rounds: int | None = None


@dataclass(frozen=True, repr=False)
class Uniform(Policy):
    """Every arm as often."""

    _name = "uniform"


@dataclass(frozen=True, repr=False)
class Fixed(Policy):
    """Given weights: drawn by lot, or tracked as closely as can be.

    >>> str(Fixed([0.5, 0.3, 0.2], tracked=True))
    'fixed(weights=0.5 0.3 0.2, tracked=true)'
    """

    _name = "fixed"
    weights: Sequence[float]
    tracked: bool = False

    def __post_init__(self) -> None:
        """Keep the weights as they are now."""
        object.__setattr__(self, "weights", tuple(float(weight) for weight in self.weights))
        super().__post_init__()


@dataclass(frozen=True, repr=False)
class MixtureOracle(Policy):
    """The optimal mixture of the recorded arms; for :func:`modelmix.simulate` only."""

    _name = "mixture-oracle"


@dataclass(frozen=True, repr=False)
class OneArmOracle(Policy):
    """The best single recorded arm; for :func:`modelmix.simulate` only."""

    _name = "one-arm-oracle"


def text(policy: Policy | str) -> str:
    """A policy as the extension takes it."""
    if isinstance(policy, (Policy, str)):
        return str(policy)
    raise ValueError(f"a policy is text or an object such as mm.Adaptive(), and a {type(policy).__name__} is neither")
