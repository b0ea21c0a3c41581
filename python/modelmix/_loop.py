"""The loop of :func:`modelmix.run`: ask, call, retry, tell."""

from __future__ import annotations

import hashlib
import inspect
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ._arrays import ArrayLike, as_rows
from ._pulls import Pull, numbers
from .session import Session

if TYPE_CHECKING:
    from ._journal import Journal


class Seeded(Protocol):
    """A generator that accepts a seed."""

    def __call__(self, count: int, /, *, seed: int) -> Any:
        """Return at least one and at most ``count`` samples."""


#: Generates the requested number of samples: images, texts, or anything else that the encoder accepts.
Generator: TypeAlias = Callable[[int], Any] | Seeded
#: Turns samples into features, one row per sample.
Embed: TypeAlias = Callable[[Any], ArrayLike]
#: Returns the scores that the objective needs: for each name, one value per sample.
Rate: TypeAlias = Callable[[Any], Mapping[str, Any]]
#: Stores samples.
Save: TypeAlias = Callable[[Pull, Any], object]


@dataclass(frozen=True)
class Failure:
    """A failed call: the generator, the encoder or ``rate`` raised, or the session rejected the features.

    Attributes
    ----------
    pull
        The pull's ``id``.
    arm
        The arm's name.
    attempt
        The number of the attempt, counted from 1.
    error
        The exception's type and message.
    trace
        The traceback as text.
    exception
        The exception; ``None`` for failures before the run was resumed, and after pickling.

    Examples
    --------
    >>> import modelmix as mm
    >>> calls = []
    >>> def flaky(count):
    ...     calls.append(count)
    ...     if len(calls) == 1:
    ...         raise OSError("no answer")
    ...     return [[float(len(calls))]]
    >>> done = mm.run({"flux": flaky}, lambda rows: rows, mm.Rke(bandwidth=1.0), budget=3)
    >>> done.failures["flux"][0].error
    'OSError: no answer'
    """

    pull: int
    arm: str
    attempt: int
    error: str
    trace: str = field(repr=False)
    exception: BaseException | None = field(default=None, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Omit the exception, which may not be picklable; its text is kept."""
        return {**self.__dict__, "exception": None}


@dataclass
class Flight:
    """A pull in flight, with its failures so far."""

    pull: Pull
    failures: list[Failure] = field(default_factory=list)
    calls: int = 0


@dataclass(frozen=True)
class Answer:
    """The outcome of one call: samples with features and scores, or an exception."""

    pull: Pull
    samples: Any = None
    features: Any = None
    scores: dict[str, list[float]] = field(default_factory=dict)
    error: BaseException | None = None


class Loop:
    """Spends the budget of pulls. Its whole state can be restored from the checkpoint."""

    def __init__(
        self,
        session: Session,
        generators: dict[str, Generator],
        embed: Embed,
        rate: Rate | None,
        save: Save | None,
        retries: int,
        seed: int,
        keep: bool,
        selects: bool,
        journal: Journal | None,
    ) -> None:
        """Start with no pulls spent."""
        self.selects, self.journal = selects, journal
        self.session, self.generators, self.embed, self.rate = session, generators, embed, rate
        self.save, self.retries, self.seed, self.keep = save, retries, seed, keep
        self.seeded = {arm for arm, generator in generators.items() if wants_seed(generator)}
        self.spent = self.resumed = 0
        self.calls = dict.fromkeys(generators, 0)
        self.failures: dict[str, list[Failure]] = {arm: [] for arm in generators}
        self.samples: dict[str, list[Any]] = {arm: [] for arm in generators}
        # Abandoned pulls per arm since the last answer of any arm.
        self.unanswered = dict.fromkeys(generators, 0)

    def spend(
        self,
        budget: int,
        workers: int,
        ordered: bool,
        moved: Callable[[int], object],
    ) -> None:
        """Settle pulls until the budget is spent or the session is done; pulls in flight from an earlier run come first."""
        waiting = self.session.in_flight
        flying: dict[int, Flight] = {}
        arrived: dict[int, Answer] = {}
        with Crew(self.call, workers) as crew:
            while self.spent < budget and (flying or waiting or not self.session.is_done):
                while len(flying) < workers and self.spent + len(flying) < budget:
                    if self.session.is_done and not waiting:
                        break
                    pull = waiting.pop(0) if waiting else self.ask()
                    flying[pull.id] = Flight(pull)
                    crew.start(pull, 1)
                due = next(iter(flying))
                while due not in arrived:
                    answer = crew.answer()
                    flight = flying[answer.pull.id]
                    flight.calls += 1
                    if answer.error is None or not self.again(flight, answer.error, crew):
                        arrived[answer.pull.id] = answer
                        due = due if ordered else answer.pull.id
                flight, answer = flying[due], arrived.pop(due)
                refused = self.tell(answer) if answer.error is None else None
                if refused is not None and self.again(flight, refused, crew):
                    continue
                del flying[due]
                told = answer.error is None and refused is None
                self.settle(flight, answer if told else None)
                moved(self.spent)

    def ask(self) -> Pull:
        """Return the next pull, after writing it to the checkpoint."""
        return self.session.ask() if self.journal is None else self.journal.ask()

    def call(self, pull: Pull, attempt: int) -> Answer:
        """Call the generator and the encoder once. This runs on any thread, so it must not change the loop."""
        try:
            samples = self._generate(pull, attempt)
            if isinstance(samples, Iterator):
                samples = list(samples)
            features = single(as_rows(f"arm {pull.arm}", self.embed(samples)))
            scores = {} if self.rate is None else numbers("what rate returned", self.rate(samples))
        except BaseException as error:
            return Answer(pull, error=error)
        return Answer(pull, samples, features, scores)

    def _generate(self, pull: Pull, attempt: int) -> Any:
        generator: Any = self.generators[pull.arm]
        if pull.arm in self.seeded:
            return generator(pull.count, seed=seed_of(self.seed, pull.id, attempt))
        return generator(pull.count)

    def again(self, flight: Flight, error: BaseException, crew: Crew) -> bool:
        """Record a failure and retry the call if retries are left; return whether it is retried."""
        if not isinstance(error, Exception):
            raise error
        flight.failures.append(failure(flight.pull, flight.calls, error))
        if flight.calls > self.retries:
            return False
        crew.start(flight.pull, flight.calls + 1)
        return True

    def tell(self, answer: Answer) -> ValueError | None:
        """Tell the session the answer; return its error if it rejects the features or scores, otherwise ``None``."""
        try:
            if self.journal is None:
                self.session.tell(answer.pull, answer.features, scores=answer.scores)
            else:
                self.journal.tell(answer)
        except ValueError as error:
            return error
        return None

    def settle(self, flight: Flight, answer: Answer | None) -> None:
        """Save the samples, or abandon the pull; then write the outcome to the checkpoint."""
        pull = flight.pull
        if answer is None:
            (self.session if self.journal is None else self.journal).abandon(pull)
        elif self.save is not None:
            self.save(pull, answer.samples)
        if self.journal is not None:
            self.journal.settle(flight)
        self.account(flight, answer is not None)
        if answer is not None and self.keep:
            self.samples[pull.arm].extend(self.kept(answer))
        if self._hopeless():
            error = flight.failures[-1].exception
            assert error is not None
            raise error

    def kept(self, answer: Answer) -> list[Any]:
        """Return the samples of an answer that the session keeps."""
        samples = one_by_one(answer.samples, len(answer.features))
        if not self.selects:
            return samples
        kept = self.session.kept[-len(answer.features) :]
        if len(samples) == len(kept):
            return [sample for sample, wanted in zip(samples, kept, strict=True) if wanted]
        # Samples that cannot be separated are kept or discarded together.
        return samples if any(kept) else []

    def account(self, flight: Flight, told: bool) -> None:
        """Count a pull."""
        arm = flight.pull.arm
        self.spent += 1
        self.calls[arm] += flight.calls
        self.failures[arm].extend(flight.failures)
        if told:
            self.unanswered = dict.fromkeys(self.unanswered, 0)
        else:
            self.unanswered[arm] += 1

    def _hopeless(self) -> bool:
        # A policy may never pull some arms again, so the second condition does not require failures of all arms.
        given_up, arms = sum(self.unanswered.values()), len(self.unanswered)
        return (given_up > 2 * arms and all(self.unanswered.values())) or given_up > 20 * arms


class Crew:
    """The workers that make the calls: the caller's thread, or a pool of threads.

    The threads are daemons, so a call that hangs cannot prevent the process from ending after Ctrl-C.
    """

    def __init__(self, call: Callable[[Pull, int], Answer], workers: int) -> None:
        """Create the threads; with one worker there are none."""
        self._call = call
        self._jobs: SimpleQueue[tuple[Pull, int] | None] = SimpleQueue()
        self._answers: SimpleQueue[Answer] = SimpleQueue()
        self._threads = [
            threading.Thread(target=self._work, name=f"modelmix-{number}", daemon=True)
            for number in range(workers if workers > 1 else 0)
        ]

    def __enter__(self) -> Crew:
        """Start the threads."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the threads, without waiting for calls that are still running."""
        try:
            while True:
                self._jobs.get_nowait()
        except Empty:
            pass
        for _ in self._threads:
            self._jobs.put(None)

    def start(self, pull: Pull, attempt: int) -> None:
        """Queue a call."""
        self._jobs.put((pull, attempt))

    def answer(self) -> Answer:
        """Wait for the next answer and return it."""
        if not self._threads:
            job = self._jobs.get_nowait()
            assert job is not None
            return self._call(*job)
        while True:
            # On Windows, Ctrl-C does not interrupt a wait, so wait in short intervals.
            try:
                return self._answers.get(timeout=0.5)
            except Empty:
                continue

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._answers.put(self._call(*job))
            del job


def wants_seed(generator: Generator) -> bool:
    """Whether a generator has a required parameter ``seed``."""
    try:
        parameter = inspect.signature(generator).parameters.get("seed")
    except (TypeError, ValueError):
        return False
    return (
        parameter is not None
        and parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    )


def seed_of(seed: int, pull: int, attempt: int) -> int:
    """Return the seed of a call: reproducible, and of 31 bits, which all libraries accept."""
    digest = hashlib.sha256(f"{seed} {pull} {attempt}".encode()).digest()
    return int.from_bytes(digest[:4], "little") >> 1


def failure(pull: Pull, attempt: int, error: Exception) -> Failure:
    """Return the record of an exception.

    The frames of its traceback are cleared, which releases what they hold, such as device memory that a retry needs.
    """
    try:
        message = f"{type(error).__name__}: {error}"
    except Exception:
        message = type(error).__name__
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    seen: set[int] = set()
    chained: BaseException | None = error
    while chained is not None and id(chained) not in seen:
        traceback.clear_frames(chained.__traceback__)
        seen.add(id(chained))
        chained = chained.__cause__ or chained.__context__
    return Failure(pull.id, pull.arm, attempt, message, trace, error)


def one_by_one(samples: Any, rows: int) -> list[Any]:
    """Return a list of single samples if ``samples`` is a sequence of ``rows`` items, otherwise a list with ``samples`` as its only item."""
    if isinstance(samples, (str, bytes, Mapping)) or hasattr(samples, "columns"):
        return [samples]
    try:
        if len(samples) == rows:
            return list(samples)
    except TypeError:
        pass
    return [samples]


def single(rows: Any) -> Any:
    """Return a copy in single precision, the precision of the session and the checkpoint.

    Arrays of other types than floats are returned unchanged; the session rejects them.
    """
    import numpy as np

    if rows.dtype not in (np.float16, np.float32, np.float64):
        return rows
    with np.errstate(over="ignore"):  # the session rejects infinity
        return np.array(rows, dtype=np.float32, order="C")
