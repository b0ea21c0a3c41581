"""What each model is worth: the best few of them, and the cheapest mixture that is nearly as good."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._table import NOTHING, Table, bar, count, number, percent, shares
from ._base import Result, floating, frame, mixed, plain

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["Cheapest", "Subset", "Subsets"]


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

    @property
    def _name(self) -> str:
        return f"{self.size} arm{'' if self.size == 1 else 's'}"


@dataclass(frozen=True, repr=False)
class Subsets(Result):
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

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms that are in any of them."""
        return tuple(dict.fromkeys(arm for subset in self.sizes for arm in subset.weights))

    @classmethod
    def _read(cls, document: list[dict[str, Any]], score_name: str) -> Subsets:
        return cls(tuple(Subset(**mixed(given, given["arms"])) for given in document), score_name)

    def to_dict(self) -> list[dict[str, Any]]:
        """All of it as plain data: a part of the document of ``modelmix solve --json``."""
        return [{**plain(subset), **_listed(subset.weights)} for subset in self.sizes]

    def to_pandas(self) -> pd.DataFrame:
        """A frame with a row a number of arms, and a column an arm for its share."""
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

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the share of the gain that so many arms keep, and which arms they are."""
        from .. import plots

        return plots.subsets(self, ax)

    def _table(self) -> Table:
        rows: list[Sequence[str]] = []
        for subset in self.sizes:
            kept = NOTHING if subset.gain_kept is None else percent(subset.gain_kept)
            length = bar(subset.gain_kept or 0.0, 10)
            rows.append([subset._name, number(subset.score), kept, length, shares(subset.weights)])
        doubtful = ", ".join(str(subset.size) for subset in self.sizes if not subset.proved)
        note = f"for {doubtful} it is not proved that no other arms do better" if doubtful else ""
        header = ["at most", self.score_name, "gain kept", "", "mixture"]
        return Table("The best few arms", header, rows, note, bars=frozenset({3}), lists=frozenset({4}))


@dataclass(frozen=True, repr=False)
class Cheapest(Result):
    """The cheapest mixture that is nearly as good as the best."""

    #: The arms in use and their shares.
    weights: dict[str, float]
    loss: float
    score: float
    #: Its loss less the best mixture's, and how much that was allowed to be.
    above_best: float
    within: float
    #: How many samples are bought a period; 0 where samples cost nothing and no number was given.
    samples: float
    #: What its arms cost for being used, what its samples cost, and both.
    fee: float
    cost: float
    total: float
    #: What the best mixture costs in all.
    total_of_best: float
    #: No mixture that is good enough costs less than ``total - gap``.
    gap: float
    #: What ``score`` is: "RKE", "KID ×100".
    score_name: str

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms in use."""
        return tuple(self.weights)

    @property
    def sentence(self) -> str:
        """The answer in a sentence."""
        return (
            f"Nearly as good for the least money: {shares(self.weights)}, for {money(self.total)} a period "
            f"instead of {money(self.total_of_best)} for the best mixture."
        )

    @classmethod
    def _read(cls, document: dict[str, Any], score_name: str) -> Cheapest:
        return cls(**mixed(document, document["arms"]), score_name=score_name)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data: a part of the document of ``modelmix solve --json``."""
        whole = {**plain(self), **_listed(self.weights)}
        return {name: value for name, value in whole.items() if name != "score_name"}

    def to_pandas(self) -> pd.DataFrame:
        """A frame with a row an arm in use: its share, and how many samples of it are bought a period."""
        bought = [share * self.samples for share in self.weights.values()]
        return frame({"weight": list(self.weights.values()), "samples": bought}, index=list(self.weights))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the shares of the arms in use, and say what they cost."""
        from .. import plots

        return plots.cheapest(self, ax)

    def _table(self) -> Table:
        order = sorted(self.weights.items(), key=lambda pair: -pair[1])
        bought = self.samples > 0
        rows: list[Sequence[str]] = [
            [arm, percent(share), bar(share), *([count(share * self.samples)] if bought else [])]
            for arm, share in order
        ]
        header = ["arm", "weight", "", *(["samples a period"] if bought else [])]
        note = (
            f"{self.score_name} {number(self.score)}; loss {number(self.loss)} is {number(self.above_best)} above the "
            f"best, of {number(self.within)} allowed; fees {money(self.fee)} and samples {money(self.cost)}; nothing "
            f"within that costs less than {money(self.total - self.gap)}"
        )
        return Table(self.sentence, header, rows, note, bars=frozenset({2}))


def _listed(weights: dict[str, float]) -> dict[str, list[Any]]:
    """Arms and their shares, as documents have them."""
    return {"arms": list(weights), "weights": list(weights.values())}


def money(amount: float) -> str:
    """An amount, with cents where they count."""
    return f"{amount:.2f}" if abs(amount) < 10_000 else f"{amount:.0f}"
