"""The best mixture: weights, and the score of every arm beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._arguments import checked
from .._lazy import Lazy
from .._names import shorten
from .._table import number
from ..results import Mixture
from ._canvas import DARK, Canvas, aside, beside, differ_much, label, logarithmic, room_for_shares, rows_of, shares

if TYPE_CHECKING:
    from matplotlib import axes
else:
    axes = Lazy("matplotlib.axes")


@checked
def mixture(best: Mixture, ax: axes.Axes | None = None) -> axes.Axes:
    """Draw the weights as bars with their intervals, and beside them the score of every arm.

    The scores have axes of their own, to the right, in the room of the axes given; a band spans
    what the mixture gains over the best single arm.

    Parameters
    ----------
    best
        What :func:`modelmix.solve` returned.
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
    >>> result = mm.solve("data/fashion/truncated.npz", mm.Rke(bandwidth=20))
    >>> type(mm.plots.mixture(result)).__name__
    'Axes'
    """
    rows = len(best.arms) + 1
    canvas = Canvas.of(ax, 8.0, 1.3 + 0.27 * rows)
    ax = canvas.ax
    _weights(canvas, best)
    _scores_aside(canvas, best, aside(canvas, 0.72))
    single = shorten(best.best_single, 28)
    if best.gain > 0:
        instead = f"instead of {number(best.best_arm.score)} with {single} alone"
        title = f"{best.score_name} {number(best.score)} {instead}"
    else:
        better = f"no mixture has a better {best.score_name} than its {number(best.score)}"
        title = f"{single} alone: {better}"
    canvas.title(title)
    return ax


def _weights(canvas: Canvas, best: Mixture) -> None:
    ax, arms = canvas.ax, best.arms
    canvas.tidy(ax, "x")
    rows_of(ax, [arm.name for arm in arms], mixture=True)
    ends = [arm.weight if arm.interval is None else arm.interval[1] for arm in arms]
    for row, arm in enumerate(arms):
        if arm.interval is not None:
            whisker: dict[str, Any] = {"linewidth": 1.3, "marker": "|", "markersize": 6, "label": "_interval"}
            ax.plot(arm.interval, [row, row], color=canvas.ink, **whisker)
    shares(canvas, [arm.weight for arm in arms], ends)
    room_for_shares(ax, max(max(arm.weight, end) for arm, end in zip(arms, ends, strict=True)))
    ax.set_xlabel("weight, with 95% intervals" if any(arm.interval for arm in arms) else "weight")


def _scores_aside(canvas: Canvas, best: Mixture, ax: axes.Axes) -> None:
    canvas.tidy(ax, "x")
    ax.tick_params(axis="y", length=0, labelleft=False)
    ax.spines["left"].set_visible(False)
    values = [arm.score for arm in best.arms]
    everything = [*values, best.score]
    low, high = min(everything), max(everything)
    if differ_much(low, high):
        logarithmic(ax.xaxis, low, high)
        reach = (high / low) ** 0.08
        ax.set_xlim(low / reach, high * reach**4)
    else:
        # scores start at zero where that costs little room
        start = 0.0 if 0 <= low <= 0.6 * high else low
        reach = (high - start) or abs(high) or 1.0
        ax.set_xlim(start - 0.06 * reach, high + 0.32 * reach)
        ax.locator_params(axis="x", nbins=4)
    gained, colour = canvas.colour(1), canvas.colour(0)
    single, veil = best.best_arm.score, 0.3 if canvas.colours is DARK else 0.16
    ax.axvspan(min(single, best.score), max(single, best.score), color=gained, alpha=veil, linewidth=0)
    ax.plot(
        values,
        range(len(values)),
        linestyle="none",
        marker="o",
        markersize=5,
        color=colour,
        label="arms",
    )
    ax.plot(
        [best.score],
        [len(values)],
        linestyle="none",
        marker="D",
        markersize=6,
        color=gained,
        label="mixture",
    )
    for row, (score, stressed) in enumerate(
        [*((arm.score, arm.name == best.best_single) for arm in best.arms), (best.score, True)]
    ):
        beside(ax, number(score), score, row, canvas.ink, fontweight="bold" if stressed else "normal")
    better = "more" if best.more_is_better else "less"
    ax.set_xlabel(label(f"{best.score_name}, {better} is better"))
