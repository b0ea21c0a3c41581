"""Settings of sessions: early stopping, retention of samples, drift detection, selection and storage."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from . import _check, _modelmix
from ._arguments import checked

__all__ = ["Capped", "HalfLife", "Retention", "SessionSettings", "Until", "Window"]


def __dir__() -> list[str]:
    return __all__


@checked
@dataclass(frozen=True, kw_only=True)
class Until:
    """The condition for early stopping: the distance to the optimum is below a tolerance at a given confidence.

    Parameters
    ----------
    gain
        The tolerance as a share of the gain: the loss of the best single model minus that of the best mixture.
    loss
        The tolerance as a difference in loss from the minimum. Give either ``gain`` or ``loss``.
    confidence
        The probability that the tolerance holds when the session stops. It is valid over all checks of the session together
        (optional stopping).
    of
        What must be near the optimum: the ``"weights"`` of the report, or the ``"shares"`` of the collected samples.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If both or neither of ``gain`` and ``loss`` are given, or a number is out of range.

    Examples
    --------
    >>> Until(gain=0.05)
    Until(gain=0.05, loss=None, confidence=0.95, of='weights')
    >>> Until(gain=0.05, loss=0.001)
    Traceback (most recent call last):
    ValueError: Until has gain 0.05 and loss 0.001; give one of them
    """

    gain: float | None = None
    loss: float | None = None
    confidence: float = 0.95
    of: Literal["weights", "shares"] = "weights"

    def __post_init__(self) -> None:
        """Validate the fields."""
        if (self.gain is None) == (self.loss is None):
            raise ValueError(
                "Until needs a share of the gain or a loss, as in mm.Until(gain=0.05) or mm.Until(loss=0.001)"
                if self.gain is None
                else f"Until has gain {self.gain} and loss {self.loss}; give one of them"
            )
        for name in ("gain", "loss"):
            size = getattr(self, name)
            object.__setattr__(self, name, None if size is None else _check.positive(f"the {name} of Until", size))
        confidence = _check.real("confidence", self.confidence)
        if not 0 < confidence < 1:
            raise _check.wrong_value("confidence", self.confidence, "between 0 and 1, such as 0.95")
        object.__setattr__(self, "confidence", confidence)
        object.__setattr__(self, "of", _check.choice("of", self.of, "weights", "shares"))

    @classmethod
    def _read(cls, given: Until | str | None) -> Until | None:
        """Return the condition from an object, or from text: ``"5%"`` of the gain, or ``"loss=0.001"``."""
        if given is None or isinstance(given, Until):
            return given
        gain, loss = _modelmix.until(share_or_loss("until", given))
        return cls(gain=gain, loss=loss)


def share_or_loss(name: str, given: Any) -> str:
    """Return a tolerance as text for the extension: ``"5%"`` of the gain, or a loss."""
    if isinstance(given, str):
        return given
    if not _check.is_number(given):
        raise _check.wrong_type(name, given, 'a share of the gain, such as "5%", or a loss, such as 0.001')
    return repr(_check.real(name, given))


@checked
@dataclass(frozen=True)
class Window:
    """A sliding window: only the latest samples of all arms together count.

    Parameters
    ----------
    samples
        The length of the window, in samples.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If ``samples`` is not a whole number of at least 1.

    Examples
    --------
    >>> Window(500)
    Window(samples=500)
    """

    samples: int

    def __post_init__(self) -> None:
        """Validate the fields."""
        object.__setattr__(self, "samples", _check.whole("the samples of Window", self.samples, 1))


@checked
@dataclass(frozen=True)
class Capped:
    """All samples count, and memory stays bounded: at most ``hold`` samples are held.

    Beyond that number, each new sample evicts the oldest sample of the arm with the most samples. κ between a new sample and evicted
    samples is approximated by random Fourier features, so the kernel must be Gaussian. ``SessionReport.feature_error`` is the
    resulting error of the score.

    Parameters
    ----------
    hold
        The maximum number of samples to hold.
    error
        The largest standard error of an entry of K̂ due to random features; it determines the number of features.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If ``hold`` is not a whole number of at least 1, or ``error`` is not a number.

    Examples
    --------
    >>> Capped(1000)
    Capped(hold=1000, error=0.02)
    """

    hold: int
    error: float = 0.02

    def __post_init__(self) -> None:
        """Validate the fields."""
        object.__setattr__(self, "hold", _check.whole("the hold of Capped", self.hold, 1))
        object.__setattr__(self, "error", _check.positive("the error of Capped", self.error))


@checked
@dataclass(frozen=True)
class HalfLife:
    """Exponential decay: the weight of a sample halves with every ``samples`` later samples of any arm.

    Parameters
    ----------
    samples
        The half-life.
    cap
        A bound on the number of samples held (:class:`Capped`); if ``None``, all samples that still count are held.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If ``samples`` is not a number or ``cap`` is not a :class:`Capped`.

    Examples
    --------
    >>> HalfLife(500, cap=Capped(1000))
    HalfLife(samples=500.0, cap=Capped(hold=1000, error=0.02))
    """

    samples: float
    cap: Capped | None = None

    def __post_init__(self) -> None:
        """Validate the fields."""
        object.__setattr__(self, "samples", _check.positive("the samples of HalfLife", self.samples))
        if self.cap is not None and not isinstance(self.cap, Capped):
            raise _check.wrong_type("the cap of HalfLife", self.cap, "an mm.Capped, such as mm.Capped(1000)")


#: Which samples count, and how many are held.
Retention: TypeAlias = Window | HalfLife | Capped


@checked
@dataclass(frozen=True, kw_only=True)
class SessionSettings:
    """Settings of :class:`modelmix.Session`, :func:`modelmix.run` and :func:`modelmix.simulate`.

    Parameters
    ----------
    retention
        Which samples count, and how many are held: :class:`Window`, :class:`HalfLife` or :class:`Capped`. If ``None``, all samples
        count and are held. A retention cannot be combined with ``until`` or ``select``, which concern all samples ever told.
    alarm
        The false-alarm probability of a drift detector per arm, over the whole session of any length; ``None`` for no detectors.
        ``changed`` in the report is the round in which the samples of an arm were found to differ from its first ones.
    select
        ``"better-half"`` if samples may be discarded: ``Session.kept`` states which samples to keep. A sample is kept if it lowers the
        loss more than half of the samples so far would. The policy learns from all samples; the kept ones are no longer an i.i.d.
        mixture.
    storage
        ``"half"`` stores features in half precision.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If a setting is not one of its choices, or is out of range.

    Examples
    --------
    >>> SessionSettings(retention=Window(500), alarm=0.01)
    SessionSettings(retention=Window(samples=500), alarm=0.01, select='all', storage='single')
    >>> SessionSettings(retention="window=500")
    Traceback (most recent call last):
    TypeError: retention is 'window=500', but it must be an object; write mm.Window(500)
    """

    retention: Retention | None = None
    alarm: float | None = None
    select: Literal["all", "better-half"] = "all"
    storage: Literal["single", "half"] = "single"

    def __post_init__(self) -> None:
        """Validate what can be validated without arms."""
        if self.retention is not None and not isinstance(self.retention, (Window, HalfLife, Capped)):
            raise _check.wrong_type("retention", self.retention, f"an object; write {_spelled(self.retention)}")
        object.__setattr__(self, "alarm", _check.real_or_none("alarm", self.alarm))
        object.__setattr__(self, "select", _check.choice("select", self.select, "all", "better-half"))
        object.__setattr__(self, "storage", _check.choice("storage", self.storage, "single", "half"))

    @classmethod
    def _read(cls, given: SessionSettings | None) -> SessionSettings:
        """Return the given settings, or the defaults."""
        if given is None:
            return cls()
        if isinstance(given, cls):
            return given
        raise _check.wrong_type(
            "settings", given, "an mm.SessionSettings, as in settings=mm.SessionSettings(alarm=0.01)"
        )

    def _retention(self) -> str | None:
        """Return the retention as JSON for the extension."""
        kept = self.retention
        return None if kept is None else json.dumps(_data(kept))


def _data(kept: Retention) -> dict[str, Any]:
    """Return a retention in the JSON form of the library."""
    if isinstance(kept, Window):
        return {"window": kept.samples}
    if isinstance(kept, Capped):
        return {"capped": {"hold": kept.hold, "error": kept.error}}
    cap = {} if kept.cap is None else {"cap": _data(kept.cap)["capped"]}
    return {"half-life": {"samples": kept.samples, **cap}}


def _spelled(given: Any) -> str:
    """Return the object to write instead of the given text."""
    words = str(given).replace(" ", "")
    name, _, number = words.partition("=")
    if name in ("window", "half-life") and number:
        return f"mm.{'Window' if name == 'window' else 'HalfLife'}({number})"
    return "mm.Window(500), mm.HalfLife(500) or mm.Capped(1000)"
