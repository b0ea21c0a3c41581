"""The Pareto front of two objectives: all mixtures between the best for the first and the best for the second."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._lazy import Lazy
from .._table import Cell, Table, number, shares
from ._base import Points, frame, mixed, plain

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib import axes
else:
    pd, axes = Lazy("pandas"), Lazy("matplotlib.axes")

__all__ = ["Front", "FrontPoint"]


def __dir__() -> list[str]:
    return __all__


#: The largest number of points in a table.
_SHOWN = 12


@dataclass(frozen=True)
class FrontPoint:
    """A mixture on the Pareto front.

    Attributes
    ----------
    multiplier
        A λ for which it minimises A + λB; ``None`` if only B counts.
    weights
        Its weights per arm.
    loss
        Its loss by the first objective A.
    score
        Its score by A.
    second_loss
        Its loss by the second objective B.
    second_score
        Its score by B.

    Examples
    --------
    >>> import modelmix as mm
    >>> best = mm.solve("data/fashion/specialists.npz", "rke(bandwidth=20)", front="cost", costs={
    ...     "tops_gan": 1, "shoes_gan": 2, "legs_bags_gan": 3, "vae": 4, "flow": 5})
    >>> best.front[0].multiplier, best.front[-1].weights["tops_gan"]
    (0.0, 1.0)
    """

    multiplier: float | None
    weights: dict[str, float]
    loss: float
    score: float
    second_loss: float
    second_score: float


@dataclass(frozen=True, repr=False)
class Front(Points[FrontPoint]):
    """The Pareto front of two objectives: a sequence of points, from the best for the first to the best for the second.

    Attributes
    ----------
    objective
        The second objective, as it is minimised.
    points
        The points.
    exact
        Whether weights are linear between consecutive points.
    first_objective
        The first objective.
    score_name
        The first score's name.
    more_is_better
        Whether a larger first score is better.
    second_score_name
        The second score's name.
    second_more_is_better
        Whether a larger second score is better.

    Examples
    --------
    >>> import modelmix as mm
    >>> best = mm.solve("data/fashion/specialists.npz", "rke(bandwidth=20)", front="cost", costs={
    ...     "tops_gan": 1, "shoes_gan": 2, "legs_bags_gan": 3, "vae": 4, "flow": 5})
    >>> len(best.front) == len([point.loss for point in best.front])
    True
    """

    objective: str
    points: tuple[FrontPoint, ...]
    exact: bool
    first_objective: str
    score_name: str
    more_is_better: bool
    second_score_name: str
    second_more_is_better: bool

    @classmethod
    def _read(cls, document: dict[str, Any], solved: dict[str, Any]) -> Front:
        arms = [arm["name"] for arm in solved["arms"]]
        return cls(
            objective=document["objective"],
            points=tuple(FrontPoint(**mixed(given, arms)) for given in document["points"]),
            exact=document["exact"],
            first_objective=solved["objective"],
            score_name=solved["score"]["name"],
            more_is_better=solved["score"]["more_is_better"],
            second_score_name=document["score"]["name"],
            second_more_is_better=document["score"]["more_is_better"],
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the front as plain data: a part of the document of ``modelmix solve --json``.

        Returns
        -------
        dict
            Fields by name.
        """
        return {
            "objective": self.objective,
            "score": {"name": self.second_score_name, "more_is_better": self.second_more_is_better},
            "points": [{**plain(point), "weights": list(point.weights.values())} for point in self.points],
            "exact": self.exact,
        }

    def to_pandas(self) -> pd.DataFrame:
        """Return a data frame with one row per point: the multiplier, losses, scores, and one column per arm.

        Returns
        -------
        pandas.DataFrame
            The frame.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        rows = [
            {
                "multiplier": math.inf if point.multiplier is None else point.multiplier,
                "loss": point.loss,
                "score": point.score,
                "second_loss": point.second_loss,
                "second_score": point.second_score,
                **point.weights,
            }
            for point in self.points
        ]
        return frame(rows)

    def plot(self, ax: axes.Axes | None = None) -> axes.Axes:
        """Draw the first score against the second.

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

        return plots.front(self, ax)

    def _table(self) -> Table:
        shown = [self.points[at] for at in _among(len(self.points))]
        rows: list[Sequence[str]] = [
            [
                Cell("∞", {"": math.inf}) if point.multiplier is None else number(point.multiplier),
                number(point.score),
                number(point.second_score),
                shares(point.weights),
            ]
            for point in shown
        ]
        note = f"objective {self.first_objective} + λ·({self.objective}); {len(shown)} of {len(self.points)} points"
        note += "; weights are linear between points" if self.exact else ""
        title = f"{self.score_name} against {self.second_score_name}"
        header = ["λ", self.score_name, self.second_score_name, "mixture"]
        return Table(title, header, rows, note, lists=frozenset({3}))


def _among(points: int) -> list[int]:
    """The indices of the points shown, including the first and the last, as in the command line."""
    last = points - 1
    steps = min(max(last, 1), _SHOWN - 1)
    return sorted({(step * last + steps // 2) // steps for step in range(steps + 1)})
