"""The live case: a loop that calls your generators and your encoder, survives their failures, and goes on after a crash."""

from __future__ import annotations

import base64
import json
import os
import traceback
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias

from ._arrays import ArrayLike, as_rows, floats
from ._modelmix import __version__
from ._progress import Bar
from ._table import Table, count
from .objectives import Objective
from .policies import Policy
from .policies import text as policy_text
from .results import SessionReport, _frame, _plain, _Result
from .session import Pull, Session

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["Failure", "Run", "run"]

#: Makes so many samples: images, texts, whatever the encoder takes.
Generator: TypeAlias = Callable[[int], Any]
#: Turns samples into features, one row each.
Embed: TypeAlias = Callable[[Any], ArrayLike]
#: Gives the scores that the objective asks for: for each name a value a sample.
Rate: TypeAlias = Callable[[Any], Mapping[str, Any]]


@dataclass(frozen=True)
class Failure:
    """A call that failed: of an arm's generator, of the encoder on its samples, or of what was done with them."""

    pull: int
    arm: str
    #: Which try it was, counted from 1.
    attempt: int
    #: The exception's type and message.
    error: str
    #: The exception as Python prints it.
    trace: str = field(repr=False)
    #: The exception itself; none for failures before the run was resumed, and after pickling.
    exception: BaseException | None = field(default=None, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """An exception may hold anything, so it stays behind; its text does not."""
        return {**self.__dict__, "exception": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """As it was."""
        for name, value in state.items():
            object.__setattr__(self, name, value)


@dataclass(frozen=True, repr=False)
class Run(_Result):
    """What came of :func:`run`."""

    report: SessionReport
    #: Pulls spent of the budget: answered and given up.
    pulls: int
    #: Calls of generators, those that failed included.
    calls: dict[str, int]
    #: By arm, the calls that failed.
    failures: dict[str, list[Failure]]
    #: By arm, what its generator made in this process, in the order told; empty with ``keep=False``.
    samples: dict[str, list[Any]] = field(repr=False)
    #: How many pulls were read from the checkpoint.
    resumed: int

    @property
    def weights(self) -> dict[str, float]:
        """The best mixture as far as it is known."""
        return self.report.weights

    def to_dict(self) -> dict[str, Any]:
        """All of it but the samples, as plain data."""
        failures = {
            arm: [
                {name: getattr(failure, name) for name in ("pull", "arm", "attempt", "error", "trace")}
                for failure in failed
            ]
            for arm, failed in self.failures.items()
        }
        return {
            "report": self.report.to_dict(),
            "pulls": self.pulls,
            "calls": _plain(self.calls),
            "failures": failures,
            "resumed": self.resumed,
        }

    def to_pandas(self) -> pd.DataFrame:
        """A frame with a row an arm: the report's columns, calls and failures."""
        frame = self.report.to_pandas()
        counts = _frame(
            {
                "calls": [self.calls[arm] for arm in frame.index],
                "failures": [len(self.failures[arm]) for arm in frame.index],
            },
            index=frame.index,
        )
        return frame.join(counts)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the weights beside the proportions of the samples held."""
        return self.report.plot(ax)

    def _table(self) -> Table:
        table = self.report._table()
        table.header = [*table.header, "calls", "failed"]
        table.rows = [
            [*row, count(self.calls[arm.name]), count(len(self.failures[arm.name]))]
            for row, arm in zip(table.rows, self.report.arms)
        ]
        resumed = f", {count(self.resumed)} of them from the checkpoint" if self.resumed else ""
        table.note = f"{count(self.pulls)} pulls{resumed}; {table.note}"
        return table


def run(
    generators: Mapping[str, Generator],
    embed: Embed,
    objective: Objective | str | None = None,
    *,
    budget: int,
    policy: Policy | str = "adaptive",
    seed: int = 0,
    batch: int = 1,
    retries: int = 2,
    workers: int = 1,
    rate: Rate | None = None,
    save: Callable[[Pull, Any], object] | None = None,
    keep: bool = True,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool = False,
    **given: Any,
) -> Run:
    """Spend ``budget`` pulls on your generators, chosen so that the samples come near the best mixture.

    A generator is called with the number of samples wanted (``batch``) and returns them; ``embed`` turns what it returned into
    features, a row a sample; ``rate`` gives the scores that the objective asks for, ``{"aesthetic": values}``. Keyword arguments
    such as ``reference``, ``bandwidth`` or ``costs`` are those of :class:`Session`.

    A call that raises is tried again, ``retries`` times; then the pull is given up and its arm rests for a while. Every
    exception is kept in ``Run.failures``. When no arm has answered for several pulls in a row, the last exception is raised as it
    is. Ctrl-C, ``SystemExit`` and the like are never caught.

    With ``checkpoint`` every pull is written to that file before the next one is asked for; the same call with the same file goes
    on where the last one stopped, after a crash too. ``save(pull, samples)`` is called before a pull is written, so that what
    the checkpoint knows of has been saved. ``workers`` calls so many generators at the same time, on threads of their own;
    with one worker everything happens on the caller's thread.

    >>> import modelmix as mm
    >>> def left(count): return [[0.0, number] for number in range(count)]
    >>> def right(count): return [[9.0, number] for number in range(count)]
    >>> done = mm.run({"left": left, "right": right}, embed=lambda rows: rows, objective=mm.Rke(bandwidth=1.0), budget=20)
    >>> done.pulls, done.report.samples, done.failures
    (20, 20, {'left': [], 'right': []})
    """
    generators = dict(generators)
    _check(budget, retries, workers)
    session = Session(generators, objective, policy=policy, seed=seed, batch=batch, rounds=budget, **given)
    loop = _Loop(session, generators, embed, rate, save, retries, keep)
    journal = _Journal(checkpoint, _header(session, policy, seed, batch, budget), loop) if checkpoint is not None else None
    try:
        with Bar(progress, "pulling", "pull") as bar:
            bar.started(budget)
            bar.done(loop.spent)
            for _ in loop.spend(budget, workers, journal):
                bar.done(loop.spent)
    finally:
        if journal is not None:
            journal.close()
    return Run(
        report=session.report(),
        pulls=loop.spent,
        calls=loop.calls,
        failures=loop.failures,
        samples=loop.samples,
        resumed=loop.resumed,
    )


def _check(budget: int, retries: int, workers: int) -> None:
    for name, value, least in (("budget", budget, 1), ("retries", retries, 0), ("workers", workers, 1)):
        if not isinstance(value, int) or value < least:
            raise ValueError(f"{name} is {value!r}, but it must be a whole number, at least {least}")


@dataclass(frozen=True)
class _Answer:
    """What came of a pull: rows of features and scores, or nothing but failures."""

    pull: Pull
    samples: Any
    features: Any
    scores: dict[str, list[float]]
    failures: list[Failure]
    calls: int


class _Loop:
    """Asks, calls, tells. What it knows is what the checkpoint says."""

    def __init__(
        self,
        session: Session,
        generators: dict[str, Generator],
        embed: Embed,
        rate: Rate | None,
        save: Callable[[Pull, Any], object] | None,
        retries: int,
        keep: bool,
    ) -> None:
        self.session, self.generators, self.embed, self.rate = session, generators, embed, rate
        self.save, self.retries, self.keep = save, retries, keep
        self.spent = self.resumed = self.unanswered = 0
        self.calls = dict.fromkeys(generators, 0)
        self.failures: dict[str, list[Failure]] = {arm: [] for arm in generators}
        self.samples: dict[str, list[Any]] = {arm: [] for arm in generators}

    def spend(self, budget: int, workers: int, journal: _Journal | None) -> Iterator[None]:
        """Answer pulls until the budget is spent, those in flight from an earlier run first."""
        waiting = self.session.in_flight
        if workers == 1:
            while self.spent < budget:
                pull = waiting.pop(0) if waiting else self.ask(journal)
                self.settle(self.answer(pull), journal)
                yield
            return
        with ThreadPoolExecutor(workers, thread_name_prefix="modelmix") as pool:
            flying: set[Future[_Answer]] = set()
            try:
                while self.spent < budget:
                    while len(flying) < workers and self.spent + len(flying) < budget:
                        pull = waiting.pop(0) if waiting else self.ask(journal)
                        flying.add(pool.submit(self.answer, pull))
                    done, flying = wait(flying, return_when=FIRST_COMPLETED)
                    for future in sorted(done, key=lambda future: future.result().pull.id):
                        self.settle(future.result(), journal)
                        yield
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def ask(self, journal: _Journal | None) -> Pull:
        pull = self.session.ask()
        if journal is not None:
            journal.write({"ask": pull.id, "arm": pull.arm})
        return pull

    def answer(self, pull: Pull) -> _Answer:
        """Call the generator and the encoder, again where they fail."""
        failures: list[Failure] = []
        for attempt in range(1, self.retries + 2):
            try:
                samples = self.generators[pull.arm](pull.count)
                features = as_rows(f"arm {pull.arm}", self.embed(samples))
                rated = {} if self.rate is None else self.rate(samples)
                scores = {
                    name: [float(values)] if isinstance(values, (int, float)) else floats(f"score {name}", values)
                    for name, values in rated.items()
                }
            except Exception as error:
                failures.append(_failure(pull, attempt, error))
            else:
                return _Answer(pull, samples, features, scores, failures, attempt)
        return _Answer(pull, None, None, {}, failures, self.retries + 1)

    def settle(self, answer: _Answer, journal: _Journal | None) -> None:
        """Tell the session, then the checkpoint."""
        pull, failures = answer.pull, list(answer.failures)
        told = False
        if answer.features is not None:
            try:
                self.session.tell(pull, answer.features, scores=answer.scores)
                told = True
            except ValueError as error:
                # what the encoder made is not what features are: as good as no answer
                failures.append(_failure(pull, answer.calls, error))
        if told and self.save is not None:
            self.save(pull, answer.samples)
        if not told:
            self.session.abandon(pull)
        if journal is not None:
            journal.settled(pull, answer, failures, told)
        self.account(pull, answer.calls, failures, told)
        if told and self.keep:
            self.samples[pull.arm].extend(_listed(answer.samples))
        if self.unanswered >= 2 * len(self.generators) + 1:
            error = failures[-1].exception
            assert error is not None
            raise error

    def account(self, pull: Pull, calls: int, failures: list[Failure], told: bool) -> None:
        self.spent += 1
        self.unanswered = 0 if told else self.unanswered + 1
        self.calls[pull.arm] += calls
        self.failures[pull.arm].extend(failures)


def _listed(samples: Any) -> list[Any]:
    """Samples one by one where they come as a row of them."""
    if isinstance(samples, (str, bytes, Mapping)):
        return [samples]
    try:
        return list(samples)
    except TypeError:
        return [samples]


def _failure(pull: Pull, attempt: int, error: BaseException) -> Failure:
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return Failure(pull.id, pull.arm, attempt, f"{type(error).__name__}: {error}", trace, error)


def _header(session: Session, policy: Policy | str, seed: int, batch: int, budget: int) -> dict[str, Any]:
    objective = None if session._problem is None else session._problem.objective
    return {
        "modelmix": __version__,
        "checkpoint": 1,
        "arms": session.arms,
        "objective": objective,
        "policy": policy_text(policy),
        "seed": seed,
        "batch": batch,
        # Successive Halving plans by it; with any other policy a later run may spend more
        "budget": budget if policy_text(policy) == "halving" else None,
        "fingerprint": session._inner.fingerprint(),
    }


class _Journal:
    """The checkpoint: a line a pull asked for and a line a pull settled, each on disk before the loop goes on.

    A session is a function of what it was asked and told, so that the lines are enough to have it again, to the last bit; a last
    line that was cut off by a crash is dropped.
    """

    def __init__(self, path: str | os.PathLike[str], header: dict[str, Any], loop: _Loop) -> None:
        self.path = Path(path)
        whole = self._replay(header, loop)
        self.file: IO[bytes] = open(self.path, "r+b" if whole else "w+b")
        if whole:
            self.file.truncate(whole)
            self.file.seek(whole)
        else:
            self.write(header)

    def _refuse(self, problem: str) -> ValueError:
        return ValueError(f"the checkpoint {self.path} {problem}")

    def _replay(self, header: dict[str, Any], loop: _Loop) -> int:
        """Have the session ask and be told again; how many bytes of the file are whole lines."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return 0
        lines = data.split(b"\n")[:-1]
        if not lines:
            if data:
                raise self._refuse("is no checkpoint; remove it or name another file")
            return 0
        for number, line in enumerate(lines):
            try:
                record = json.loads(line)
                if number == 0:
                    self._check(header, record)
                else:
                    self._again(record, loop)
            except (KeyError, TypeError, json.JSONDecodeError, UnicodeDecodeError) as error:
                kind = "is no checkpoint" if number == 0 else f"is damaged at line {number + 1} ({error!r})"
                raise self._refuse(f"{kind}; remove it to start anew, or name another file") from None
        return sum(len(line) + 1 for line in lines)

    def _check(self, header: dict[str, Any], record: dict[str, Any]) -> None:
        if record["checkpoint"] != header["checkpoint"]:
            raise self._refuse(f"was written by modelmix {record['modelmix']} in another form; go on with that release")
        for name in ("arms", "objective", "policy", "seed", "batch", "budget", "fingerprint"):
            if record[name] != header[name]:
                if name == "fingerprint":
                    raise self._refuse("belongs to another reference, kernel or costs; give those of the first run, or name another file")
                raise self._refuse(
                    f"has {name} {record[name]!r} where this run has {header[name]!r}; name another file or run it as it was"
                )

    def _again(self, record: dict[str, Any], loop: _Loop) -> None:
        import numpy as np

        session = loop.session
        if "ask" in record:
            pull = session.ask()
            if (pull.id, pull.arm) != (record["ask"], record["arm"]):
                raise self._refuse(
                    f"has pull {record['ask']} of {record['arm']} where this release asks {pull.arm}; go on with the release that wrote it"
                )
            return
        pull = next(pull for pull in session.in_flight if pull.id == record["pull"])
        failures = [Failure(pull.id, pull.arm, *failed) for failed in record["failures"]]
        told = record["features"] is not None
        if told:
            flat = np.frombuffer(base64.b64decode(record["features"]), dtype="<f4")
            session.tell(pull, flat.reshape(record["rows"], -1), scores=record["scores"])
        else:
            session.abandon(pull)
        loop.account(pull, record["calls"], failures, told)
        loop.resumed += 1
        loop.unanswered = 0

    def write(self, record: dict[str, Any]) -> None:
        """Append a line and wait until it is on disk."""
        self.file.write(json.dumps(record, separators=(",", ":")).encode() + b"\n")
        self.file.flush()
        os.fsync(self.file.fileno())

    def settled(self, pull: Pull, answer: _Answer, failures: list[Failure], told: bool) -> None:
        """Append what came of a pull."""
        import numpy as np

        features = None
        if told:
            # as the session has it: in single precision
            features = base64.b64encode(np.ascontiguousarray(answer.features, dtype="<f4").tobytes()).decode()
        self.write(
            {
                "pull": pull.id,
                "features": features,
                "rows": len(answer.features) if told else 0,
                "scores": answer.scores if told else {},
                "failures": [[failed.attempt, failed.error, failed.trace] for failed in failures],
                "calls": answer.calls,
            }
        )

    def close(self) -> None:
        self.file.close()
