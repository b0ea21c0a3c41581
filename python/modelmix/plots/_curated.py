"""A curated set: the arms of its rows, and its score."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._arguments import checked
from .._lazy import Lazy
from .._table import number, spread
from ..results import Curated
from ._canvas import Canvas, rows_of, shares_of, widened

if TYPE_CHECKING:
    from matplotlib import axes
else:
    axes = Lazy("matplotlib.axes")


@checked
def curated(chosen: Curated, ax: axes.Axes | None = None) -> axes.Axes:
    """Draw the arms' shares in the set next to their weights in the mixture, with the score of the set as title.

    Parameters
    ----------
    chosen
        The result of :func:`modelmix.curate`.
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
    >>> result = mm.curate("data/fashion/truncated.npz", "rke", bandwidth=20, count=20)
    >>> type(mm.plots.curated(result)).__name__
    'Axes'
    """
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
    worth = f"{chosen.score_name} {number(chosen.score)} of {len(chosen.ids)} rows"
    canvas.title(f"{worth}; at random {spread(*chosen.random.score)}, mixture {number(chosen.mixture_score)}", pad=24)
    canvas.legend_above()
    return ax
