"""One objective against another: all mixtures between the best for the one and the best for the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._table import Table, number, shares
from ._base import Result, frame, mixed, plain

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["Front", "FrontPoint"]

#: At most so many points stand in a table.
_SHOWN = 12


@dataclass(frozen=True)
class FrontPoint:
    """A mixture that cannot be made better for one objective without being made worse for the other."""

    #: A λ that it is best for in A + λB; none where only B counts.
    multiplier: float | None
    weights: dict[str, float]
    #: A of it, and A's score.
    loss: float
    score: float
    #: The same of B.
    second_loss: float
    second_score: float


@dataclass(frozen=True, repr=False)
class Front(Result):
    """One objective against another: from the best for the first to the best for the second."""

    #: The second objective, as it is minimised.
    objective: str
    points: tuple[FrontPoint, ...]
    #: Whether between points weights move in straight lines.
    exact: bool
    #: The first objective.
    first_objective: str
    #: What the first and the second score are ("RKE", "precision"), and whether more of them is better.
    score_name: str
    more_is_better: bool
    second_score_name: str
    second_more_is_better: bool

    def __len__(self) -> int:
        """How many points there are."""
        return len(self.points)

    def __getitem__(self, index: int) -> FrontPoint:
        """A point."""
        return self.points[index]

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
        """All of it as plain data: a part of the document of ``modelmix solve --json``."""
        return {
            "objective": self.objective,
            "score": {"name": self.second_score_name, "more_is_better": self.second_more_is_better},
            "points": [{**plain(point), "weights": list(point.weights.values())} for point in self.points],
            "exact": self.exact,
        }

    def to_pandas(self) -> pd.DataFrame:
        """A frame with a row a point: the multiplier, losses, scores, and a column an arm."""
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

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the first score against the second."""
        from .. import plots

        return plots.front(self, ax)

    def _table(self) -> Table:
        shown = [self.points[at] for at in _among(len(self.points))]
        rows: list[Sequence[str]] = [
            [
                "∞" if point.multiplier is None else number(point.multiplier),
                number(point.score),
                number(point.second_score),
                shares(point.weights),
            ]
            for point in shown
        ]
        note = f"objective {self.first_objective} + λ·({self.objective}); {len(shown)} of {len(self.points)} points"
        note += "; between points weights move in straight lines" if self.exact else ""
        title = f"{self.score_name} against {self.second_score_name}"
        header = ["λ", self.score_name, self.second_score_name, "mixture"]
        return Table(title, header, rows, note, lists=frozenset({3}))


def _among(points: int) -> list[int]:
    """The places of the points shown, the first and the last among them, as the command line has them."""
    last = points - 1
    steps = min(max(last, 1), _SHOWN - 1)
    return sorted({(step * last + steps // 2) // steps for step in range(steps + 1)})
