"""Online: ask which arm to pull, tell what came back."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from . import _modelmix
from ._arrays import ArrayLike, as_rows, floats
from ._numbers import real_or_none, whole, whole_or_none
from ._settings import SessionSettings, stop
from .objectives import Objective, Problem, problem
from .policies import Policy
from .policies import text as policy_text
from .results import SessionReport

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["Pull", "Session"]


@dataclass(frozen=True)
class Pull:
    """A request to an arm: give ``count`` samples."""

    id: int
    #: The arm's name.
    arm: str
    #: Its place among the arms.
    index: int
    count: int


class Session:
    """Chooses which arm to pull next, so that as few samples as possible are spent on finding the best mixture.

    >>> import modelmix as mm
    >>> session = mm.Session(["left", "right"], mm.Rke(bandwidth=1.0), seed=0)
    >>> for number in range(40):
    ...     pull = session.ask()
    ...     session.tell(pull, [0.0 if pull.arm == "left" else 9.0, float(number)])
    >>> report = session.report()
    >>> report.samples, {arm.name: round(arm.weight, 1) for arm in report.arms}
    (40, {'left': 0.5, 'right': 0.5})

    Pulls may be asked for before earlier ones are answered, may come back in any order, in batches, or never
    (:meth:`abandon`). Any thread may use a session. It pickles, with its objective; what it was told is kept as it was, so that
    arrays may be written to afterwards.
    """

    def __init__(
        self,
        arms: Iterable[str],
        objective: Objective | str | None = None,
        *,
        policy: Policy | str = "adaptive",
        seed: int = 0,
        batch: int = 1,
        rounds: int | None = None,
        storage: Literal["single", "half"] = "single",
        select: Literal["all", "better-half"] = "all",
        until: str | float | None = None,
        confidence: float = 0.95,
        certify: Literal["weights", "shares"] = "weights",
        hold: int | None = None,
        feature_error: float | None = None,
        forget: str | None = None,
        alarm: float | None = None,
        reference: ArrayLike | None = None,
        bandwidth: float | None = None,
        costs: Mapping[str, float] | None = None,
        kappa_range: tuple[float, float] | None = None,
        score_ranges: Mapping[str, tuple[float, float]] | None = None,
        width: int | None = None,
        threads: int | None = None,
    ) -> None:
        """Start with the arms' names and what is to be minimised.

        A pull asks for ``batch`` samples. ``rounds`` is how many pulls there will be, where that is known (Successive Halving
        plans by it). ``storage="half"`` holds features in half precision. A bandwidth must be given where no reference tells
        the scale of the features. With ``until`` the session says when it may stop (:attr:`is_done`): when the weights, or the
        shares of the samples, are known to be within ``"5%"`` of the gain, or so much of the loss, of the optimum; it then sees to
        it that every arm has samples enough to tell. ``kappa_range`` and ``score_ranges`` are for policies with constants, where a kernel or a
        score has no range of its own; ``width`` is that of the features, where a kernel needs it before the first.

        With ``hold`` the session runs without end in the same memory: so many samples are held, and κ between new ones and those
        let go is estimated by random features of the Gaussian kernel, so many that no entry of K has a larger standard error than
        ``feature_error`` for it (1,000 and 0.02, where only one of them is given). The report says what that does to the score.

        Where models may change, ``forget="window=500"`` counts the last 500 samples only, and ``forget="half-life=500"`` counts a
        sample half as much after 500 later ones. With ``alarm=0.01`` every arm is watched: ``changed`` in the report is the round in which its
        samples were found not to be like its first ones, wrongly so with a chance of 1% an arm, however long the session runs.

        ``select="better-half"`` is for those who may discard samples: :attr:`kept` says which to keep, those that lower the loss
        more than half of the samples so far would; the policy learns from all, and the kept ones are no longer an i.i.d. mixture.
        """
        self._problem: Problem | None = problem(
            objective,
            reference=reference,
            costs=costs,
            bandwidth=bandwidth,
            kappa_range=kappa_range,
            score_ranges=score_ranges,
            width=width,
            seed=seed,
            threads=threads,
        )
        settings = SessionSettings(
            policy_text(policy),
            whole("seed", seed),
            whole("batch", batch),
            whole_or_none("rounds", rounds),
            str(storage),
            str(select),
            stop(until, confidence, certify),
            hold=whole_or_none("hold", hold),
            feature_error=real_or_none("feature_error", feature_error),
            forget=None if forget is None else str(forget),
            alarm=real_or_none("alarm", alarm),
        )
        self._inner = _modelmix.Session.over_features([str(arm) for arm in arms], self._problem, settings)

    @classmethod
    def on_values(
        cls,
        arms: Iterable[str],
        *,
        policy: Policy | str = "adaptive",
        seed: int = 0,
        batch: int = 1,
        rounds: int | None = None,
        until: str | float | None = None,
        confidence: float = 0.95,
        certify: Literal["weights", "shares"] = "weights",
        forget: str | None = None,
        select: Literal["all", "better-half"] = "all",
        ranges: tuple[tuple[float, float], tuple[float, float]] | None = None,
    ) -> Session:
        """Start a session without features: you give κ and f of every sample (:meth:`tell_values`).

        ``ranges`` are the smallest and largest values of κ and of f, for policies with constants. ``forget`` may be a half-life.
        """
        settings = SessionSettings(
            policy_text(policy),
            whole("seed", seed),
            whole("batch", batch),
            whole_or_none("rounds", rounds),
            "single",
            str(select),
            stop(until, confidence, certify),
            forget=None if forget is None else str(forget),
        )
        return cls._around(_modelmix.Session.over_values([str(arm) for arm in arms], ranges, settings), None)

    @classmethod
    def _around(cls, inner: _modelmix.Session, given: Problem | None) -> Session:
        session = cls.__new__(cls)
        session._inner, session._problem = inner, given
        return session

    @property
    def arms(self) -> list[str]:
        """The arms' names."""
        return self._inner.arms()

    @property
    def is_done(self) -> bool:
        """Whether what ``until`` asks for is reached; once it is, it stays so."""
        return self._inner.is_done()

    @property
    def in_flight(self) -> list[Pull]:
        """The pulls that were neither told nor abandoned yet, oldest first."""
        return [Pull(id, arm, index, count) for id, index, arm, count in self._inner.in_flight()]

    @property
    def samples(self) -> npt.NDArray[np.float32] | None:
        """The features held, in the order told (all, unless ``hold`` is given); none where there are none."""
        return self._inner.samples()

    @property
    def kept(self) -> list[bool]:
        """Whether each sample told is kept, in the order told: all are, without ``select``.

        >>> import modelmix as mm
        >>> session = mm.Session(["one"], mm.Rke(bandwidth=1.0), select="better-half")
        >>> for place in [0.0, 3.0, 6.0, 9.0, 0.1, 12.0]:
        ...     session.tell(session.ask(), [place])
        >>> session.kept
        [True, True, True, True, False, True]
        """
        return self._inner.kept()

    def ask(self) -> Pull:
        """Which arm to pull next."""
        id, index, arm, count = self._inner.ask()
        return Pull(id, arm, index, count)

    def tell(
        self,
        pull: Pull | int,
        features: ArrayLike,
        *,
        scores: Mapping[str, float | Iterable[float]] | None = None,
    ) -> None:
        """Tell what came back: features of the samples, one row each (or a single row), and any scores of your own.

        What does not fit is a ValueError, and the session is as it was.
        """
        number = _number(pull)
        self._inner.tell(number, as_rows(f"pull {number}", features), numbers(scores or {}))

    def tell_values(
        self,
        pull: Pull | int,
        kappa: Iterable[float] | Sequence[Iterable[float]],
        own: float | Sequence[float],
        linear: float | Sequence[float] = 0.0,
    ) -> None:
        """Tell a sample as numbers: κ against every earlier sample in the order told, κ against itself, and f.

        For a batch give lists of them; κ of a later sample of the batch counts the earlier ones.
        """
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
                    f"{len(rows)} rows of κ are told with {len(own)} values of κ(x, x) and {len(shares)} of f; give one a sample"
                )
            samples = [([float(value) for value in row], float(self_), f) for row, self_, f in zip(rows, own, shares)]
        self._inner.tell_values(_number(pull), samples)

    def abandon(self, pull: Pull | int) -> None:
        """Give a pull up: nothing came back. An arm that fails is left alone for a while."""
        self._inner.abandon(_number(pull))

    def forget(self, arm: str) -> None:
        """Forget all samples of an arm, so that it is learned anew, such as after its alarm."""
        if arm not in self.arms:
            raise ValueError(f"there is no arm {arm!r} to forget; there are {', '.join(self.arms)}")
        self._inner.forget(self.arms.index(arm))

    def report(self) -> SessionReport:
        """The weights as far as they are known, and how the samples held do."""
        return SessionReport._read(self._inner.report(), None if self._problem is None else self._problem.objective)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a snapshot; :meth:`restore` gives back the session to the last bit. The file is whole or as it was."""
        target = Path(path)
        partial = target.with_name(target.name + ".partial")
        with open(partial, "w", encoding="utf-8") as file:
            file.write(self._inner.snapshot())
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, target)

    @classmethod
    def restore(
        cls,
        path: str | os.PathLike[str],
        objective: Objective | str | None = None,
        *,
        reference: ArrayLike | None = None,
        bandwidth: float | None = None,
        costs: Mapping[str, float] | None = None,
        kappa_range: tuple[float, float] | None = None,
        score_ranges: Mapping[str, tuple[float, float]] | None = None,
        width: int | None = None,
        seed: int = 0,
        threads: int | None = None,
        values: bool = False,
    ) -> Session:
        """Read a snapshot; the objective is the one that the session was started with (none, with ``values=True``, for one on values)."""
        given = problem(
            objective,
            reference=reference,
            costs=costs,
            bandwidth=bandwidth,
            kappa_range=kappa_range,
            score_ranges=score_ranges,
            width=width,
            seed=seed,
            threads=threads,
        )
        text = Path(path).read_text(encoding="utf-8")
        return cls._around(_modelmix.Session.restore(text, None if values else given), None if values else given)

    def __repr__(self) -> str:
        """The session in a line."""
        arms = self.arms
        shown = ", ".join(arms[:5]) + (", …" if len(arms) > 5 else "")
        objective = "" if self._problem is None else f", {self._problem.objective}"
        return f"<modelmix.Session of {len(arms)} arms ({shown}){objective}, {self.report().samples} samples>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the snapshot and what the objective needs."""
        return (_restored, (type(self), self._inner.snapshot(), self._problem))


def numbers(scores: Mapping[str, Any]) -> dict[str, list[float]]:
    """Scores as the extension takes them: a value a sample, a single value being a list too."""
    return {
        str(name): [float(given)] if _is_one(given) else floats(f"score {name}", given)
        for name, given in scores.items()
    }


def _is_one(values: Any) -> bool:
    # NumPy's scalars and tensors without an axis are numbers as well
    return isinstance(values, (int, float)) or getattr(values, "ndim", None) == 0


def _restored(cls: type[Session], snapshot: str, given: Problem | None) -> Session:
    return cls._around(_modelmix.Session.restore(snapshot, given), given)


def _number(pull: Pull | int) -> int:
    if isinstance(pull, Pull):
        return pull.id
    if isinstance(pull, int) and pull >= 0:
        return pull
    raise ValueError(f"{pull!r} is no pull; tell or abandon what ask returned")
