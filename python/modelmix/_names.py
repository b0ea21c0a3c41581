"""Names, which come from strangers: made fit for tables and charts, and cut to a length."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

#: Marks that change the direction of the text around them.
_TURNS = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufffe\uffff")


def plain(text: str) -> str:
    """The text without what would upset others: control characters and marks of direction."""
    return "".join(
        " " if letter in _TURNS or unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") else letter
        for letter in text
    )


def width(text: str) -> int:
    """How many columns of a terminal the text takes."""
    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in text
    )


def shorten(name: str, most: int) -> str:
    """A name of at most so many characters, the middle of a long one left out."""
    name = plain(name).strip()
    if len(name) <= most:
        return name
    tail = (most - 1) * 2 // 5
    return f"{name[: most - 1 - tail]}…{name[len(name) - tail :]}"


def short(names: Sequence[str], most: int) -> list[str]:
    """Names of at most so many characters; those that would look the same are numbered."""
    cut = [shorten(name, most) for name in names]
    if len(set(cut)) == len(set(names)):
        return cut
    digits = len(str(len(names))) + 1
    return [f"{at} {shorten(name, max(4, most - digits))}" for at, name in enumerate(names, 1)]
