"""Shared parts of figures: axes and their colours, names, ticks, legends."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._names import plain, short
from .._table import percents as percent_texts

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The largest number of characters of a name next to a chart.
LONGEST = 34


@dataclass(frozen=True)
class Colours:
    """The colours of one theme, which are distinguishable with any colour vision."""

    series: tuple[str, ...]
    grid: str
    #: The two ends of a heat map; text is readable on both.
    panel: str
    heat: str


LIGHT = Colours(
    ("#1659a1", "#be3a11", "#38937a", "#8e415d", "#af8d0b", "#2f9ccf", "#260e51", "#6b2000"),
    grid="#e2e2dc",
    panel="#f4f4ef",
    heat="#6aa9dc",
)
DARK = Colours(
    ("#1f74c4", "#db710f", "#37a46f", "#de97bf", "#f0e442", "#b5defa", "#a87be0", "#955633"),
    grid="#33363b",
    panel="#1e2125",
    heat="#2a6aa5",
)


@dataclass(frozen=True)
class Canvas:
    """Axes, the colours visible on them, and whether they are in a new figure."""

    ax: Axes
    colours: Colours
    #: The colour of the axes' text.
    ink: Any
    own: bool

    @classmethod
    def of(cls, ax: Axes | None, width: float, height: float) -> Canvas:
        """The given axes, or those of a new figure of this size in inches."""
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
        return cls(ax, DARK if dark else LIGHT, ink, own)

    def colour(self, at: int) -> str:
        """The colour of the series with this index."""
        return self.colours.series[at % len(self.colours.series)]

    def stroke(self, at: int) -> Any:
        """Its line style, which differs where colours repeat."""
        strokes: tuple[Any, ...] = ("solid", (0, (6, 1.5)), "dashdot")
        return strokes[at // len(self.colours.series) % len(strokes)]

    def tidy(self, ax: Axes, grid: str) -> None:
        """Remove the frame, keep the axes, and draw a faint grid behind."""
        ax.spines[["top", "right"]].set_visible(False)
        ax.set_axisbelow(True)
        ax.grid(False)
        ax.grid(True, axis=grid, color=self.colours.grid, linewidth=0.8)  # type: ignore[arg-type]

    def title(self, text: str, **style: Any) -> None:
        """Set the title of the figure."""
        self.ax.set_title(label(text), loc="left", fontsize="medium", color=self.ink, **style)

    def legend_above(self) -> None:
        """Draw a legend between the title, which needs ``pad=24``, and the axes."""
        style: dict[str, Any] = {"fontsize": "small", "labelcolor": self.ink, "handlelength": 1.2, "frameon": False}
        place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "borderaxespad": 0.1}
        self.ax.legend(ncols=4, columnspacing=1.2, **place, **style)

    def legend_beside(self, ends: Iterable[tuple[float, Any, str]]) -> None:
        """Draw a legend of lines on the right, in the order in which they end; inside the axes if the figure has no layout
        engine."""
        order = sorted(ends, key=lambda end: -end[0])
        handles, names = [line for _, line, _ in order], [label(name) for _, _, name in order]
        style: dict[str, Any] = {
            "fontsize": "small",
            "labelcolor": self.ink,
            "handlelength": 2.2,
            "frameon": False,
        }
        if self.own or _laid_out(self.ax):
            self.ax.legend(handles, names, loc="upper left", bbox_to_anchor=(1.01, 1.0), **style)
        else:
            _legend_within(self.ax, handles, names, style)


def label(name: str) -> str:
    """A name for a chart; dollar signs are escaped, because they would start a formula."""
    return plain(name).replace("$", r"\$")


def labels(names: Sequence[str]) -> list[str]:
    return [label(name) for name in short(names, LONGEST)]


def widened(width: float, names: Iterable[str]) -> float:
    """A width in inches, increased for long names so that the chart keeps its size."""
    return width + 0.07 * max(0, min(max(map(len, names)), LONGEST) - 12)


def differ_much(low: float, high: float) -> bool:
    """Whether values need a logarithmic axis; values that are zero within rounding do not count."""
    return 0 < 30 * low < high < 1e6 * low


def percents(axis: Any) -> None:
    """Format an axis of shares with ticks in percent."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda share, _: f"{round(100 * share, 6):g}%"))


def logarithmic(axis: Any, low: float, high: float) -> None:
    """Set a logarithmic axis with a few ticks in plain numbers."""
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


def aside(canvas: Canvas, ratio: float, count: int = 1) -> list[Axes]:
    """Axes to the right of the given ones, side by side within their area, with the same style."""
    ax = canvas.ax
    place = ax.get_subplotspec()
    if place is not None:
        parts = place.subgridspec(1, 1 + count, width_ratios=(1.0, *([ratio] * count)), wspace=0.06)
        ax.set_subplotspec(parts[0])
        others = [ax.figure.add_subplot(part, sharey=ax) for part in (parts[at] for at in range(1, 1 + count))]
    else:
        box = ax.get_position()
        share = 0.96 / (1.0 + ratio * count)
        ax.set_position((box.x0, box.y0, box.width * share, box.height))
        rest = box.width * (0.96 - share) / count
        starts = [box.x1 - rest * (count - at) for at in range(count)]
        others = [ax.figure.add_axes((start, box.y0, 0.97 * rest, box.height), sharey=ax) for start in starts]
    for other in others:
        # the given axes may have a style that is no longer active
        other.set_facecolor(ax.get_facecolor())
        other.spines["bottom"].set_edgecolor(ax.spines["bottom"].get_edgecolor())
        other.tick_params(axis="x", colors=canvas.ink)
        other.xaxis.label.set_color(canvas.ink)
    return others


def rows_of(ax: Axes, arms: Sequence[str], mixture: bool = False) -> None:
    """Write names next to rows, from top to bottom; the mixture is the last."""
    names = labels(arms) + (["mixture"] if mixture else [])
    ax.set_yticks(range(len(names)), names)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.spines["left"].set_visible(False)
    if mixture:
        ax.get_yticklabels()[-1].set_fontweight("bold")


def shares(canvas: Canvas, values: Sequence[float], ends: Sequence[float] | None = None) -> None:
    """Draw one bar per row, with its percentage next to it; after ``ends`` if other marks reach further."""
    canvas.ax.barh(range(len(values)), values, height=0.64, color=canvas.colour(0))
    for row, (value, end, text) in enumerate(zip(values, ends or values, percent_texts(values), strict=True)):
        beside(canvas.ax, text, max(value, end), row, canvas.ink)


def shares_of(canvas: Canvas, series: Sequence[tuple[str, Sequence[float], int]]) -> None:
    """Draw several bars per row, one per series: its name, its shares, and the index of its colour."""
    ax, step = canvas.ax, 0.8 / len(series)
    for at, (name, values, colour) in enumerate(series):
        places = [row + step * (at - (len(series) - 1) / 2) for row in range(len(values))]
        ax.barh(places, values, height=0.9 * step, color=canvas.colour(colour), label=name)
        for place, value, text in zip(places, values, percent_texts(values), strict=True):
            beside(ax, text, value, place, canvas.ink, fontsize="x-small")
    room_for_shares(ax, max(max(values) for _, values, _ in series), 0.15)


def room_for_shares(ax: Axes, highest: float, room: float = 0.22) -> None:
    """Format shares from zero on, with space for the percentage of the longest bar."""
    ax.set_xlim(0.0, (1.0 + room) * max(highest, 0.05))
    percents(ax.xaxis)


def beside(ax: Axes, text: str, x: float, y: float, ink: Any, **style: Any) -> Any:
    """Write a text slightly to the right of a point."""
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


def _legend_within(ax: Axes, handles: list[Any], names: list[str], style: dict[str, Any]) -> None:
    """Draw a legend in the upper right corner, and extend the view so that it covers no data."""
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
    """Whether the figure has a layout engine that makes space next to the axes."""
    figure: Any = ax.figure
    engine: Callable[[], Any] | None = getattr(figure, "get_layout_engine", None)
    return engine is not None and engine() is not None
