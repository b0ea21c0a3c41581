"""Figures of results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest
from by_hand import (
    HANDS,
    HOSTILE,
    LONG,
    hand_mixture,
    hand_run,
    hand_scores,
    hand_session,
    hand_simulation,
    simulate_document,
)
from matplotlib import colors, pyplot
from matplotlib.collections import PolyCollection
from matplotlib.patches import Rectangle
from matplotlib.text import Annotation, Text
from real_results import Real

import modelmix as mm
from modelmix import results


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No figure is shown or left open, and matplotlib's settings are unchanged."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("show() was called")

    monkeypatch.setattr(pyplot, "show", refuse)
    before = dict(matplotlib.rcParams)
    yield
    pyplot.close("all")
    assert dict(matplotlib.rcParams) == before


def _bars(ax: Any) -> list[list[float]]:
    return [[patch.get_width() for patch in container.patches] for container in ax.containers]


def _texts(ax: Any) -> list[str]:
    return [text.get_text() for text in ax.texts]


def _aside(ax: Any) -> Any:
    [other] = [other for other in ax.figure.axes if other is not ax]
    return other


def _intervals(ax: Any) -> list[tuple[float, float]]:
    return [tuple(line.get_xdata()) for line in ax.lines if line.get_label() == "_interval"]


def _names(ax: Any) -> list[str]:
    return [label.get_text() for label in ax.get_yticklabels()]


def test_a_mixture_is_drawn() -> None:
    ax = hand_mixture().plot()
    assert _bars(ax) == [[0.625, 0.3748, 0.0002]]
    assert _intervals(ax) == [(0.55, 0.7), (0.3, 0.45), (0.0, 0.0)]
    assert _texts(ax) == ["62.5%", "37.5%", "<0.1%"]
    assert _names(ax) == ["flux", "sdxl", "pixart", "mixture"]
    assert ax.get_title("left") == "MMD² ×100 0.500 instead of 2.50 with flux alone"
    other = _aside(ax)
    arms, mixed = other.lines
    assert list(arms.get_xdata()) == [2.5, 11.25, 120.0] and list(arms.get_ydata()) == [0, 1, 2]
    assert list(mixed.get_xdata()) == [0.5] and list(mixed.get_ydata()) == [3]
    assert _texts(other) == ["2.50", "11.25", "120.0", "0.500"]
    assert [text.get_text() for text in other.texts if text.get_fontweight() == "bold"] == [
        "2.50",
        "0.500",
    ]
    # the gain is marked from the mixture to the best single arm
    [band] = [patch for patch in other.patches if patch.get_alpha()]
    assert (band.get_x(), band.get_width()) == (0.5, 2.0)
    assert other.get_xlabel() == "MMD² ×100, less is better"
    assert other.get_ylim() == ax.get_ylim() == (3.5, -0.5)
    ax.figure.canvas.draw()
    assert ax.get_window_extent().x1 < other.get_window_extent().x0


def test_a_mixture_without_intervals_is_drawn(real: Real) -> None:
    ax = real.fid.plot()
    assert _intervals(ax) == []
    assert _bars(ax) == [sorted(real.fid.weights.values(), reverse=True)]
    assert ax.get_xlabel() == "weight"


def test_a_single_arm_is_drawn(real: Real) -> None:
    ax = real.single.plot()
    assert _bars(ax) == [[1.0]] and _names(ax) == ["flow", "mixture"]
    assert ax.get_title("left").startswith("flow alone: no mixture has a better RKE than its ")
    table = real.alone.plot()
    assert table.images[0].get_array().tolist() == [[1.0, 1.0]]


def test_a_simulation_is_drawn() -> None:
    report = hand_simulation()
    ax = report.plot()
    levels = [line.get_ydata()[0] for line in ax.lines if len(set(line.get_ydata())) == 1]
    assert levels == [0.25, 0.5]
    curves = [line for line in ax.lines if len(line.get_xdata()) == 4]
    assert [list(curve.get_ydata()) for curve in curves] == [
        [80.0, 0.6, 0.35, 0.3],
        [90.0, 0.5, 0.3, 0.26],
    ]
    assert all(list(curve.get_xdata()) == [10, 100, 1000, 2000] for curve in curves)
    assert len({curve.get_color() for curve in curves}) == 2
    # the first policy is drawn on top
    assert curves[0].get_zorder() > curves[1].get_zorder()
    bands = [found for found in ax.collections if isinstance(found, PolyCollection)]
    for done, band, curve in zip(report.policies.values(), bands, curves, strict=True):
        corners = {(float(x), float(y)) for x, y in band.get_paths()[0].vertices}
        for at, mean, std in zip(done.rounds, done.loss.mean, done.loss.std, strict=True):
            assert {(at, mean - std), (at, mean + std)} <= corners
        assert colors.to_rgb(band.get_facecolor()[0]) == colors.to_rgb(curve.get_color())
    assert ax.get_xlabel() == "round"
    assert ax.get_title("left") == "rke(bandwidth=30), mean of 4 seeds ± one standard deviation"


def test_large_first_losses_do_not_set_the_scale() -> None:
    low, high = hand_simulation().plot().get_ylim()
    assert 0.2 < low < 0.25 and 0.5 < high < 0.7
    # a loss that stays large is visible
    document = simulate_document()
    document["policies"]["uniform"]["loss"]["mean"] = [80.0, 20.0, 9.0, 8.0]
    ax = mm.Simulation._read(document).plot()
    assert ax.get_ylim()[1] > 9.0 and ax.get_yscale() == "log"


def test_the_legend_follows_the_lines_and_covers_none() -> None:
    ax = hand_simulation().plot()
    legend = ax.get_legend()
    names = [text.get_text() for text in legend.get_texts()]
    assert names == ["best single arm, flux", "uniform", "adaptive", "optimal mixture"]
    ax.figure.canvas.draw()
    assert legend.get_window_extent().x0 >= ax.get_window_extent().x1
    assert legend.get_window_extent().x1 <= ax.figure.bbox.x1
    # without space beside the axes, the legend is above the lines
    figure, axes = pyplot.subplots(1, 2, figsize=(9, 4))
    hand_simulation().plot(axes[0])
    figure.canvas.draw()
    box, room = axes[0].get_legend().get_window_extent(), axes[0].get_window_extent()
    assert room.x0 <= box.x0 and box.x1 <= room.x1 + 1 and box.y1 <= room.y1 + 1
    assert not any(_crosses(line, box) for line in axes[0].lines)
    # the check can fail
    assert any(_crosses(line, room) for line in axes[0].lines)


def _crosses(line: Any, box: Any) -> bool:
    corners = line.get_transform().transform(line.get_xydata())
    steps = np.linspace(0.0, 1.0, 500)[:, None]
    path = np.concatenate([a + steps * (b - a) for a, b in pairwise(corners)])
    return any(box.contains(x, y) for x, y in path)


def test_more_policies_than_colours_are_distinguishable() -> None:
    done = hand_simulation()["adaptive"]
    ax = hand_simulation(policies={f"ogd(sensitivity={at})": done for at in range(1, 20)}).plot()
    looks = {(line.get_color(), line.get_linestyle(), str(line._dash_pattern)) for line in ax.lines}
    assert len(looks) == 19 + 2


def test_one_seed_has_no_band() -> None:
    done = hand_simulation()["adaptive"]
    flat = replace(done, loss=results.Spread(done.loss.mean, (0.0,) * 4))
    ax = hand_simulation(policies={"adaptive": flat}, seeds=1).plot()
    assert not ax.collections
    assert ax.get_title("left") == "rke(bandwidth=30), one seed"


def test_scores_are_drawn() -> None:
    ax = hand_scores().plot()
    # from the worst to the best value of a metric, in either direction
    assert np.allclose(ax.images[0].get_array(), [[0, 1, 0], [0.5, 0, 1], [1, 0.75, 1]])
    assert _names(ax) == ["flux", "sdxl", "mixture"]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["RKE ↑", "KID, subsets ↓", "FID ↓"]
    places = {tuple(map(round, text.get_position())): text for text in ax.texts if "±" not in text.get_text()}
    shown = {place: text.get_text() for place, text in places.items()}
    assert shown == {
        (0, 0): "4.00", (1, 0): "2.00", (2, 0): "30.00",
        (0, 1): "6.00", (1, 1): "8.00", (2, 1): "10.00",
        (0, 2): "8.00", (1, 2): "3.50", (2, 2): "10.00",
    }  # fmt: skip
    best = {(1, 0), (2, 1), (0, 2), (2, 2)}
    assert {place for place, text in places.items() if text.get_fontweight() == "bold"} == best
    frames = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    centres = {(round(f.get_x() + f.get_width() / 2), round(f.get_y() + f.get_height() / 2)) for f in frames}
    assert centres == best
    assert sum("±" in text for text in _texts(ax)) == 8


def test_a_session_is_drawn() -> None:
    for result in (hand_session(), hand_run()):
        ax = result.plot()
        assert _bars(ax) == [[0.7, 0.3, 0.0], [0.75, 0.25, 0.0]]
        assert _texts(ax) == ["70.0%", "30.0%", "0.0%", "75.0%", "25.0%", "0.0%"]
        labels = [text.get_text() for text in ax.get_legend().get_texts()]
        assert labels == ["weight in the best mixture", "share of the samples"]
        assert _names(ax) == ["flux", "sdxl", "pixart"]
        assert ax.get_title("left") == "After 40 samples"


def test_a_session_without_samples_is_drawn(real: Real) -> None:
    ax = real.empty.plot()
    assert _bars(ax) == [[0.0] * 3] * 2 and ax.get_title("left") == "No samples yet"


@pytest.mark.parametrize("make", HANDS.values(), ids=HANDS)
@pytest.mark.parametrize("layout", [None, "constrained", "tight"])
def test_figures_are_drawn_into_given_axes(make: Callable[[], Any], layout: Any) -> None:
    own = make().plot()
    assert len(pyplot.get_fignums()) == 1 and own.figure.number == pyplot.get_fignums()[0]
    pyplot.close("all")
    figure, axes = pyplot.subplots(1, 2, layout=layout)
    before = axes[1].get_position().bounds
    assert make().plot(ax=axes[0]) is axes[0]
    assert len(pyplot.get_fignums()) == 1
    assert not axes[1].has_data() and axes[1].get_position().bounds == before
    figure.canvas.draw()
    # everything that was added is inside the area of the axes
    assert all(ax.get_position().x1 <= axes[1].get_position().x0 for ax in figure.axes if ax is not axes[1])


@pytest.mark.parametrize("make", HANDS.values(), ids=HANDS)
def test_figures_are_drawn_into_axes_without_a_grid(make: Callable[[], Any]) -> None:
    figure = pyplot.figure()
    ax = figure.add_axes((0.2, 0.2, 0.6, 0.6))
    make().plot(ax)
    figure.canvas.draw()
    for other in figure.axes:
        box = other.get_position()
        assert box.x0 >= 0.2 - 1e-9 and box.x1 <= 0.8 + 1e-9
    part = pyplot.figure(layout="constrained").subfigures(1, 2)[0]
    assert make().plot(part.add_subplot()).figure is part


@pytest.mark.parametrize("make", HANDS.values(), ids=HANDS)
@pytest.mark.parametrize("style", ["default", "dark_background"])
def test_text_is_readable_on_light_and_dark_backgrounds(make: Callable[[], Any], style: str) -> None:
    with pyplot.style.context(style):
        ax = make().plot()
    # text drawn into the axes after the style context is readable too
    with pyplot.style.context(style):
        _, later = pyplot.subplots()
    make().plot(later)
    for figure in (ax.figure, later.figure):
        figure.canvas.draw()
        paper = sum(colors.to_rgb(figure.get_facecolor())) / 3
        for text in figure.findobj(Text):
            if text.get_text() and text.get_visible():
                assert abs(sum(colors.to_rgb(text.get_color())) / 3 - paper) > 0.5, text


@pytest.mark.parametrize("arms", [1, 3, 20])
def test_long_and_hostile_names_fit(arms: int) -> None:
    first = hand_mixture().arms[0]
    names = [HOSTILE, *(f"{LONG}-{at}" for at in range(arms - 1))]
    made = tuple(replace(first, name=name, weight=1 / arms, interval=None) for name in names)
    ax = hand_mixture(arms=made, best_single=names[-1]).plot()
    ax.figure.canvas.draw()
    shown = [label.get_text() for label in ax.get_yticklabels()]
    assert len(set(shown)) == arms + 1
    assert max(len(text) for text in shown) <= 34 + HOSTILE.count("$")
    # dollar signs are text, not formulas
    assert all("$" not in text.replace(r"\$", "") for text in shown)
    labels = sorted((label.get_window_extent() for label in ax.get_yticklabels()), key=lambda box: box.y0)
    assert all(below.y1 <= above.y0 + 1 for below, above in pairwise(labels))
    assert min(box.x0 for box in labels) >= 0
    for other in ax.figure.axes:
        for note in other.findobj(Annotation):
            assert note.get_window_extent().x1 <= ax.figure.bbox.x1
