"""The plan of an accumulator: what is summed, and what it costs."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from . import _check, _modelmix
from ._arguments import checked

#: What is done with the rows.
MethodName: TypeAlias = Literal["rows", "sample", "features", "pairs"]

#: Within the plan, ``bytes`` is a field.
Raw: TypeAlias = bytes


@dataclass(frozen=True)
class AccumulatorPlan:
    """What accumulators compute for an objective, and what it costs; :meth:`Accumulator.plan` makes it.

    Attributes
    ----------
    text
        The plan in a sentence.
    method
        ``"rows"``: all pairs of all rows, exact; ``"sample"``: all pairs of sampled rows; ``"features"``: random Fourier features,
        moments and sums of all rows; ``"pairs"``: all pairs of all rows, exact, one pair of blocks at a time.
    objective
        The objective, with its bandwidths as numbers.
    rows
        The number of rows of all arms and the reference.
    random_features
        The number of random Fourier features per Gaussian kernel; 0 without them.
    gain_error
        The standard error of the gain that random features cause; ``None`` if there are none.
    bytes
        The largest size of an accumulator.
    seconds
        A rough estimate of the time of the sums.
    needs_second_pass
        Whether all rows are read again. If not, :meth:`Accumulator.with_plan` has the answer.
    data
        The plan itself, for workers.

    Examples
    --------
    >>> import modelmix as mm
    >>> survey = mm.Accumulator.survey()
    >>> for name, rows in mm.load("data/fashion/specialists.npz").items():
    ...     survey.update(name, rows)
    >>> plan = survey.plan(mm.Rke(bandwidth=20), method="features", random_features=512)
    >>> plan.method, plan.rows, plan.needs_second_pass
    ('features', 7500, True)
    """

    text: str
    method: str
    objective: str
    rows: int
    random_features: int
    gain_error: float | None
    bytes: int
    seconds: float
    needs_second_pass: bool
    data: Raw = field(repr=False)

    @checked
    def to_bytes(self) -> Raw:
        """Return the plan as bytes.

        Returns
        -------
        bytes
            Bytes for :meth:`from_bytes`.

        Raises
        ------
        TypeError
            If there is an argument.

        Examples
        --------
        >>> import modelmix as mm
        >>> survey = mm.Accumulator.survey()
        >>> survey.update("one", [[0.0], [1.0]])
        >>> plan = survey.plan("rke")
        >>> mm.AccumulatorPlan.from_bytes(plan.to_bytes()) == plan
        True
        """
        return json.dumps({**asdict(self), "data": b64encode(self.data).decode()}).encode()

    @classmethod
    @checked
    def from_bytes(cls, data: Raw) -> AccumulatorPlan:
        """Read a plan.

        Parameters
        ----------
        data
            What :meth:`to_bytes` returned.

        Returns
        -------
        AccumulatorPlan
            The plan.

        Raises
        ------
        ValueError
            If the bytes are not those of a plan.

        Examples
        --------
        >>> import modelmix as mm
        >>> mm.AccumulatorPlan.from_bytes(b"{}")
        Traceback (most recent call last):
        ...
        ValueError: data is b'{}', but it must be the bytes of a plan, from its to_bytes
        """
        try:
            found = json.loads(data)
            return cls(**{**found, "data": b64decode(found["data"])})
        except (ValueError, TypeError, KeyError):
            raise _check.wrong_value("data", data, "the bytes of a plan, from its to_bytes") from None

    def __str__(self) -> str:
        """The plan in a sentence."""
        return self.text


@dataclass(frozen=True)
class PlanSettings:
    """Settings of a plan, in the form that the extension accepts."""

    method: str | None
    random_features: int | None
    error: float | None
    costs: dict[str, float]
    arms: list[str]
    memory: int | None
    threads: int | None

    @classmethod
    def of(
        cls,
        *,
        method: Any,
        random_features: Any,
        error: Any,
        costs: Mapping[str, float] | None,
        arms: Sequence[str] | None,
        memory: Any,
        threads: Any,
    ) -> PlanSettings:
        """Return the arguments of :meth:`Accumulator.plan`, checked."""
        return cls(
            method=None if method is None else _check.choice("method", method, *get_args(MethodName)),
            random_features=_check.whole_or_none("random_features", random_features, 2),
            error=None if error is None else _check.positive("error", error),
            costs=_check.by_arm("costs", "cost", costs),
            arms=[] if arms is None else _check.arm_names("arms", arms),
            memory=memory_size("memory", memory),
            threads=_check.threads(threads),
        )


def plan_data(plan: object) -> bytes:
    """Return the plan in the form that the extension accepts."""
    if not isinstance(plan, AccumulatorPlan):
        raise _check.wrong_type("plan", plan, "a plan from Accumulator.plan")
    return plan.data


def memory_size(name: str, given: int | str | None) -> int | None:
    """Return an amount of memory in bytes."""
    if isinstance(given, str):
        return _modelmix.memory_size(given)
    return _check.whole_or_none(name, given, 1)


def solve_settings(floor: object, cap: object, intervals: object) -> tuple[dict[str, float], dict[str, float], bool]:
    """Return the arguments of :meth:`Accumulator.solve`, checked."""
    floors, caps = _check.by_arm("floor", "floor", floor), _check.by_arm("cap", "cap", cap)
    return floors, caps, _check.flag("intervals", intervals)
