"""A curated set: the selected rows and their score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from .._lazy import Lazy
from .._table import Table, bar, count, number, percents, spread
from ._base import Keyed, TermValue, by_name, frame, plain, terms
from .encoded import Encoded
from .provenance import Provenance, documented

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib import axes
else:
    pd, axes = Lazy("pandas"), Lazy("matplotlib.axes")

__all__ = ["Curated", "CuratedArm", "RandomDraws", "Tried"]


def __dir__() -> list[str]:
    return __all__


@dataclass(frozen=True)
class CuratedArm:
    """An arm of a :class:`Curated` set. ``float()`` of it is its weight.

    Attributes
    ----------
    name
        The arm's name.
    samples
        The number of samples.
    weight
        Its weight in the optimal mixture.
    chosen
        The number of its samples that were selected.
    share
        Its share of the set.

    Examples
    --------
    >>> import modelmix as mm
    >>> chosen = mm.curate({"a": [[0.0], [1.0]], "b": [[5.0], [5.0]]}, "rke", bandwidth=1, count=3)
    >>> chosen["a"].chosen, chosen["b"].chosen
    (2, 1)
    """

    name: str
    samples: int
    weight: float
    chosen: int
    share: float

    def __float__(self) -> float:
        """Its weight."""
        return self.weight


@dataclass(frozen=True)
class RandomDraws:
    """Sets of the same size, drawn at random in the mixture's proportions, for comparison.

    Attributes
    ----------
    draws
        The number of sets drawn.
    loss
        Mean and standard deviation of their losses.
    score
        Mean and standard deviation of their scores.

    Examples
    --------
    >>> import modelmix as mm
    >>> chosen = mm.curate("data/fashion/truncated.npz", "rke", bandwidth=20, count=20)
    >>> chosen.random.loss[0] > chosen.loss
    True
    """

    draws: int
    loss: tuple[float, float]
    score: tuple[float, float]


@dataclass(frozen=True)
class Tried:
    """A candidate set of the search.

    Attributes
    ----------
    proportions
        ``"mixture"`` or ``"free"``.
    before
        Its loss before any exchange: after herding, or that of the set it started from.
    loss
        Its loss.
    exchanges
        The number of rows exchanged.
    settled
        Whether no single exchange improves it.

    Examples
    --------
    >>> import modelmix as mm
    >>> chosen = mm.curate({"a": [[0.0], [1.0]], "b": [[5.0], [5.0]]}, "rke", bandwidth=1, count=3)
    >>> all(tried.loss >= chosen.loss for tried in chosen.tried)
    True
    """

    proportions: str
    before: float
    loss: float
    exchanges: int
    settled: bool


@dataclass(frozen=True, repr=False)
class Curated(Keyed[str, CuratedArm]):
    """Selected rows and their loss: a mapping of arms. See ``note``: a curated set is no longer an i.i.d. mixture.

    Attributes
    ----------
    version
        The library's version.
    objective
        The objective's text.
    kernels
        Its kernels, with the bandwidths used.
    score_name
        The score's name, such as "RKE" or "MMD² ×100".
    more_is_better
        Whether a larger score is better.
    note
        A caution for users of the set.
    ids
        Arm and row of every selected sample, in the order selected.
    arms
        The arms.
    proportions
        The proportions of the set: ``"mixture"`` or ``"free"``.
    tried
        All candidate sets of the search.
    loss
        The loss of the selected rows, each with the same weight (V-statistic).
    unbiased_loss
        The same without self-pairs. It is not unbiased, since the rows were selected.
    score
        The score of the only term; the loss if there are several.
    terms
        The terms' values.
    mixture_loss
        The loss of the optimal mixture of all samples.
    mixture_score
        Its score.
    gap
        Its duality gap.
    random
        Sets of the same size, drawn at random.
    candidates
        The number of rows considered: all, or a pool of them.
    seed
        The random seed.
    sentence
        The result in one sentence.
    how
        How the set was found, in one sentence.
    samples
        The id of every selected sample, such as the path of an image in its folder, in the order selected; ``None`` for samples that
        were given as features without ids.
    files
        The path of every selected sample that is a file of its own, in the order selected; ``None`` for all others.
    provenance
        Provenance: version, engine, seed, inputs and bandwidths. Comparisons ignore it.

    Examples
    --------
    >>> import modelmix as mm
    >>> chosen = mm.curate({"a": [[0.0], [1.0]], "b": [[5.0], [5.0]]}, "rke", bandwidth=1, count=3)
    >>> list(chosen), len(chosen.ids), sorted(chosen.indices["a"])
    (['a', 'b'], 3, [0, 1])
    """

    version: str
    objective: str
    kernels: tuple[dict[str, Any], ...]
    score_name: str
    more_is_better: bool
    note: str
    ids: list[tuple[str, int]]
    arms: tuple[CuratedArm, ...]
    proportions: str
    tried: tuple[Tried, ...]
    loss: float
    unbiased_loss: float
    score: float
    terms: tuple[TermValue, ...]
    mixture_loss: float
    mixture_score: float
    gap: float
    random: RandomDraws
    candidates: int
    seed: int
    sentence: str
    how: str
    samples: list[str | None] = field(default_factory=list, compare=False)
    files: list[str | None] = field(default_factory=list, compare=False)
    provenance: Provenance | None = field(default=None, compare=False)

    def _entries(self) -> dict[str, CuratedArm]:
        return by_name(self.arms)

    @property
    def indices(self) -> dict[str, list[int]]:
        """The selected rows of every arm, in the order selected: ``features[arm][chosen.indices[arm]]``."""
        rows: dict[str, list[int]] = {arm.name: [] for arm in self.arms}
        for arm, row in self.ids:
            rows[arm].append(row)
        return rows

    @property
    def shares(self) -> dict[str, float]:
        """The arms' shares in the set."""
        return {arm.name: arm.share for arm in self.arms}

    @classmethod
    def _read(
        cls, document: dict[str, Any], sentence: str, how: str, encoded: Mapping[str, Encoded] = MappingProxyType({})
    ) -> Curated:
        chosen, mixture, random = document["set"], document["mixture"], document["random"]
        rows = [(encoded.get(row["arm"]), row["row"]) for row in document["rows"]]
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
            samples=[None if samples is None else samples.ids[row] for samples, row in rows],
            files=[None if samples is None else samples.files[row] for samples, row in rows],
            provenance=Provenance._read(document.get("provenance")),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain data: the document of ``modelmix curate --json``.

        Returns
        -------
        dict
            Fields by name.
        """
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
            **documented(self.provenance),
        }

    def to_pandas(self) -> pd.DataFrame:
        """Return a data frame with one row per selected sample, in the order selected: its arm, its row there, its id and its file.

        Returns
        -------
        pandas.DataFrame
            The frame.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        columns: dict[str, list[Any]] = {"arm": [arm for arm, _ in self.ids], "row": [row for _, row in self.ids]}
        known = {"sample": self.samples, "file": self.files}
        columns.update({name: list(found) for name, found in known.items() if any(one is not None for one in found)})
        return frame(columns)

    def plot(self, ax: axes.Axes | None = None) -> axes.Axes:
        """Draw the arms' shares in the set next to their weights in the mixture.

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

        return plots.curated(self, ax)

    def _table(self) -> Table:
        header = ["arm", "chosen", "share", "", "in the mixture", "samples"]
        shares, weights = percents(arm.share for arm in self.arms), percents(arm.weight for arm in self.arms)
        rows: list[Sequence[str]] = [
            [arm.name, count(arm.chosen), share, bar(arm.share), weight, count(arm.samples)]
            for arm, share, weight in zip(self.arms, shares, weights, strict=True)
        ]
        remark = (
            f"{self.score_name} {number(self.score)}; random sets {spread(*self.random.score)}, "
            f"mixture of all rows {number(self.mixture_score)}"
        )
        note = f"objective {self.objective}; {self.how}\n{self.note}"
        return Table(self.sentence, header, rows, note, remark, bars=frozenset({3}))
