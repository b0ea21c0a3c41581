"""The checkpoint of a run: a line a pull asked for and a line a pull settled."""

from __future__ import annotations

import base64
import json
import os
import zlib
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ._loop import Failure, Flight

if TYPE_CHECKING:
    from ._loop import Answer, Loop
    from .session import Pull

#: The form of the file.
VERSION = 1


class Refused(ValueError):
    """A checkpoint that cannot be gone on with, and why."""


class Journal:
    """A file of lines, each on disk before the loop goes on.

    A session is a function of what it was asked and told, so that the lines are enough to have it
    again, to the last bit. A line is JSON with its own checksum; a last line that a crash cut off
    is dropped.
    """

    def __init__(self, path: str | os.PathLike[str], header: dict[str, Any]) -> None:
        """Open the file; one that does not belong to this run is refused and left as it is."""
        self.path = Path(path)
        self.crc = 0
        self.file: IO[bytes] = open(self.path, "a+b")  # noqa: SIM115
        try:
            if not _locked(self.file):
                raise self._refuse("is being written by another run; wait for its end, or name another file")
            self.file.seek(0)
            data = self.file.read()
            first = _line(header, 0)
            self.lines = data.split(b"\n")[:-1]
            if not self.lines and not first.startswith(data):
                raise self._refuse("is no checkpoint; name another file")
            if self.lines:
                self._check(header)
            whole = sum(len(line) + 1 for line in self.lines)
            if whole < len(data):
                self.file.truncate(whole)
            if not self.lines:
                self._write(header)
        except BaseException:
            self.file.close()
            raise

    def _refuse(self, problem: str) -> Refused:
        return Refused(f"the checkpoint {self.path} {problem}")

    def _check(self, header: dict[str, Any]) -> None:
        try:
            record = self._read(self.lines[0])
            version, release = record["checkpoint"], record["modelmix"]
        except (ValueError, LookupError, TypeError):
            raise self._refuse("is no checkpoint, or its first line is damaged; name another file") from None
        if version != VERSION:
            raise self._refuse(f"was written by modelmix {release} in another form; go on with that release")
        for name, value in header.items():
            found = record.get(name)
            if name == "modelmix" or found == value:
                continue
            if name == "fingerprint":
                raise self._refuse(
                    "belongs to another reference, kernel or costs; give those of the first run, or name another file"
                )
            raise self._refuse(
                f"has {name} {_said(found)} where this run has {_said(value)}; run it as it was, or name another file"
            )

    def replay(self, loop: Loop) -> None:
        """Have the session ask and be told again."""
        for number, line in enumerate(self.lines[1:], start=2):
            try:
                self._again(self._read(line), loop)
            except Refused:
                raise
            except (ValueError, LookupError, TypeError, AttributeError) as error:
                raise self._refuse(
                    f"is damaged at line {number} ({error}); "
                    "cut it off before that line to go on from there, or name another file"
                ) from None
        self.lines = []
        # what failed before is no reason to give up now
        loop.unanswered = dict.fromkeys(loop.unanswered, 0)

    def _read(self, line: bytes) -> dict[str, Any]:
        record: dict[str, Any] = json.loads(line)
        del record["crc"]
        if _line(record, self.crc) != line + b"\n":
            raise ValueError("its checksum is not that of this line and all before it")
        self.crc = _crc(line)
        return record

    def _again(self, record: dict[str, Any], loop: Loop) -> None:
        import numpy as np

        session = loop.session
        if "ask" in record:
            asked = session.ask()
            if (asked.id, asked.arm) != (record["ask"], record["arm"]):
                raise self._refuse(
                    f"has pull {record['ask']} of {record['arm']} where this release asks "
                    f"{asked.arm}; go on with the release that wrote it"
                )
            return
        pulls = {pull.id: pull for pull in session.in_flight}
        if record["pull"] not in pulls:
            raise LookupError(f"pull {record['pull']} was not asked for")
        pull = pulls[record["pull"]]
        flight = Flight(
            pull,
            [Failure(pull.id, pull.arm, *kept) for kept in record["failures"]],
            record["calls"],
        )
        told = record["features"] is not None
        if told:
            flat = np.frombuffer(base64.b64decode(record["features"]), dtype="<f4").astype(np.float32)
            session.tell(pull, flat.reshape(record["rows"], -1), scores=record["scores"])
        else:
            session.abandon(pull)
        loop.account(flight, told)
        loop.resumed += 1

    def asked(self, pull: Pull) -> None:
        """Append that a pull was asked for. Lost, it would be asked for again."""
        self._write({"ask": pull.id, "arm": pull.arm}, synced=False)

    def settled(self, flight: Flight, answer: Answer | None) -> None:
        """Append what came of a pull."""
        features = None if answer is None else base64.b64encode(answer.features.astype("<f4").tobytes()).decode()
        record = {
            "pull": flight.pull.id,
            "features": features,
            "rows": 0 if answer is None else len(answer.features),
            "scores": {} if answer is None else answer.scores,
            "failures": [[kept.attempt, kept.error, kept.trace] for kept in flight.failures],
            "calls": flight.calls,
        }
        self._write(record)

    def _write(self, record: dict[str, Any], synced: bool = True) -> None:
        line = _line(record, self.crc)
        self.crc = _crc(line)
        self.file.write(line)
        self.file.flush()
        if synced:
            os.fsync(self.file.fileno())

    def close(self) -> None:
        """Close the file."""
        self.file.close()


def _said(value: Any) -> str:
    return "none" if value is None else repr(value)


def _line(record: dict[str, Any], crc: int) -> bytes:
    """A record as a line, with the checksum of it and of all before it, which have ``crc``."""
    text = json.dumps(record, separators=(",", ":")).encode()
    return b'%s,"crc":%d}\n' % (text[:-1], zlib.crc32(text, crc))


def _crc(line: bytes) -> int:
    return int(line.rstrip(b"}\n").rpartition(b":")[2])


def _locked(file: IO[bytes]) -> bool:
    """Whether no other process writes to the file; taken for granted where it cannot be known."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        # a lock of the process, which children that outlive it do not inherit
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        pass
    return True
