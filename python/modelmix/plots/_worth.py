"""The value of each model: the gain that a few of them keep, and the cheapest mixture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._arguments import checked
from .._lazy import Lazy
from .._names import short
from .._table import EMPTY, number, percent
from ..results import Cheapest, Subsets
from ..results.worth import money
from ._canvas import Canvas, aside, beside, label, percents, room_for_shares, rows_of, shares, widened

if TYPE_CHECKING:
    from matplotlib import axes
else:
    axes = Lazy("matplotlib.axes")

#: A few arms are nearly as good as all if they keep at least this share of the gain.
_NEARLY = 0.95

#: The largest number of characters of a name below a column.
_LONGEST = 20


@checked
def subsets(few: Subsets, ax: axes.Axes | None = None) -> axes.Axes:
    """Draw the share of the gain that each number of arms keeps as bars, and next to them which arms these are.

    The area of a dot shows the weight; the dots have their own axes, within the area of the given ones.

    Parameters
    ----------
    few
        ``Mixture.subsets``.
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
    >>> result = mm.solve("data/fashion/truncated.npz", mm.Rke(bandwidth=20), subsets=True).subsets
    >>> type(mm.plots.subsets(result)).__name__
    'Axes'
    """
    canvas = Canvas.of(ax, max(6.0, min(12.0, 3.6 + 0.45 * len(few.arms))), 1.9 + 0.3 * len(few))
    ax = canvas.ax
    canvas.tidy(ax, "x")
    rows_of(ax, [subset._name for subset in few.sizes])
    kept = [subset.gain_kept or 0.0 for subset in few.sizes]
    ax.barh(range(len(kept)), kept, height=0.64, color=canvas.colour(0))
    for row, subset in enumerate(few.sizes):
        text = EMPTY if subset.gain_kept is None else percent(subset.gain_kept)
        beside(ax, text + ("" if subset.proved else " ?"), max(kept[row], 0.0), row, canvas.ink)
    ax.set_xlim(min(0.0, *kept, 0.0), 1.3 * max(*kept, 0.05))
    percents(ax.xaxis)
    doubt = "" if all(subset.proved for subset in few.sizes) else "; ? not proved the best"
    ax.set_xlabel(f"gain kept{doubt}")
    _members(canvas, few, aside(canvas, max(0.5, min(2.0, 0.16 * len(few.arms))))[0])
    enough = next((subset for subset in few.sizes if (subset.gain_kept or 0.0) >= _NEARLY), None)
    if enough is None:
        canvas.title("No mixture is better than the best single arm")
    else:
        share = "all" if enough is few.sizes[-1] else percent(enough.gain_kept or 0.0)
        canvas.title(f"{enough._name} keep {share} of the gain: {few.score_name} {number(enough.score)}")
    return ax


def _members(canvas: Canvas, few: Subsets, ax: axes.Axes) -> None:
    """Draw which arms are in which mixture."""
    canvas.tidy(ax, "both")
    ax.spines[:].set_visible(False)
    ax.tick_params(axis="both", length=0)
    ax.tick_params(axis="y", labelleft=False)
    places = {arm: at for at, arm in enumerate(few.arms)}
    dots = [(places[arm], row, share) for row, subset in enumerate(few.sizes) for arm, share in subset.weights.items()]
    across, down, size = zip(*dots, strict=True)
    ax.scatter(across, down, [12.0 + 110.0 * share for share in size], color=canvas.colour(1), zorder=3)
    style: dict[str, Any] = {"rotation": 40, "ha": "right", "rotation_mode": "anchor", "fontsize": "small"}
    ax.set_xticks(range(len(places)), [label(name) for name in short(few.arms, _LONGEST)], color=canvas.ink, **style)
    ax.set_xlabel("shares of arms")
    ax.set_xlim(-0.6, len(places) - 0.4)


@checked
def cheapest(bargain: Cheapest, ax: axes.Axes | None = None) -> axes.Axes:
    """Draw the weights of the arms in use, with the prices of this mixture and of the best one as title.

    Parameters
    ----------
    bargain
        ``Mixture.cheapest``.
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
    >>> arms = {"a": [[0.0], [1.0]], "b": [[5.0], [6.0]]}
    >>> result = mm.solve(arms, mm.Rke(bandwidth=1), fees={"a": 0, "b": 9}, within="100%").cheapest
    >>> type(mm.plots.cheapest(result)).__name__
    'Axes'
    """
    order = sorted(bargain.weights.items(), key=lambda pair: -pair[1])
    canvas = Canvas.of(ax, widened(6.5, bargain.arms), 1.3 + 0.27 * len(order))
    ax = canvas.ax
    canvas.tidy(ax, "x")
    rows_of(ax, [arm for arm, _ in order])
    weights = [share for _, share in order]
    shares(canvas, weights)
    room_for_shares(ax, max(weights))
    ax.set_xlabel("weight in the cheapest mixture")
    prices = f"{money(bargain.total)} per period, the best costs {money(bargain.total_of_best)}"
    canvas.title(f"{bargain.score_name} {number(bargain.score)} for {prices}")
    return ax
