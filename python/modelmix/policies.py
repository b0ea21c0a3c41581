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

from . import _check, _modelmix
from ._arguments import checked

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


def __dir__() -> list[str]:
    return __all__


@checked
@dataclass(frozen=True, repr=False)
class Policy:
    """What policies have in common; use one of its subclasses, such as :class:`Adaptive`.

    ``str()`` of a policy is its text, as the command line takes it.

    Raises
    ------
    TypeError
        If it is made itself.

    Examples
    --------
    >>> isinstance(Adaptive(), Policy), str(Adaptive())
    (True, 'adaptive')
    """

    _name: ClassVar[str] = ""

    def __post_init__(self) -> None:
        """Have the library check the settings."""
        if type(self) is Policy:
            raise TypeError("Policy is what policies have in common; use one of them, such as mm.Adaptive()")
        for setting in fields(self):
            value = getattr(self, setting.name)
            if value is not None and not isinstance(value, (bool, tuple)):
                _check.real(f"the {setting.name} of {type(self).__name__}", value)
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


@checked
@dataclass(frozen=True, repr=False)
class Adaptive(Policy):
    """The default: confidence widths from the samples' own variance, without a constant to choose.

    Examples
    --------
    >>> str(Adaptive())
    'adaptive'
    """

    _name = "adaptive"


@checked
@dataclass(frozen=True, repr=False)
class Cab(Policy):
    """Mixture-UCB-CAB of the paper.

    Parameters
    ----------
    beta
        β of the confidence widths, more than 1; 4 if ``None``.
    sensitivity
        Δ_L, the constant to tune; theory's if ``None``.
    kappa
        Δ_κ, the range of κ; the kernel's if ``None``.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If a setting is out of its range.

    Examples
    --------
    >>> str(Cab(sensitivity=0.03))
    'cab(sensitivity=0.03)'
    """

    _name = "cab"
    beta: float | None = None
    sensitivity: float | None = None
    kappa: float | None = None


@checked
@dataclass(frozen=True, repr=False)
class Ogd(Policy):
    """Mixture-UCB-OGD of the paper: one gradient step per round instead of a quadratic program.

    Parameters
    ----------
    beta
        β of the confidence widths, more than 1; 4 if ``None``.
    sensitivity
        Δ_L, the constant to tune; theory's if ``None``.
    kappa
        Δ_κ, the range of κ; the kernel's if ``None``.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If a setting is out of its range.

    Examples
    --------
    >>> str(Ogd(sensitivity=0.1))
    'ogd(sensitivity=0.1)'
    """

    _name = "ogd"
    beta: float | None = None
    sensitivity: float | None = None
    kappa: float | None = None


@checked
@dataclass(frozen=True, repr=False)
class Vanilla(Policy):
    """UCB for the best single arm, the baseline of the paper.

    Parameters
    ----------
    beta
        β of the confidence widths, more than 1; 4 if ``None``.
    sensitivity
        Δ_L, the constant to tune; theory's if ``None``.
    kappa
        Δ_κ, the range of κ; the kernel's if ``None``.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If a setting is out of its range.

    Examples
    --------
    >>> str(Vanilla())
    'vanilla'
    """

    _name = "vanilla"
    beta: float | None = None
    sensitivity: float | None = None
    kappa: float | None = None


@checked
@dataclass(frozen=True, repr=False)
class Sparse(Policy):
    """Mixture-UCB-Sparse of the paper: a mixture of few arms.

    Parameters
    ----------
    fee
        The price per round of every arm in use. Give either ``fee`` or ``keep``.
    keep
        The number of arms to end with.
    step
        With ``keep``, how fast the fee grows.
    beta, sensitivity, kappa
        As in :class:`Cab`.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If there is neither ``fee`` nor ``keep``, or a setting is out of its range.

    Examples
    --------
    >>> Sparse(keep=2)
    Sparse(keep=2)
    >>> Sparse()
    Traceback (most recent call last):
    ...
    ValueError: cannot read "sparse" at character 1: sparse needs either fee=…, the fee per arm and round, or keep=…, the number of arms to end with (then step=…, how fast the fee grows, is optional)
    """

    _name = "sparse"
    fee: float | None = None
    keep: int | None = None
    step: float | None = None
    beta: float | None = None
    sensitivity: float | None = None
    kappa: float | None = None


@checked
@dataclass(frozen=True, repr=False)
class Greedy(Policy):
    """The best mixture of the samples so far, without exploration.

    Examples
    --------
    >>> str(Greedy())
    'greedy'
    """

    _name = "greedy"


@checked
@dataclass(frozen=True, repr=False)
class Halving(Policy):
    """Successive Halving, for the best single arm.

    Parameters
    ----------
    rounds
        How many pulls there will be; the session's ``rounds`` if ``None``.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If ``rounds`` is not a whole number.

    Examples
    --------
    >>> str(Halving(rounds=500))
    'halving(rounds=500)'
    """

    _name = "halving"
    rounds: int | None = None


@checked
@dataclass(frozen=True, repr=False)
class Uniform(Policy):
    """Every arm equally often.

    Examples
    --------
    >>> str(Uniform())
    'uniform'
    """

    _name = "uniform"


@checked
@dataclass(frozen=True, repr=False)
class Fixed(Policy):
    """Given weights.

    Parameters
    ----------
    weights
        The arms' weights, in the order of the arms.
    tracked
        Whether the shares follow the weights as closely as possible; drawn at random if ``False``.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If the weights are not numbers of at least 0 with a positive sum.

    Examples
    --------
    >>> str(Fixed([0.5, 0.3, 0.2], tracked=True))
    'fixed(weights=0.5 0.3 0.2, tracked=true)'
    """

    _name = "fixed"
    weights: Sequence[float]
    tracked: bool = False

    def __post_init__(self) -> None:
        """Keep the weights as they are now."""
        weights = _check.items("weights", self.weights, "a list of numbers, such as [0.5, 0.5]")
        object.__setattr__(self, "weights", tuple(_check.real("a weight of Fixed", weight) for weight in weights))
        object.__setattr__(self, "tracked", _check.flag("tracked", self.tracked))
        super().__post_init__()


@checked
@dataclass(frozen=True, repr=False)
class MixtureOracle(Policy):
    """The optimal mixture of the recorded arms; for :func:`modelmix.simulate` only.

    Examples
    --------
    >>> str(MixtureOracle())
    'mixture-oracle'
    """

    _name = "mixture-oracle"


@checked
@dataclass(frozen=True, repr=False)
class OneArmOracle(Policy):
    """The best single recorded arm; for :func:`modelmix.simulate` only.

    Examples
    --------
    >>> str(OneArmOracle())
    'one-arm-oracle'
    """

    _name = "one-arm-oracle"


def text(policy: Policy | str) -> str:
    """A policy as the extension takes it."""
    if isinstance(policy, (Policy, str)):
        return str(policy)
    raise _check.wrong_type("policy", policy, "a policy: text, or an object such as mm.Adaptive()")


def texts(policies: Sequence[Policy | str]) -> list[str]:
    """Several policies as the extension takes them."""
    if isinstance(policies, (str, Policy)):
        raise _check.wrong_type("policies", policies, f'a list of policies; write policies=["{policies}"]')
    return [text(policy) for policy in _check.items("policies", policies, "a list of policies, such as [mm.Cab()]")]
