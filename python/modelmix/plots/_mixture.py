"""The best mixture: weights, and the score of every arm next to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._arguments import checked
from .._lazy import Lazy
from .._names import shorten
from .._table import count, number
from ..results import Mixture, MixtureArm
from ._canvas import DARK, Canvas, aside, beside, differ_much, label, logarithmic, room_for_shares, rows_of, shares

if TYPE_CHECKING:
    from matplotlib import axes
else:
    axes = Lazy("matplotlib.axes")


@checked
def mixture(best: Mixture, ax: axes.Axes | None = None) -> axes.Axes:
    """Draw the weights as bars with their intervals, and next to them the score of every arm.

    The scores have their own axes on the right, within the area of the given axes. A band shows the gain of the mixture over
    the best single arm. If the objective has several terms, the score of each has its own axes, and the loss has the last.

    Parameters
    ----------
    best
        The result of :func:`modelmix.solve`.
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
    listed, left_out = best._listed
    arms = [best.arms[at] for at in listed]
    # each of several terms has its own axes, and the loss has the last
    scores = [
        _Score(name, None, [arm.terms[at].score for arm in arms], best.terms[at].score, best.best_arm.terms[at].score)
        for at, name in enumerate(best._term_names)
    ]
    scores.append(
        _Score(best.score_name, best.more_is_better, [arm.score for arm in arms], best.score, best.best_arm.score)
    )
    canvas = Canvas.of(ax, 8.0 + 2.2 * (len(scores) - 1), 1.3 + 0.27 * (len(arms) + 1))
    ax = canvas.ax
    _weights(canvas, arms, left_out)
    for score, other in zip(scores, aside(canvas, 0.72, len(scores)), strict=True):
        _scores_aside(canvas, score, [arm.name == best.best_single for arm in arms], other)
    canvas.title(_title(best))
    return ax


@dataclass(frozen=True)
class _Score:
    """A quantity shown next to the weights: the loss, the score, or the score of a term."""

    name: str
    #: ``None`` for a term, whose direction the objective determines.
    more_is_better: bool | None
    arms: list[float]
    mixture: float
    single: float


def _title(best: Mixture) -> str:
    """The gain of the mixture, or that there is none, or that it is not significant."""
    single = shorten(best.best_single, 28)
    if best.gain <= 0:
        name = "loss" if best.score_name == "loss" else best.score_name
        return f"{single} alone: no mixture has a better {name} than its {number(best.best_arm.score)}"
    mixed, alone = str(number(best.score)), str(number(best.best_arm.score))
    if mixed == alone:
        mixed, alone = _apart(best.score, best.best_arm.score)
    title = f"{best.score_name} {mixed} instead of {alone} with {single} alone"
    return (
        title if best.p_value is None or best.p_value <= 0.05 else f"{title}, not significant (p = {best.p_value:.2f})"
    )


def _apart(one: float, other: float) -> tuple[str, str]:
    """Two numbers with enough digits to tell them apart."""
    for digits in range(4, 18):
        texts = f"{one:.{digits}g}", f"{other:.{digits}g}"
        if texts[0] != texts[1]:
            return texts
    return f"{one:.3g}", f"{other:.3g}"


def _weights(canvas: Canvas, arms: Sequence[MixtureArm], left_out: int) -> None:
    ax = canvas.ax
    canvas.tidy(ax, "x")
    rows_of(ax, [arm.name for arm in arms], mixture=True)
    ends = [arm.weight if arm.interval is None else arm.interval[1] for arm in arms]
    for row, arm in enumerate(arms):
        if arm.interval is not None:
            whisker: dict[str, Any] = {"linewidth": 1.3, "marker": "|", "markersize": 6, "label": "_interval"}
            ax.plot(arm.interval, [row, row], color=canvas.ink, **whisker)
    shares(canvas, [arm.weight for arm in arms], ends)
    room_for_shares(ax, max(max(arm.weight, end) for arm, end in zip(arms, ends, strict=True)))
    text = "weight, with 95% intervals" if any(arm.interval for arm in arms) else "weight"
    ax.set_xlabel(f"{text}; {count(left_out)} arms with weight 0 left out" if left_out else text)


def _scores_aside(canvas: Canvas, score: _Score, is_best: Sequence[bool], ax: axes.Axes) -> None:
    canvas.tidy(ax, "x")
    ax.tick_params(axis="y", length=0, labelleft=False)
    ax.spines["left"].set_visible(False)
    everything = [*score.arms, score.mixture]
    low, high = min(everything), max(everything)
    if differ_much(low, high):
        logarithmic(ax.xaxis, low, high)
        reach = (high / low) ** 0.08
        ax.set_xlim(low / reach, high * reach**4)
    else:
        # scores start at zero if that costs little space
        start = 0.0 if 0 <= low <= 0.6 * high else low
        reach = (high - start) or abs(high) or 1.0
        ax.set_xlim(start - 0.06 * reach, high + 0.32 * reach)
        ax.locator_params(axis="x", nbins=4)
    gained, colour = canvas.colour(1), canvas.colour(0)
    veil = 0.3 if canvas.colours is DARK else 0.16
    ax.axvspan(
        min(score.single, score.mixture), max(score.single, score.mixture), color=gained, alpha=veil, linewidth=0
    )
    dots: dict[str, Any] = {"linestyle": "none"}
    rows = range(len(score.arms))
    ax.plot(score.arms, rows, marker="o", markersize=5, color=colour, label="arms", **dots)
    ax.plot([score.mixture], [len(rows)], marker="D", markersize=6, color=gained, label="mixture", **dots)
    for row, (value, stressed) in enumerate(zip(everything, [*is_best, True], strict=True)):
        beside(ax, number(value), value, row, canvas.ink, fontweight="bold" if stressed else "normal")
    better = {None: "", True: ", more is better", False: ", less is better"}[score.more_is_better]
    ax.set_xlabel(label(f"{score.name}{better}"))
