"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress

from . import _check


def write_whole(name: str, path: str | os.PathLike[str], text: str) -> None:
    """Replace a file by ``text``, so that others see the old contents or all of the new ones; ``name`` is that of the argument.

    The text goes to a file of its own in the same folder first, whose name nobody else has, and is on disk before it takes the
    place of the other. If anything fails, that file is removed.
    """
    target = _check.file(name, path)
    if os.path.isdir(target):
        raise IsADirectoryError(
            f"{target} is a folder; name a file in it, such as {os.path.join(target, 'session.json')}"
        )
    # a link stays one, and so does what others may do with the file
    target = os.path.realpath(target)
    partial = os.path.join(os.path.dirname(target), f".{os.path.basename(target)}.{secrets.token_hex(8)}")
    try:
        with open(partial, "x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileNotFoundError):
            os.chmod(partial, os.stat(target).st_mode & 0o777)
        os.replace(partial, target)
    except BaseException as problem:
        with suppress(OSError):
            os.unlink(partial)
        if isinstance(problem, OSError) and problem.filename == partial and problem.filename2 is None:
            problem.filename = target  # the one that the user knows
        raise
