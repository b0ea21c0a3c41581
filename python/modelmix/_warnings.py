"""Warnings that point at the line of the caller, whatever functions of the package stand between."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from pathlib import Path

_PACKAGE = str(Path(__file__).parent)


def warn(sentences: Iterable[str]) -> None:
    """Issue each sentence as a ``UserWarning``."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    for sentence in sentences:
        warnings.warn(sentence, UserWarning, stacklevel=level)
