"""Bandwidth sensitivity: whether the best mixture depends on the bandwidth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._lazy import Lazy
from .._table import Table, best_of, number, shares
from ._base import Points, frame, mixed, plain

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib import axes
else:
    pd, axes = Lazy("pandas"), Lazy("matplotlib.axes")

__all__ = ["Sensitivity", "SensitivityPoint"]


def __dir__() -> list[str]:
    return __all__


@dataclass(frozen=True)
class SensitivityPoint:
    """The best mixture with one bandwidth.

    Attributes
    ----------
    bandwidth
        The bandwidth.
    weights
        The weights per arm.
    loss
        The loss, with this bandwidth's kernel.
    score
        The score.
    gain
        The loss of the best single arm minus that of the mixture.
    best_single
        The best single arm.
    best_single_score
        Its score.

    Examples
    --------
    >>> import modelmix as mm
    >>> best = mm.solve({"a": [[0.0], [1.0]], "b": [[5.0], [6.0]]}, mm.Rke(bandwidth=1), bandwidths=[1, 2])
    >>> [point.bandwidth for point in best.sensitivity]
    [1.0, 2.0]
    """

    bandwidth: float
    weights: dict[str, float]
    loss: float
    score: float
    gain: float
    best_single: str
    best_single_score: float


@dataclass(frozen=True, repr=False)
class Sensitivity(Points[SensitivityPoint]):
    """The best mixture for several bandwidths: a sequence of points.

    Attributes
    ----------
    in_use
        The bandwidth in use.
    points
        The points, in increasing order of the bandwidth.
    largest_change
        The largest change of a weight between half and twice the bandwidth in use.
    arm
        The arm whose weight changes most.
    at
        The bandwidth of that change.
    verdict
        The conclusion in one sentence.
    score_name
        The score's name, such as "RKE" or "MMD² ×100".

    Examples
    --------
    >>> import modelmix as mm
    >>> best = mm.solve({"a": [[0.0], [1.0]], "b": [[5.0], [6.0]]}, mm.Rke(bandwidth=1), bandwidths=[1, 2])
    >>> len(best.sensitivity), best.sensitivity.in_use
    (2, 1.0)
    """

    in_use: float
    points: tuple[SensitivityPoint, ...]
    largest_change: float
    arm: str
    at: float
    verdict: str
    score_name: str

    @classmethod
    def _read(cls, document: dict[str, Any], arms: Sequence[str], score_name: str) -> Sensitivity:
        points = tuple(SensitivityPoint(**mixed(given, arms)) for given in document["points"])
        return cls(**{**document, "points": points, "score_name": score_name})

    def to_dict(self) -> dict[str, Any]:
        """Return the analysis as plain data: a part of the document of ``modelmix solve --json``.

        Returns
        -------
        dict
            Fields by name.
        """
        whole = {name: value for name, value in plain(self).items() if name != "score_name"}
        points = [{**point, "weights": list(point["weights"].values())} for point in whole["points"]]
        return {**whole, "points": points}

    def to_pandas(self) -> pd.DataFrame:
        """Return a data frame with one row per bandwidth: loss, score, gain, the best single arm, and one column per arm.

        Returns
        -------
        pandas.DataFrame
            The frame.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        columns = ("loss", "score", "gain", "best_single", "best_single_score")
        rows = [{**{name: getattr(point, name) for name in columns}, **point.weights} for point in self.points]
        made = frame(rows, index=[point.bandwidth for point in self.points])
        made.index.name = "bandwidth"
        return made

    def plot(self, ax: axes.Axes | None = None) -> axes.Axes:
        """Draw the weights against the bandwidth.

        Parameters
        ----------
        ax
            The axes to draw into; ``None`` for a new figure.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.
        """
        from .. import plots

        return plots.sensitivity(self, ax)

    def _table(self) -> Table:
        rows: list[Sequence[str]] = [
            [
                number(point.bandwidth).marked(" *" if point.bandwidth == self.in_use else ""),
                number(point.score),
                number(point.gain),
                best_of(point.best_single, number(point.best_single_score), point.best_single_score, "score"),
                shares(point.weights),
            ]
            for point in self.points
        ]
        header = ["bandwidth", self.score_name, "gain", "best single arm", "mixture"]
        note = "* in use; losses and scores are not comparable between bandwidths, because the kernel differs"
        return Table(self.verdict, header, rows, note, left=frozenset({3}), lists=frozenset({4}))
