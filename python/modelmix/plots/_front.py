"""The Pareto front of two objectives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from .._arguments import checked
from .._lazy import Lazy
from ..results import Front
from ._canvas import Canvas, differ_much, label, logarithmic

if TYPE_CHECKING:
    from matplotlib import axes
else:
    axes = Lazy("matplotlib.axes")

#: A text, its point, and the other end of the line.
_End: TypeAlias = tuple[str, tuple[float, float], tuple[float, float]]


@checked
def front(traded: Front, ax: axes.Axes | None = None) -> axes.Axes:
    """Draw the Pareto front: the first score against the second, one dot per mixture.

    Parameters
    ----------
    traded
        ``Mixture.front``.
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
    >>> result = mm.solve("data/fashion/truncated.npz", "rke(bandwidth=20)", front="vendi").front
    >>> type(mm.plots.front(result)).__name__
    'Axes'
    """
    canvas = Canvas.of(ax, 6.0, 4.0)
    ax = canvas.ax
    canvas.tidy(ax, "both")
    across = [point.second_score for point in traded.points]
    along = [point.score for point in traded.points]
    ax.plot(across, along, color=canvas.colour(0), linewidth=1.8, marker="o", markersize=3.5)
    ax.plot([across[0], across[-1]], [along[0], along[-1]], linestyle="none", marker="D", color=canvas.colour(1))
    _view(ax.xaxis, across)
    _view(ax.yaxis, along)
    first, last = traded.points[0].multiplier, traded.points[-1].multiplier
    texts = (f"λ = {first or 0.0:.3g}", "λ → ∞" if last is None else f"λ ≥ {last:.3g}")
    for text, (x, y), (other_x, other_y) in _ends(texts, across, along):
        # away from the line, and inside the axes
        shift = (8 if x <= other_x else -8, -9 if y <= other_y else 9)
        sides: dict[str, Any] = {"ha": "left" if shift[0] > 0 else "right", "va": "top" if shift[1] < 0 else "bottom"}
        ax.annotate(text, (x, y), xytext=shift, textcoords="offset points", color=canvas.ink, fontsize="small", **sides)
    ax.set_xlabel(_meaning(traded.second_score_name, traded.second_more_is_better))
    ax.set_ylabel(_meaning(traded.score_name, traded.more_is_better))
    canvas.title(f"{traded.score_name} against {traded.second_score_name}, the best for any λ")
    return ax


def _ends(texts: tuple[str, str], across: Sequence[float], along: Sequence[float]) -> Iterator[_End]:
    """The labels of both ends of the line, each with its point and the other end."""
    first, last = (across[0], along[0]), (across[-1], along[-1])
    yield texts[0], first, last
    if first != last:
        yield texts[1], last, first


def _view(axis: Any, values: Sequence[float]) -> None:
    """Set the limits of an axis with a margin around all values; logarithmic if they differ much."""
    low, high = min(values), max(values)
    if differ_much(low, high):
        logarithmic(axis, low, high)
        reach = (high / low) ** 0.12
        ends = (low / reach, high * reach)
    else:
        reach = 0.12 * (high - low) or 0.1 * abs(high) or 1.0
        ends = (low - reach, high + reach)
    axis.axes.set(**{f"{axis.axis_name}lim": ends})


def _meaning(name: str, more_is_better: bool) -> str:
    return label(f"{name}, {'more' if more_is_better else 'less'} is better")
