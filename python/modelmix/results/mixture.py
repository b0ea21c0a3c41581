"""The best mixture of recorded arms, and the answers to what was asked beside."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._table import Table, bar, count, number, percent, tiny
from ._base import Result, TermValue, by_name, floating, frame, matrix, pair, plain, terms
from .front import Front
from .sensitivity import Sensitivity
from .worth import Cheapest, Subsets

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["Mixture", "MixtureArm"]

#: What can be asked beside the best mixture: fields, and parts of the document.
_ASKED = ("subsets", "cheapest", "front", "sensitivity")


@dataclass(frozen=True)
class MixtureArm:
    """An arm of a :class:`Mixture`."""

    name: str
    samples: int
    #: Its share in the mixture.
    weight: float
    #: A 95% interval for the share in the best mixture of the models themselves; none with ``fid`` or ``vendi``.
    interval: tuple[float, float] | None
    #: Its loss alone.
    loss: float
    #: Its score alone.
    score: float
    #: How much worse the best mixture is without it; none where it is the only arm.
    adds: float | None
    terms: tuple[TermValue, ...]


@dataclass(frozen=True, repr=False)
class Mixture(Result):
    """The best mixture of recorded arms."""

    version: str
    objective: str
    #: Its kernels, bandwidths found: ``{"name": "gaussian", "bandwidth": 20.0}``.
    kernels: tuple[dict[str, Any], ...]
    arms: tuple[MixtureArm, ...]
    #: The loss of the mixture, as V-statistic.
    loss: float
    #: As people read it: that of the only term, or the loss of several.
    score: float
    #: What ``score`` is: "RKE", "KID ×100".
    score_name: str
    more_is_better: bool
    #: A proof: no mixture of these samples has a loss less than ``loss - gap``.
    gap: float
    terms: tuple[TermValue, ...]
    #: The name of the best single arm.
    best_single: str
    #: The best single arm's loss less the mixture's.
    gain: float
    #: A 95% interval for the gain of the models themselves; none with ``fid`` or ``vendi``, or with one arm.
    gain_interval: tuple[float, float] | None
    #: Of the test that some single model is as good as any mixture; none as above.
    p_value: float | None
    #: Whether there are intervals and a p-value: ``"computed"``, ``"left_out"`` or ``"unavailable"``.
    intervals: str
    #: K and f (V-statistics), and what is added to αᵀKα + fᵀα to make a loss.
    quadratic: tuple[tuple[float, ...], ...]
    linear: tuple[float, ...]
    constant: float
    #: The answer in a sentence.
    sentence: str
    #: How sure it is that the mixture is better, in a sentence.
    certainty: str | None = None
    #: The best mixtures of at most 1, 2, … arms, where they were asked for.
    subsets: Subsets | None = None
    #: The cheapest mixture that is nearly as good, where it was asked for.
    cheapest: Cheapest | None = None
    #: The objective against another, where it was asked for.
    front: Front | None = None
    #: The best mixture over a range of bandwidths, where it was asked for.
    sensitivity: Sensitivity | None = None

    @property
    def weights(self) -> dict[str, float]:
        """The share of every arm."""
        return {arm.name: arm.weight for arm in self.arms}

    @property
    def best_arm(self) -> MixtureArm:
        """The best single arm."""
        return self[self.best_single]

    def __getitem__(self, name: str) -> MixtureArm:
        """The arm of that name."""
        return by_name(self.arms, name)

    @classmethod
    def _read(cls, document: dict[str, Any], sentence: str, certainty: str | None = None) -> Mixture:
        def arm(given: dict[str, Any]) -> MixtureArm:
            return MixtureArm(**{**given, "interval": pair(given["interval"]), "terms": terms(given["terms"])})

        mixture = document["mixture"]
        names, score = [given["name"] for given in document["arms"]], document["score"]["name"]
        asked = {name: document[name] for name in _ASKED if name in document}
        return cls(
            version=document["version"],
            objective=document["objective"],
            kernels=tuple(document["kernels"]),
            arms=tuple(arm(given) for given in document["arms"]),
            loss=mixture["loss"],
            score=mixture["score"],
            score_name=score,
            more_is_better=document["score"]["more_is_better"],
            gap=mixture["gap"],
            terms=terms(mixture["terms"]),
            best_single=document["best_single"]["name"],
            gain=document["gain"],
            gain_interval=pair(document["gain_interval"]),
            p_value=document["p_value"],
            intervals=document["intervals"],
            quadratic=matrix(document["quadratic"]),
            linear=tuple(document["linear"]),
            constant=document["constant"],
            sentence=sentence,
            certainty=certainty,
            subsets=Subsets._read(asked["subsets"], score) if "subsets" in asked else None,
            cheapest=Cheapest._read(asked["cheapest"], score) if "cheapest" in asked else None,
            front=Front._read(asked["front"], document) if "front" in asked else None,
            sensitivity=Sensitivity._read(asked["sensitivity"], names, score) if "sensitivity" in asked else None,
        )

    def _answers(self) -> dict[str, Result]:
        """The answers to what was asked beside, by name."""
        answers = {name: getattr(self, name) for name in _ASKED}
        return {name: answer for name, answer in answers.items() if answer is not None}

    def __str__(self) -> str:
        """A table, and one for each answer to what was asked beside."""
        return "\n\n".join([super().__str__(), *(str(answer) for answer in self._answers().values())])

    def _repr_html_(self) -> str:
        return "".join([super()._repr_html_(), *(answer._repr_html_() for answer in self._answers().values())])

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data: the document of ``modelmix solve --json``."""
        best = self.best_arm
        return {
            "command": "solve",
            "version": self.version,
            "objective": self.objective,
            "kernel": plain(self.kernels[0]) if self.kernels else None,
            "kernels": plain(self.kernels),
            "score": {"name": self.score_name, "more_is_better": self.more_is_better},
            "arms": plain(self.arms),
            "mixture": {"loss": self.loss, "score": self.score, "gap": self.gap, "terms": plain(self.terms)},
            "best_single": {"name": best.name, "loss": best.loss, "score": best.score},
            "gain": self.gain,
            "gain_interval": plain(self.gain_interval),
            "p_value": self.p_value,
            "intervals": self.intervals,
            "quadratic": plain(self.quadratic),
            "linear": plain(self.linear),
            "constant": self.constant,
            **{name: answer.to_dict() for name, answer in self._answers().items()},
        }

    def to_pandas(self) -> pd.DataFrame:
        """A frame with a row an arm."""
        return frame(
            {
                "weight": [arm.weight for arm in self.arms],
                "weight_low": [arm.interval[0] if arm.interval else math.nan for arm in self.arms],
                "weight_high": [arm.interval[1] if arm.interval else math.nan for arm in self.arms],
                "loss": [arm.loss for arm in self.arms],
                "score": [arm.score for arm in self.arms],
                "adds": [floating(arm.adds) for arm in self.arms],
                "samples": [arm.samples for arm in self.arms],
            },
            index=[arm.name for arm in self.arms],
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the scores of all arms and of the mixture, and the weights with their intervals."""
        from .. import plots

        return plots.mixture(self, ax)

    def _table(self) -> Table:
        known = any(arm.interval for arm in self.arms)
        intervals = ["95% interval"] if known else []
        header = ["arm", "weight", "", *intervals, self.score_name, "adds", "samples"]
        rows: list[Sequence[str]] = []
        for arm in self.arms:
            row = [arm.name, percent(arm.weight), bar(arm.weight)]
            if known:
                row.append("–".join(percent(end) for end in arm.interval or ()))
            rows.append([*row, number(arm.score), number(arm.adds), count(arm.samples)])
        total = count(sum(arm.samples for arm in self.arms))
        rows.append(["mixture", "", "", *("" for _ in intervals), number(self.score), "", total])
        kernels = "".join(f"; {_kernel(kernel)}" for kernel in self.kernels)
        note = (
            f"objective {self.objective}{kernels}; loss {number(self.loss)} is within {tiny(self.gap)} "
            'of the optimum; "adds" is how much it grows without the arm'
        )
        strong = frozenset({len(rows) - 1})
        return Table(self.sentence, header, rows, note, self.certainty or "", strong=strong, bars=frozenset({2}))


def _kernel(kernel: dict[str, Any]) -> str:
    """A kernel in words, as the command line has it, with fewer digits."""
    name = str(kernel["name"])
    if "bandwidth" in kernel:
        return f"{name}, bandwidth {kernel['bandwidth']:.6g}"
    if "degree" in kernel:
        return f"{name}, ({kernel['scale']:.6g} x·y + {kernel['offset']:.6g})^{kernel['degree']}"
    return name if kernel.get("power", 1) == 1 else f"{name}^{kernel['power']}"
