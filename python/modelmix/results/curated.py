"""A set to publish: which rows were chosen, and what they are worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._table import Table, bar, count, number, percent, spread
from ._base import Result, TermValue, frame, plain, terms

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["Curated", "CuratedArm", "RandomDraws", "Tried"]


@dataclass(frozen=True)
class CuratedArm:
    """An arm of a :class:`Curated` set."""

    name: str
    samples: int
    #: Its weight in the optimal mixture.
    weight: float
    #: How many of its samples were chosen.
    chosen: int
    #: Its share in the set.
    share: float


@dataclass(frozen=True)
class RandomDraws:
    """How sets of the same size do that are drawn at random in the mixture's proportions: mean and standard deviation."""

    draws: int
    loss: tuple[float, float]
    score: tuple[float, float]


@dataclass(frozen=True)
class Tried:
    """A set that was found on the way."""

    #: ``mixture`` or ``free``.
    proportions: str
    #: Its loss before any exchange: after herding, or that of the set that it started from.
    before: float
    loss: float
    #: How many rows were exchanged.
    exchanges: int
    #: Whether no single exchange makes it better any more.
    settled: bool


@dataclass(frozen=True, repr=False)
class Curated(Result):
    """Chosen rows, and what they are worth. A curated set is no longer an i.i.d. mixture: see ``note``."""

    version: str
    objective: str
    #: Its kernels, bandwidths found.
    kernels: tuple[dict[str, Any], ...]
    #: What ``score`` is: "RKE", "KID ×100".
    score_name: str
    more_is_better: bool
    #: What everyone who is handed the set must know.
    note: str
    #: Arm and row of each, in the order chosen.
    ids: list[tuple[str, int]]
    arms: tuple[CuratedArm, ...]
    #: How the set was found: in the ``mixture``'s proportions, or ``free`` ones.
    proportions: str
    tried: tuple[Tried, ...]
    #: The loss of the rows themselves, each counting the same (V-statistic).
    loss: float
    #: The same without self-pairs. It is not unbiased, since the rows were chosen.
    unbiased_loss: float
    #: As people read it: that of the only term, or the loss of several.
    score: float
    terms: tuple[TermValue, ...]
    #: The optimal mixture of all samples.
    mixture_loss: float
    mixture_score: float
    gap: float
    #: Sets of the same size, drawn at random.
    random: RandomDraws
    #: How many rows were looked at: all, or a pool of them.
    candidates: int
    seed: int
    #: The answer in a sentence, and how it was found.
    sentence: str
    how: str

    def __len__(self) -> int:
        """How many rows were chosen."""
        return len(self.ids)

    @property
    def indices(self) -> dict[str, list[int]]:
        """By arm, its chosen rows in the order chosen: ``features[arm][set.indices[arm]]``."""
        rows: dict[str, list[int]] = {arm.name: [] for arm in self.arms}
        for arm, row in self.ids:
            rows[arm].append(row)
        return rows

    @property
    def shares(self) -> dict[str, float]:
        """The arms' shares in the set."""
        return {arm.name: arm.share for arm in self.arms}

    @classmethod
    def _read(cls, document: dict[str, Any], sentence: str, how: str) -> Curated:
        chosen, mixture, random = document["set"], document["mixture"], document["random"]
        return cls(
            version=document["version"],
            objective=document["objective"],
            kernels=tuple(document["kernels"]),
            score_name=document["score"]["name"],
            more_is_better=document["score"]["more_is_better"],
            note=document["note"],
            ids=[(row["arm"], row["row"]) for row in document["rows"]],
            arms=tuple(CuratedArm(**arm) for arm in document["arms"]),
            proportions=document["proportions"],
            tried=tuple(Tried(**tried) for tried in document["tried"]),
            loss=chosen["loss"],
            unbiased_loss=chosen["unbiased_loss"],
            score=chosen["score"],
            terms=terms(chosen["terms"]),
            mixture_loss=mixture["loss"],
            mixture_score=mixture["score"],
            gap=mixture["gap"],
            random=RandomDraws(
                random["draws"],
                (random["loss"][0], random["loss"][1]),
                (random["score"][0], random["score"][1]),
            ),
            candidates=document["candidates"],
            seed=document["seed"],
            sentence=sentence,
            how=how,
        )

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data: the document of ``modelmix curate --json``."""
        return {
            "command": "curate",
            "version": self.version,
            "objective": self.objective,
            "kernels": plain(self.kernels),
            "score": {"name": self.score_name, "more_is_better": self.more_is_better},
            "note": self.note,
            "count": len(self.ids),
            "candidates": self.candidates,
            "seed": self.seed,
            "proportions": self.proportions,
            "arms": plain(self.arms),
            "set": {
                "loss": self.loss,
                "unbiased_loss": self.unbiased_loss,
                "score": self.score,
                "terms": plain(self.terms),
            },
            "mixture": {"loss": self.mixture_loss, "score": self.mixture_score, "gap": self.gap},
            "random": plain(self.random),
            "tried": plain(self.tried),
            "rows": [{"arm": arm, "row": row} for arm, row in self.ids],
        }

    def to_pandas(self) -> pd.DataFrame:
        """A frame with a row a chosen row, in the order chosen: its arm, and its row there."""
        return frame({"arm": [arm for arm, _ in self.ids], "row": [row for _, row in self.ids]})

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the arms' shares in the set beside their weights in the mixture, and say what the set is worth."""
        from .. import plots

        return plots.curated(self, ax)

    def _table(self) -> Table:
        header = ["arm", "chosen", "share", "", "in the mixture", "samples"]
        rows: list[Sequence[str]] = [
            [
                arm.name,
                count(arm.chosen),
                percent(arm.share),
                bar(arm.share),
                percent(arm.weight),
                count(arm.samples),
            ]
            for arm in self.arms
        ]
        remark = (
            f"{self.score_name} {number(self.score)}; drawn at random {spread(*self.random.score)}, "
            f"the mixture of all rows {number(self.mixture_score)}"
        )
        note = f"objective {self.objective}; {self.how}\n{self.note}"
        return Table(self.sentence, header, rows, note, remark, bars=frozenset({3}))
