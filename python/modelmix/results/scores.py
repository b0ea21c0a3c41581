"""Metrics: a value with its error, and the table of all of them for every arm and a mixture."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._modelmix import brief
from .._table import Table, percent, spread
from ._base import Result, by_name, floating, frame, plain

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["Estimate", "Prdc", "ScoredMixture", "ScoredSet", "Scores"]


@dataclass(frozen=True)
class Estimate:
    """A metric's value, its standard error, and how that was found.

    >>> print(Estimate(12.345, 0.678, "jackknife"))
    12.35 ± 0.678
    >>> float(Estimate(12.345, 0.678, "jackknife"))
    12.345
    """

    value: float
    #: One standard deviation; not a number where a set is too small to tell.
    standard_error: float
    #: ``jackknife``, ``influence``, ``terms``, ``subsets`` (the spread of one subset, as tools print it) or ``regression``.
    by: str

    def __float__(self) -> float:
        """The value."""
        return self.value

    def __str__(self) -> str:
        """The value and its standard error."""
        return brief(self.value) + ("" if math.isnan(self.standard_error) else f" ± {brief(self.standard_error)}")


@dataclass(frozen=True)
class Prdc:
    """Precision, recall, density and coverage."""

    precision: Estimate
    recall: Estimate
    density: Estimate
    coverage: Estimate

    def __str__(self) -> str:
        """All four in a line."""
        names = ("precision", "recall", "density", "coverage")
        return ", ".join(f"{name} {getattr(self, name)}" for name in names)


@dataclass(frozen=True)
class ScoredSet:
    """Scores of an arm, by metric."""

    name: str
    samples: int
    #: By metric, and ``kid_std``, the standard deviation between KID's subsets.
    scores: dict[str, float]
    #: Standard errors by metric; none where they are not defined.
    errors: dict[str, float | None]

    def __getitem__(self, metric: str) -> float:
        """The score by that metric."""
        return self.scores[metric]

    def _error(self, metric: str) -> float | None:
        """What stands after ±: the spread between subsets, or the standard error."""
        return self.scores.get(f"{metric}_std", self.errors.get(metric))


@dataclass(frozen=True)
class ScoredMixture:
    """Scores of a mixture, by metric."""

    weights: dict[str, float]
    #: How many samples of equal weight say as much.
    effective_samples: float
    scores: dict[str, float]
    errors: dict[str, float | None]

    def __getitem__(self, metric: str) -> float:
        """The score by that metric."""
        return self.scores[metric]

    def _error(self, metric: str) -> float | None:
        """What stands after ±: the spread between subsets, or the standard error."""
        return self.scores.get(f"{metric}_std", self.errors.get(metric))


#: Metrics of which less is better.
LESS = frozenset({"kid", "kid_full", "mmd", "cmmd", "fid", "fid_infinity"})


@dataclass(frozen=True, repr=False)
class Scores(Result):
    """Scores of every arm and of a mixture."""

    version: str
    arms: tuple[ScoredSet, ...]
    mixture: ScoredMixture | None
    #: How the metrics were defined.
    settings: dict[str, Any]

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics' names in the order asked for."""
        return tuple(self.settings["metrics"])

    def __getitem__(self, name: str) -> ScoredSet:
        """The arm of that name."""
        return by_name(self.arms, name)

    @classmethod
    def _read(cls, document: dict[str, Any]) -> Scores:
        mixture = document["mixture"]
        return cls(
            version=document["version"],
            arms=tuple(ScoredSet(**arm) for arm in document["arms"]),
            mixture=None if mixture is None else ScoredMixture(**mixture),
            settings=document["settings"],
        )

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data: the document of ``modelmix score --json``."""
        return {"command": "score", **plain(self)}

    def _sets(self) -> Iterator[tuple[str, ScoredSet | ScoredMixture]]:
        for arm in self.arms:
            yield arm.name, arm
        if self.mixture is not None:
            yield "mixture", self.mixture

    def to_pandas(self) -> pd.DataFrame:
        """A frame with a row an arm and one for the mixture, a column a score, and ``…_error`` for standard errors."""
        rows = [
            {
                **{name: floating(score) for name, score in scored.scores.items()},
                **{f"{metric}_error": floating(error) for metric, error in scored.errors.items()},
            }
            for _, scored in self._sets()
        ]
        return frame(rows, index=[name for name, _ in self._sets()])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw every metric of every arm and the mixture, each scaled to its best."""
        from .. import plots

        return plots.scores(self, ax)

    def _table(self) -> Table:
        header = ["arm", *(f"{metric} {'↓' if metric in LESS else '↑'}" for metric in self.metrics)]
        best = self._best()
        rows: list[Sequence[str]] = []
        for at, (name, scored) in enumerate(self._sets()):
            cells = [name]
            for column, metric in enumerate(self.metrics, 1):
                mark = " *" if (at, column) in best else "  "
                cells.append(spread(scored[metric], scored._error(metric)) + mark)
            rows.append(cells)
        note = "* best; ± is a standard error"
        if "kid" in self.metrics:
            note += ", and for kid the spread between subsets"
        if self.mixture is not None:
            shares = sorted(self.mixture.weights.items(), key=lambda pair: -pair[1])
            named = ", ".join(f"{name} {percent(share)}" for name, share in shares if share >= 0.0005)
            held = f"it says as much as {self.mixture.effective_samples:.0f} samples"
            note = f"mixture: {named}; {held}\n{note}"
            best |= {(len(rows) - 1, 0)}
        models = f"{len(self.arms)} model{'s' if len(self.arms) > 1 else ''}"
        title = f"Scores of {models}{' and a mixture' if self.mixture else ''}"
        return Table(title, header, rows, note, best=best)

    def _best(self) -> frozenset[tuple[int, int]]:
        """The best of every metric: places among the sets, and among the metrics, counted from 1."""
        found = set()
        for column, metric in enumerate(self.metrics, 1):
            values = [scored[metric] for _, scored in self._sets()]
            if all(value is not None and math.isfinite(value) for value in values):
                best = (min if metric in LESS else max)(values)
                found |= {(at, column) for at, value in enumerate(values) if value == best}
        return frozenset(found)
