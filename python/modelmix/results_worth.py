"""What is asked beside the best mixture: the best few models, the cheapest mixture, one objective against another, bandwidths."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._modelmix import brief
from ._table import NOTHING, Table, percent

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["Cheapest", "Front", "FrontPoint", "Sensitivity", "SensitivityPoint", "Subset", "Subsets"]


def _frame(*args: Any, **kwargs: Any) -> pd.DataFrame:
    try:
        import pandas
    except ImportError:
        raise ImportError("to_pandas() needs pandas; install it with pip install pandas, or use to_dict()") from None
    return pandas.DataFrame(*args, **kwargs)


def _shares(weights: dict[str, float]) -> str:
    shares = sorted(weights.items(), key=lambda pair: -pair[1])
    return ", ".join(f"{arm} {percent(share)}" for arm, share in shares if share > 0)


class _Answer:
    """What answers have in common."""

    def _table(self) -> Table:
        raise NotImplementedError

    def __str__(self) -> str:
        """A table."""
        return self._table().text()

    def _repr_html_(self) -> str:
        return self._table().html()


@dataclass(frozen=True)
class Subset:
    """The best mixture of at most ``size`` arms."""

    size: int
    #: The arms in use and their shares.
    weights: dict[str, float]
    loss: float
    score: float
    #: The share of the best mixture's gain over the best single arm that it keeps; none where there is no gain.
    gain_kept: float | None
    #: Whether it is certain that no other arms of that number do better.
    proved: bool

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms in use."""
        return tuple(self.weights)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {
            "size": self.size,
            "arms": list(self.weights),
            "weights": list(self.weights.values()),
            "loss": self.loss,
            "score": self.score,
            "gain_kept": self.gain_kept,
            "proved": self.proved,
        }


@dataclass(frozen=True)
class Subsets(_Answer):
    """The best mixtures of at most 1, 2, … arms, up to as many as the best of all has: more do not help."""

    sizes: tuple[Subset, ...]
    #: What ``score`` is: "RKE", "KID ×100".
    score_name: str

    def __getitem__(self, size: int) -> Subset:
        """The best mixture of at most so many arms."""
        fitting = [subset for subset in self.sizes if subset.size <= size]
        if not fitting:
            raise KeyError(size)
        return fitting[-1]

    def __len__(self) -> int:
        """How many there are."""
        return len(self.sizes)

    @classmethod
    def _read(cls, document: list[dict[str, Any]], score_name: str) -> Subsets:
        def subset(given: dict[str, Any]) -> Subset:
            weights = dict(zip(given["arms"], given["weights"]))
            others = {name: value for name, value in given.items() if name not in ("arms", "weights")}
            return Subset(weights=weights, **others)

        return cls(tuple(subset(given) for given in document), score_name)

    def to_dict(self) -> list[dict[str, Any]]:
        """All of it as plain data."""
        return [subset.to_dict() for subset in self.sizes]

    def to_pandas(self) -> pd.DataFrame:
        """A frame with a row a number of arms, and a column an arm for its share."""
        arms = list(dict.fromkeys(arm for subset in self.sizes for arm in subset.weights))
        rows = [
            {
                "loss": subset.loss,
                "score": subset.score,
                "gain_kept": math.nan if subset.gain_kept is None else subset.gain_kept,
                "proved": subset.proved,
                **{arm: subset.weights.get(arm, 0.0) for arm in arms},
            }
            for subset in self.sizes
        ]
        return _frame(rows, index=[subset.size for subset in self.sizes])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the share of the gain kept against the number of arms."""
        from . import plots_worth

        return plots_worth.subsets(self, ax)

    def _table(self) -> Table:
        rows: list[Any] = []
        for subset in self.sizes:
            kept = NOTHING if subset.gain_kept is None else percent(subset.gain_kept)
            mark = "" if subset.proved else " (not proved)"
            rows.append([f"{subset.size}{mark}", brief(subset.score), kept, _shares(subset.weights)])
        return Table("The best few arms", ["at most", self.score_name, "gain kept", "mixture"], rows)


@dataclass(frozen=True)
class Cheapest(_Answer):
    """The cheapest mixture that is nearly as good as the best."""

    #: The arms in use and their shares.
    weights: dict[str, float]
    loss: float
    score: float
    #: Its loss less the best mixture's, and how much that was allowed to be.
    above_best: float
    within: float
    #: How many samples are bought a period.
    samples: float
    #: What its arms cost for being used, what its samples cost, and both.
    fee: float
    cost: float
    total: float
    #: What the best mixture costs in all.
    total_of_best: float
    #: No mixture that is good enough costs less than ``total - gap``.
    gap: float

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms in use."""
        return tuple(self.weights)

    @classmethod
    def _read(cls, document: dict[str, Any]) -> Cheapest:
        others = {name: value for name, value in document.items() if name not in ("arms", "weights")}
        return cls(weights=dict(zip(document["arms"], document["weights"])), **others)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        others = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "weights"}
        return {"arms": list(self.weights), "weights": list(self.weights.values()), **others}

    def _table(self) -> Table:
        title = f"Nearly as good for the least money: {_shares(self.weights)}"
        rows: list[Any] = [
            ["this", f"{self.fee:,.2f}", f"{self.cost:,.2f}", f"{self.total:,.2f}"],
            ["the best", "", "", f"{self.total_of_best:,.2f}"],
        ]
        note = f"loss {brief(self.loss)} is {brief(self.above_best)} above the best, of {brief(self.within)} allowed"
        return Table(title, ["mixture", "fees", "samples", "in all"], rows, note)


@dataclass(frozen=True)
class FrontPoint:
    """A mixture that cannot be made better for one objective without being made worse for the other."""

    #: A λ that it is best for in A + λB; none where only B counts.
    multiplier: float | None
    weights: dict[str, float]
    #: A of it, and the score of A's first term.
    loss: float
    score: float
    #: The same of B.
    second_loss: float
    second_score: float

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__} | {
            "weights": list(self.weights.values())
        }


@dataclass(frozen=True)
class Front(_Answer):
    """One objective against another: from the best for the first to the best for the second."""

    #: The second objective, as it is minimised.
    objective: str
    points: tuple[FrontPoint, ...]
    #: Whether between points weights move in straight lines.
    exact: bool
    #: What the first and the second score are: "RKE", "precision".
    score_name: str
    second_score_name: str
    second_more_is_better: bool

    def __len__(self) -> int:
        """How many points there are."""
        return len(self.points)

    def __getitem__(self, index: int) -> FrontPoint:
        """A point."""
        return self.points[index]

    @classmethod
    def _read(cls, document: dict[str, Any], arms: list[str], score_name: str) -> Front:
        def point(given: dict[str, Any]) -> FrontPoint:
            return FrontPoint(**{**given, "weights": dict(zip(arms, given["weights"]))})

        return cls(
            objective=document["objective"],
            points=tuple(point(given) for given in document["points"]),
            exact=document["exact"],
            score_name=score_name,
            second_score_name=document["score"]["name"],
            second_more_is_better=document["score"]["more_is_better"],
        )

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {
            "objective": self.objective,
            "score": {"name": self.second_score_name, "more_is_better": self.second_more_is_better},
            "points": [point.to_dict() for point in self.points],
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
        return _frame(rows)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the first score against the second."""
        from . import plots_worth

        return plots_worth.front(self, ax)

    def _table(self) -> Table:
        def multiplier(point: FrontPoint) -> str:
            return "∞" if point.multiplier is None else brief(point.multiplier)

        shown = (
            self.points if len(self.points) <= 12 else tuple(self.points[at] for at in _spread(len(self.points), 12))
        )
        rows: list[Any] = [
            [multiplier(point), brief(point.score), brief(point.second_score), _shares(point.weights)]
            for point in shown
        ]
        note = "" if len(shown) == len(self.points) else f"{len(shown)} of {len(self.points)} points"
        return Table(
            f"{self.score_name} against {self.second_score_name}",
            ["λ", self.score_name, self.second_score_name, "mixture"],
            rows,
            note,
        )


def _spread(count: int, most: int) -> list[int]:
    """So many of that many places, the first and the last among them."""
    return sorted({round(step * (count - 1) / (most - 1)) for step in range(most)})


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

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__} | {
            "weights": list(self.weights.values())
        }


@dataclass(frozen=True)
class Sensitivity(_Answer):
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

    @classmethod
    def _read(cls, document: dict[str, Any], arms: list[str], score_name: str) -> Sensitivity:
        def point(given: dict[str, Any]) -> SensitivityPoint:
            return SensitivityPoint(**{**given, "weights": dict(zip(arms, given["weights"]))})

        points = tuple(point(given) for given in document["points"])
        return cls(**{**document, "points": points, "score_name": score_name})

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "score_name"}
        return {**fields, "points": [point.to_dict() for point in self.points]}

    def to_pandas(self) -> pd.DataFrame:
        """A frame with a row a bandwidth: loss, score, gain, the best single arm, and a column an arm."""
        columns = ("loss", "score", "gain", "best_single", "best_single_score")
        rows = [{**{name: getattr(point, name) for name in columns}, **point.weights} for point in self.points]
        frame = _frame(rows, index=[point.bandwidth for point in self.points])
        frame.index.name = "bandwidth"
        return frame

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the weights against the bandwidth."""
        from . import plots_worth

        return plots_worth.sensitivity(self, ax)

    def _table(self) -> Table:
        rows: list[Any] = [
            [
                f"{point.bandwidth:.6g}",
                brief(point.score),
                brief(point.gain),
                f"{point.best_single} {brief(point.best_single_score)}",
                _shares(point.weights),
            ]
            for point in self.points
        ]
        used = frozenset(at for at, point in enumerate(self.points) if point.bandwidth == self.in_use)
        header = ["bandwidth", self.score_name, "gain", "best single arm", "mixture"]
        return Table(self.verdict, header, rows, f"bandwidth {self.in_use:.6g} is in use", used)
