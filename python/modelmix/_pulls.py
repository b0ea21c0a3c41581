"""Pulls, and what is told of them, as the extension takes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ._arrays import floats
from ._numbers import whole, whole_or_none
from ._settings import SessionArguments
from .policies import Policy
from .policies import text as policy_text
from .settings import SessionSettings, Until


@dataclass(frozen=True)
class Pull:
    """A request to an arm for samples, as :meth:`Session.ask` makes it.

    Attributes
    ----------
    id
        The number by which it is told.
    arm
        The arm's name.
    index
        The arm's place among the arms.
    count
        How many samples are wanted.

    Examples
    --------
    >>> import modelmix as mm
    >>> pull = mm.Session(["flux", "sdxl"], mm.Rke(bandwidth=1.0), batch=4).ask()
    >>> pull.id, pull.arm, pull.index, pull.count
    (0, 'sdxl', 1, 4)
    """

    id: int
    arm: str
    index: int
    count: int


def numbers(scores: Mapping[str, Any]) -> dict[str, list[float]]:
    """Scores as the extension takes them: one value per sample, with a single value as a list of one."""
    return {str(name): floats(f"score {name}", [given] if _is_one(given) else given) for name, given in scores.items()}


def pull_of(asked: tuple[int, int, str, int]) -> Pull:
    """A pull as the extension has it."""
    id, index, arm, count = asked
    return Pull(id, arm, index, count)


def arguments(
    policy: Policy | str,
    seed: int,
    batch: int,
    rounds: int | None,
    until: Until | str | None,
    settings: SessionSettings | None,
) -> SessionArguments:
    """How a session is run, as the extension takes it."""
    chosen = SessionSettings._read(settings)
    return SessionArguments(
        policy=policy_text(policy),
        seed=whole("seed", seed),
        batch=whole("batch", batch),
        rounds=whole_or_none("rounds", rounds),
        until=Until._read(until),
        retention=chosen._retention(),
        alarm=chosen.alarm,
        select=chosen.select,
        storage=chosen.storage,
    )


def values(
    kappa: Iterable[float] | Sequence[Iterable[float]], own: float | Sequence[float], linear: float | Sequence[float]
) -> list[tuple[list[float], float, float]]:
    """Samples as the extension takes them: one, or a batch of them."""
    samples: list[tuple[list[float], float, float]]
    if isinstance(own, (int, float)):
        one: Any = kappa
        if not isinstance(linear, (int, float)):
            raise ValueError("one sample is told, with several values of f; give one")
        samples = [([float(value) for value in one], float(own), float(linear))]
    else:
        rows: list[Any] = list(kappa)
        shares = [float(linear)] * len(own) if isinstance(linear, (int, float)) else [float(f) for f in linear]
        if not len(rows) == len(own) == len(shares):
            raise ValueError(
                f"{len(rows)} rows of κ are told with {len(own)} values of κ(x, x) and {len(shares)} of f; give one per sample"
            )
        samples = [([float(value) for value in row], float(self_), f) for row, self_, f in zip(rows, own, shares)]
    return samples


def _is_one(values: Any) -> bool:
    # NumPy's scalars and tensors without an axis are numbers as well
    return isinstance(values, (int, float)) or getattr(values, "ndim", None) == 0


def number(pull: Pull | int) -> int:
    if isinstance(pull, Pull):
        return pull.id
    if isinstance(pull, int) and pull >= 0:
        return pull
    raise ValueError(f"{pull!r} is no pull; tell or abandon what ask returned")
