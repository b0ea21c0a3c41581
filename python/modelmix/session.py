"""Online: ask which arm to pull, tell its samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from . import _check, _modelmix
from ._arguments import checked
from ._arrays import ArrayLike, as_rows
from ._files import Rows, recorded
from ._lazy import Lazy
from ._problem import Problem, problem
from ._pulls import Pull, arguments, number, numbers, pull_of, values
from ._stored import StoredSession
from .objectives import Objective
from .policies import Policy
from .results import SessionReport
from .settings import SessionSettings, Until

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
else:
    np, npt = Lazy("numpy"), Lazy("numpy.typing")

__all__ = ["Pull", "Session"]


def __dir__() -> list[str]:
    return __all__


_RANGES = "two pairs, the smallest and largest κ and those of f, such as ((0.0, 1.0), (-1.0, 1.0))"


class Session(StoredSession):
    """Chooses which arm to pull next, to find the best mixture with few samples.

    Pulls may be asked for before earlier ones are answered, and answered in any order, in batches, or never (:meth:`abandon`).
    A session is thread-safe. It can be pickled, with its objective. It copies its input, so arrays may be modified afterwards.

    Parameters
    ----------
    arms
        The arms' names, as a list.
    objective
        The objective to minimise, as in :func:`modelmix.solve`.
    policy
        The policy that chooses arms: an object such as ``mm.Cab()``, or text.
    seed
        The random seed.
    batch
        Samples per pull.
    rounds
        The number of pulls, if it is known; Successive Halving needs it.
    until
        When the session may stop (:attr:`is_done`): an :class:`Until`, or ``"5%"`` of the gain, or ``"loss=0.001"``. Every arm
        then gets enough samples for a confidence statement.
    settings
        Retention, drift detection and other settings: :class:`SessionSettings`.
    reference, bandwidth, costs
        Inputs of the objective, unless its terms have them. An automatic bandwidth is the median distance within the reference,
        independent of ``seed``. Without a reference, the session asks all arms evenly until each has ten samples, known ones
        included, and uses the median distance between them. The bandwidth then stays fixed (``report().bandwidth``).
    kappa_range, score_ranges
        The smallest and largest value of κ, and of scores by name, for policies with constants, if a kernel or a score has no
        known range.
    width
        The number of features, if a kernel needs it before the first sample.
    threads
        Threads to compute with; all cores if ``None``.
    engine, gpu_memory, precision
        Where to compute, the maximum GPU memory, and the precision of kernel sums, as in :func:`modelmix.solve`.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If an argument does not fit; the message names it and the fix.
    OSError
        If a file cannot be read.

    Examples
    --------
    >>> import modelmix as mm
    >>> session = mm.Session(["left", "right"], mm.Rke(bandwidth=1.0), seed=0)
    >>> for number in range(40):
    ...     pull = session.ask()
    ...     session.tell(pull, [0.0 if pull.arm == "left" else 9.0, float(number)])
    >>> report = session.report()
    >>> report.samples, {arm: round(weight, 1) for arm, weight in report.weights.items()}
    (40, {'left': 0.5, 'right': 0.5})
    """

    @checked
    def __init__(
        self,
        arms: Iterable[str],
        objective: Objective | str | None = None,
        *,
        policy: Policy | str = "adaptive",
        seed: int = 0,
        batch: int = 1,
        rounds: int | None = None,
        until: Until | str | None = None,
        settings: SessionSettings | None = None,
        reference: Rows | None = None,
        bandwidth: float | None = None,
        costs: Mapping[str, float] | None = None,
        kappa_range: tuple[float, float] | None = None,
        score_ranges: Mapping[str, tuple[float, float]] | None = None,
        width: int | None = None,
        threads: int | None = None,
        engine: str = "auto",
        gpu_memory: int | str | None = None,
        precision: str = "auto",
    ) -> None:
        names = _check.arm_names("arms", arms)
        self._problem: Problem | None = problem(
            objective,
            reference=reference,
            costs=costs,
            bandwidth=bandwidth,
            kappa_range=kappa_range,
            score_ranges=score_ranges,
            width=width,
            threads=threads,
            engine=engine,
            gpu_memory=gpu_memory,
            precision=precision,
        )
        settled = arguments(policy, seed, batch, rounds, until, settings)
        self._inner = _modelmix.Session.over_features(names, self._problem, settled)

    @classmethod
    @checked
    def on_values(
        cls,
        arms: Iterable[str],
        *,
        policy: Policy | str = "adaptive",
        seed: int = 0,
        batch: int = 1,
        rounds: int | None = None,
        until: Until | str | None = None,
        settings: SessionSettings | None = None,
        ranges: tuple[tuple[float, float], tuple[float, float]] | None = None,
    ) -> Session:
        """Start a session without features, to which κ and f of every sample are told (:meth:`tell_values`).

        Parameters
        ----------
        arms, policy, seed, batch, rounds, until, settings
            As in :class:`Session`. Of the retentions, only :class:`HalfLife` works without features.
        ranges
            The smallest and largest values of κ and of f, for policies with constants.

        Returns
        -------
        Session
            The session.

        Raises
        ------
        TypeError
            If an argument has the wrong type.
        ValueError
            If an argument does not fit; the message names it and the fix.

        Examples
        --------
        >>> import modelmix as mm
        >>> session = mm.Session.on_values(["a", "b"])
        >>> session.tell_values(session.ask(), [], own=1.0)
        >>> session.tell_values(session.ask(), [0.25], own=1.0)
        >>> session.report().samples
        2
        """
        settled = arguments(policy, seed, batch, rounds, until, settings)
        names = _check.arm_names("arms", arms)
        both = None if ranges is None else _check.pair("ranges", ranges, _RANGES)
        ends = None if both is None else (_check.interval("ranges[0]", both[0]), _check.interval("ranges[1]", both[1]))
        return cls._around(_modelmix.Session.over_values(names, ends, settled), None)

    @property
    def arms(self) -> list[str]:
        """The arms' names."""
        return self._inner.arms()

    @property
    def is_done(self) -> bool:
        """Whether the condition of ``until`` is met."""
        return self._inner.is_done()

    @property
    def in_flight(self) -> list[Pull]:
        """The pulls that are neither told nor abandoned, oldest first."""
        return [pull_of(asked) for asked in self._inner.in_flight()]

    @property
    def samples(self) -> npt.NDArray[np.float32] | None:
        """The held features, in the order told, known ones included; ``None`` if there are none."""
        return self._inner.samples()

    @property
    def kept(self) -> list[bool]:
        """Whether each sample is kept, in the order told; all are without ``select``, and known samples never are.

        >>> import modelmix as mm
        >>> half = mm.SessionSettings(select="better-half")
        >>> session = mm.Session(["one"], mm.Rke(bandwidth=1.0), settings=half)
        >>> for place in [0.0, 3.0, 6.0, 9.0, 0.1, 12.0]:
        ...     session.tell(session.ask(), [place])
        >>> session.kept
        [True, True, True, True, False, True]
        """
        return self._inner.kept()

    @checked
    def ask(self) -> Pull:
        """Choose the arm to pull next.

        Returns
        -------
        Pull
            The request, to be answered by :meth:`tell` or abandoned by :meth:`abandon`.

        Raises
        ------
        ValueError
            If the policy cannot choose, for example Successive Halving after its last round.

        Examples
        --------
        >>> import modelmix as mm
        >>> mm.Session(["flux", "sdxl"], mm.Rke(bandwidth=1.0)).ask().arm
        'sdxl'
        """
        return pull_of(self._inner.ask())

    @checked
    def tell(
        self,
        pull: Pull | int,
        features: ArrayLike,
        *,
        scores: Mapping[str, float | Iterable[float]] | None = None,
    ) -> None:
        """Answer a pull with the features of its samples.

        Parameters
        ----------
        pull
            The result of :meth:`ask`, or its ``id``.
        features
            Features of the samples, one row per sample, or a single row.
        scores
            The scores that the objective needs, one value per sample.

        Raises
        ------
        TypeError
            If an argument has the wrong type.
        ValueError
            If an argument does not fit; the session is then unchanged.

        Examples
        --------
        >>> import modelmix as mm
        >>> session = mm.Session(["flux"], mm.Rke(bandwidth=1.0) - 0.1 * mm.SampleScore("taste"))
        >>> session.tell(session.ask(), [0.0, 1.0], scores={"taste": 0.5})
        """
        told = number(pull)
        self._inner.tell(told, as_rows(f"pull {told}", features), _scores(scores))

    @checked
    def tell_values(
        self,
        pull: Pull | int,
        kappa: Iterable[float] | Sequence[Iterable[float]],
        own: float | Sequence[float],
        linear: float | Sequence[float] = 0.0,
    ) -> None:
        """Answer a pull with values of κ and f, in a session on values.

        Parameters
        ----------
        pull
            The result of :meth:`ask`, or its ``id``.
        kappa
            κ against every earlier sample in the order told; for a batch, one list per sample, which includes the earlier
            samples of the batch.
        own
            κ of the sample with itself; for a batch, a list.
        linear
            f of the sample; for a batch, a list, or one value for all.

        Raises
        ------
        TypeError
            If an argument has the wrong type.
        ValueError
            If an argument does not fit; the session is then unchanged.

        Examples
        --------
        >>> import modelmix as mm
        >>> session = mm.Session.on_values(["a", "b"], batch=2)
        >>> session.tell_values(session.ask(), [[], [0.5]], own=[1.0, 1.0])
        """
        self._inner.tell_values(number(pull), values(kappa, own, linear))

    @checked
    def known(
        self,
        arm: str,
        features: Rows,
        *,
        scores: Mapping[str, float | Iterable[float]] | None = None,
        collected: bool = False,
    ) -> None:
        """Add known samples of an arm, recorded earlier (a warm start).

        They count as evidence in the weights, in the bounds and for ``until``. An arm with known samples needs no first pull.
        They must be drawn from the same model: not a selection, and not from an earlier version.

        Parameters
        ----------
        arm
            The arm's name.
        features
            Features of the samples, one row per sample, or a file.
        scores
            The scores that the objective needs, one value per sample.
        collected
            Whether the samples also belong to the collected pool: its shares, its loss and its number of samples.

        Raises
        ------
        TypeError
            If an argument has the wrong type.
        ValueError
            If an argument does not fit; the session is then unchanged.

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
        rows = recorded(f"known samples of arm {arm}", features)
        self._inner.known(self._index(arm), rows, _scores(scores), _check.flag("collected", collected))

    @checked
    def known_values(
        self,
        arm: str,
        kappa: Iterable[float] | Sequence[Iterable[float]],
        own: float | Sequence[float],
        linear: float | Sequence[float] = 0.0,
        *,
        collected: bool = False,
    ) -> None:
        """Add known samples as values of κ and f, in a session on values (a warm start).

        Parameters
        ----------
        arm
            The arm's name.
        kappa, own, linear
            As in :meth:`tell_values`; earlier known samples count among the earlier ones.
        collected
            As in :meth:`known`.

        Raises
        ------
        TypeError
            If an argument has the wrong type.
        ValueError
            If an argument does not fit; the session is then unchanged.

        Examples
        --------
        >>> import modelmix as mm
        >>> session = mm.Session.on_values(["a", "b"])
        >>> session.known_values("a", [], own=1.0)
        >>> session.report().known
        1
        """
        self._inner.known_values(self._index(arm), values(kappa, own, linear), _check.flag("collected", collected))

    @checked
    def abandon(self, pull: Pull | int) -> None:
        """Abandon a pull that returned nothing. Its arm is then not asked for a while.

        Parameters
        ----------
        pull
            The result of :meth:`ask`, or its ``id``.

        Raises
        ------
        TypeError
            If an argument has the wrong type.
        ValueError
            If there is no such pull in flight.

        Examples
        --------
        >>> import modelmix as mm
        >>> session = mm.Session(["flux", "sdxl"], mm.Rke(bandwidth=1.0))
        >>> session.abandon(session.ask())
        >>> session.report()["sdxl"].abandoned
        1
        """
        self._inner.abandon(number(pull))

    @checked
    def forget(self, arm: str) -> None:
        """Forget all samples of an arm, so that it is learned again, for example after a drift alarm.

        Parameters
        ----------
        arm
            The arm's name.

        Raises
        ------
        TypeError
            If an argument has the wrong type.
        ValueError
            If there is no such arm, or the session cannot forget.

        Examples
        --------
        >>> import modelmix as mm
        >>> session = mm.Session(["flux"], mm.Rke(bandwidth=1.0), settings=mm.SessionSettings(retention=mm.Window(9)))
        >>> session.tell(session.ask(), [1.0])
        >>> session.forget("flux")
        >>> session.report().samples
        0
        """
        self._inner.forget(self._index(arm))

    def _index(self, arm: str) -> int:
        arms = self.arms
        if arm not in arms:
            raise ValueError(f"there is no arm {arm!r}; there are {', '.join(arms)}")
        return arms.index(arm)

    @checked
    def report(self, *, bounds: bool = False) -> SessionReport:
        """Report the best mixture so far and the loss of the collected samples.

        Parameters
        ----------
        bounds
            Whether to compute ``bound_on_weights`` and ``bound_on_shares`` too, which take most of the time with many arms.

        Returns
        -------
        SessionReport
            Weights, shares, losses and, if requested, bounds; a mapping of arms.

        Raises
        ------
        ValueError
            If the numbers cannot be computed.

        Examples
        --------
        >>> import modelmix as mm
        >>> session = mm.Session(["flux", "sdxl"], mm.Rke(bandwidth=1.0))
        >>> list(session.report())
        ['flux', 'sdxl']
        """
        return SessionReport._read(self._inner.report(_check.flag("bounds", bounds)))

    def __repr__(self) -> str:
        """The session in one line."""
        arms = self.arms
        shown = ", ".join(arms[:5]) + (", …" if len(arms) > 5 else "")
        objective = "" if self._problem is None else f", {self._problem.objective}"
        return f"<modelmix.Session of {len(arms)} arms ({shown}){objective}, {self._inner.size()} samples>"


def _scores(given: Mapping[str, float | Iterable[float]] | None) -> dict[str, list[float]]:
    return {} if given is None else numbers("scores", given)
