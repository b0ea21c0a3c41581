"""Weights against the bandwidth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._arguments import checked
from .._lazy import Lazy
from .._names import short, shorten
from ..results import Sensitivity
from ._canvas import LONGEST, Canvas, logarithmic, percents

if TYPE_CHECKING:
    from matplotlib import axes
else:
    axes = Lazy("matplotlib.axes")

#: Arms whose weight is smaller than this everywhere have no line.
_LEAST = 0.0005


@checked
def sensitivity(tried: Sensitivity, ax: axes.Axes | None = None) -> axes.Axes:
    """Draw the weight of every arm in use against the bandwidth.

    The dotted line is the bandwidth in use. The band, from half to twice that bandwidth, is the range of the largest change.

    Parameters
    ----------
    tried
        ``Mixture.sensitivity``.
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
    >>> result = mm.solve("data/fashion/truncated.npz", "rke", bandwidths=[10, 20]).sensitivity
    >>> type(mm.plots.sensitivity(result)).__name__
    'Axes'
    """
    canvas = Canvas.of(ax, 8.0, 4.0)
    ax = canvas.ax
    canvas.tidy(ax, "both")
    bandwidths = [point.bandwidth for point in tried.points]
    ax.axvspan(tried.in_use / 2, tried.in_use * 2, color=canvas.colours.grid, alpha=0.45, linewidth=0, zorder=0)
    ax.axvline(tried.in_use, color=canvas.ink, linestyle="dotted", linewidth=1.3, zorder=2)
    arms = list(tried.points[0].weights)
    lines = {arm: [point.weights[arm] for point in tried.points] for arm in arms}
    ends: list[tuple[float, Any, str]] = []
    for at, (arm, name) in enumerate(zip(arms, short(arms, LONGEST), strict=True)):
        if max(lines[arm]) < _LEAST:
            continue
        style: dict[str, Any] = {"linewidth": 1.8, "marker": "o", "markersize": 3.5, "linestyle": canvas.stroke(at)}
        [line] = ax.plot(bandwidths, lines[arm], color=canvas.colour(at), zorder=3, **style)
        ends.append((lines[arm][-1], line, name))
    low, high = min(*bandwidths, tried.in_use), max(*bandwidths, tried.in_use)
    logarithmic(ax.xaxis, low, high)
    if len(bandwidths) <= 9:
        ax.set_xticks(bandwidths, [f"{bandwidth:.3g}" for bandwidth in bandwidths])
    reach = max(high / low, 1.2) ** 0.03
    ax.set_xlim(low / reach, high * reach)
    highest = max(max(weights) for weights in lines.values())
    ax.set_ylim(-0.02 * highest, 1.06 * highest)
    percents(ax.yaxis)
    ax.set_xlabel("bandwidth, logarithmic; dotted: in use, band: half to twice it")
    ax.set_ylabel("weight")
    most = f"{shorten(tried.arm, 24)} changes by {100 * tried.largest_change:.1f} percentage points"
    canvas.title(f"{most} between half and twice the bandwidth")
    canvas.legend_beside(ends)
    return ax
