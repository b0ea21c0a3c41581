"""Metrics: a value with its error, and the table of all metrics for every arm and a mixture."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .._lazy import Lazy
from .._modelmix import brief
from .._table import Table, shares, spread
from ._base import Keyed, by_name, entry, floating, frame, plain
from .provenance import Provenance, documented

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib import axes
else:
    pd, axes = Lazy("pandas"), Lazy("matplotlib.axes")

__all__ = ["Estimate", "Prdc", "ScoredMixture", "ScoredSet", "Scores"]


def __dir__() -> list[str]:
    return __all__


@dataclass(frozen=True)
class Estimate:
    """A metric's value with its standard error.

    Attributes
    ----------
    value
        The value.
    standard_error
        One standard deviation; NaN if the set is too small.
    by
        The method of the error: ``"jackknife"``, ``"influence"``, ``"terms"``, ``"subsets"`` (the standard deviation between
        subsets) or ``"regression"``.

    Examples
    --------
    >>> print(Estimate(12.345, 0.678, "jackknife"))
    12.35 ± 0.678
    >>> float(Estimate(12.345, 0.678, "jackknife"))
    12.345
    """

    value: float
    standard_error: float
    by: str

    def __float__(self) -> float:
        """The value."""
        return self.value

    def __str__(self) -> str:
        """The value and its standard error."""
        return brief(self.value) + ("" if math.isnan(self.standard_error) else f" ± {brief(self.standard_error)}")


@dataclass(frozen=True)
class Prdc:
    """Precision, recall, density and coverage.

    Attributes
    ----------
    precision
        The share of samples within a k-nearest-neighbour ball of the reference.
    recall
        The share of reference samples within a k-nearest-neighbour ball of the samples.
    density
        The mean number of reference balls that contain a sample, divided by k.
    coverage
        The share of reference balls that contain a sample.

    Examples
    --------
    >>> one = Estimate(1.0, 0.0, "terms")
    >>> print(Prdc(one, one, one, one))
    precision 1.00 ± 0.0, recall 1.00 ± 0.0, density 1.00 ± 0.0, coverage 1.00 ± 0.0
    """

    precision: Estimate
    recall: Estimate
    density: Estimate
    coverage: Estimate

    def __str__(self) -> str:
        """All four in one line."""
        names = ("precision", "recall", "density", "coverage")
        return ", ".join(f"{name} {getattr(self, name)}" for name in names)


class _ByMetric(Mapping[str, float]):
    """Scores per metric, with their errors."""

    scores: dict[str, float]
    errors: dict[str, float | None]

    def __getitem__(self, metric: str) -> float:
        """The score of this metric."""
        return entry(self.scores, metric)

    def __iter__(self) -> Iterator[str]:
        """The metrics' names."""
        return iter(self.scores)

    def __len__(self) -> int:
        """The number of metrics."""
        return len(self.scores)

    def _error(self, metric: str) -> float | None:
        """The number after ±: the standard deviation between subsets, or the standard error."""
        return self.scores.get(f"{metric}_std", self.errors.get(metric))


@dataclass(frozen=True)
class ScoredSet(_ByMetric):
    """The scores of one arm: a mapping of metrics to values.

    Attributes
    ----------
    name
        The arm's name.
    samples
        The number of samples.
    scores
        Values by metric, and ``kid_std``, the standard deviation between KID's subsets.
    errors
        Standard errors by metric; ``None`` if they are not defined.

    Examples
    --------
    >>> import modelmix as mm
    >>> table = mm.score({"a": [[0.0], [100.0]]}, metrics=["rke"], bandwidth=1)
    >>> dict(table["a"])
    {'rke': 2.0}
    """

    name: str
    samples: int
    scores: dict[str, float]
    errors: dict[str, float | None]


@dataclass(frozen=True)
class ScoredMixture(_ByMetric):
    """The scores of a mixture: a mapping of metrics to values.

    Attributes
    ----------
    weights
        The mixture's weights per arm.
    effective_samples
        The effective sample size.
    scores
        Values by metric, and ``kid_std``, the standard deviation between KID's subsets.
    errors
        Standard errors by metric; ``None`` if they are not defined.

    Examples
    --------
    >>> import modelmix as mm
    >>> table = mm.score({"a": [[0.0], [9.0]], "b": [[90.0], [99.0]]}, metrics=["rke"], bandwidth=1, weights={"a": 0.5, "b": 0.5})
    >>> table.mixture["rke"], table.mixture.effective_samples
    (4.0, 4.0)
    """

    weights: dict[str, float]
    effective_samples: float
    scores: dict[str, float]
    errors: dict[str, float | None]


#: Metrics for which lower is better.
LESS = frozenset({"kid", "kid_full", "mmd", "cmmd", "fid", "fid_infinity"})


@dataclass(frozen=True, repr=False)
class Scores(Keyed[str, ScoredSet]):
    """The scores of every arm and of a mixture: a mapping of arms.

    Attributes
    ----------
    version
        The library's version.
    arms
        The arms.
    mixture
        The mixture; ``None`` if there is none.
    settings
        The definitions of the metrics.
    provenance
        Provenance: version, engine, seed, inputs and bandwidths. Comparisons ignore it.

    Examples
    --------
    >>> import modelmix as mm
    >>> table = mm.score("data/fashion/truncated.npz", metrics=["rke"], bandwidth=20, mixture=False)
    >>> best = max(table, key=lambda arm: table[arm]["rke"])
    >>> best in table
    True
    """

    version: str
    arms: tuple[ScoredSet, ...]
    mixture: ScoredMixture | None
    settings: dict[str, Any]
    provenance: Provenance | None = field(default=None, compare=False)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics' names, in the order given."""
        return tuple(self.settings["metrics"])

    def _entries(self) -> dict[str, ScoredSet]:
        return by_name(self.arms)

    @classmethod
    def _read(cls, document: dict[str, Any]) -> Scores:
        mixture = document["mixture"]
        return cls(
            version=document["version"],
            arms=tuple(ScoredSet(**arm) for arm in document["arms"]),
            mixture=None if mixture is None else ScoredMixture(**mixture),
            settings=document["settings"],
            provenance=Provenance._read(document.get("provenance")),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the scores as plain data: the document of ``modelmix score --json``.

        Returns
        -------
        dict
            Fields by name.
        """
        fields = {name: plain(getattr(self, name)) for name in ("version", "arms", "mixture", "settings")}
        return {"command": "score", **fields, **documented(self.provenance)}

    def _sets(self) -> Iterator[tuple[str, ScoredSet | ScoredMixture]]:
        for arm in self.arms:
            yield arm.name, arm
        if self.mixture is not None:
            yield "mixture", self.mixture

    def to_pandas(self) -> pd.DataFrame:
        """Return a data frame with one row per arm and one for the mixture, one column per score, and ``…_error`` for standard
        errors.

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
                **{name: floating(score) for name, score in scored.scores.items()},
                **{f"{metric}_error": floating(error) for metric, error in scored.errors.items()},
            }
            for _, scored in self._sets()
        ]
        return frame(rows, index=[name for name, _ in self._sets()])

    def plot(self, ax: axes.Axes | None = None) -> axes.Axes:
        """Draw every metric of every arm and the mixture, each scaled to its best value.

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

        return plots.scores(self, ax)

    def _table(self) -> Table:
        header = ["arm", *(f"{metric} {'↓' if metric in LESS else '↑'}" for metric in self.metrics)]
        best = self._best()
        rows: list[Sequence[str]] = []
        for at, (name, scored) in enumerate(self._sets()):
            cells = [name]
            for column, metric in enumerate(self.metrics, 1):
                cell = spread(scored[metric], scored._error(metric), "std" if metric == "kid" else "error")
                cells.append(cell.marked(" *" if (at, column) in best else "  "))
            rows.append(cells)
        note = "* best; ±: standard error"
        if "kid" in self.metrics:
            note += "; for kid the standard deviation between subsets"
        if self.mixture is not None:
            named = shares(self.mixture.weights)
            held = f"effective sample size {self.mixture.effective_samples:.0f}"
            note = f"mixture: {named}; {held}\n{note}"
            best |= {(len(rows) - 1, 0)}
        models = f"{len(self.arms)} model{'s' if len(self.arms) > 1 else ''}"
        title = f"Scores of {models}{' and a mixture' if self.mixture else ''}"
        return Table(title, header, rows, note, best=best)

    def _best(self) -> frozenset[tuple[int, int]]:
        """The best value of every metric: indices of the sets and of the metrics, counted from 1."""
        found = set()
        for column, metric in enumerate(self.metrics, 1):
            values = [scored[metric] for _, scored in self._sets()]
            if all(value is not None and math.isfinite(value) for value in values):
                best = (min if metric in LESS else max)(values)
                found |= {(at, column) for at, value in enumerate(values) if value == best}
        return frozenset(found)
