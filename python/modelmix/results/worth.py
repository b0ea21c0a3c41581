"""The value of each model: the best mixtures of a few arms, and the cheapest mixture that is nearly as good."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._lazy import Lazy
from .._table import EMPTY, Cell, Table, bar, count, number, percent, percents, shares
from ._base import Keyed, floating, frame, mixed, plain

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib import axes
else:
    pd, axes = Lazy("pandas"), Lazy("matplotlib.axes")

__all__ = ["Cheapest", "Subset", "Subsets"]


def __dir__() -> list[str]:
    return __all__


@dataclass(frozen=True)
class Subset:
    """The best mixture of at most ``size`` arms.

    Attributes
    ----------
    size
        The largest number of arms allowed.
    weights
        The weights of the arms in use.
    loss
        The loss.
    score
        The score.
    gain_kept
        The share of the best mixture's gain that it keeps; ``None`` if there is no gain.
    proved
        Whether it is proved that no other set of that many arms is better.

    Examples
    --------
    >>> import modelmix as mm
    >>> best = mm.solve({"a": [[0.0], [1.0]], "b": [[5.0], [6.0]]}, mm.Rke(bandwidth=1), subsets=True)
    >>> best.subsets[2].arms, best.subsets[2].proved
    (('a', 'b'), True)
    """

    size: int
    weights: dict[str, float]
    loss: float
    score: float
    gain_kept: float | None
    proved: bool

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms in use."""
        return tuple(self.weights)

    @property
    def _name(self) -> str:
        return f"{self.size} arm{'' if self.size == 1 else 's'}"


@dataclass(frozen=True, repr=False)
class Subsets(Keyed[int, Subset]):
    """The best mixtures of at most 1, 2, … arms: a mapping of sizes.

    Sizes above the largest return the largest: more arms do not help.

    Attributes
    ----------
    sizes
        The mixtures, up to the number of arms in the best mixture.
    score_name
        The score's name, such as "RKE" or "MMD² ×100".
    more_is_better
        Whether a larger score is better.

    Examples
    --------
    >>> import modelmix as mm
    >>> best = mm.solve({"a": [[0.0], [1.0]], "b": [[5.0], [6.0]]}, mm.Rke(bandwidth=1), subsets=True)
    >>> list(best.subsets), best.subsets[9].size
    ([1, 2], 2)
    """

    sizes: tuple[Subset, ...]
    score_name: str
    more_is_better: bool

    def __getitem__(self, size: int) -> Subset:
        """The best mixture of at most ``size`` arms."""
        fitting = [subset for subset in self.sizes if isinstance(size, int) and subset.size <= size]
        if not fitting:
            raise KeyError(f"there is no mixture of at most {size!r} arms; sizes start at 1")
        return fitting[-1]

    def _entries(self) -> dict[int, Subset]:
        return {subset.size: subset for subset in self.sizes}

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms that are in any of the mixtures."""
        return tuple(dict.fromkeys(arm for subset in self.sizes for arm in subset.weights))

    @classmethod
    def _read(cls, document: list[dict[str, Any]], score_name: str, more_is_better: bool) -> Subsets:
        sizes = tuple(Subset(**mixed(given, given["arms"])) for given in document)
        return cls(sizes, score_name, more_is_better)

    @property
    def _doubts(self) -> list[str]:
        """Notes below the table, one per line."""
        doubtful = ", ".join(str(subset.size) for subset in self.sizes if not subset.proved)
        best = min(self.sizes, key=lambda subset: subset.loss)
        sign = 1 if self.more_is_better else -1
        lines = [f"at most {doubtful} arms: optimality not proved"] if doubtful else []
        if any(sign * subset.score > sign * best.score and subset.loss > best.loss for subset in self.sizes):
            lines.append(
                f"weights minimise the loss, a V-statistic; {self.score_name} is shown as a U-statistic, which is "
                "unbiased, so fewer arms may score better"
            )
        return lines

    def to_dict(self) -> list[dict[str, Any]]:
        """Return the mixtures as plain data: a part of the document of ``modelmix solve --json``.

        Returns
        -------
        list
            Fields by name.
        """
        return [{**plain(subset), **_listed(subset.weights)} for subset in self.sizes]

    def to_pandas(self) -> pd.DataFrame:
        """Return a data frame with one row per number of arms, and one column per arm for its weight.

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
                "loss": subset.loss,
                "score": subset.score,
                "gain_kept": floating(subset.gain_kept),
                "proved": subset.proved,
                **{arm: subset.weights.get(arm, 0.0) for arm in self.arms},
            }
            for subset in self.sizes
        ]
        made = frame(rows, index=[subset.size for subset in self.sizes])
        made.index.name = "size"
        return made

    def plot(self, ax: axes.Axes | None = None) -> axes.Axes:
        """Draw the share of the gain that each number of arms keeps, and which arms they are.

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

        return plots.subsets(self, ax)

    def _table(self) -> Table:
        rows: list[Sequence[str]] = []
        for subset in self.sizes:
            kept = EMPTY if subset.gain_kept is None else percent(subset.gain_kept)
            length = bar(subset.gain_kept or 0.0, 10)
            rows.append(
                [Cell(subset._name, {"": subset.size}), number(subset.score), kept, length, shares(subset.weights)]
            )
        note = "\n".join(self._doubts)
        header = ["at most", self.score_name, "gain kept", "", "mixture"]
        return Table("Best mixtures of few arms", header, rows, note, bars=frozenset({3}), lists=frozenset({4}))


@dataclass(frozen=True, repr=False)
class Cheapest(Keyed[str, float]):
    """The cheapest mixture that is nearly as good as the best: a mapping of the arms in use to their weights.

    Attributes
    ----------
    weights
        The weights of the arms in use.
    loss
        The loss.
    score
        The score.
    above_best
        Its loss minus that of the best mixture.
    within
        The largest difference that was allowed.
    samples
        Samples bought per period; 0 if samples are free and no number was given.
    fee
        The fees of its arms.
    cost
        The cost of its samples.
    total
        Fees and costs together.
    total_of_best
        The total for the best mixture.
    gap
        No mixture that is good enough costs less than ``total - gap``.
    score_name
        The score's name, such as "RKE" or "MMD² ×100".

    Examples
    --------
    >>> import modelmix as mm
    >>> best = mm.solve({"a": [[0.0], [1.0]], "b": [[5.0], [6.0]]}, mm.Rke(bandwidth=1), fees={"a": 0, "b": 9}, within="100%")
    >>> dict(best.cheapest), best.cheapest.total
    ({'a': 1.0}, 0.0)
    """

    weights: dict[str, float]
    loss: float
    score: float
    above_best: float
    within: float
    samples: float
    fee: float
    cost: float
    total: float
    total_of_best: float
    gap: float
    score_name: str

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms in use."""
        return tuple(self.weights)

    def _entries(self) -> dict[str, float]:
        return self.weights

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        return (
            f"Cheapest mixture within the tolerance: {shares(self.weights)}; {money(self.total)} per period "
            f"instead of {money(self.total_of_best)} for the best mixture."
        )

    @classmethod
    def _read(cls, document: dict[str, Any], score_name: str) -> Cheapest:
        return cls(**mixed(document, document["arms"]), score_name=score_name)

    def to_dict(self) -> dict[str, Any]:
        """Return the mixture as plain data: a part of the document of ``modelmix solve --json``.

        Returns
        -------
        dict
            Fields by name.
        """
        whole = {**plain(self), **_listed(self.weights)}
        return {name: value for name, value in whole.items() if name != "score_name"}

    def to_pandas(self) -> pd.DataFrame:
        """Return a data frame with one row per arm in use: its weight, and its samples per period.

        Returns
        -------
        pandas.DataFrame
            The frame.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        bought = [share * self.samples for share in self.weights.values()]
        return frame({"weight": list(self.weights.values()), "samples": bought}, index=list(self.weights))

    def plot(self, ax: axes.Axes | None = None) -> axes.Axes:
        """Draw the weights of the arms in use, with their cost as title.

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

        return plots.cheapest(self, ax)

    def _table(self) -> Table:
        order = sorted(self.weights.items(), key=lambda pair: -pair[1])
        bought = self.samples > 0
        weights = percents(share for _, share in order)
        rows: list[Sequence[str]] = [
            [arm, weight, bar(share), *([count(share * self.samples)] if bought else [])]
            for (arm, share), weight in zip(order, weights, strict=True)
        ]
        header = ["arm", "weight", "", *(["samples per period"] if bought else [])]
        note = (
            f"{self.score_name} {number(self.score)}; loss {number(self.loss)}, {number(self.above_best)} above the "
            f"best (tolerance {number(self.within)}); fees {money(self.fee)}, samples {money(self.cost)}; no mixture "
            f"within the tolerance costs less than {money(self.total - self.gap)}"
        )
        return Table(self.sentence, header, rows, note, bars=frozenset({2}))


def _listed(weights: dict[str, float]) -> dict[str, list[Any]]:
    """Arms and their weights, as in documents."""
    return {"arms": list(weights), "weights": list(weights.values())}


def money(amount: float) -> str:
    """An amount, with cents if it is small."""
    return f"{amount:.2f}" if abs(amount) < 10_000 else f"{amount:.0f}"
