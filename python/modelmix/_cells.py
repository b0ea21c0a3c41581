"""Cells of tables: text as the command line writes it, with the numbers behind it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from ._modelmix import brief
from ._modelmix import percents as _percents
from ._names import shorten

#: What a table has for nothing.
NOTHING = "–"

#: A cell of a bar, from nothing on.
EIGHTHS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")


class Cell(str):
    """Text that knows its numbers (or names), by what a CSV file adds to the column's name for each.

    >>> Cell("1.50 ± 0.100", {"": 1.5, " error": 0.1}).numbers
    {'': 1.5, ' error': 0.1}
    """

    numbers: dict[str, float | str | None]
    mark: str

    def __new__(cls, text: str, numbers: Mapping[str, float | str | None], mark: str = "") -> Cell:
        """A ``mark`` stands after the text, and only in tables of text."""
        made = super().__new__(cls, text + mark)
        made.numbers, made.mark = dict(numbers), mark
        return made

    @property
    def unmarked(self) -> str:
        """The text without its mark."""
        return str(self)[: len(self) - len(self.mark)]

    def marked(self, mark: str) -> Cell:
        """The same with a mark."""
        return Cell(self.unmarked, self.numbers, mark)


def number(value: float | None) -> Cell:
    """A number with three significant digits."""
    return Cell(NOTHING if value is None or not math.isfinite(value) else brief(value), {"": value})


def spread(value: float | None, error: float | None, what: str = "error") -> Cell:
    """A number and its standard error, or ``what`` else stands after ±."""
    text = number(value) if error is None or not math.isfinite(error) else f"{number(value)} ± {brief(error)}"
    return Cell(text, {"": value, f" {what}": error})


def percents(shares: Iterable[float]) -> list[Cell]:
    """Shares of a whole, which add up to 100%.

    >>> percents([1 / 3, 1 / 3, 1 / 3])
    ['33.4%', '33.3%', '33.3%']
    """
    values = list(shares)
    return [Cell(text, {"": share}) for text, share in zip(_percents(values), values, strict=True)]


def percent(share: float) -> Cell:
    """A share."""
    return Cell("<0.1%" if 0.0 < share < 0.0005 else f"{100 * share:.1f}%", {"": share})


def interval(ends: tuple[float, float] | None) -> Cell:
    """An interval of shares."""
    low, high = ends or (None, None)
    return Cell("–".join(percent(end) for end in ends or ()), {" low": low, " high": high})


def shares(weights: Mapping[str, float]) -> Cell:
    """A mixture, the largest share first: ``flux 62.5%, sdxl 37.5%``."""
    written = zip(weights.items(), percents(weights.values()), strict=True)
    order = sorted(written, key=lambda one: -one[0][1])
    text = ", ".join(f"{shorten(arm, 30)} {percent}" for (arm, share), percent in order if share > 0)
    return Cell(text, {f" {arm}": share for arm, share in weights.items()})


def best_of(name: str, text: str, value: float, what: str) -> Cell:
    """A name and its number, such as ``flux 62%``; ``what`` the number is."""
    return Cell(f"{shorten(name, 30)} {text}", {"": name, f" {what}": value})


def bar(share: float, cells: int = 20) -> str:
    """A share as a bar of up to ``cells`` cells, in eighths."""
    eighths = math.floor(min(max(share, 0.0), 1.0) * 8 * cells + 0.5)
    return "█" * (eighths // 8) + EIGHTHS[eighths % 8]


def count(value: float | None) -> Cell:
    """A whole number with its thousands apart."""
    return Cell(NOTHING if value is None else f"{math.floor(value + 0.5):,}", {"": value})


def tiny(value: float) -> str:
    """A number of which only the size matters: 2e-17."""
    if not value > 0:
        return "0"
    digits, power = f"{value:.0e}".split("e")
    return f"{digits}e{int(power)}"
