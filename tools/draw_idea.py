#!/usr/bin/env python3
"""Draw ``docs/idea.svg``: three models that each cover a part of the data, and the mixture that covers all of it.

Usage: python tools/draw_idea.py   (after tools/golden.py, whose numbers are shown under the panels)

The dots are samples of ``data/fashion/specialists.npz``, projected onto the plane through the mean features of the three models and
stretched so that the means form an equilateral triangle. The outline contains most of the real images of
``data/fashion/reference.npy``, projected in the same way.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "data" / "fashion"
GOLDEN = ROOT / "crates" / "modelmix" / "tests" / "golden" / "fashion.json"
OUTPUT = ROOT / "docs" / "idea.svg"

WIDTH, HEIGHT = 900, 324
PANEL_TOP, PANEL_HEIGHT, PANEL_WIDTH = 62.0, 158.0, 170.0
MODELS = {"tops_gan": "#0072b2", "shoes_gan": "#d55e00", "legs_bags_gan": "#008f68"}
LETTERS = "ABC"
INK, MUTED, OUTLINE_FILL, OUTLINE_EDGE, TRACK = "#1f2933", "#5b6672", "#eceff3", "#b9c1cb", "#eceff3"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"

TARGET_ROWS, TARGET_SHARE, TARGET_DISC = 600, 0.95, 17.0
"""The real images are drawn as discs of this diameter around the densest share of the first rows of the reference."""
DOTS_PER_MODEL, DOTS_IN_MIXTURE = 130, 390

Array = np.ndarray


@dataclass(frozen=True)
class Panel:
    """A rectangle of the figure, and the map from the plane of features into it."""

    left: float
    centre: Array
    scale: float

    def place(self, points: Array) -> Array:
        middle = np.array([self.left + PANEL_WIDTH / 2.0, PANEL_TOP + PANEL_HEIGHT / 2.0])
        return middle + (points - self.centre) * self.scale * np.array([1.0, -1.0])


def view_of_plane(arms: dict[str, Array]) -> Array:
    """Return a linear map, as a 64 x 2 matrix, onto the plane through the three mean features.

    It maps the means to the corners of an equilateral triangle: the first on top, the second left, the third right.
    """
    first, second, third = (arms[name].mean(axis=0) for name in MODELS)
    sides = np.stack([first - second, third - second], axis=1)
    corners = np.array([[0.5, math.sqrt(0.75)], [1.0, 0.0]])
    return np.linalg.pinv(sides).T @ corners


def densest(cloud: Array, share: float) -> Array:
    """Return the share of points with the smallest mean distance to their ten nearest neighbours."""
    distances = np.sqrt(np.square(cloud[:, None, :] - cloud[None, :, :]).sum(axis=2))
    crowding = np.sort(distances, axis=1)[:, 1:11].mean(axis=1)
    return cloud[np.argsort(crowding, kind="stable")[: round(share * len(cloud))]]


def stroke_points(points: Array) -> str:
    """Return path data of strokes of length zero: with round caps, each point becomes a disc."""
    return "".join(f"M{x:.1f} {y:.1f}h0" for x, y in points)


def dots(points: Array, colour: str) -> str:
    data = stroke_points(points)
    return f'<path d="{data}" stroke="{colour}" stroke-width="3.2" stroke-linecap="round" stroke-opacity="0.75"/>'


def text(x: float, y: float, words: str, size: int, colour: str = INK, weight: int = 400) -> str:
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" font-weight="{weight}" fill="{colour}">{words}</text>'


def figure(loss: float) -> str:
    """Return a loss with one decimal, or with two if it is below 1."""
    return f"{loss:.1f}" if loss >= 1.0 else f"{loss:.2f}"


def loss_bar(panel: Panel, loss: float, full_scale: float, colour: str) -> list[str]:
    """Return a bar whose length is the loss, on the same scale for all bars, and the number under it."""
    top = PANEL_TOP + PANEL_HEIGHT + 16
    length = max(2.0, PANEL_WIDTH * loss / full_scale)
    return [
        f'<rect x="{panel.left:g}" y="{top:g}" width="{PANEL_WIDTH:g}" height="10" rx="2" fill="{TRACK}"/>',
        f'<rect x="{panel.left:g}" y="{top:g}" width="{length:.1f}" height="10" rx="{min(2.0, length / 2):g}" fill="{colour}"/>',
        text(panel.left, top + 31, f"loss {figure(loss)}", 15, INK, 600),
    ]


def main() -> None:
    cases = json.loads(GOLDEN.read_text(encoding="utf-8"))["cases"]
    case = next(case for case in cases if case["scenario"] == "specialists" and case["objective"] == "mmd")
    # The unbiased estimate, which the command line prints as MMD²: no sample is paired with itself.
    quadratic, linear, alpha = np.array(case["K_u"]), np.array(case["f"]), np.array(case["weights"])
    single_losses = np.diag(quadratic) + linear + case["constant_u"]
    single = {name: 100.0 * loss for name, loss in zip(case["arms"], single_losses, strict=True)}
    weights = dict(zip(case["arms"], case["weights"], strict=True))
    mixture_loss = 100.0 * float(alpha @ quadratic @ alpha + linear @ alpha + case["constant_u"])
    if any(weight > 0.0 and name not in MODELS for name, weight in weights.items()):
        raise SystemExit("the optimum uses a model that the figure does not show")
    best_single = min(single, key=lambda name: single[name])

    with np.load(DATA / "specialists.npz", allow_pickle=False) as archive:
        arms = {name: archive[name].astype(np.float64) for name in MODELS}
    view = view_of_plane(arms)
    clouds = {name: rows @ view for name, rows in arms.items()}
    reference = np.load(DATA / "reference.npy", allow_pickle=False)[:TARGET_ROWS].astype(np.float64)
    target = densest(reference @ view, TARGET_SHARE)
    low, high = target.min(axis=0), target.max(axis=0)
    centre = (low + high) / 2.0
    space = np.array([PANEL_WIDTH, PANEL_HEIGHT]) - TARGET_DISC - 2.0
    scale = float((space / (high - low)).min())

    def panel_at(left: float) -> Panel:
        return Panel(left, centre, scale)

    def target_in(panel: Panel) -> str:
        return f'<use href="#target" x="{panel.left:g}"/>'

    def inside(panel: Panel, points: Array) -> Array:
        placed = panel.place(points)
        fits = (placed[:, 0] > panel.left) & (placed[:, 0] < panel.left + PANEL_WIDTH)
        return placed[fits & (placed[:, 1] > PANEL_TOP) & (placed[:, 1] < PANEL_TOP + PANEL_HEIGHT)]

    full_scale = max(single[name] for name in MODELS)
    body: list[str] = []
    for index, (name, colour) in enumerate(MODELS.items()):
        panel = panel_at(28.0 + 190.0 * index)
        body.append(text(panel.left, 32, f"model {LETTERS[index]}", 15, INK, 600))
        body.append(text(panel.left, 50, name, 13, colour, 600))
        body.append(target_in(panel))
        body.append(dots(inside(panel, clouds[name][:DOTS_PER_MODEL]), colour))
        body += loss_bar(panel, single[name], full_scale, colour)

    panel = panel_at(672.0)
    arrow_y = PANEL_TOP + PANEL_HEIGHT / 2
    body.append(
        f'<path d="M604 {arrow_y:g}h34m-9 -8l9 8l-9 8" stroke="{MUTED}" stroke-width="2.5" fill="none" '
        'stroke-linecap="round" stroke-linejoin="round"/>'
    )
    body.append(text(panel.left, 32, "the best mixture", 15, INK, 600))
    shares = [
        f'<tspan fill="{colour}">{letter} {100.0 * weights[name]:.1f}%</tspan>'
        for letter, (name, colour) in zip(LETTERS, MODELS.items(), strict=True)
    ]
    body.append(text(panel.left, 50, " &#160; ".join(shares), 13, INK, 600))
    body.append(target_in(panel))
    for name, colour in MODELS.items():
        body.append(dots(inside(panel, clouds[name][: round(DOTS_IN_MIXTURE * weights[name])]), colour))
    body += loss_bar(panel, mixture_loss, full_scale, INK)

    caption = (
        f"Loss: MMD&#178; &#215; 100, lower is better. Grey outline: the real images. "
        f"The best of five models alone ({best_single}) has {single[best_single]:.1f}."
    )
    body.append(text(28, HEIGHT - 20, caption, 13, MUTED))
    losses = ", ".join(f"{single[name]:.1f}" for name in MODELS)
    percentages = ", ".join(f"{100.0 * weights[name]:.1f}%" for name in MODELS)
    description = (
        "Three panels show samples of tops_gan, shoes_gan and legs_bags_gan as dots, each filling one part of the outline of "
        f"the real images; their losses (MMD² times 100) are {losses}. A fourth panel shows their best mixture, {percentages}, "
        f"which fills the whole outline and has loss {figure(mixture_loss)}."
    )
    shape = stroke_points(panel_at(0.0).place(target))
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" '
        f'aria-labelledby="title description" font-family="{FONT}">',
        '<title id="title">A mixture of specialists covers what none of them covers alone</title>',
        f'<desc id="description">{description}</desc>',
        f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="12" fill="#ffffff" stroke="#d5dae0"/>',
        f'<defs><path id="discs" d="{shape}" stroke-linecap="round"/><g id="target">'
        f'<use href="#discs" stroke="{OUTLINE_EDGE}" stroke-width="{TARGET_DISC + 2.4:g}"/>'
        f'<use href="#discs" stroke="{OUTLINE_FILL}" stroke-width="{TARGET_DISC:g}"/></g></defs>',
        *body,
        "</svg>",
    ]
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{OUTPUT.relative_to(ROOT)}: {OUTPUT.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
