"""The checkpoint of a run: its session's events, written and read by the extension, with the loop's notes beside them."""

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

#: Journals that are open. A forked child closes its copies, or it would hold their locks for as long as it lives.
_open: weakref.WeakSet[Journal] = weakref.WeakSet()


class Journal:
    """A file of events, each on disk before the loop goes on."""

    def __init__(self, path: str | os.PathLike[str], run: dict[str, Any], session: Session) -> None:
        """Open the file; one that does not belong to this run is refused and left as it is."""
        self.path = os.fspath(path)
        self._inner = _modelmix.Journal.open(self.path, json.dumps(run), session._inner)
        _open.add(self)

    def replay(self, loop: Loop, verify: bool) -> set[int]:
        """Have all of it happen again; the arms, by index, whose known samples are in it."""
        known = set()
        while (entry := self._inner.replay(verify)) is not None:
            line, kind, asked, arm, note = entry
            if arm is not None:
                known.add(arm)
            if asked is not None:
                loop.account(self._flight(pull_of(asked), line, note), kind == "told")
                loop.resumed += 1
        # what failed before is no reason to give up now
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
                "cut it off before that line to go on from there, or name another file"
            ) from None

    def known(self, samples: list[tuple[int, npt.NDArray[Any], dict[str, list[float]]]]) -> None:
        """Give the session known samples of arms, and write them. If any do not fit, nothing is written."""
        if not samples:
            return
        try:
            self._inner.known(samples)
        except BaseException:
            self._inner.discard()
            raise

    def ask(self) -> Pull:
        """The next pull, which is written first. Lost, it would be asked for again."""
        return pull_of(self._inner.ask())

    def tell(self, answer: Answer) -> None:
        """Tell the session; :meth:`settle` writes it."""
        self._inner.tell(answer.pull.id, answer.features, answer.scores)

    def abandon(self, pull: Pull) -> None:
        """Give a pull up; :meth:`settle` writes it."""
        self._inner.abandon(pull.id)

    def settle(self, flight: Flight) -> None:
        """Write what came of a pull."""
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
