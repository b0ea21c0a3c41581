"""A curated set: where its rows are from, and what it is worth."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._table import number, spread
from ._canvas import Canvas, rows_of, shares_of, widened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..results import Curated


def curated(chosen: Curated, ax: Axes | None = None) -> Axes:
    """Draw the arms' shares in the set beside their weights in the mixture, and what the set is worth as title."""
    names = [arm.name for arm in chosen.arms]
    canvas = Canvas.of(ax, widened(7.0, names), 1.7 + 0.42 * len(names))
    ax = canvas.ax
    canvas.tidy(ax, "x")
    rows_of(ax, names)
    shares_of(
        canvas,
        [
            ("share in the set", [arm.share for arm in chosen.arms], 0),
            ("weight in the mixture", [arm.weight for arm in chosen.arms], 5),
        ],
    )
    ax.set_xlabel("share; a curated set is no longer an i.i.d. mixture")
    worth = f"{chosen.score_name} {number(chosen.score)} of {len(chosen)} rows"
    canvas.title(f"{worth}; at random {spread(*chosen.random.score)}, mixture {number(chosen.mixture_score)}", pad=24)
    canvas.legend_above()
    return ax
