"""Tables as LaTeX, Markdown and CSV, for other documents; bars and notes are omitted."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Sequence

from ._cells import EMPTY, Cell
from ._names import plain
from ._table import Table

#: Characters that LaTeX needs escaped; mathematical symbols are in math mode.
_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": "$<$", ">": "$>$", "|": "$|$",
    # After \\ at the end of a row, these would be parsed as its argument.
    "[": "{[}", "*": "{*}",
    "–": "--", "…": r"\ldots{}", "×": r"$\times$", "±": r"$\pm$", "∞": r"$\infty$", "λ": r"$\lambda$", "κ": r"$\kappa$",
    "σ": r"$\sigma$", "α": r"$\alpha$", "²": "$^2$", "³": "$^3$", "↑": r"$\uparrow$", "↓": r"$\downarrow$", "·": r"$\cdot$",
}  # fmt: skip

#: Characters that Markdown or HTML would interpret.
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|#~])")


def latex(table: Table, caption: str | None = None, label: str | None = None) -> str:
    """Return a ``tabular`` with booktabs rules, inside a ``table`` if a caption or a label is given."""
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
    """Return a table in GitHub-flavoured Markdown."""
    shown = _shown(table)
    lines = [
        [_in_markdown(table.header[at]) for at in shown],
        [":--" if table.is_left(at) else "--:" for at in shown],
        *_body(table, shown, _in_markdown, "**%s**"),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def csv_text(table: Table) -> str:
    """Return comma-separated values with all digits: one column per number of a cell, and text unchanged."""
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
    """Return a number with all its digits, or an empty string if it is unknown."""
    if not isinstance(cell, Cell):
        return plain(cell).strip() if part == "" and cell != EMPTY else ""
    value = cell.numbers.get(part)
    if isinstance(value, str):
        return plain(value)
    return "" if value is None or value != value else repr(value)


def _shown(table: Table) -> list[int]:
    """Return the indices of the columns to write: all except bars."""
    return [at for at in range(len(table.header)) if at not in table.bars]


def _body(table: Table, shown: Sequence[int], escape: Callable[[str], str], strong: str) -> list[list[str]]:
    """Return the rows, escaped, with emphasised cells in bold."""
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
