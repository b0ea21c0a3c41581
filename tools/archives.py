"""Unpack source archives so that cargo rebuilds only what changed."""

from __future__ import annotations

import tarfile
from collections.abc import Iterable
from pathlib import Path


def unpack(archives: Iterable[Path], folder: Path) -> list[Path]:
    """Make `folder` contain exactly the contents of the archives; return the folder of each archive.

    A file with the same contents is not rewritten, so its modification time stays.
    """
    wanted = set()
    roots = []
    for archive in archives:
        with tarfile.open(archive) as files:
            names = set()
            for member in files:
                stream = files.extractfile(member)
                if stream is None:
                    continue
                path = folder / member.name
                names.add(path.relative_to(folder).parts[0])
                wanted.add(path)
                data = stream.read()
                if not path.is_file() or path.read_bytes() != data:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(data)
        (name,) = names
        roots.append(folder / name)
    for path in folder.rglob("*"):
        if path.is_file() and path not in wanted:
            path.unlink()
    return roots
