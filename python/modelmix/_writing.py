"""Atomic writing of files."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from . import _check


def write_whole(name: str, path: str | os.PathLike[str], text: str) -> None:
    """Replace a file by ``text`` atomically. ``name`` is that of the argument."""
    with replaced(name, path) as partial, open(partial, "x", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def replaced(name: str, path: str | os.PathLike[str]) -> Iterator[str]:
    """Replace a file atomically: readers see the old or the new contents, never a part. ``name`` is that of the argument.

    The block creates the file whose path it is given: a temporary file with a random name in the same folder. After the block, that
    file is renamed. If anything fails, it is removed.
    """
    target = _check.file(name, path)
    if os.path.isdir(target):
        raise IsADirectoryError(
            f"{target} is a folder; name a file in it, such as {os.path.join(target, 'session.json')}"
        )
    # Symbolic links are followed, and the permissions of an existing file are kept.
    target = os.path.realpath(target)
    partial = os.path.join(os.path.dirname(target), f".{os.path.basename(target)}.{secrets.token_hex(8)}")
    try:
        yield partial
        with suppress(FileNotFoundError):
            os.chmod(partial, os.stat(target).st_mode & 0o777)
        os.replace(partial, target)
    except BaseException as problem:
        with suppress(OSError):
            os.unlink(partial)
        if isinstance(problem, OSError) and problem.filename == partial and problem.filename2 is None:
            problem.filename = target  # the path that the user passed
        raise
