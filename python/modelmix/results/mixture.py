"""The best mixture of recorded arms, with the results of analyses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .._lazy import Lazy
from .._modelmix import listed_arms
from .._table import Table, bar, count, interval, number, percents, tiny
from ._base import Keyed, Result, TermValue, by_name, floating, frame, matrix, pair, plain, terms
from .front import Front
from .provenance import Provenance, documented
from .sensitivity import Sensitivity
from .worth import Cheapest, Subsets

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib import axes
else:
    pd, axes = Lazy("pandas"), Lazy("matplotlib.axes")

__all__ = ["Mixture", "MixtureArm"]


def __dir__() -> list[str]:
    return __all__


#: The optional analyses: fields, and parts of the document.
_ASKED = ("subsets", "cheapest", "front", "sensitivity")


@dataclass(frozen=True)
class MixtureArm:
    """An arm of a :class:`Mixture`. ``float()`` of it is its weight.

    Attributes
    ----------
    name
        The arm's name.
    samples
        The number of samples.
    weight
        Its weight in the mixture.
    interval
        A 95% confidence interval for its weight in the best mixture of the models themselves; ``None`` with ``fid`` or
        ``vendi``, or without intervals.
    loss
        Its loss alone.
    score
        Its score alone.
    adds
        The loss increase without this arm; ``None`` if it is the only one.
    terms
        The values of the objective's terms for this arm alone.

    Examples
    --------
    >>> import modelmix as mm
    >>> best = mm.solve({"a": [[0.0], [1.0]], "b": [[5.0], [6.0]]}, mm.Rke(bandwidth=1))
    >>> best["a"].name, best["a"].samples, round(float(best["a"]), 3)
    ('a', 2, 0.5)
    """

    name: str
    samples: int
    weight: float
    interval: tuple[float, float] | None
    loss: float
    score: float
    adds: float | None
    terms: tuple[TermValue, ...]

    def __float__(self) -> float:
        """Its weight."""
        return self.weight


@dataclass(frozen=True, repr=False)
class Mixture(Keyed[str, MixtureArm]):
    """The best mixture of recorded arms: a mapping of arms.

    Attributes
    ----------
    version
        The library's version.
    objective
        The objective's text.
    kernels
        Its kernels, with the bandwidths used: ``{"name": "gaussian", "bandwidth": 20.0}``.
    arms
        The arms.
    loss
        The mixture's loss (V-statistic).
    score
        The score of the only term; the loss if there are several.
    score_name
        The score's name, such as "RKE" or "MMD² ×100".
    more_is_better
        Whether a larger score is better.
    gap
        The duality gap: no mixture of these samples has a loss less than ``loss - gap``.
    terms
        The terms' values for the mixture.
    best_single
        The name of the best single arm.
    gain
        The loss of the best single arm minus that of the mixture.
    gain_interval
        A 95% confidence interval for the gain of the models themselves; ``None`` with ``fid`` or ``vendi``, with one
        arm, or without intervals.
    p_value
        The p-value of the hypothesis that some single model is as good as any mixture; ``None`` as above.
    intervals
        Whether there are intervals and a p-value: ``"computed"``, ``"left_out"`` or ``"unavailable"``.
    quadratic
        K, the means of κ between arms (V-statistics).
    linear
        f, the mean of the linear terms per arm.
    constant
        The constant that turns αᵀKα + fᵀα into a loss.
    sentence
        The result in one sentence.
    certainty
        Whether the mixture is significantly better, in one sentence.
    subsets
        The best mixtures of at most 1, 2, … arms, if requested.
    cheapest
        The cheapest mixture that is nearly as good, if requested.
    front
        The Pareto front with a second objective, if requested.
    sensitivity
        The best mixture for several bandwidths, if requested.
    warnings
        Warnings about the objective, such as a score that is minimised although higher is better.
    bounded
        Whether floors or caps exclude any mixture.
    approximation
        What was computed from sampled rows or random Fourier features instead of all pairs, with standard errors; ``None``
        if nothing was.
    provenance
        Provenance: version, engine, seed, inputs and bandwidths. Comparisons ignore it.

    Examples
    --------
    >>> import modelmix as mm
    >>> best = mm.solve("data/fashion/specialists.npz", mm.Rke(bandwidth=20))
    >>> list(best)
    ['tops_gan', 'shoes_gan', 'legs_bags_gan', 'vae', 'flow']
    >>> "vae" in best, len(best), best["vae"].weight == best.weights["vae"]
    (True, 5, True)
    """

    version: str
    objective: str
    kernels: tuple[dict[str, Any], ...]
    arms: tuple[MixtureArm, ...]
    loss: float
    score: float
    score_name: str
    more_is_better: bool
    gap: float
    terms: tuple[TermValue, ...]
    best_single: str
    gain: float
    gain_interval: tuple[float, float] | None
    p_value: float | None
    intervals: str
    quadratic: tuple[tuple[float, ...], ...]
    linear: tuple[float, ...]
    constant: float
    sentence: str
    certainty: str | None = None
    subsets: Subsets | None = None
    cheapest: Cheapest | None = None
    front: Front | None = None
    sensitivity: Sensitivity | None = None
    warnings: tuple[str, ...] = ()
    bounded: bool = False
    approximation: dict[str, Any] | None = None
    provenance: Provenance | None = field(default=None, compare=False)

    @property
    def weights(self) -> dict[str, float]:
        """The weight of every arm."""
        return {arm.name: arm.weight for arm in self.arms}

    @property
    def best_arm(self) -> MixtureArm:
        """The best single arm."""
        return self[self.best_single]

    def _entries(self) -> dict[str, MixtureArm]:
        return by_name(self.arms)

    @property
    def _term_names(self) -> list[str]:
        """The column headings of the terms; empty for a single term."""
        return _term_names([term.term for term in self.terms])

    @property
    def _listed(self) -> tuple[list[int], int]:
        """The arms that tables and figures list, by weight, and the number of arms without weight that are left out."""
        best = next((at for at, arm in enumerate(self.arms) if arm.name == self.best_single), 0)
        return listed_arms([arm.weight for arm in self.arms], best)

    @classmethod
    def _read(cls, document: dict[str, Any], sentence: str, certainty: str | None = None) -> Mixture:
        def arm(given: dict[str, Any]) -> MixtureArm:
            return MixtureArm(**{**given, "interval": pair(given["interval"]), "terms": terms(given["terms"])})

        mixture = document["mixture"]
        more = document["score"]["more_is_better"]
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
            more_is_better=more,
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
            subsets=Subsets._read(asked["subsets"], score, more) if "subsets" in asked else None,
            cheapest=Cheapest._read(asked["cheapest"], score) if "cheapest" in asked else None,
            front=Front._read(asked["front"], document) if "front" in asked else None,
            sensitivity=Sensitivity._read(asked["sensitivity"], names, score) if "sensitivity" in asked else None,
            warnings=tuple(document.get("warnings", ())),
            bounded=document.get("bounded", False),
            approximation=document.get("approximation"),
            provenance=Provenance._read(document.get("provenance")),
        )

    def _answers(self) -> dict[str, Result]:
        """The results of the requested analyses, by name."""
        answers = {name: getattr(self, name) for name in _ASKED}
        return {name: answer for name, answer in answers.items() if answer is not None}

    def __str__(self) -> str:
        """A table, followed by one per requested analysis."""
        return "\n\n".join([super().__str__(), *(str(answer) for answer in self._answers().values())])

    def _repr_html_(self) -> str:
        answers = [answer._repr_html_() for answer in self._answers().values()]
        return "".join([self._table().html(), *answers, self._provenance_html()])

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain data: the document of ``modelmix solve --json``.

        Returns
        -------
        dict
            Fields by name.
        """
        best = self.best_arm
        return {
            "command": "solve",
            "version": self.version,
            "objective": self.objective,
            **({"warnings": list(self.warnings)} if self.warnings else {}),
            **({"bounded": True} if self.bounded else {}),
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
            **({"approximation": self.approximation} if self.approximation else {}),
            **documented(self.provenance),
        }

    def to_pandas(self) -> pd.DataFrame:
        """Return a data frame with one row per arm, in the order given; with several terms, it has one score column per term.

        Returns
        -------
        pandas.DataFrame
            The frame.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        return frame(
            {
                "weight": [arm.weight for arm in self.arms],
                "weight_low": [arm.interval[0] if arm.interval else math.nan for arm in self.arms],
                "weight_high": [arm.interval[1] if arm.interval else math.nan for arm in self.arms],
                "loss": [arm.loss for arm in self.arms],
                "score": [arm.score for arm in self.arms],
                **{name: [arm.terms[at].score for arm in self.arms] for at, name in enumerate(self._term_names)},
                "adds": [floating(arm.adds) for arm in self.arms],
                "samples": [arm.samples for arm in self.arms],
            },
            index=[arm.name for arm in self.arms],
        )

    def plot(self, ax: axes.Axes | None = None) -> axes.Axes:
        """Draw the weights with their intervals, and the scores of all arms and of the mixture.

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

        return plots.mixture(self, ax)

    def _table(self) -> Table:
        known = any(arm.interval for arm in self.arms)
        intervals = ["95% interval"] if known else []
        names = self._term_names
        header = ["arm", "weight", "", *intervals, *names, self.score_name, "adds", "samples"]
        rows: list[Sequence[str]] = []
        listed, left_out = self._listed
        weights = percents(arm.weight for arm in self.arms)
        for arm, weight in ((self.arms[at], weights[at]) for at in listed):
            row = [arm.name, weight, bar(arm.weight)]
            if known:
                row.append(interval(arm.interval))
            row += [number(term.score) for term in arm.terms[: len(names)]]
            rows.append([*row, number(arm.score), number(arm.adds), count(arm.samples)])
        if left_out:
            rows.append([f"and {count(left_out)} arms with weight 0", *("" for _ in header[1:])])
        total = count(sum(arm.samples for arm in self.arms))
        terms = [number(term.score) for term in self.terms[: len(names)]]
        rows.append(["mixture", "", "", *("" for _ in intervals), *terms, number(self.score), "", total])
        kernels = "".join(f"; {_kernel(kernel)}" for kernel in self.kernels)
        note = (
            f"objective {self.objective}{kernels}; loss {number(self.loss)}; duality gap {tiny(self.gap)}; "
            '"adds": loss increase without the arm'
        )
        strong = frozenset({len(rows) - 1})
        return Table(self.sentence, header, rows, note, self.certainty or "", strong=strong, bars=frozenset({2}))


#: The names of the terms' scores in tables, as in the command line.
_SCORES = {"rke": "RKE", "mmd": "MMD² ×100", "kid": "KID", "fid": "FID", "vendi": "Vendi"}


def _term_names(terms: Sequence[str]) -> list[str]:
    """The column headings of the terms; empty for a single term, whose score is already in the table."""
    if len(terms) < 2:
        return []
    names = [_SCORES.get(term.split("(")[0], term.split("(")[0]) for term in terms]
    return [term if names.count(name) > 1 else name for term, name in zip(terms, names, strict=True)]


def _kernel(kernel: dict[str, Any]) -> str:
    """A kernel as text, as in the command line, with fewer digits."""
    name = str(kernel["name"])
    if "bandwidth" in kernel:
        return f"{name}, bandwidth {kernel['bandwidth']:.6g}"
    if "degree" in kernel:
        return f"{name}, ({kernel['scale']:.6g} x·y + {kernel['offset']:.6g})^{kernel['degree']}"
    return name if kernel.get("power", 1) == 1 else f"{name}^{kernel['power']}"
