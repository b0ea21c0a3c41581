"""Online: ask which arm to pull, tell what came back."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _modelmix
from ._arrays import ArrayLike, as_rows, floats
from ._numbers import whole, whole_or_none
from ._settings import SessionArguments
from .objectives import Objective, Problem, problem
from .policies import Policy
from .policies import text as policy_text
from .results import SessionReport
from .settings import SessionSettings, Until

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
        until: Until | str | float | None = None,
        settings: SessionSettings | None = None,
        reference: ArrayLike | None = None,
        bandwidth: float | None = None,
        costs: Mapping[str, float] | None = None,
        kappa_range: tuple[float, float] | None = None,
        score_ranges: Mapping[str, tuple[float, float]] | None = None,
        width: int | None = None,
        threads: int | None = None,
    ) -> None:
        """Start with the arms' names and what is to be minimised.

        Parameters
        ----------
        arms
            The arms' names.
        objective
            What is minimised, as in :func:`modelmix.solve`.
        policy
            How arms are chosen: an object such as ``mm.Cab()``, or text.
        seed
            The random seed of every choice.
        batch
            Samples per pull.
        rounds
            How many pulls there will be, if that is known; Successive Halving plans by it.
        until
            When the session may stop (:attr:`is_done`): an :class:`Until`, or ``"5%"`` of the gain, or a loss. It then sees to
            it that every arm has enough samples to tell.
        settings
            Which samples count, drift alarms and the rest: :class:`SessionSettings`.
        reference, bandwidth, costs
            What the objective needs, unless its terms were given it. An automatic bandwidth is the median distance within the
            reference, whatever the ``seed``; without a reference, a bandwidth must be given.
        kappa_range, score_ranges
            The least and greatest value of κ, and of scores by name, for policies with constants, if a kernel or a score has no
            range of its own.
        width
            The number of features, if a kernel needs it before the first sample.
        threads
            Threads to compute with; all cores, unless it is given.
        """
        self._problem: Problem | None = problem(
            objective,
            reference=reference,
            costs=costs,
            bandwidth=bandwidth,
            kappa_range=kappa_range,
            score_ranges=score_ranges,
            width=width,
            threads=threads,
        )
        arguments = _arguments(policy, seed, batch, rounds, until, settings)
        self._inner = _modelmix.Session.over_features([str(arm) for arm in arms], self._problem, arguments)

    @classmethod
    def on_values(
        cls,
        arms: Iterable[str],
        *,
        policy: Policy | str = "adaptive",
        seed: int = 0,
        batch: int = 1,
        rounds: int | None = None,
        until: Until | str | float | None = None,
        settings: SessionSettings | None = None,
        ranges: tuple[tuple[float, float], tuple[float, float]] | None = None,
    ) -> Session:
        """Start a session without features: you give κ and f of every sample (:meth:`tell_values`).

        ``ranges`` are the smallest and largest values of κ and of f, for policies with constants. All else is as in
        :class:`Session`; of the retentions, only :class:`HalfLife` can do without features.
        """
        arguments = _arguments(policy, seed, batch, rounds, until, settings)
        return cls._around(_modelmix.Session.over_values([str(arm) for arm in arms], ranges, arguments), None)

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
        return [pull_of(asked) for asked in self._inner.in_flight()]

    @property
    def samples(self) -> npt.NDArray[np.float32] | None:
        """The features held, in the order told, known ones included; all, unless a retention lets some go. ``None`` if there are none."""
        return self._inner.samples()

    @property
    def kept(self) -> list[bool]:
        """Whether each sample is kept, in the order told: all are, without ``select``; known ones never are.

        >>> import modelmix as mm
        >>> half = mm.SessionSettings(select="better-half")
        >>> session = mm.Session(["one"], mm.Rke(bandwidth=1.0), settings=half)
        >>> for place in [0.0, 3.0, 6.0, 9.0, 0.1, 12.0]:
        ...     session.tell(session.ask(), [place])
        >>> session.kept
        [True, True, True, True, False, True]
        """
        return self._inner.kept()

    def ask(self) -> Pull:
        """Which arm to pull next."""
        return pull_of(self._inner.ask())

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
        self._inner.tell_values(_number(pull), _values(kappa, own, linear))

    def known(
        self,
        arm: str,
        features: ArrayLike,
        *,
        scores: Mapping[str, float | Iterable[float]] | None = None,
        collected: bool = False,
    ) -> None:
        """Give samples of an arm that were recorded before, and not asked for (a warm start).

        They are evidence: they count in the weights, in the bounds and for ``until``, so that an arm with known samples needs no
        first pull and a session may be sure before it has asked for anything. They must be draws of what the arm will give: no
        selection, no earlier version of the model.

        Parameters
        ----------
        arm
            The arm's name.
        features
            Features of the samples, one row per sample.
        scores
            The scores that the objective asks for, by name, one value per sample.
        collected
            Whether the samples also belong to the pool that is collected: its shares, its loss and its number of samples.

        Raises
        ------
        ValueError
            If something does not fit; the session is then as it was.

        Examples
        --------
        >>> import modelmix as mm
        >>> session = mm.Session(["left", "right"], mm.Rke(bandwidth=1.0))
        >>> session.known("left", [[0.0, number] for number in range(10)])
        >>> session.known("right", [[9.0, number] for number in range(10)])
        >>> report = session.report()
        >>> report.samples, report.known, {arm.name: round(arm.weight, 1) for arm in report.arms}
        (0, 20, {'left': 0.5, 'right': 0.5})
        """
        rows = as_rows(f"known samples of arm {arm}", features)
        self._inner.known(self._index(arm), rows, numbers(scores or {}), bool(collected))

    def known_values(
        self,
        arm: str,
        kappa: Iterable[float] | Sequence[Iterable[float]],
        own: float | Sequence[float],
        linear: float | Sequence[float] = 0.0,
        *,
        collected: bool = False,
    ) -> None:
        """Give recorded samples as numbers, as in :meth:`tell_values`; earlier known samples count among the earlier ones."""
        self._inner.known_values(self._index(arm), _values(kappa, own, linear), bool(collected))

    def abandon(self, pull: Pull | int) -> None:
        """Give a pull up: nothing came back. An arm that fails is left alone for a while."""
        self._inner.abandon(_number(pull))

    def forget(self, arm: str) -> None:
        """Forget all samples of an arm, so that it is learned anew, such as after its alarm."""
        self._inner.forget(self._index(arm))

    def _index(self, arm: str) -> int:
        arms = self.arms
        if arm not in arms:
            raise ValueError(f"there is no arm {arm!r}; there are {', '.join(arms)}")
        return arms.index(arm)

    def report(self, *, bounds: bool = True) -> SessionReport:
        """The weights as far as they are known, and how the samples collected do.

        With many arms the two bounds take most of the time; ``bounds=False`` leaves them out.
        """
        document = self._inner.report(bool(bounds))
        return SessionReport._read(document, None if self._problem is None else self._problem.objective)

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
            threads=threads,
        )
        text = Path(path).read_text(encoding="utf-8")
        return cls._around(_modelmix.Session.restore(text, None if values else given), None if values else given)

    def __repr__(self) -> str:
        """The session in a line."""
        arms = self.arms
        shown = ", ".join(arms[:5]) + (", …" if len(arms) > 5 else "")
        objective = "" if self._problem is None else f", {self._problem.objective}"
        return f"<modelmix.Session of {len(arms)} arms ({shown}){objective}, {self._inner.size()} samples>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the snapshot and what the objective needs."""
        return (_restored, (type(self), self._inner.snapshot(), self._problem))


def numbers(scores: Mapping[str, Any]) -> dict[str, list[float]]:
    """Scores as the extension takes them: a value a sample, a single value being a list too."""
    return {
        str(name): [float(given)] if _is_one(given) else floats(f"score {name}", given)
        for name, given in scores.items()
    }


def pull_of(asked: tuple[int, int, str, int]) -> Pull:
    """A pull as the extension has it."""
    id, index, arm, count = asked
    return Pull(id, arm, index, count)


def _arguments(
    policy: Policy | str,
    seed: int,
    batch: int,
    rounds: int | None,
    until: Until | str | float | None,
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


def _values(
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
                f"{len(rows)} rows of κ are told with {len(own)} values of κ(x, x) and {len(shares)} of f; give one a sample"
            )
        samples = [([float(value) for value in row], float(self_), f) for row, self_, f in zip(rows, own, shares)]
    return samples


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
