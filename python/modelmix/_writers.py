"""Tables as LaTeX, Markdown and CSV. Bars and notes stay out: what is written goes into another document."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Sequence

from ._cells import NOTHING, Cell
from ._names import plain
from ._table import Table

#: What LaTeX has other spellings for; a mark of maths is written as such.
_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": "$<$", ">": "$>$", "|": "$|$",
    # after the end of a row these would be an argument of it
    "[": "{[}", "*": "{*}",
    "–": "--", "…": r"\ldots{}", "×": r"$\times$", "±": r"$\pm$", "∞": r"$\infty$", "λ": r"$\lambda$", "κ": r"$\kappa$",
    "σ": r"$\sigma$", "α": r"$\alpha$", "²": "$^2$", "³": "$^3$", "↑": r"$\uparrow$", "↓": r"$\downarrow$", "·": r"$\cdot$",
}  # fmt: skip

#: What Markdown would read as something else, or a browser as HTML.
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|#~])")


def latex(table: Table, caption: str | None = None, label: str | None = None) -> str:
    """A ``tabular`` with the rules of booktabs, in a ``table`` if there is a caption or a label."""
    shown = _shown(table)
    sides = "".join("l" if table.is_left(at) else "r" for at in shown)
    lines = [
        rf"\begin{{tabular}}{{{sides}}}",
        r"\toprule",
        rf"{' & '.join(_in_latex(table.header[at]) for at in shown)} \\",
        r"\midrule",
        *(rf"{' & '.join(row)} \\" for row in _body(table, shown, _in_latex, r"\textbf{%s}")),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    if caption is None and label is None:
        return "\n".join(lines)
    above = [] if caption is None else [rf"\caption{{{_in_latex(caption)}}}"]
    above += [] if label is None else [rf"\label{{{label}}}"]
    return "\n".join([r"\begin{table}", r"\centering", *above, *lines, r"\end{table}"])


def markdown(table: Table) -> str:
    """A table of GitHub's Markdown."""
    shown = _shown(table)
    lines = [
        [_in_markdown(table.header[at]) for at in shown],
        [":--" if table.is_left(at) else "--:" for at in shown],
        *_body(table, shown, _in_markdown, "**%s**"),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def csv_text(table: Table) -> str:
    """Comma-separated values with all digits: a column for every number of a cell, and text as it is."""
    columns: list[tuple[str, list[str]]] = []
    for at in _shown(table):
        cells = [row[at] for row in table.rows]
        name = table.header[at].rstrip(" ↑↓")
        parts = list(dict.fromkeys(part for cell in cells if isinstance(cell, Cell) for part in cell.numbers))
        if not parts:
            columns.append((name, [plain(cell).strip() for cell in cells]))
        for part in parts:
            columns.append((name + part, [_exactly(cell, part) for cell in cells]))
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow([name for name, _ in columns])
    writer.writerows(zip(*(values for _, values in columns), strict=True))
    return written.getvalue()


def _exactly(cell: str, part: str) -> str:
    """A number with all its digits; nothing if it is unknown."""
    if not isinstance(cell, Cell):
        return plain(cell).strip() if part == "" and cell != NOTHING else ""
    value = cell.numbers.get(part)
    if isinstance(value, str):
        return plain(value)
    return "" if value is None or value != value else repr(value)


def _shown(table: Table) -> list[int]:
    """The columns to write: all but bars."""
    return [at for at in range(len(table.header)) if at not in table.bars]


def _body(table: Table, shown: Sequence[int], escape: Callable[[str], str], strong: str) -> list[list[str]]:
    """The rows, escaped, with what is stressed made strong."""
    rows = []
    for place, row in enumerate(table.rows):
        cells = []
        for at in shown:
            cell = row[at]
            text = escape(plain(cell.unmarked if isinstance(cell, Cell) else cell).strip())
            stressed = place in table.strong or (place, at) in table.best
            cells.append(strong % text if stressed and text else text)
        rows.append(cells)
    return rows


def _in_latex(text: str) -> str:
    # two hyphens would be a dash
    parts = re.sub(r"-(?=-)", "-\0", plain(text)).split("\0")
    return "{}".join("".join(_LATEX.get(letter, letter) for letter in part) for part in parts)


def _in_markdown(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", plain(text))
