"""Which files a result is computed from, with their sizes and checksums."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from os import PathLike, fspath
from typing import Any

from . import _modelmix
from ._files import is_path
from ._inputs import Inputs

#: How much of a file is read at a time.
_BLOCK = 1 << 20


def add_inputs(
    document: dict[str, Any], arms: Any, reference: Any = None, scores: Any = None, read: Inputs | None = None
) -> dict[str, Any]:
    """The document with its inputs: files by path, size and checksum, everything else by name. ``read`` has the checksums of folders."""
    inputs = _Inputs({} if read is None else read.digests)
    if is_path(arms):
        inputs.add("arms", fspath(arms))
    elif isinstance(arms, Mapping):
        for name, given in arms.items():
            inputs.add("arms", f"{name}={fspath(given)}" if is_path(given) else None, str(name))
    elif isinstance(arms, (list, tuple)) and all(map(is_path, arms)):
        for given in arms:
            inputs.add("arms", fspath(given))
    else:
        inputs.add("arms", None, "a frame")
    if reference is not None:
        inputs.add("reference", fspath(reference) if is_path(reference) else None, "the reference")
    for given in _score_files(scores):
        inputs.add("scores", fspath(given))
    document["provenance"]["inputs"] = inputs.found
    return document


def _score_files(scores: Any) -> Iterable[str | PathLike[str]]:
    if is_path(scores):
        return [scores]
    return [given for given in scores.values() if is_path(given)] if isinstance(scores, Mapping) else []


class _Inputs:
    def __init__(self, digests: Mapping[str, str]) -> None:
        self._digests = digests
        self.found: list[dict[str, Any]] = []

    def add(self, role: str, source: str | None, name: str = "") -> None:
        """Add a source, or something in memory; a file that is there already gets another argument."""
        if source is None:
            self.found.append({"role": role, "arguments": [name]})
            return
        path = _modelmix.source_path(source)
        for known in self.found:
            if (known["role"], known.get("path")) == (role, path):
                known["arguments"].append(source)
                return
        self.found.append({"role": role, "path": path, "arguments": [source], **self._checksum(path)})

    def _checksum(self, path: str) -> dict[str, Any]:
        """The checksum of the samples of a folder that was encoded; otherwise size and checksum of the file."""
        known = self._digests.get(path)
        return _checksum(path) if known is None else {"sha256": known}


def _checksum(path: str) -> dict[str, Any]:
    """Size and SHA-256 of a file; nothing of a pipe, which has been read already."""
    if not os.path.isfile(path):
        return {}
    digest, size = hashlib.sha256(), 0
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            size += len(block)
    return {"bytes": size, "sha256": digest.hexdigest()}
