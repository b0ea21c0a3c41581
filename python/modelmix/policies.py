"""Policies: the bandit algorithms that choose the next arm. ``str()`` of a policy is its text on the command line.

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
    """The base class of policies; use a subclass, such as :class:`Adaptive`.

    ``str()`` of a policy is its text on the command line.

    Raises
    ------
    TypeError
        If the base class itself is instantiated.

    Examples
    --------
    >>> isinstance(Adaptive(), Policy), str(Adaptive())
    (True, 'adaptive')
    """

    _name: ClassVar[str] = ""

    def __post_init__(self) -> None:
        """Validate the settings."""
        if type(self) is Policy:
            raise TypeError("Policy is the base class of policies; use a subclass, such as mm.Adaptive()")
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
        """Return the text of the policy on the command line."""
        return _modelmix.policy(self._text())

    def __repr__(self) -> str:
        """Return the constructor call, without arguments that have their default."""
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
    """The default policy: confidence widths are estimated from the variance of the samples, with no constant to choose.

    Examples
    --------
    >>> str(Adaptive())
    'adaptive'
    """

    _name = "adaptive"


@checked
@dataclass(frozen=True, repr=False)
class Cab(Policy):
    """Mixture-UCB-CAB, Algorithm 1 of the paper.

    Parameters
    ----------
    beta
        β of the confidence widths, above 1; 4 if ``None``.
    sensitivity
        Δ_L, the constant to tune; the theoretical value if ``None``.
    kappa
        Δ_κ, the range of κ; that of the kernel if ``None``.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If a setting is out of range.

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
    """Mixture-UCB-OGD, Algorithm 2 of the paper: one gradient step per round instead of a quadratic program.

    Parameters
    ----------
    beta
        β of the confidence widths, above 1; 4 if ``None``.
    sensitivity
        Δ_L, the constant to tune; the theoretical value if ``None``.
    kappa
        Δ_κ, the range of κ; that of the kernel if ``None``.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If a setting is out of range.

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
    """Vanilla-UCB for best-arm identification, a baseline of the paper.

    Parameters
    ----------
    beta
        β of the confidence widths, above 1; 4 if ``None``.
    sensitivity
        Δ_L, the constant to tune; the theoretical value if ``None``.
    kappa
        Δ_κ, the range of κ; that of the kernel if ``None``.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If a setting is out of range.

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
    """Mixture-UCB-Sparse, Algorithm 3 of the paper: a mixture of few arms.

    Parameters
    ----------
    fee
        The price per arm and round of the arms in use. Give either ``fee`` or ``keep``.
    keep
        The final number of arms.
    step
        With ``keep``, the growth rate of the fee.
    beta, sensitivity, kappa
        As in :class:`Cab`.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If neither or both of ``fee`` and ``keep`` are given, or a setting is out of range.

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
    """Pulls by the best mixture so far, without exploration.

    Examples
    --------
    >>> str(Greedy())
    'greedy'
    """

    _name = "greedy"


@checked
@dataclass(frozen=True, repr=False)
class Halving(Policy):
    """Successive Halving for best-arm identification.

    Parameters
    ----------
    rounds
        The total number of pulls; the ``rounds`` of the session if ``None``.

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
    """Pulls every arm equally often.

    Examples
    --------
    >>> str(Uniform())
    'uniform'
    """

    _name = "uniform"


@checked
@dataclass(frozen=True, repr=False)
class Fixed(Policy):
    """Pulls arms with given weights.

    Parameters
    ----------
    weights
        The weights, in the order of the arms.
    tracked
        Whether shares follow the weights as closely as possible. If ``False``, arms are drawn at random.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If a weight is negative, or the sum of the weights is not positive.

    Examples
    --------
    >>> str(Fixed([0.5, 0.3, 0.2], tracked=True))
    'fixed(weights=0.5 0.3 0.2, tracked=true)'
    """

    _name = "fixed"
    weights: Sequence[float]
    tracked: bool = False

    def __post_init__(self) -> None:
        """Copy and validate the weights."""
        weights = _check.items("weights", self.weights, "a list of numbers, such as [0.5, 0.5]")
        object.__setattr__(self, "weights", tuple(_check.real("a weight of Fixed", weight) for weight in weights))
        object.__setattr__(self, "tracked", _check.flag("tracked", self.tracked))
        super().__post_init__()


@checked
@dataclass(frozen=True, repr=False)
class MixtureOracle(Policy):
    """Pulls by the optimal mixture of the recorded arms; for :func:`modelmix.simulate` only.

    Examples
    --------
    >>> str(MixtureOracle())
    'mixture-oracle'
    """

    _name = "mixture-oracle"


@checked
@dataclass(frozen=True, repr=False)
class OneArmOracle(Policy):
    """Pulls the best single recorded arm; for :func:`modelmix.simulate` only.

    Examples
    --------
    >>> str(OneArmOracle())
    'one-arm-oracle'
    """

    _name = "one-arm-oracle"


def text(policy: Policy | str) -> str:
    """Return the text of a policy, which the extension accepts."""
    if isinstance(policy, (Policy, str)):
        return str(policy)
    raise _check.wrong_type("policy", policy, "a policy: text, or an object such as mm.Adaptive()")


def texts(policies: Sequence[Policy | str]) -> list[str]:
    """Return the texts of several policies, which the extension accepts."""
    if isinstance(policies, (str, Policy)):
        raise _check.wrong_type("policies", policies, f'a list of policies; write policies=["{policies}"]')
    return [text(policy) for policy in _check.items("policies", policies, "a list of policies, such as [mm.Cab()]")]
