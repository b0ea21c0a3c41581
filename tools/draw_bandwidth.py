#!/usr/bin/env python3
"""Draw ``docs/bandwidth.svg``: the RKE mode count of each arm and of the best mixture, and the gain, against the bandwidth.

Usage: python tools/draw_bandwidth.py [PNG]   (with a path, also writes the figure as PNG)

Reads ``data/fashion/categories.npz`` and prints a table of the values in ``docs/bandwidth.md``. Everything is computed with NumPy in
float64, and the quadratic program is solved by enumeration (``tools/golden.py``), independently of the Rust code.
"""

from __future__ import annotations

import itertools
import re
import sys
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
from golden import ROOT, Array, Pairs, load_arms, solve_by_enumeration

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

SCENARIO = "categories"
OUTPUT = ROOT / "docs" / "bandwidth.svg"

LOWEST, HIGHEST, POINTS = 2.0, 400.0, 93
TABLE = (0.01, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 60.0, 80.0, 160.0, 400.0, 10_000.0)
"""Bandwidths of the printed table; the median distance is added."""

# The colours of docs/idea.svg. The card is opaque, so that the figure is the same on light and dark pages.
COLOURS = {"sneaker": "#0072b2", "bag": "#d55e00", "coat": "#008f68"}
DASHES = {"sneaker": (0, (5, 2)), "bag": (0, (7, 2, 1.5, 2)), "coat": (0, (2, 1.5))}
INK, MUTED, GRID, CARD, EDGE = "#1f2933", "#5b6672", "#e6e9ed", "#ffffff", "#d5dae0"
PIXELS = (720, 520)
PIXELS_PER_INCH = 72  # matplotlib writes SVG in points, of which an inch has 72


@dataclass(frozen=True)
class Point:
    """The arms and the best mixture at one bandwidth."""

    bandwidth: float
    single: Array
    mixture: float
    weights: Array
    gain: float
    self_share: float
    """The share of the mixture's loss that comes from pairs of a sample with itself."""


class Distances:
    """Squared distances between all samples, by pair of arms."""

    def __init__(self, arms: dict[str, Array]) -> None:
        self.sizes = np.array([len(rows) for rows in arms.values()])
        indexed = list(enumerate(arms.values()))
        self._squared = {
            (i, j): Pairs(left, right).squared_distances
            for (i, left), (j, right) in itertools.combinations_with_replacement(indexed, 2)
        }

    def solve(self, bandwidth: float) -> Point:
        """RKE: kappa = k^2 = exp(-|x - y|^2 / bandwidth^2), self-pairs included."""
        count = len(self.sizes)
        quadratic = np.zeros((count, count))
        for (i, j), squared in self._squared.items():
            quadratic[i, j] = quadratic[j, i] = np.exp(squared / -(bandwidth**2)).mean()
        optimum = solve_by_enumeration(quadratic, np.zeros(count))
        single = np.diag(quadratic)
        self_pairs = float((optimum.weights**2 / self.sizes).sum())
        gain = float(single.min()) - optimum.value
        return Point(bandwidth, 1.0 / single, 1.0 / optimum.value, optimum.weights, gain, self_pairs / optimum.value)

    def median(self) -> float:
        """The median distance over all pairs of samples of all arms; pairs of equal samples are left out."""
        parts = [
            squared[np.triu_indices(len(squared), k=1)] if i == j else squared.ravel()
            for (i, j), squared in self._squared.items()
        ]
        pairs = np.concatenate(parts)
        return float(np.median(np.sqrt(pairs[pairs > 0.0])))

    def medians(self) -> Array:
        """The median distance within each arm and between arms."""
        medians = np.zeros((len(self.sizes), len(self.sizes)))
        for (i, j), squared in self._squared.items():
            pairs = squared[np.triu_indices(len(squared), k=1)] if i == j else squared
            medians[i, j] = medians[j, i] = np.median(np.sqrt(pairs))
        return medians


def print_table(names: list[str], points: list[Point], median: float) -> None:
    arms = "".join(f"{name:>11}" for name in names)
    print(f"{'bandwidth':>10}{arms}{'mixture':>11}{'gain':>11}{'self-pairs':>12}  weights")
    for point in points:
        single = "".join(f"{value:>11.6g}" for value in point.single)
        weights = ", ".join(f"{100.0 * weight:.1f}%" for weight in point.weights)
        mark = "  median" if point.bandwidth == median else ""
        print(
            f"{point.bandwidth:>10.5g}{single}{point.mixture:>11.6g}{point.gain:>11.3g}{point.self_share:>12.2%}  {weights}{mark}"
        )


def draw(names: list[str], points: list[Point], median: float, samples: int) -> plt.Figure:
    mpl.rcParams.update({
        "font.family": "DejaVu Sans", "font.size": 10.5, "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": MUTED,
        "xtick.color": MUTED, "ytick.color": MUTED, "xtick.labelcolor": INK, "ytick.labelcolor": INK,
        "svg.fonttype": "none", "svg.hashsalt": "modelmix",
    })  # fmt: skip
    figure, (modes, gain) = plt.subplots(
        2, 1, sharex=True, figsize=(PIXELS[0] / PIXELS_PER_INCH, PIXELS[1] / PIXELS_PER_INCH), height_ratios=(1.75, 1)
    )
    figure.subplots_adjust(left=0.098, right=0.972, top=0.935, bottom=0.098, hspace=0.27)
    figure.patch.set(facecolor=CARD, edgecolor=EDGE, linewidth=2)
    bandwidths = np.array([point.bandwidth for point in points])

    for index, name in enumerate(names):
        values = [point.single[index] for point in points]
        modes.plot(bandwidths, values, color=COLOURS[name], linestyle=DASHES[name], linewidth=1.9, label=name)
    modes.plot(bandwidths, [point.mixture for point in points], color=INK, linewidth=2.4, label="best mixture")
    modes.set_yscale("log")
    modes.set_ylim(0.8, 6_000)
    modes.yaxis.set_major_locator(FixedLocator([1, 10, 100, 1_000]))
    modes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    modes.set_title("RKE mode count, logarithmic", loc="left", fontsize=11, fontweight="bold")
    modes.legend(loc="upper right", frameon=False, fontsize=10.5, handlelength=2.6, borderaxespad=0.2)
    total = samples * len(names)
    note = {"textcoords": "offset points", "color": MUTED, "fontsize": 9.5}
    modes.annotate(f"{total:,} samples in all", (LOWEST, total), (6, 6), **note)
    modes.annotate(f"{samples:,} per arm", (LOWEST, samples), (6, -22), **note)
    modes.annotate("← every sample is its own mode", (LOWEST, 2.0), (6, 0), **note)
    modes.annotate("all samples are alike →", (HIGHEST, 2.0), (-2, 0), ha="right", **note)
    modes.annotate(f"median distance, {median:.1f}", (median, total), (7, 6), **{**note, "color": INK})

    gain.plot(bandwidths, [point.gain for point in points], color=INK, linewidth=2.4)
    gain.set_ylim(0.0, 0.165)
    gain.yaxis.set_major_locator(FixedLocator([0.0, 0.05, 0.10, 0.15]))
    gain.set_title("Gain of the best mixture over the best single arm, in loss", loc="left", fontsize=11, fontweight="bold")
    gain.set_xlabel("bandwidth σ, logarithmic")
    gain.set_xscale("log")
    gain.set_xlim(LOWEST, HIGHEST)
    gain.xaxis.set_major_locator(FixedLocator([2, 5, 10, 20, 50, 100, 200, 400]))
    gain.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    for axes in (modes, gain):
        axes.grid(color=GRID, linewidth=0.9)
        axes.set_axisbelow(True)
        axes.xaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_minor_locator(NullLocator())
        axes.spines[["top", "right"]].set_visible(False)
        axes.axvline(median, color=INK, linestyle=(0, (1, 2)), linewidth=1.5)
    return figure


def main() -> None:
    arms = load_arms(SCENARIO)
    names, samples = list(arms), len(next(iter(arms.values())))
    distances = Distances(arms)
    median = distances.median()
    print(f"median distance over all pairs: {median!r}")
    print(f"median distances within and between {', '.join(names)}:\n{distances.medians().round(1)}")
    print_table(names, [distances.solve(bandwidth) for bandwidth in sorted((*TABLE, median))], median)
    points = [distances.solve(bandwidth) for bandwidth in np.geomspace(LOWEST, HIGHEST, POINTS)]
    highest = max(points, key=lambda point: point.gain)
    print(f"largest gain of those drawn: {highest.gain:.3f} at {highest.bandwidth:.1f}")

    figure = draw(names, points, median, samples)
    title = "RKE mode count and gain against the bandwidth"
    description = (
        f"As the bandwidth grows from {LOWEST:g} to {HIGHEST:g}, the mode count of every arm falls from {samples:,} to 1 and that of the "
        f"best mixture from {samples * len(names):,} to 1. The gain in loss is largest, {highest.gain:.2f}, near the median distance, "
        f"{median:.1f}, and falls to zero on both sides."
    )
    figure.savefig(OUTPUT, metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = OUTPUT.read_text(encoding="utf-8")
    text = re.sub(r'width="[\d.]+pt" height="[\d.]+pt"', f'width="{PIXELS[0]}" height="{PIXELS[1]}" role="img"', text, count=1)
    heading = f"<title>{title}</title>\n <desc>{description}</desc>\n <defs>"
    text = re.sub(r"<metadata>.*?</metadata>\s*<defs>|<defs>", lambda _: heading, text, count=1, flags=re.DOTALL)
    text = text.replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, sans-serif")
    OUTPUT.write_text(text, encoding="utf-8")
    print(f"{OUTPUT.relative_to(ROOT)}: {OUTPUT.stat().st_size:,} bytes")
    if len(sys.argv) > 1:
        figure.savefig(sys.argv[1], dpi=2 * PIXELS_PER_INCH)


if __name__ == "__main__":
    main()
