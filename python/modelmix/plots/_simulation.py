"""Policies on recorded arms: losses against rounds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .._arguments import checked
from .._lazy import Lazy
from .._names import shorten
from .._table import count
from ..results import SimulatedPolicy, Simulation
from ._canvas import LONGEST, Canvas, logarithmic

if TYPE_CHECKING:
    from matplotlib import axes
else:
    axes = Lazy("matplotlib.axes")

#: Rounds before this share of all do not affect the limits: few samples, large losses.
_EARLY = 0.1

#: The style of the loss of kept samples.
_KEPT: dict[str, Any] = {"linewidth": 1.4, "linestyle": (0, (1.2, 1.2))}


@checked
def simulation(report: Simulation, ax: axes.Axes | None = None) -> axes.Axes:
    """Draw the loss of the collected samples against the round, as in the paper's figures.

    There is one line per policy, with a band of ± one standard deviation. A dotted line in its colour is the loss of the kept
    samples, and a diamond is the median stopping round. Dashed and dotted lines in the text colour are the optimal mixture and
    the best single arm on all recorded samples. The limits ignore losses in the first tenth of the rounds, and the axis is
    logarithmic if losses differ by more than a factor of five.

    Parameters
    ----------
    report
        The result of :func:`modelmix.simulate`.
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
    >>> result = mm.simulate("data/fashion/truncated.npz", "rke(bandwidth=20)", rounds=20, seeds=2)
    >>> type(mm.plots.simulation(result)).__name__
    'Axes'
    """
    canvas = Canvas.of(ax, 8.0, 4.2)
    ax = canvas.ax
    canvas.tidy(ax, "both")
    ends: list[tuple[float, Any, str]] = []
    levels = (
        (report.optimal_loss, "dashed", "optimal mixture"),
        (report.best_single_loss, "dotted", f"best single arm, {shorten(report.best_single, LONGEST)}"),
    )
    for loss, stroke, name in levels:
        line = ax.axhline(loss, color=canvas.ink, linestyle=stroke, linewidth=1.3, zorder=2)
        ends.append((loss, line, name))
    for at, (name, done) in enumerate(report.policies.items()):
        # the first is drawn on top, as in the reports
        ends += _policy(canvas, at, shorten(name, 44), done, 3 + (len(report.policies) - at) / 100)
    low, high, is_logarithmic = _view(report)
    if is_logarithmic:
        logarithmic(ax.yaxis, low, high)
    ax.set_ylim(low, high)
    ax.set_xlim(0.0, max(done.rounds[-1] for done in report.policies.values()))
    if any(done.stopped is not None and done.stopped.round is not None for done in report.policies.values()):
        [mark] = ax.plot([], [], linestyle="none", marker="D", markersize=6, color=canvas.ink)
        ends.append((-math.inf, mark, f"{report._near}"))
    warning = "" if report.note is None else "; kept samples are no longer an i.i.d. mixture"
    ax.set_xlabel(f"round{warning}")
    ax.set_ylabel(f"loss of the samples collected{', logarithmic' if is_logarithmic else ''}")
    seeds = f"mean of {count(report.seeds)} seeds ± one standard deviation" if report.seeds > 1 else "one seed"
    canvas.title(f"{shorten(report.objective, 60)}, {seeds}")
    canvas.legend_beside(ends)
    return ax


def _policy(canvas: Canvas, at: int, name: str, done: SimulatedPolicy, order: float) -> list[tuple[float, Any, str]]:
    """The lines of a policy: where each ends, and its name."""
    ax, colour = canvas.ax, canvas.colour(at)
    losses = list(zip(done.loss.mean, done.loss.std, strict=True))
    if any(done.loss.std):
        below, above = ([mean + sign * std for mean, std in losses] for sign in (-1, 1))
        ax.fill_between(done.rounds, below, above, color=colour, alpha=0.16, linewidth=0, zorder=1)
    stroke = canvas.stroke(at)
    [line] = ax.plot(done.rounds, done.loss.mean, color=colour, linewidth=1.8, linestyle=stroke, zorder=order)
    ends: list[tuple[float, Any, str]] = [(done.loss.mean[-1], line, name)]
    if done.kept_loss is not None:
        [line] = ax.plot(done.rounds, done.kept_loss.mean, color=colour, zorder=order, **_KEPT)
        ends.append((done.kept_loss.mean[-1], line, f"{name}, kept samples"))
    if done.stopped is not None and done.stopped.round is not None:
        place = [done.stopped.round], [_at(done, done.stopped.round)]
        # an edge in the background colour separates the marks of several policies
        paper = ax.get_facecolor()
        ax.plot(*place, marker="D", markersize=7, color=colour, markeredgecolor=paper, zorder=order + 1)
    return ends


def _at(done: SimulatedPolicy, moment: float) -> float:
    """The mean loss at a round, interpolated between recorded rounds."""
    before = (done.rounds[0], done.loss.mean[0])
    for after in zip(done.rounds, done.loss.mean, strict=True):
        if after[0] >= moment:
            step = after[0] - before[0]
            return after[1] if step == 0 else before[1] + (after[1] - before[1]) * (moment - before[0]) / step
        before = after
    return before[1]


def _view(report: Simulation) -> tuple[float, float, bool]:
    """The lowest and highest loss to show, and whether the axis is logarithmic."""
    levels = [report.optimal_loss, report.best_single_loss]
    means, late = list(levels), list(levels)
    for done in report.policies.values():
        early = _EARLY * done.rounds[-1]
        means += done.loss.mean
        points = zip(done.rounds, done.loss.mean, strict=True)
        late += [mean for at, mean in points if at >= early]
        late.append(done.loss.mean[-1] + done.loss.std[-1])
        if done.kept_loss is not None:
            # the first kept samples are not selected
            means += [loss for at, loss in zip(done.rounds, done.kept_loss.mean, strict=True) if at >= early]
    low = min(value for value in means if math.isfinite(value))
    high = max(value for value in late if math.isfinite(value))
    if low > 0 and high > 5 * low:
        return 0.85 * low, 1.15 * high, True
    margin = max(0.06 * (high - low), 1e-3 * abs(high), 1e-12)
    return low - margin, high + margin, False
