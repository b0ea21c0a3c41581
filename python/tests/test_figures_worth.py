"""Figures of analyses, coresets and selections: their contents, and that nothing is clipped or covered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest
from by_hand import HANDS, HOSTILE, LONG, hand_asked, hand_curated, hand_kept, hand_stopped
from matplotlib import pyplot
from matplotlib.text import Text
from real_results import Real

import modelmix as mm
from modelmix._names import plain

NEW = ("subsets", "cheapest", "front", "sensitivity", "curated", "kept", "stopped")


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    pyplot.close("all")


def _texts(ax: Any) -> list[str]:
    return [text.get_text() for text in ax.texts]


def _names(ax: Any) -> list[str]:
    return [label.get_text() for label in ax.get_yticklabels()]


def _widths(ax: Any) -> list[list[float]]:
    return [[patch.get_width() for patch in container.patches] for container in ax.containers]


def test_the_best_subsets_are_drawn() -> None:
    few = hand_asked().subsets
    assert few is not None
    ax = few.plot()
    assert _widths(ax) == [[0.0, 0.95, 1.0]] and _names(ax) == ["1 arm", "2 arms", "3 arms"]
    assert _texts(ax) == ["0.0%", "95.0% ?", "100.0%"] and ax.get_xlabel() == "gain kept; ? not proved the best"
    assert ax.get_title("left") == "2 arms keep 95.0% of the gain: MMD² ×100 0.600"
    [other] = [other for other in ax.figure.axes if other is not ax]
    [dots] = other.collections
    places = [tuple(place) for place in dots.get_offsets().tolist()]
    assert places == [(0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2)]
    assert [label.get_text() for label in other.get_xticklabels()] == ["flux", "sdxl", "pixart"]
    # larger shares have larger dots
    by_share = [
        size for _, size in sorted(zip([1, 0.625, 0.375, 0.625, 0.3748, 0.0002], dots.get_sizes(), strict=True))
    ]
    assert by_share == sorted(by_share)


def test_no_gain_is_drawn() -> None:
    few = hand_asked().subsets
    assert few is not None
    alone = replace(few, sizes=(replace(few.sizes[0], gain_kept=None),))
    ax = alone.plot()
    assert _texts(ax) == ["–"] and ax.get_title("left") == "No mixture is better than the best single arm"


def test_the_cheapest_is_drawn() -> None:
    bargain = hand_asked().cheapest
    assert bargain is not None
    ax = bargain.plot()
    assert _widths(ax) == [[0.75, 0.25]] and _names(ax) == ["sdxl", "flux"] and _texts(ax) == ["75.0%", "25.0%"]
    assert ax.get_title("left") == "MMD² ×100 0.600 for 32.50 per period, the best costs 12346"


def test_a_front_is_drawn() -> None:
    traded = hand_asked().front
    assert traded is not None
    ax = traded.plot()
    line, ends = ax.lines
    assert list(line.get_xdata()) == [0.75, 0.875, 0.9] and list(line.get_ydata()) == [0.5, 1.5, 2.5]
    assert list(ends.get_xdata()) == [0.75, 0.9] and _texts(ax) == ["λ = 0", "λ → ∞"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("precision, more is better", "MMD² ×100, less is better")
    single = replace(traded, points=traded.points[:1])
    assert _texts(single.plot()) == ["λ = 0"]


def test_a_front_is_logarithmic_if_scores_differ_much() -> None:
    traded = hand_asked().front
    assert traded is not None
    far = replace(traded, points=(traded[0], replace(traded[1], score=100.0)))
    ax = far.plot()
    assert ax.get_yscale() == "log" and ax.get_xscale() == "linear"
    # values that are zero up to rounding do not count
    zero = replace(traded, points=(traded[0], replace(traded[1], score=1e-17)))
    assert zero.plot().get_yscale() == "linear"


def test_bandwidths_are_drawn() -> None:
    tried = hand_asked().sensitivity
    assert tried is not None
    ax = tried.plot()
    curves = [line for line in ax.lines if len(line.get_xdata()) == 3]
    # the weight of pixart is negligible
    assert [list(curve.get_ydata()) for curve in curves] == [[0.75, 0.625, 0.5], [0.25, 0.3748, 0.5]]
    assert all(list(curve.get_xdata()) == [10, 20, 40] for curve in curves)
    assert ax.get_xscale() == "log" and [label.get_text() for label in ax.get_xticklabels()] == ["10", "20", "40"]
    [used] = [line for line in ax.lines if len(line.get_xdata()) == 2]
    assert list(used.get_xdata()) == [20, 20]
    assert ax.get_title("left") == "flux changes by 12.5 percentage points between half and twice the bandwidth"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["flux", "sdxl"]


def test_a_curated_set_is_drawn() -> None:
    ax = hand_curated().plot()
    assert _widths(ax) == [[0.75, 0.25, 0.0], [0.625, 0.375, 0.0]]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["share in the set", "weight in the mixture"]
    assert ax.get_title("left") == "RKE 20.00 of 4 rows; at random 4.00 ± 0.125, mixture 8.00"
    assert "no longer an i.i.d. mixture" in ax.get_xlabel()


def test_kept_samples_are_drawn() -> None:
    ax = hand_kept().plot()
    assert _widths(ax) == [[0.7, 0.3, 0.0], [0.75, 0.25, 0.0], [0.6, 0.4, 0.0]]
    assert ax.get_title("left") == "After 40 samples, 20 kept, which are no longer an i.i.d. mixture"


def test_sessions_that_stop_and_keep_are_drawn() -> None:
    report = hand_stopped()
    ax = report.plot()
    curves = [line for line in ax.lines if len(line.get_xdata()) == 4]
    assert [curve.get_ydata()[-1] for curve in curves] == [0.3, 0.125, 0.26, 0.125]
    # kept samples have the colour of their policy
    assert [curve.get_color() for curve in curves[::2]] == [curve.get_color() for curve in curves[1::2]]
    [mark] = [line for line in ax.lines if line.get_marker() == "D" and len(line.get_xdata()) == 1]
    # halfway between rounds 100 and 1,000, and their losses 0.5 and 0.3
    assert list(mark.get_xdata()) == [550.0] and list(mark.get_ydata()) == pytest.approx([0.4])
    assert mark.get_color() == curves[2].get_color()
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert "adaptive, kept samples" in names and names[-1] == "within 5% of the gain of the optimum"
    assert ax.get_xlabel() == "round; kept samples are no longer an i.i.d. mixture"
    low, high = ax.get_ylim()
    assert low < 0.125 and high > 0.5


@pytest.mark.parametrize("name", NEW)
def test_nothing_is_clipped(name: str) -> None:
    _all_is_within(HANDS[name]().plot())


def test_nothing_is_clipped_with_many_arms_of_long_names() -> None:
    random = np.random.default_rng(0)
    names = [plain(HOSTILE), *(f"{LONG}-{at}" for at in range(15))]
    arms = {name: random.normal(3 * random.normal(size=4), size=(40, 4)).astype(np.float32) for name in names}
    given: dict[str, Any] = {"fees": dict.fromkeys(names, 1.0), "bandwidths": "auto", "subsets": True}
    best = mm.solve(arms, mm.Rke(bandwidth=4), front="rke(bandwidth=9)", **given)
    drawn = [*best._answers().values(), mm.curate(arms, mm.Rke(bandwidth=4), count=30)]
    assert len(drawn) == 5
    for result in drawn:
        _all_is_within(result.plot())
        rows = [line for line in result._table().text(60).split("\n") if line.startswith("  ")]
        assert max(map(len, rows)) <= 60


def _all_is_within(ax: Any) -> None:
    """Check that all text is inside the figure and tick labels do not overlap."""
    figure = ax.figure
    figure.canvas.draw()
    room = figure.bbox.padded(1)
    ticks = [_ticks(axis) for other in figure.axes for axis in (other.xaxis, other.yaxis)]
    known = {id(label) for axis in ticks for label in axis}
    idle = {id(label) for other in figure.axes for axis in (other.xaxis, other.yaxis) for label in axis.findobj(Text)}
    labels = {id(axis.label) for other in figure.axes for axis in (other.xaxis, other.yaxis)}
    for text in figure.findobj(Text):
        if text.get_text() and text.get_visible() and (id(text) not in idle or id(text) in known | labels):
            box = text.get_window_extent()
            assert room.x0 <= box.x0 and box.x1 <= room.x1 and room.y0 <= box.y0 and box.y1 <= room.y1, text
    boxes = sorted((label.get_window_extent() for label in _ticks(ax.yaxis)), key=lambda box: box.y0)
    assert all(below.y1 <= above.y0 + 1 for below, above in pairwise(boxes))
    boxes = sorted((label.get_window_extent() for label in _ticks(ax.xaxis)), key=lambda box: box.x0)
    assert all(left.x1 <= right.x0 + 1 for left, right in pairwise(boxes))


def _ticks(axis: Any) -> list[Any]:
    """The visible tick labels."""
    low, high = sorted(axis.get_view_interval())
    return [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high and tick.label1.get_text()]


@pytest.mark.parametrize("make", [HANDS[name] for name in NEW], ids=NEW)
def test_the_check_can_fail(make: Callable[[], Any]) -> None:
    ax = make().plot()
    ax.figure.text(0.97, 0.5, "cut off")
    with pytest.raises(AssertionError):
        _all_is_within(ax)


def test_real_analyses_are_drawn(real: Real) -> None:
    for result in (*real.asked._answers().values(), real.curated, real.stopped):
        _all_is_within(result.plot())
