"""Online runs: calls your generators and encoder, retries failed calls, and resumes after a crash."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import _check, _modelmix
from ._arguments import checked
from ._files import Rows, load_arms, recorded
from ._journal import Journal
from ._lazy import Lazy
from ._loop import Embed, Failure, Generator, Loop, Rate, Save, single
from ._progress import Bar
from ._table import Table, count
from .objectives import Objective
from .policies import Policy
from .policies import text as policy_text
from .results import SessionArm, SessionReport
from .results._base import Keyed, frame, plain
from .session import Session
from .settings import SessionSettings, Until

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd
    from matplotlib import axes
else:
    npt, pd, axes = Lazy("numpy.typing"), Lazy("pandas"), Lazy("matplotlib.axes")

__all__ = ["Embed", "Failure", "Generator", "Rate", "Run", "Save", "run"]


def __dir__() -> list[str]:
    return __all__


@dataclass(frozen=True, repr=False)
class Run(Keyed[str, SessionArm]):
    """The result of :func:`run`: a mapping from arm to its entry in the report.

    Attributes
    ----------
    report
        The best mixture so far, and the samples collected.
    pulls
        The number of pulls spent: answered and abandoned ones.
    calls
        The number of generator calls by arm, including failed ones.
    failures
        The failed calls, by arm.
    resumed
        The number of pulls that were read from the checkpoint.
    samples
        The samples generated in this process, by arm, in the order told; empty if ``keep=False``. With ``select="better-half"``,
        only the kept samples.
    session
        The session. Its ``samples`` are the features of all samples told, and it can be continued with ``ask``.

    Examples
    --------
    >>> import modelmix as mm
    >>> done = mm.run({"flux": lambda count: [[1.0]]}, lambda rows: rows, mm.Rke(bandwidth=1.0), budget=2)
    >>> list(done), done["flux"].samples, done.pulls
    (['flux'], 2, 2)
    """

    report: SessionReport
    pulls: int
    calls: dict[str, int]
    failures: dict[str, list[Failure]]
    resumed: int
    samples: dict[str, list[Any]] = field(repr=False, compare=False)
    session: Session = field(repr=False, compare=False)

    def _entries(self) -> dict[str, SessionArm]:
        return self.report._entries()

    @property
    def weights(self) -> dict[str, float]:
        """The weights of the best mixture so far, by arm."""
        return self.report.weights

    def to_dict(self) -> dict[str, Any]:
        """Convert everything but the samples and the session to plain data.

        Returns
        -------
        dict
            Fields by name.
        """
        failures = {
            arm: [
                {name: getattr(kept, name) for name in ("pull", "arm", "attempt", "error", "trace")} for kept in failed
            ]
            for arm, failed in self.failures.items()
        }
        return {
            "report": self.report.to_dict(),
            "pulls": self.pulls,
            "calls": plain(self.calls),
            "failures": failures,
            "resumed": self.resumed,
        }

    def to_pandas(self) -> pd.DataFrame:
        """Convert to a frame with one row per arm: the columns of the report, calls and failures.

        Returns
        -------
        pandas.DataFrame
            The frame.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        made = self.report.to_pandas()
        counts = frame(
            {
                "calls": [self.calls[arm] for arm in made.index],
                "failures": [len(self.failures[arm]) for arm in made.index],
            },
            index=made.index,
        )
        joined: pd.DataFrame = made.join(counts)
        return joined

    def plot(self, ax: axes.Axes | None = None) -> axes.Axes:
        """Plot the weights next to the shares of the samples held.

        Parameters
        ----------
        ax
            The axes to draw into; ``None`` for a new figure.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.
        """
        return self.report.plot(ax)

    def _table(self) -> Table:
        table = self.report._table()
        table.header = [*table.header, "calls", "failed"]
        table.rows = [
            [*row, count(self.calls[arm.name]), count(len(self.failures[arm.name]))]
            for row, arm in zip(table.rows, self.report.arms, strict=True)
        ]
        resumed = f", {count(self.resumed)} of them from the checkpoint" if self.resumed else ""
        table.note = f"{count(self.pulls)} pulls{resumed}; {table.note}"
        return table


@checked
def run(
    generators: Mapping[str, Generator],
    embed: Embed,
    objective: Objective | str | None = None,
    *,
    budget: int,
    policy: Policy | str = "adaptive",
    seed: int = 0,
    batch: int = 1,
    until: Until | str | None = None,
    settings: SessionSettings | None = None,
    known: Mapping[str, Rows] | str | os.PathLike[str] | None = None,
    retries: int = 2,
    workers: int = 1,
    ordered: bool = True,
    rate: Rate | None = None,
    save: Save | None = None,
    keep: bool = True,
    checkpoint: str | os.PathLike[str] | None = None,
    verify: bool = False,
    progress: bool = False,
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
) -> Run:
    """Spend ``budget`` pulls on your generators, so that the collected samples approach the best mixture.

    A call that raises, or whose features are rejected, is retried. If all retries fail, the pull is abandoned and its arm is not
    pulled for a while. If all arms fail several times in a row, the last exception is raised unchanged. Ctrl-C and ``SystemExit``
    are never caught.

    Parameters
    ----------
    generators
        Functions by arm. Each is called with the number of samples to generate and returns that number or fewer. A function with a
        required parameter ``seed`` gets a different seed in every call and should use it for its random numbers; otherwise it may
        generate the same samples again after a crash.
    embed
        A function that turns the samples of one call into features, one row per sample.
    objective
        The objective to minimise, as in :func:`modelmix.solve`.
    budget
        The number of pulls to spend.
    policy, seed, batch, settings
        As in :class:`Session`.
    until
        The condition for early stopping, before the budget is spent (:class:`Until`).
    known
        Features of samples that were recorded earlier, by arm, or files (:meth:`Session.known`). They cost no pulls. If the
        objective has a :class:`SampleScore`, its values are those of the known samples.
    retries
        The maximum number of retries of a failed call.
    workers
        The number of threads that call a generator and then the encoder. With one worker, everything runs on the caller's thread.
    ordered
        Whether answers are told in the order of the pulls, so that the run does not depend on timing. ``False`` is faster if some
        arms are slow.
    rate
        A function of the samples that returns the scores that the objective names, as in ``{"aesthetic": values}``.
    save
        Called as ``save(pull, samples)`` before a pull is written to the checkpoint. A crash in between repeats the pull, so
        include ``pull.id`` in file names. An exception ends the run.
    keep
        Whether to keep the samples in ``Run.samples``.
    checkpoint
        A file to which every event is written before the next pull. The same call resumes from it: after a crash, on another
        machine, or with a larger budget.
    verify
        Whether to recompute the decisions in the checkpoint and compare them.
    progress
        Whether to show a progress bar (needs tqdm).
    reference, bandwidth, costs, kappa_range, score_ranges, width, threads, engine, gpu_memory, precision
        Inputs of the objective, as in :class:`Session`.

    Returns
    -------
    Run
        The report, the samples and the failures.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If an input is invalid, the checkpoint belongs to another run, or ``verify`` finds a difference.
    OSError
        If a file cannot be read or written.

    Examples
    --------
    >>> import modelmix as mm
    >>> def left(count): return [[0.0, number] for number in range(count)]
    >>> def right(count): return [[9.0, number] for number in range(count)]
    >>> arms = {"left": left, "right": right}
    >>> done = mm.run(arms, lambda rows: rows, mm.Rke(bandwidth=1.0), budget=20)
    >>> done.pulls, done.report.samples, done.failures
    (20, 20, {'left': [], 'right': []})
    """
    budget, batch = _check.whole("budget", budget, 1), _check.whole("batch", batch, 1)
    retries, workers = _check.whole("retries", retries), _check.whole("workers", workers, 1, _MOST_WORKERS)
    seed = _check.seed(seed)
    keep, ordered, verify = (
        _check.flag(name, given) for name, given in (("keep", keep), ("ordered", ordered), ("verify", verify))
    )
    generators = _callable(generators, {"embed": embed, "rate": rate, "save": save})
    checkpoint = None if checkpoint is None else _check.file("checkpoint", checkpoint)
    settings = SessionSettings._read(settings)
    until = Until._read(until)
    session = Session(
        generators,
        objective,
        policy=policy,
        seed=seed,
        batch=batch,
        rounds=budget,
        until=until,
        settings=settings,
        reference=reference,
        bandwidth=bandwidth,
        costs=costs,
        kappa_range=kappa_range,
        score_ranges=score_ranges,
        width=width,
        threads=threads,
        engine=engine,
        gpu_memory=gpu_memory,
        precision=precision,
    )
    past = _recorded(session, {} if known is None else known)
    journal = None
    if checkpoint is not None:
        described = _described(session, policy, seed, batch, budget, until, settings, past)
        journal = Journal(checkpoint, described, session)
    selects = settings.select != "all"
    loop = Loop(session, generators, embed, rate, save, retries, seed, keep, selects, journal)
    try:
        with Bar(progress, "pulling", "pull") as bar:
            replayed = set() if journal is None else journal.replay(loop, verify)
            if journal is not None:
                journal.known([samples for samples in past if samples[0] not in replayed])
            for index, rows, scores in past if journal is None else ():
                session.known(session.arms[index], rows, scores=scores)
            bar.started(budget)
            bar.done(loop.spent)
            loop.spend(budget, workers, ordered, bar.done)
    finally:
        if journal is not None:
            journal.close()
    return Run(
        report=session.report(bounds=True),
        pulls=loop.spent,
        calls=loop.calls,
        failures=loop.failures,
        resumed=loop.resumed,
        samples=loop.samples,
        session=session,
    )


def _callable(generators: Mapping[str, Generator], others: dict[str, Any]) -> dict[str, Generator]:
    """Return the generators; raise if they or the other functions are not callable."""
    found = _check.mapping("generators", generators, 'functions by arm, such as {"flux": make_flux}')
    for name, function in others.items():
        if name == "embed" or function is not None:
            _check.function(name, function)
    return {_check.arm_name(arm): _check.function(f"the generator of arm {arm}", one) for arm, one in found.items()}


#: The largest number of workers; each has its own thread.
_MOST_WORKERS = 10_000

#: Known samples of an arm: its index, their features and their scores.
_Recorded = tuple[int, "npt.NDArray[Any]", dict[str, list[float]]]


def _recorded(session: Session, given: Mapping[str, Rows] | str | os.PathLike[str]) -> list[_Recorded]:
    """Return known samples in the order of the arms, in single precision, the precision of the session."""
    known: Any = dict(load_arms([given])) if isinstance(given, (str, os.PathLike)) else given
    _check.mapping("known", known, 'features or files by arm, such as {"flux": features}')
    assert session._problem is not None
    scores = session._problem.scores
    rows = {session._index(arm): single(recorded(f"known samples of arm {arm}", known[arm])) for arm in known}
    return [
        (index, rows[index], {name: values[arm] for name, values in scores.items() if arm in values})
        for index, arm in enumerate(session.arms)
        if index in rows
    ]


def _described(
    session: Session,
    policy: Policy | str,
    seed: int,
    batch: int,
    budget: int,
    until: Until | None,
    settings: SessionSettings,
    past: list[_Recorded],
) -> dict[str, Any]:
    """Return the settings that a resumed run must share with the original one, as plain data."""
    problem = session._problem
    assert problem is not None
    chosen = _modelmix.policy(policy_text(policy))
    kept = settings._retention()
    return {
        "arms": session.arms,
        "objective": problem.objective,
        "policy": chosen,
        "seed": seed,
        "batch": batch,
        # Successive Halving depends on the budget; with any other policy, a resumed run may have a larger one.
        "budget": budget if chosen == "halving" else None,
        # Early stopping makes sure that every arm is sampled, so it changes the pulls.
        "until": None if until is None else {name: value for name, value in plain(until).items() if value is not None},
        "retention": None if kept is None else json.loads(kept),
        "alarm": settings.alarm,
        "select": settings.select,
        "storage": settings.storage,
        "kappa_range": None if problem.kappa_range is None else [float(end) for end in problem.kappa_range],
        "score_ranges": {name: [float(end) for end in ends] for name, ends in sorted(problem.score_ranges.items())},
        "known": {session.arms[index]: _digest(rows, scores) for index, rows, scores in past} or None,
        "fingerprint": session._inner.fingerprint(),
    }


def _digest(rows: npt.NDArray[Any], scores: dict[str, list[float]]) -> str:
    """Return the number of known samples and a hash of them and their scores."""
    content = hashlib.sha256(f"{rows.dtype} {rows.shape} {sorted(scores.items())}".encode())
    content.update(rows.tobytes())
    return f"{len(rows)} samples {content.hexdigest()[:16]}"
