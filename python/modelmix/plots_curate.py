"""Figures of curated sets, by matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._table import number, percent, spread
from .plots import _beside, _Canvas, _label, _percents, _rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .curated import Curated

__all__ = ["curated"]


def curated(chosen: Curated, ax: Axes | None = None) -> Axes:
    """Draw the arms' shares in the set as bars, their weights in the mixture as marks, and what the set is worth as title."""
    canvas = _Canvas.of(ax, 7.0, 1.6 + 0.27 * len(chosen.arms))
    ax, arms = canvas.ax, chosen.arms
    canvas.tidy(ax, "x")
    _rows(ax, [arm.name for arm in arms])
    rows = range(len(arms))
    ax.barh(rows, [arm.share for arm in arms], height=0.64, color=canvas.colour(0), label="in the set")
    ax.plot(
        [arm.weight for arm in arms],
        rows,
        linestyle="none",
        marker="D",
        markersize=5,
        color=canvas.colour(1),
        label="in the mixture",
    )
    for row, arm in enumerate(arms):
        _beside(ax, percent(arm.share), max(arm.share, arm.weight), row, canvas.ink)
    highest = max(max(arm.share, arm.weight) for arm in arms)
    ax.set_xlim(0.0, 1.22 * max(highest, 0.05))
    _percents(ax)
    ax.set_xlabel("share; a chosen set is no longer an i.i.d. mixture")
    title = (
        f"{chosen.score_name} {number(chosen.score)}; drawn at random {spread(*chosen.random.score)}, "
        f"mixture {number(chosen.mixture_score)}"
    )
    ax.set_title(_label(title), loc="left", fontsize="medium", color=canvas.ink)
    legend = ax.legend(loc="lower right", frameon=False, fontsize="small")
    for text in legend.get_texts():
        text.set_color(canvas.ink)
    return ax
