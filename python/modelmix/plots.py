"""Figures by matplotlib, in the colours of the command line's reports, for ``plot()`` of results.

Each draws into the axes that it is given, or into a figure of its own, and returns the axes.
Nothing is shown, and no setting of matplotlib is changed. Text has the colour that the axes have
for theirs, so that dark styles stay readable.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._names import plain, short, shorten
from ._table import NOTHING, count, number, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .results import Mixture, Scores, SessionReport, Simulation

__all__ = ["mixture", "scores", "session", "simulation"]

#: At most so many characters of a name stand beside a chart.
_LONGEST = 34

#: Rounds before this share of all have no say in how high the view is: few samples, large losses.
_EARLY = 0.1


@dataclass(frozen=True)
class _Colours:
    """The colours of one theme, told apart by people with any colour vision."""

    series: tuple[str, ...]
    grid: str
    #: What a heat map goes from and to; text is read well on both.
    panel: str
    heat: str


_LIGHT = _Colours(
    ("#1659a1", "#be3a11", "#38937a", "#8e415d", "#af8d0b", "#2f9ccf", "#260e51", "#6b2000"),
    grid="#e2e2dc",
    panel="#f4f4ef",
    heat="#6aa9dc",
)
_DARK = _Colours(
    ("#1f74c4", "#db710f", "#37a46f", "#de97bf", "#f0e442", "#b5defa", "#a87be0", "#955633"),
    grid="#33363b",
    panel="#1e2125",
    heat="#2a6aa5",
)


@dataclass(frozen=True)
class _Canvas:
    """Axes, the colours that are seen on them, and whether they are in a figure of our own."""

    ax: Axes
    colours: _Colours
    #: The colour of the axes' text.
    ink: Any
    own: bool

    @classmethod
    def of(cls, ax: Axes | None, width: float, height: float) -> _Canvas:
        """The axes given, or those of a new figure of so many inches."""
        try:
            from matplotlib import pyplot
            from matplotlib.colors import to_rgb, to_rgba
        except ImportError:
            raise ImportError("plot() needs matplotlib; install it with pip install matplotlib") from None
        own = ax is None
        if ax is None:
            ax = pyplot.figure(figsize=(width, height), layout="constrained").add_subplot()
        ink = ax.xaxis.label.get_color()

        def light(colour: Any) -> float:
            return sum(part * share for part, share in zip(to_rgb(colour), (0.3, 0.59, 0.11), strict=True))

        papers = (ax.get_facecolor(), ax.figure.get_facecolor())
        seen = [paper for paper in papers if to_rgba(paper)[3] > 0.5]
        dark = light(seen[0]) < 0.5 if seen else light(ink) > 0.5
        return cls(ax, _DARK if dark else _LIGHT, ink, own)

    def colour(self, at: int) -> str:
        """The colour of the series at this place."""
        return self.colours.series[at % len(self.colours.series)]

    def stroke(self, at: int) -> Any:
        """Its stroke: another one where colours come again."""
        strokes: tuple[Any, ...] = ("solid", (0, (6, 1.5)), "dashdot")
        return strokes[at // len(self.colours.series) % len(strokes)]

    def tidy(self, ax: Axes, grid: str) -> None:
        """No frame but the axes, and a faint grid behind."""
        ax.spines[["top", "right"]].set_visible(False)
        ax.set_axisbelow(True)
        ax.grid(False)
        ax.grid(True, axis=grid, color=self.colours.grid, linewidth=0.8)  # type: ignore[arg-type]


def _label(name: str) -> str:
    """A name for a chart, where dollars would start a formula."""
    return plain(name).replace("$", r"\$")


def _labels(names: Sequence[str]) -> list[str]:
    return [_label(name) for name in short(names, _LONGEST)]


def _percents(ax: Axes) -> None:
    """Shares from zero on, with ticks in percent."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{round(100 * share, 6):g}%"))


def _logarithmic(axis: Any, low: float, high: float) -> None:
    """A logarithmic axis with a few ticks, in plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    if axis.axis_name == "x":
        axis.axes.set_xscale("log")
    else:
        axis.axes.set_yscale("log")
    decades = math.log10(high / low)
    digits = (1.0, 2.0, 5.0) if decades < 1.6 else (1.0, 3.0) if decades < 3 else (1.0,)
    axis.set_major_locator(LogLocator(subs=digits, numticks=12))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def _aside(canvas: _Canvas, ratio: float) -> Axes:
    """Axes to the right of those given, in the room that these had, with the same looks."""
    ax = canvas.ax
    place = ax.get_subplotspec()
    if place is not None:
        halves = place.subgridspec(1, 2, width_ratios=(1.0, ratio), wspace=0.06)
        ax.set_subplotspec(halves[0])
        other = ax.figure.add_subplot(halves[1], sharey=ax)
    else:
        box = ax.get_position()
        share = 0.96 / (1.0 + ratio)
        ax.set_position((box.x0, box.y0, box.width * share, box.height))
        rest = box.width * (0.96 - share)
        other = ax.figure.add_axes((box.x1 - rest, box.y0, rest, box.height), sharey=ax)
    # the axes given may be of a style that is no longer in use
    other.set_facecolor(ax.get_facecolor())
    other.spines["bottom"].set_edgecolor(ax.spines["bottom"].get_edgecolor())
    other.tick_params(axis="x", colors=canvas.ink)
    other.xaxis.label.set_color(canvas.ink)
    return other


def _rows(ax: Axes, arms: Sequence[str], mixture: bool = False) -> None:
    """Names beside rows, from above; that of the mixture is the last."""
    labels = _labels(arms) + (["mixture"] if mixture else [])
    ax.set_yticks(range(len(labels)), labels)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(labels) - 0.5, -0.5)
    ax.spines["left"].set_visible(False)
    if mixture:
        ax.get_yticklabels()[-1].set_fontweight("bold")


def _beside(ax: Axes, text: str, x: float, y: float, ink: Any, **style: Any) -> Any:
    """A text a little to the right of a place."""
    return ax.annotate(
        text,
        (x, y),
        xytext=(6, 0),
        textcoords="offset points",
        va="center",
        ha="left",
        color=ink,
        **{"fontsize": "small", "annotation_clip": False, **style},
    )


def mixture(best: Mixture, ax: Axes | None = None) -> Axes:
    """Draw the weights as bars with their intervals, and beside them the score of every arm.

    The scores have axes of their own, to the right, in the room of the axes given; a band spans
    what the mixture gains over the best single arm.
    """
    rows = len(best.arms) + 1
    canvas = _Canvas.of(ax, 8.0, 1.3 + 0.27 * rows)
    ax = canvas.ax
    _weights(canvas, best)
    _scores_aside(canvas, best, _aside(canvas, 0.72))
    single = shorten(best.best_single, 28)
    if best.gain > 0:
        instead = f"instead of {number(best.best_arm.score)} with {single} alone"
        title = f"{best.score_name} {number(best.score)} {instead}"
    else:
        better = f"no mixture has a better {best.score_name} than its {number(best.score)}"
        title = f"{single} alone: {better}"
    ax.set_title(_label(title), loc="left", fontsize="medium", color=canvas.ink)
    return ax


def _weights(canvas: _Canvas, best: Mixture) -> None:
    ax, arms = canvas.ax, best.arms
    canvas.tidy(ax, "x")
    _rows(ax, [arm.name for arm in arms], mixture=True)
    ax.barh(range(len(arms)), [arm.weight for arm in arms], height=0.64, color=canvas.colour(0))
    for row, arm in enumerate(arms):
        end = arm.weight
        if arm.interval is not None:
            low, high = arm.interval
            ax.plot(
                [low, high],
                [row, row],
                color=canvas.ink,
                linewidth=1.3,
                marker="|",
                markersize=6,
                label="_interval",
            )
            end = max(end, high)
        _beside(ax, percent(arm.weight), end, row, canvas.ink)
    highest = max(max(arm.weight, arm.interval[1] if arm.interval else 0.0) for arm in arms)
    # the percentage beside the longest bar is within the axes
    ax.set_xlim(0.0, 1.22 * max(highest, 0.05))
    _percents(ax)
    ax.set_xlabel("weight, with 95% intervals" if any(arm.interval for arm in arms) else "weight")


def _scores_aside(canvas: _Canvas, best: Mixture, ax: Axes) -> None:
    canvas.tidy(ax, "x")
    ax.tick_params(axis="y", length=0, labelleft=False)
    ax.spines["left"].set_visible(False)
    values = [arm.score for arm in best.arms]
    everything = [*values, best.score]
    low, high = min(everything), max(everything)
    if low > 0 and high > 30 * low:
        _logarithmic(ax.xaxis, low, high)
        reach = (high / low) ** 0.08
        ax.set_xlim(low / reach, high * reach**4)
    else:
        # scores start at zero where that costs little room
        start = 0.0 if 0 <= low <= 0.6 * high else low
        reach = (high - start) or abs(high) or 1.0
        ax.set_xlim(start - 0.06 * reach, high + 0.32 * reach)
        ax.locator_params(axis="x", nbins=4)
    gained, colour = canvas.colour(1), canvas.colour(0)
    single, veil = best.best_arm.score, 0.3 if canvas.colours is _DARK else 0.16
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
        _beside(ax, number(score), score, row, canvas.ink, fontweight="bold" if stressed else "normal")
    better = "more" if best.more_is_better else "less"
    ax.set_xlabel(_label(f"{best.score_name}, {better} is better"))


def scores(table: Scores, ax: Axes | None = None) -> Axes:
    """Draw all scores as a table, each metric coloured up to its best, which is framed."""
    sets = [scored for _, scored in table._sets()]
    metrics = table.metrics
    canvas = _Canvas.of(ax, 2.0 + 0.95 * len(metrics), 0.7 + 0.46 * len(sets))
    ax = canvas.ax
    values = [[_finite(scored[metric]) for metric in metrics] for scored in sets]
    columns = [[row[at] for row in values] for at in range(len(metrics))]
    shades = [_goodness(column, metric) for column, metric in zip(columns, metrics, strict=True)]
    _shade(canvas, [[shade[at] for shade in shades] for at in range(len(sets))])
    _rows(ax, [arm.name for arm in table.arms], table.mixture is not None)
    if table.mixture is not None:
        ax.axhline(len(sets) - 1.5, color=canvas.ink, linewidth=1.2)
    ax.set_xticks(range(len(metrics)), [_heading(metric) for metric in metrics])
    ax.tick_params(axis="x", length=0, labeltop=True, labelbottom=False, bottom=False, top=False)
    ax.spines[:].set_visible(False)
    wide, high = _cell(ax, len(metrics), len(sets))
    size = max(4.5, min(10.0, wide / 4.6, 0.62 * high))
    for label in ax.get_xticklabels():
        label.set_fontsize(max(4.5, min(10.0, wide / 6.2)))
    # errors stand below their numbers where there is room for a second line
    detailed = high > 2.3 * size
    best = table._best()
    for row, scored in enumerate(sets):
        for column, metric in enumerate(metrics):
            marked = (row, column + 1) in best
            value, error = values[row][column], _finite(scored._error(metric))
            second = detailed and not math.isnan(error)
            ax.text(
                column,
                row - (0.12 if second else 0.0),
                NOTHING if math.isnan(value) else number(value),
                ha="center",
                va="center",
                color=canvas.ink,
                fontsize=size,
                fontweight="bold" if marked else "normal",
            )
            if second:
                below = {
                    "ha": "center",
                    "va": "center",
                    "color": canvas.ink,
                    "fontsize": 0.75 * size,
                }
                ax.text(column, row + 0.25, f"± {number(error)}", **below)
            if marked:
                _frame(canvas, column, row)
    return ax


def _finite(value: float | None) -> float:
    return math.nan if value is None or not math.isfinite(value) else value


def _goodness(column: Iterable[float], metric: str) -> list[float]:
    """From 0, the worst of a metric, to 1, its best."""
    from .results import _LESS

    signed = [-value if metric in _LESS else value for value in column]
    known = [value for value in signed if not math.isnan(value)]
    low, high = min(known, default=0.0), max(known, default=0.0)
    if high == low:
        return [0.0 * value + 1.0 for value in signed]
    return [(value - low) / (high - low) for value in signed]


def _shade(canvas: _Canvas, shades: Sequence[Sequence[float]]) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    colours = canvas.colours
    ramp = LinearSegmentedColormap.from_list("modelmix", [colours.panel, colours.heat])
    heat = ramp.with_extremes(bad=colours.panel)
    canvas.ax.imshow(shades, cmap=heat, vmin=0.0, vmax=1.0, aspect="auto", interpolation="nearest")
    canvas.ax.grid(False)
    # a seam between cells
    paper = canvas.ax.get_facecolor()
    for at in range(1, len(shades)):
        canvas.ax.axhline(at - 0.5, color=paper, linewidth=1.5)
    for at in range(1, len(shades[0])):
        canvas.ax.axvline(at - 0.5, color=paper, linewidth=1.5)


def _frame(canvas: _Canvas, column: int, row: int) -> None:
    from matplotlib.patches import Rectangle

    place = (column - 0.46, row - 0.44)
    canvas.ax.add_patch(Rectangle(place, 0.92, 0.88, fill=False, edgecolor=canvas.colour(1), linewidth=1.8, zorder=3))


def _cell(ax: Axes, columns: int, rows: int) -> tuple[float, float]:
    """About how many points wide and high a cell of a table is."""
    box = ax.get_window_extent()
    points = 72.0 / ax.figure.dpi
    return 0.92 * box.width * points / columns, 0.92 * box.height * points / rows


def _heading(metric: str) -> str:
    """A metric as people write it, and which way is better."""
    from .results import _LESS

    known = {
        "rke": "RKE",
        "kid": "KID",
        "kid_full": "KID, all",
        "mmd": "MMD²",
        "cmmd": "CMMD",
        "fid": "FID",
        "fid_infinity": "FID∞",
    }
    return f"{known.get(metric, metric.capitalize())} {'↓' if metric in _LESS else '↑'}"


def simulation(report: Simulation, ax: Axes | None = None) -> Axes:
    """Draw the loss of the samples collected against the round, as the paper's figures do.

    A line is a policy, its band ± one standard deviation. Broken lines are the optimal mixture and
    the best single arm on all recorded samples. The view leaves out how high losses are in the
    first tenth of the rounds, and is logarithmic where losses differ by more than five times.
    """
    canvas = _Canvas.of(ax, 8.0, 4.2)
    ax = canvas.ax
    canvas.tidy(ax, "both")
    last = max(done.rounds[-1] for done in report.policies.values())
    ends: list[tuple[float, Any, str]] = []
    levels = (
        (report.optimal_loss, "dashed", "optimal mixture"),
        (
            report.best_single_loss,
            "dotted",
            f"best single arm, {shorten(report.best_single, _LONGEST)}",
        ),
    )
    for loss, stroke, name in levels:
        line = ax.axhline(loss, color=canvas.ink, linestyle=stroke, linewidth=1.3, zorder=2)
        ends.append((loss, line, name))
    for at, (name, done) in enumerate(report.policies.items()):
        # the first lies on top, as in the reports
        order = 3 + (len(report.policies) - at) / 100
        colour = canvas.colour(at)
        losses = list(zip(done.loss.mean, done.loss.std, strict=True))
        if any(done.loss.std):
            below, above = ([mean + sign * std for mean, std in losses] for sign in (-1, 1))
            ax.fill_between(done.rounds, below, above, color=colour, alpha=0.16, linewidth=0, zorder=1)
        stroke = canvas.stroke(at)
        [line] = ax.plot(done.rounds, done.loss.mean, color=colour, linewidth=1.8, linestyle=stroke, zorder=order)
        ends.append((done.loss.mean[-1], line, shorten(name, 44)))
    low, high, logarithmic = _view(report)
    if logarithmic:
        _logarithmic(ax.yaxis, low, high)
    ax.set_ylim(low, high)
    ax.set_xlim(0.0, last)
    ax.set_xlabel("round")
    ax.set_ylabel(f"loss of the samples collected{', logarithmic' if logarithmic else ''}")
    seeds = f"mean of {count(report.seeds)} seeds ± one standard deviation" if report.seeds > 1 else "one seed"
    ax.set_title(_label(f"{shorten(report.objective, 60)}, {seeds}"), loc="left", fontsize="medium")
    # from above, as the lines end
    ends.sort(key=lambda end: -end[0])
    handles, names = [line for _, line, _ in ends], [_label(name) for _, _, name in ends]
    style: dict[str, Any] = {
        "fontsize": "small",
        "labelcolor": canvas.ink,
        "handlelength": 2.2,
        "frameon": False,
    }
    if canvas.own or _laid_out(ax):
        ax.legend(handles, names, loc="upper left", bbox_to_anchor=(1.01, 1.0), **style)
    else:
        # nobody would make room for it outside
        _legend_within(ax, handles, names, style)
    return ax


def _legend_within(ax: Axes, handles: list[Any], names: list[str], style: dict[str, Any]) -> None:
    """A legend in the upper right corner, and a view so much higher that it covers nothing."""
    room = ax.get_window_extent()
    for columns in (3, 2, 1):
        style = {**style, "ncols": columns, "columnspacing": 1.2, "borderaxespad": 0.2}
        box = ax.legend(handles, names, loc="upper right", **style).get_window_extent()
        if box.width <= 0.85 * room.width:
            break
    share = min(box.height / room.height + 0.02, 0.6)
    scale = ax.transData
    (_, low), (_, high) = scale.transform([(1.0, end) for end in ax.get_ylim()])
    _, top = scale.inverted().transform((room.x0, low + (high - low) / (1.0 - share)))
    ax.set_ylim(top=top)


def _laid_out(ax: Axes) -> bool:
    """Whether the figure moves axes apart for what stands beside them."""
    figure: Any = ax.figure
    engine: Callable[[], Any] | None = getattr(figure, "get_layout_engine", None)
    return engine is not None and engine() is not None


def _view(report: Simulation) -> tuple[float, float, bool]:
    """The lowest and the highest loss to be seen, and whether the axis is logarithmic."""
    levels = [report.optimal_loss, report.best_single_loss]
    means, late = list(levels), list(levels)
    for done in report.policies.values():
        means += done.loss.mean
        early = _EARLY * done.rounds[-1]
        points = zip(done.rounds, done.loss.mean, strict=True)
        late += [mean for at, mean in points if at >= early]
        late.append(done.loss.mean[-1] + done.loss.std[-1])
    low = min(value for value in means if math.isfinite(value))
    high = max(value for value in late if math.isfinite(value))
    if low > 0 and high > 5 * low:
        return 0.85 * low, 1.15 * high, True
    margin = max(0.06 * (high - low), 1e-3 * abs(high), 1e-12)
    return low - margin, high + margin, False


def session(report: SessionReport, ax: Axes | None = None) -> Axes:
    """Draw the weight of every arm in the best mixture beside its share of the samples held."""
    arms = report.arms
    canvas = _Canvas.of(ax, 7.0, 1.4 + 0.42 * len(arms))
    ax = canvas.ax
    canvas.tidy(ax, "x")
    _rows(ax, [arm.name for arm in arms])
    kinds: tuple[tuple[str, list[float], str, float], ...] = (
        ("weight in the best mixture", [arm.weight for arm in arms], canvas.colour(0), -0.2),
        ("share of the samples", [arm.share for arm in arms], canvas.colour(5), 0.2),
    )
    for name, values, colour, shift in kinds:
        places = [row + shift for row in range(len(arms))]
        ax.barh(places, values, height=0.36, color=colour, label=name)
        for place, value in zip(places, values, strict=True):
            _beside(ax, percent(value), value, place, canvas.ink, fontsize="x-small")
    highest = max(max(arm.weight, arm.share) for arm in arms)
    ax.set_xlim(0.0, 1.15 * max(highest, 0.05))
    _percents(ax)
    samples = f"{count(report.samples)} sample{'' if report.samples == 1 else 's'}"
    ax.set_title(
        f"After {samples}" if report.samples else "No samples yet",
        loc="left",
        fontsize="medium",
        pad=24,
    )
    style: dict[str, Any] = {"fontsize": "small", "labelcolor": canvas.ink, "handlelength": 1.2}
    ax.legend(
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        borderaxespad=0.1,
        ncols=2,
        frameon=False,
        **style,
    )
    return ax
