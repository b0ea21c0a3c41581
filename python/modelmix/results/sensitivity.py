"""Whether the answer depends on the bandwidth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._names import shorten
from .._table import Table, number, shares
from ._base import Result, frame, mixed, plain

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["Sensitivity", "SensitivityPoint"]


@dataclass(frozen=True)
class SensitivityPoint:
    """The best mixture with one bandwidth."""

    bandwidth: float
    weights: dict[str, float]
    loss: float
    score: float
    gain: float
    #: The best single arm, and its score.
    best_single: str
    best_single_score: float


@dataclass(frozen=True, repr=False)
class Sensitivity(Result):
    """The best mixture over a range of bandwidths."""

    #: The bandwidth in use.
    in_use: float
    points: tuple[SensitivityPoint, ...]
    #: The largest change of a weight between half and twice the bandwidth in use, whose it is, and at which bandwidth.
    largest_change: float
    arm: str
    at: float
    #: What that says, in a sentence.
    verdict: str
    #: What ``score`` is: "RKE", "KID ×100".
    score_name: str

    def __len__(self) -> int:
        """How many bandwidths there are."""
        return len(self.points)

    def __getitem__(self, index: int) -> SensitivityPoint:
        """A bandwidth."""
        return self.points[index]

    @classmethod
    def _read(cls, document: dict[str, Any], arms: Sequence[str], score_name: str) -> Sensitivity:
        points = tuple(SensitivityPoint(**mixed(given, arms)) for given in document["points"])
        return cls(**{**document, "points": points, "score_name": score_name})

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data: a part of the document of ``modelmix solve --json``."""
        whole = {name: value for name, value in plain(self).items() if name != "score_name"}
        points = [{**point, "weights": list(point["weights"].values())} for point in whole["points"]]
        return {**whole, "points": points}

    def to_pandas(self) -> pd.DataFrame:
        """A frame with a row a bandwidth: loss, score, gain, the best single arm, and a column an arm."""
        columns = ("loss", "score", "gain", "best_single", "best_single_score")
        rows = [{**{name: getattr(point, name) for name in columns}, **point.weights} for point in self.points]
        made = frame(rows, index=[point.bandwidth for point in self.points])
        made.index.name = "bandwidth"
        return made

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the weights against the bandwidth."""
        from .. import plots

        return plots.sensitivity(self, ax)

    def _table(self) -> Table:
        rows: list[Sequence[str]] = [
            [
                number(point.bandwidth) + (" *" if point.bandwidth == self.in_use else ""),
                number(point.score),
                number(point.gain),
                f"{shorten(point.best_single, 30)} {number(point.best_single_score)}",
                shares(point.weights),
            ]
            for point in self.points
        ]
        header = ["bandwidth", self.score_name, "gain", "best single arm", "mixture"]
        note = "* in use; losses and scores of other bandwidths are measured with other kernels"
        return Table(self.verdict, header, rows, note, left=frozenset({3}), lists=frozenset({4}))
