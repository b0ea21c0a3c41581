"""The planned numbers of samples per arm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._arguments import checked
from .._lazy import Lazy
from .._table import count
from ..results import SamplePlan
from ._canvas import Canvas, beside, rows_of, widened

if TYPE_CHECKING:
    from matplotlib import axes
else:
    axes = Lazy("matplotlib.axes")


@checked
def plan(planned: SamplePlan, ax: axes.Axes | None = None) -> axes.Axes:
    """Draw the samples of the pilot and of each allocation, per arm.

    Parameters
    ----------
    planned
        The result of :func:`modelmix.plan`.
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
    ValueError
        If the plan has no allocation, because the wanted widths cannot be reached.

    Examples
    --------
    >>> import matplotlib, modelmix as mm, modelmix.plots
    >>> matplotlib.use("Agg")
    >>> planned = mm.plan("data/fashion/categories.npz", mm.Rke(bandwidth=20), gain_error="5%")
    >>> type(mm.plots.plan(planned)).__name__
    'Axes'
    """
    if planned.equal is None:
        raise ValueError(f"there is no allocation to draw: {planned.sentence}")
    arms = planned.equal.arms
    series = [("pilot", [arm.pilot for arm in arms], 5), ("equal", [arm.samples for arm in arms], 1)]
    if planned.optimal is not None:
        series.append(("optimal", [arm.samples for arm in planned.optimal.arms], 0))
    names = [arm.name for arm in arms]
    canvas = Canvas.of(ax, widened(7.0, names), 1.4 + 0.21 * len(series) * len(arms))
    ax, step = canvas.ax, 0.8 / len(series)
    canvas.tidy(ax, "x")
    rows_of(ax, names)
    for at, (name, values, colour) in enumerate(series):
        places = [row + step * (at - (len(series) - 1) / 2) for row in range(len(values))]
        ax.barh(places, values, height=0.9 * step, color=canvas.colour(colour), label=name)
        for place, value in zip(places, values, strict=True):
            beside(ax, count(value), value, place, canvas.ink, fontsize="x-small")
    ax.set_xlim(0.0, 1.15 * max(max(values) for _, values, _ in series))
    ax.set_xlabel("samples")
    canvas.title(planned.sentence, pad=24)
    canvas.legend_above()
    return ax
