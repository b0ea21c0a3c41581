"""Names of arms and files, which are untrusted: removes unsafe characters for tables and charts, and shortens names."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

#: Marks that change the direction of the surrounding text, and noncharacters.
_TURNS = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufffe\uffff")


def plain(text: str) -> str:
    """Return the text with control characters and direction marks replaced by spaces."""
    return "".join(
        " " if letter in _TURNS or unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") else letter
        for letter in text
    )


def width(text: str) -> int:
    """Return the number of terminal columns that the text takes."""
    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in text
    )


def shorten(name: str, most: int) -> str:
    """Return a name of at most ``most`` characters; the middle of a longer name is omitted."""
    name = plain(name).strip()
    if len(name) <= most:
        return name
    tail = (most - 1) * 2 // 5
    return f"{name[: most - 1 - tail]}…{name[len(name) - tail :]}"


def short(names: Sequence[str], most: int) -> list[str]:
    """Return names of at most ``most`` characters, numbered if two of them would look the same."""
    cut = [shorten(name, most) for name in names]
    if len(set(cut)) == len(set(names)):
        return cut
    digits = len(str(len(names))) + 1
    return [f"{at} {shorten(name, max(4, most - digits))}" for at, name in enumerate(names, 1)]
