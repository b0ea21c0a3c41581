"""The state of a session: weights next to shares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._arguments import checked
from .._lazy import Lazy
from .._table import count
from ..results import SessionReport
from ._canvas import Canvas, rows_of, shares_of, widened

if TYPE_CHECKING:
    from matplotlib import axes
else:
    axes = Lazy("matplotlib.axes")


@checked
def session(report: SessionReport, ax: axes.Axes | None = None) -> axes.Axes:
    """Draw the weight of every arm in the best mixture next to its share of the held samples, and of the kept ones.

    Parameters
    ----------
    report
        The result of ``Session.report``.
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
    >>> result = mm.Session(["flux", "sdxl"], mm.Rke(bandwidth=1.0)).report()
    >>> type(mm.plots.session(result)).__name__
    'Axes'
    """
    arms = report.arms
    series = [
        ("weight in the best mixture", [arm.weight for arm in arms], 0),
        ("share of the samples", [arm.share for arm in arms], 5),
    ]
    if report.kept:
        series.append(("share of the kept samples", [(arm.kept or 0) / report.kept for arm in arms], 1))
    names = [arm.name for arm in arms]
    canvas = Canvas.of(ax, widened(7.0, names), 1.4 + 0.21 * len(series) * len(arms))
    ax = canvas.ax
    canvas.tidy(ax, "x")
    rows_of(ax, names)
    shares_of(canvas, series)
    samples = f"{count(report.samples)} sample{'' if report.samples == 1 else 's'}"
    kept = "" if report.kept is None else f", {count(report.kept)} kept, which are no longer an i.i.d. mixture"
    canvas.title(f"After {samples}{kept}" if report.samples else "No samples yet", pad=24)
    canvas.legend_above()
    return ax
