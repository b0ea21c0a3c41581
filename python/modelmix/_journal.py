"""The checkpoint of a run: the events of its session with notes of the loop. The extension writes and reads the file."""

from __future__ import annotations

import json
import os
import weakref
from typing import TYPE_CHECKING, Any

from . import _modelmix
from ._loop import Failure, Flight
from ._pulls import Pull, pull_of
from .session import Session

if TYPE_CHECKING:
    import numpy.typing as npt

    from ._loop import Answer, Loop

#: Open journals. A forked child closes its copies; otherwise it would hold their locks until it exits.
_open: weakref.WeakSet[Journal] = weakref.WeakSet()


class Journal:
    """A file of events. Each event is on disk before the loop continues."""

    def __init__(self, path: str | os.PathLike[str], run: dict[str, Any], session: Session) -> None:
        """Open the file; a file of another run is rejected and left unchanged."""
        self.path = os.fspath(path)
        self._inner = _modelmix.Journal.open(self.path, json.dumps(run), session._inner)
        _open.add(self)

    def replay(self, loop: Loop, verify: bool) -> set[int]:
        """Apply all events to the session and the loop; return the indices of the arms whose known samples are among them."""
        known = set()
        while (entry := self._inner.replay(verify)) is not None:
            line, kind, asked, arm, note = entry
            if arm is not None:
                known.add(arm)
            if asked is not None:
                loop.account(self._flight(pull_of(asked), line, note), kind == "told")
                loop.resumed += 1
        # Earlier failures do not count towards giving up now.
        loop.unanswered = dict.fromkeys(loop.unanswered, 0)
        return known

    def _flight(self, pull: Pull, line: int, note: str | None) -> Flight:
        try:
            read: dict[str, Any] = json.loads(note or "null")
            failures = [Failure(pull.id, pull.arm, attempt, error, trace) for attempt, error, trace in read["failures"]]
            return Flight(pull, failures, int(read["calls"]))
        except (ValueError, LookupError, TypeError) as problem:
            raise ValueError(
                f"the checkpoint {self.path} is damaged at line {line} (its note: {problem}); "
                "delete that line and all after it to continue from there, or name another file"
            ) from None

    def known(self, samples: list[tuple[int, npt.NDArray[Any], dict[str, list[float]]]]) -> None:
        """Add known samples of arms to the session and write them. If any sample is rejected, nothing is written."""
        if not samples:
            return
        try:
            self._inner.known(samples)
        except BaseException:
            self._inner.discard()
            raise

    def ask(self) -> Pull:
        """Return the next pull, after writing it. If the line is lost, the same pull is asked for again."""
        return pull_of(self._inner.ask())

    def tell(self, answer: Answer) -> None:
        """Tell the session the answer; :meth:`settle` writes it."""
        self._inner.tell(answer.pull.id, answer.features, answer.scores)

    def abandon(self, pull: Pull) -> None:
        """Abandon a pull; :meth:`settle` writes it."""
        self._inner.abandon(pull.id)

    def settle(self, flight: Flight) -> None:
        """Write the outcome of a pull."""
        failures = [[kept.attempt, kept.error, kept.trace] for kept in flight.failures]
        self._inner.settle(flight.pull.id, json.dumps({"calls": flight.calls, "failures": failures}))

    def close(self) -> None:
        """Close the file."""
        self._inner.close()


def _forked() -> None:
    for journal in list(_open):
        journal.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
