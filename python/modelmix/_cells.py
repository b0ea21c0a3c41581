"""Table cells: text in the format of the command line, with the underlying numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from ._modelmix import brief
from ._modelmix import percents as _percents
from ._names import shorten

#: The text of an empty cell.
EMPTY = "–"

#: Block characters for a fraction of a bar cell: empty, then one to seven eighths.
EIGHTHS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")


class Cell(str):
    """Text with its underlying numbers (or names). Keys are the suffixes of the column name in a CSV file.

    >>> Cell("1.50 ± 0.100", {"": 1.5, " error": 0.1}).numbers
    {'': 1.5, ' error': 0.1}
    """

    numbers: dict[str, float | str | None]
    mark: str

    def __new__(cls, text: str, numbers: Mapping[str, float | str | None], mark: str = "") -> Cell:
        """Create a cell; ``mark`` is appended to the text, in plain-text tables only."""
        made = super().__new__(cls, text + mark)
        made.numbers, made.mark = dict(numbers), mark
        return made

    @property
    def unmarked(self) -> str:
        """The text without its mark."""
        return str(self)[: len(self) - len(self.mark)]

    def marked(self, mark: str) -> Cell:
        """Return this cell with another mark."""
        return Cell(self.unmarked, self.numbers, mark)


def number(value: float | None) -> Cell:
    """Return a cell of a number with three significant digits."""
    return Cell(brief(value) if value is not None and math.isfinite(value) else EMPTY, {"": value})


def spread(value: float | None, error: float | None, what: str = "error") -> Cell:
    """Return a cell ``value ± error``; ``what`` names the error in CSV files."""
    text = number(value) if error is None or not math.isfinite(error) else f"{number(value)} ± {brief(error)}"
    return Cell(text, {"": value, f" {what}": error})


def percents(shares: Iterable[float]) -> list[Cell]:
    """Shares of a whole as percentages that add up to 100%.

    >>> percents([1 / 3, 1 / 3, 1 / 3])
    ['33.4%', '33.3%', '33.3%']
    """
    values = list(shares)
    return [Cell(text, {"": share}) for text, share in zip(_percents(values), values, strict=True)]


def percent(share: float) -> Cell:
    """Return a cell of a share as a percentage."""
    return Cell("<0.1%" if 0.0 < share < 0.0005 else f"{100 * share:.1f}%", {"": share})


def interval(ends: tuple[float, float] | None) -> Cell:
    """Return a cell of an interval of shares."""
    low, high = ends or (None, None)
    return Cell("–".join(percent(end) for end in ends or ()), {" low": low, " high": high})


def shares(weights: Mapping[str, float]) -> Cell:
    """Return a cell of a mixture, largest share first: ``flux 62.5%, sdxl 37.5%``."""
    written = zip(weights.items(), percents(weights.values()), strict=True)
    order = sorted(written, key=lambda one: -one[0][1])
    text = ", ".join(f"{shorten(arm, 30)} {percent}" for (arm, share), percent in order if share > 0)
    return Cell(text, {f" {arm}": share for arm, share in weights.items()})


def best_of(name: str, text: str, value: float, what: str) -> Cell:
    """Return a cell of a name and its number, such as ``flux 62%``; ``what`` names the number in CSV files."""
    return Cell(f"{shorten(name, 30)} {text}", {"": name, f" {what}": value})


def bar(share: float, cells: int = 20) -> str:
    """Return a share as a bar of up to ``cells`` characters, in eighths of a character."""
    eighths = math.floor(min(max(share, 0.0), 1.0) * 8 * cells + 0.5)
    return "█" * (eighths // 8) + EIGHTHS[eighths % 8]


def count(value: float | None) -> Cell:
    """Return a cell of a whole number with thousands separators."""
    return Cell(f"{math.floor(value + 0.5):,}" if value is not None else EMPTY, {"": value})


def tiny(value: float) -> str:
    """Return a number with one significant digit, such as 2e-17."""
    if not value > 0:
        return "0"
    digits, power = f"{value:.0e}".split("e")
    return f"{digits}e{int(power)}"
