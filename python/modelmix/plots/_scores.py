"""All scores, as a coloured table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from .._arguments import checked
from .._lazy import Lazy
from .._table import EMPTY, number
from ..results import Scores
from ..results.scores import LESS
from ._canvas import Canvas, rows_of

if TYPE_CHECKING:
    from matplotlib import axes
else:
    axes = Lazy("matplotlib.axes")


@checked
def scores(table: Scores, ax: axes.Axes | None = None) -> axes.Axes:
    """Draw all scores as a table; each metric is coloured up to its best value, which is framed.

    Parameters
    ----------
    table
        The result of :func:`modelmix.score`.
    ax
        The axes to draw into; ``None`` for a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Raises
    ------
    ImportError
        If matplotlib is not installed.

    Examples
    --------
    >>> import matplotlib, modelmix as mm, modelmix.plots
    >>> matplotlib.use("Agg")
    >>> result = mm.score("data/fashion/truncated.npz", metrics=["rke"], bandwidth=20)
    >>> type(mm.plots.scores(result)).__name__
    'Axes'
    """
    sets = [scored for _, scored in table._sets()]
    metrics = table.metrics
    canvas = Canvas.of(ax, 2.0 + 0.95 * len(metrics), 0.7 + 0.46 * len(sets))
    ax = canvas.ax
    values = [[_finite(scored[metric]) for metric in metrics] for scored in sets]
    columns = [[row[at] for row in values] for at in range(len(metrics))]
    shades = [_goodness(column, metric) for column, metric in zip(columns, metrics, strict=True)]
    _shade(canvas, [[shade[at] for shade in shades] for at in range(len(sets))])
    rows_of(ax, [arm.name for arm in table.arms], table.mixture is not None)
    if table.mixture is not None:
        ax.axhline(len(sets) - 1.5, color=canvas.ink, linewidth=1.2)
    ax.set_xticks(range(len(metrics)), [_heading(metric) for metric in metrics])
    ax.tick_params(axis="x", length=0, labeltop=True, labelbottom=False, bottom=False, top=False)
    ax.spines[:].set_visible(False)
    wide, high = _cell(ax, len(metrics), len(sets))
    size = max(4.5, min(10.0, wide / 4.6, 0.62 * high))
    for label in ax.get_xticklabels():
        label.set_fontsize(max(4.5, min(10.0, wide / 6.2)))
    # errors are below their numbers if there is space for a second line
    detailed = high > 2.3 * size
    best = table._best()
    for row, scored in enumerate(sets):
        for column, metric in enumerate(metrics):
            marked = (row, column + 1) in best
            value, error = values[row][column], _finite(scored._error(metric))
            second = detailed and not math.isnan(error)
            ax.text(
                column,
                row - (0.12 if second else 0.0),
                EMPTY if math.isnan(value) else number(value),
                ha="center",
                va="center",
                color=canvas.ink,
                fontsize=size,
                fontweight="bold" if marked else "normal",
            )
            if second:
                below = {
                    "ha": "center",
                    "va": "center",
                    "color": canvas.ink,
                    "fontsize": 0.75 * size,
                }
                ax.text(column, row + 0.25, f"± {number(error)}", **below)
            if marked:
                _frame(canvas, column, row)
    return ax


def _finite(value: float | None) -> float:
    return math.nan if value is None or not math.isfinite(value) else value


def _goodness(column: Iterable[float], metric: str) -> list[float]:
    """A score scaled from 0, the worst of a metric, to 1, its best."""
    signed = [-value if metric in LESS else value for value in column]
    known = [value for value in signed if not math.isnan(value)]
    low, high = min(known, default=0.0), max(known, default=0.0)
    if high == low:
        return [0.0 * value + 1.0 for value in signed]
    return [(value - low) / (high - low) for value in signed]


def _shade(canvas: Canvas, shades: Sequence[Sequence[float]]) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    colours = canvas.colours
    ramp = LinearSegmentedColormap.from_list("modelmix", [colours.panel, colours.heat])
    heat = ramp.with_extremes(bad=colours.panel)
    canvas.ax.imshow(shades, cmap=heat, vmin=0.0, vmax=1.0, aspect="auto", interpolation="nearest")
    canvas.ax.grid(False)
    # a gap between cells
    paper = canvas.ax.get_facecolor()
    for at in range(1, len(shades)):
        canvas.ax.axhline(at - 0.5, color=paper, linewidth=1.5)
    for at in range(1, len(shades[0])):
        canvas.ax.axvline(at - 0.5, color=paper, linewidth=1.5)


def _frame(canvas: Canvas, column: int, row: int) -> None:
    from matplotlib.patches import Rectangle

    place = (column - 0.46, row - 0.44)
    canvas.ax.add_patch(Rectangle(place, 0.92, 0.88, fill=False, edgecolor=canvas.colour(1), linewidth=1.8, zorder=3))


def _cell(ax: axes.Axes, columns: int, rows: int) -> tuple[float, float]:
    """The approximate width and height of a table cell, in points."""
    box = ax.get_window_extent()
    points = 72.0 / ax.figure.dpi
    return 0.92 * box.width * points / columns, 0.92 * box.height * points / rows


def _heading(metric: str) -> str:
    """The display name of a metric, with an arrow in the better direction."""
    known = {
        "rke": "RKE",
        "kid": "KID, subsets",
        "kid_full": "KID, all pairs",
        "mmd": "MMD²",
        "cmmd": "CMMD",
        "fid": "FID",
        "fid_infinity": "FID∞",
    }
    return f"{known.get(metric, metric.capitalize())} {'↓' if metric in LESS else '↑'}"
