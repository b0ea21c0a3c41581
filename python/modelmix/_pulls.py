"""Pulls, and what is told of them, as the extension takes it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from . import _check
from ._arrays import floats
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


def numbers(name: str, scores: Any) -> dict[str, list[float]]:
    """Scores as the extension takes them: one value per sample, with a single value as a list of one; ``name`` says whose."""
    found = _check.mapping(name, scores, 'numbers by score, such as {"taste": [0.5, …]}')
    return {_check.text("the name of a score", key): _score(f"score {key}", given) for key, given in found.items()}


def _score(origin: str, given: Any) -> list[float]:
    return floats(origin, [given] if _check.is_number(given) else given)


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
        seed=_check.seed(seed),
        batch=_check.whole("batch", batch, 1),
        rounds=_check.whole_or_none("rounds", rounds, 1),
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
    given: Any = kappa
    selves: Any = own
    shares: Any = linear
    if _check.is_number(selves):
        if not _check.is_number(shares):
            wrong = _check.wrong_value if isinstance(shares, Sequence) else _check.wrong_type
            raise wrong("linear", shares, "one number, since own is one: κ and f of one sample are told")
        return [(floats("kappa", given), _check.real("own", selves), _check.real("linear", shares))]
    if isinstance(selves, str) or not isinstance(selves, Iterable):
        raise _check.wrong_type("own", selves, "a number, or a list of them for a batch")
    rows = _check.items("kappa", given, "one list of numbers per sample")
    selves = floats("own", selves)
    shares = [_check.real("linear", shares)] * len(selves) if _check.is_number(shares) else floats("linear", shares)
    if not len(rows) == len(selves) == len(shares):
        raise ValueError(
            f"{len(rows)} rows of κ are told with {len(selves)} values of κ(x, x) and {len(shares)} of f; give one per sample"
        )
    return [(floats(f"kappa[{at}]", row), selves[at], shares[at]) for at, row in enumerate(rows)]


def number(pull: Pull | int) -> int:
    """The id of a pull."""
    given: Any = pull.id if isinstance(pull, Pull) else pull
    must = "a pull that ask returned, or its id"
    try:
        return _check.whole("pull", given, 0, _check.MOST_SEED)
    except TypeError:
        raise _check.wrong_type("pull", pull, must) from None
    except ValueError:
        raise _check.wrong_value("pull", pull, must) from None
