"""Figures of what is asked beside the best mixture, by matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .results_worth import Front, Sensitivity, Subsets


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError(
            "plot() needs matplotlib; install it with pip install matplotlib, or use to_pandas()"
        ) from None
    return plt.subplots()[1]


def subsets(result: Subsets, ax: Axes | None = None) -> Axes:
    """The share of the gain kept against the number of arms; the loss where there is no gain."""
    ax = _axes(ax)
    sizes = [subset.size for subset in result.sizes]
    kept = [subset.gain_kept for subset in result.sizes]
    if any(share is None for share in kept):
        ax.plot(sizes, [subset.loss for subset in result.sizes], "o-")
        ax.set_ylabel("loss")
    else:
        ax.plot(sizes, [100 * (share or 0.0) for share in kept], "o-")
        ax.set_ylabel("gain kept, %")
        ax.set_ylim(min(0.0, *(100 * (share or 0.0) for share in kept)) - 3, 105)
    ax.set_xticks(sizes)
    ax.set_xlabel("models at most")
    return ax


def front(result: Front, ax: Axes | None = None) -> Axes:
    """The first score against the second, a dot a mixture, the ends' λ beside them."""
    ax = _axes(ax)
    across = [point.second_score for point in result.points]
    along = [point.score for point in result.points]
    ax.plot(across, along, ".-")
    ax.margins(0.15)
    for at in {0, len(result.points) - 1}:
        multiplier = result.points[at].multiplier
        text = "λ → ∞" if multiplier is None else f"λ = {multiplier:.3g}"
        ax.annotate(text, (across[at], along[at]), textcoords="offset points", xytext=(4, 6))
    ax.set_xlabel(result.second_score_name)
    ax.set_ylabel(result.score_name)
    return ax


def sensitivity(result: Sensitivity, ax: Axes | None = None) -> Axes:
    """The weights against the bandwidth; the one in use is marked."""
    ax = _axes(ax)
    bandwidths = [point.bandwidth for point in result.points]
    for arm in result.points[0].weights:
        ax.plot(bandwidths, [100 * point.weights[arm] for point in result.points], ".-", label=arm)
    ax.axvline(result.in_use, color="0.6", linestyle=":")
    ax.set_xscale("log")
    ax.set_xticks(bandwidths, [f"{bandwidth:.3g}" for bandwidth in bandwidths])
    ax.minorticks_off()
    ax.set_xlabel("bandwidth")
    ax.set_ylabel("weight, %")
    ax.legend()
    return ax
