"""Small tables, as text for terminals and as HTML for notebooks.

Numbers have the format of the command line.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import zip_longest

from ._cells import (
    EIGHTHS,
    EMPTY,
    Cell,
    bar,
    best_of,
    count,
    interval,
    number,
    percent,
    percents,
    shares,
    spread,
    tiny,
)
from ._names import plain, short, width

__all__ = [
    "EMPTY",
    "Cell",
    "Table",
    "bar",
    "best_of",
    "count",
    "interval",
    "number",
    "percent",
    "percents",
    "shares",
    "spread",
    "tiny",
]

#: The largest number of characters of a name in a text table.
_LONGEST = 60

#: The width up to which lists wrap over several lines.
_NARROWEST = 28

#: The colour of bars in notebooks: the accent of the reports, which is visible on light and dark backgrounds.
_ACCENT = "#3b82c4"


@dataclass
class Table:
    """A headline, columns, rows, a remark and a note below. The first column contains names."""

    title: str
    header: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)
    note: str = ""
    #: A sentence between the rows and the note.
    remark: str = ""
    #: Indices of rows to highlight.
    strong: frozenset[int] = frozenset()
    #: Cells to highlight, by row and column.
    best: frozenset[tuple[int, int]] = frozenset()
    #: Columns aligned to the left, in addition to the first.
    left: frozenset[int] = frozenset()
    #: Columns of bars.
    bars: frozenset[int] = frozenset()
    #: Columns of lists, aligned to the left, whose cells may wrap over several lines.
    lists: frozenset[int] = frozenset()

    def text(self, columns: int | None = None) -> str:
        """The table as text, with numbers aligned to the right; if possible, within ``columns`` characters."""
        most = _LONGEST if columns is None else max(16, min(_LONGEST, columns // 3))
        names = short([row[0] for row in self.rows], most)
        rows = [[name, *(plain(cell) for cell in row[1:])] for name, row in zip(names, self.rows, strict=True)]
        table = [list(self.header), *rows]
        widths = [max(width(row[at]) for row in table) for at in range(len(self.header))]
        blocks = [
            "\n".join(line for row in table for line in self._lines(row, shown, widths))
            for shown in self._fitting(widths, columns)
        ]
        notes = "\n".join(_wrapped(plain(line), columns) for line in self.note.split("\n") if line)
        below = filter(None, [_wrapped(plain(self.remark), columns), notes])
        return "\n\n".join([_wrapped(plain(self.title), columns), *blocks, *below])

    def is_left(self, at: int) -> bool:
        """Whether a column is aligned to the left."""
        return at == 0 or at in self.left | self.bars | self.lists

    def _lines(self, row: Sequence[str], shown: Sequence[int], widths: Sequence[int]) -> Iterator[str]:
        """A row in the columns shown; lists that are wider than their column wrap."""

        def cell(text: str, at: int) -> str:
            blank = " " * (widths[at] - width(text))
            return text + blank if self.is_left(at) else blank + text

        folded = [_folded(row[at], widths[at]) if at in self.lists else [row[at]] for at in shown]
        for texts in zip_longest(*folded, fillvalue=""):
            yield "  ".join(["", *map(cell, texts, shown)]).rstrip()

    def _fitting(self, widths: list[int], columns: int | None) -> list[list[int]]:
        """The columns of each block, with the first column in every block; lists get the remaining width."""
        blocks, used = [[0]], widths[0] + 2
        for at in range(1, len(widths)):
            if widths[at] == 0:
                continue
            least = min(widths[at], _NARROWEST) if at in self.lists else widths[at]
            if columns is not None and used + least + 2 > columns and len(blocks[-1]) > 1:
                blocks.append([0])
                used = widths[0] + 2
            if columns is not None and at in self.lists:
                widths[at] = min(widths[at], max(12, columns - used - 2))
            blocks[-1].append(at)
            used += widths[at] + 2
        return blocks

    def here(self) -> str:
        """The table as text, fitted to the terminal if the output is one."""
        terminal = sys.stdout is not None and sys.stdout.isatty()
        return self.text(shutil.get_terminal_size().columns if terminal else None)

    def html(self) -> str:
        """The table as HTML in the notebook's own style."""
        uncertain = [at for at in range(len(self.header)) if any(" ± " in row[at] for row in self.rows)]
        # many of them would not fit next to each other
        gap = "<br>" if len(uncertain) > 4 else " "

        def line(tag: str, row: Sequence[str], place: int) -> str:
            cells = []
            for at, text in enumerate(row):
                inner = self._inner(at, plain(text).strip(), gap)
                stressed = place in self.strong or (place, at) in self.best
                side = "left" if self.is_left(at) else "right"
                inner = f"<strong>{inner}</strong>" if stressed and inner else inner
                cells.append(f'<{tag} style="text-align:{side}">{inner}</{tag}>')
            return f"<tr>{''.join(cells)}</tr>"

        body = "".join(line("td", row, place) for place, row in enumerate(self.rows))
        remark = escape(plain(self.remark))
        note = "<br>".join(escape(plain(text)) for text in self.note.split("\n") if text)
        return (
            f"<div><p><strong>{escape(plain(self.title))}</strong></p>"
            '<div style="overflow-x:auto"><table style="margin-left:0">'
            f"<thead>{line('th', self.header, -1)}</thead><tbody>{body}</tbody></table></div>"
            f"{f'<p>{remark}</p>' if remark else ''}{f'<p><small>{note}</small></p>' if note else ''}</div>"
        )

    def _inner(self, at: int, text: str, gap: str) -> str:
        """The content of a cell: a bar, or text with controlled line breaks."""
        if at in self.bars:
            length = 8 * text.count("█") + (EIGHTHS.index(text[-1:]) if text[-1:] in EIGHTHS else 0)
            shape = "display:inline-block;height:0.8em;vertical-align:middle"
            return f'<span style="{shape};width:{length / 16:.4g}em;background:{_ACCENT}"></span>'
        if at == 0 and len(text) > 40:
            shape = "min-width:16em;max-width:28em;overflow-wrap:anywhere"
            return f'<div style="{shape}">{escape(text)}</div>'
        if at in self.lists:
            items = ", ".join(f'<span style="white-space:nowrap">{escape(item)}</span>' for item in text.split(", "))
            return f'<div style="min-width:16em">{items}</div>'
        parts = text.split(" ± ")
        parts[1:] = [f"± {part}" for part in parts[1:]]
        return gap.join(f'<span style="white-space:nowrap">{escape(part)}</span>' for part in parts if part)


def _wrapped(text: str, columns: int | None) -> str:
    if columns is None or width(text) <= columns:
        return text
    return textwrap.fill(text, max(20, columns), break_long_words=False, break_on_hyphens=False)


def _folded(text: str, wide: int) -> list[str]:
    """A cell in lines of at most ``wide`` characters."""
    return [text] if width(text) <= wide else textwrap.wrap(text, wide, break_on_hyphens=False)
