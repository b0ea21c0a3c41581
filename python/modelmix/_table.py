"""Small tables, as text for terminals and as HTML for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

from ._modelmix import brief

#: What a table has for nothing.
NOTHING = "–"


@dataclass
class Table:
    """A headline, columns, rows and a note below. The first column is names; the last row may be the one to look at."""

    title: str
    header: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)
    note: str = ""
    #: Rows to stress, by their place.
    strong: frozenset[int] = frozenset()

    def text(self) -> str:
        """With blanks, numbers to the right."""
        widths = [max(len(row[at]) for row in [self.header, *self.rows]) for at in range(len(self.header))]

        def line(cells: Sequence[str]) -> str:
            first, *others = zip(cells, widths)
            name = first[0].ljust(first[1])
            return "  ".join(["", name, *(cell.rjust(width) for cell, width in others)]).rstrip()

        lines = [self.title, "", line(self.header), *(line(row) for row in self.rows)]
        if self.note:
            lines += ["", self.note]
        return "\n".join(lines)

    def html(self) -> str:
        """With the notebook's own style, nothing but markup."""

        def cells(row: Sequence[str], tag: str, strong: bool) -> str:
            def cell(at: int, text: str) -> str:
                align = "left" if at == 0 else "right"
                inner = f"<strong>{escape(text)}</strong>" if strong else escape(text)
                return f'<{tag} style="text-align:{align}">{inner}</{tag}>'

            return "".join(cell(at, text) for at, text in enumerate(row))

        head = f"<thead><tr>{cells(self.header, 'th', False)}</tr></thead>"
        body = "".join(f"<tr>{cells(row, 'td', at in self.strong)}</tr>" for at, row in enumerate(self.rows))
        note = f"<p><small>{escape(self.note)}</small></p>" if self.note else ""
        return f"<div><p><strong>{escape(self.title)}</strong></p><table>{head}<tbody>{body}</tbody></table>{note}</div>"


def number(value: float | None) -> str:
    """A number with three digits that count."""
    return NOTHING if value is None else brief(value)


def percent(share: float) -> str:
    """A share."""
    return f"{100 * share:.1f}%"


def count(value: float | None) -> str:
    """A whole number with its thousands apart."""
    return NOTHING if value is None else f"{round(value):,}"
