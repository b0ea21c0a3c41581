"""Pulls, and their answers in the form that the extension accepts."""

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
    """A request for samples from one arm, returned by :meth:`Session.ask`.

    Attributes
    ----------
    id
        The number that identifies the pull in ``tell`` and ``abandon``.
    arm
        The name of the arm.
    index
        The index of the arm.
    count
        The number of samples requested.

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
    """Return scores as one list of values per score; a single value becomes a list of one. ``name`` names them in messages."""
    found = _check.mapping(name, scores, 'numbers by score, such as {"taste": [0.5, …]}')
    return {_check.text("the name of a score", key): _score(f"score {key}", given) for key, given in found.items()}


def _score(origin: str, given: Any) -> list[float]:
    return floats(origin, [given] if _check.is_number(given) else given)


def pull_of(asked: tuple[int, int, str, int]) -> Pull:
    """Return a pull from the tuple that the extension returns."""
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
    """Return the settings of a session in the form that the extension accepts."""
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
    """Return one sample or a batch in the form that the extension accepts."""
    given: Any = kappa
    selves: Any = own
    shares: Any = linear
    if _check.is_number(selves):
        if not _check.is_number(shares):
            wrong = _check.wrong_value if isinstance(shares, Sequence) else _check.wrong_type
            raise wrong("linear", shares, "one number, because own is one number (one sample)")
        return [(floats("kappa", given), _check.real("own", selves), _check.real("linear", shares))]
    if isinstance(selves, str) or not isinstance(selves, Iterable):
        raise _check.wrong_type("own", selves, "a number, or a list of numbers for a batch")
    rows = _check.items("kappa", given, "one list of numbers per sample")
    selves = floats("own", selves)
    shares = [_check.real("linear", shares)] * len(selves) if _check.is_number(shares) else floats("linear", shares)
    if not len(rows) == len(selves) == len(shares):
        raise ValueError(
            f"kappa has {len(rows)} rows, but own has {len(selves)} values and linear has {len(shares)}; give one of each per sample"
        )
    return [(floats(f"kappa[{at}]", row), selves[at], shares[at]) for at, row in enumerate(rows)]


def number(pull: Pull | int) -> int:
    """Return the id of a pull."""
    given: Any = pull.id if isinstance(pull, Pull) else pull
    must = "a pull that ask returned, or its id"
    try:
        return _check.whole("pull", given, 0, _check.MOST_SEED)
    except TypeError:
        raise _check.wrong_type("pull", pull, must) from None
    except ValueError:
        raise _check.wrong_value("pull", pull, must) from None
