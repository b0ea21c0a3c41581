"""What comes back: plain data that prints as tables, shows in notebooks, converts and plots.

Every result is a dataclass. ``to_dict()`` gives the document that the command line prints with ``--json``, ``to_pandas()`` a
frame, ``plot()`` a figure by matplotlib.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._modelmix import brief
from ._names import shorten
from ._table import NOTHING, Table, bar, count, number, percent, spread, tiny
from .results_worth import Cheapest, Front, Sensitivity, Subsets

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = [
    "Estimate", "FeatureError", "Mixture", "MixtureArm", "Prdc", "ScoredMixture", "ScoredSet", "Scores", "SessionArm", "SessionReport",
    "SimulatedFeatures", "SimulatedPolicy", "Simulation", "Spread", "Stopped", "TermValue",
]  # fmt: skip


class _Result(ABC):
    """What results have in common."""

    @abstractmethod
    def _table(self) -> Table: ...

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data, as the command line prints it with ``--json``."""

    @abstractmethod
    def to_pandas(self) -> pd.DataFrame:
        """A frame, by pandas."""

    @abstractmethod
    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw it with matplotlib: into ``ax``, or into a figure of its own."""

    def __str__(self) -> str:
        """A table."""
        return self._table().here()

    def __repr__(self) -> str:
        """The same, for whoever looks at it in an interactive session."""
        return str(self)

    def _repr_html_(self) -> str:
        return self._table().html()


def _frame(*args: Any, **kwargs: Any) -> pd.DataFrame:
    try:
        import pandas
    except ImportError:
        remedy = "install it with pip install pandas, or use to_dict()"
        raise ImportError(f"to_pandas() needs pandas; {remedy}") from None
    frame: pd.DataFrame = pandas.DataFrame(*args, **kwargs)
    return frame


def _without(plain: dict[str, Any], *optional: str) -> dict[str, Any]:
    """What a document leaves out where there is nothing."""
    return {key: value for key, value in plain.items() if value is not None or key not in optional}


def _float(value: float | None) -> float:
    """A number, and not one where there is none: so that a column of frames is always of floats."""
    return math.nan if value is None else value


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
class TermValue:
    """What a term of the objective comes to."""

    term: str
    weight: float
    #: In the loss, before the weight.
    value: float
    #: As people read it: the RKE mode count, the unbiased KID × 100.
    score: float


def _terms(document: list[dict[str, Any]]) -> tuple[TermValue, ...]:
    return tuple(TermValue(**term) for term in document)


def _plain(value: Any) -> Any:
    """Dataclasses and tuples as dictionaries and lists."""
    if hasattr(value, "__dataclass_fields__"):
        return {name: _plain(getattr(value, name)) for name in value.__dataclass_fields__}
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return value


def _pair(ends: list[float] | None) -> tuple[float, float] | None:
    return None if ends is None else (ends[0], ends[1])


def _known(**fields: Any) -> dict[str, Any]:
    """Fields less those that are none: parts of a document that are there only where they were asked for."""
    return {name: value for name, value in fields.items() if value is not None}


def _matrix(rows: list[list[float]]) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(row) for row in rows)


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
class Mixture(_Result):
    """The best mixture of recorded arms."""

    version: str
    objective: str
    #: Its kernels, bandwidths found: ``{"name": "gaussian", "bandwidth": 20.0}``.
    kernels: tuple[dict[str, Any], ...]
    arms: tuple[MixtureArm, ...]
    #: The loss of the mixture, as V-statistic.
    loss: float
    #: Of the objective's first term, as people read it.
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
        for arm in self.arms:
            if arm.name == name:
                return arm
        raise KeyError(name)

    @classmethod
    def _read(cls, document: dict[str, Any], sentence: str, certainty: str | None = None) -> Mixture:
        def arm(given: dict[str, Any]) -> MixtureArm:
            return MixtureArm(**{**given, "interval": _pair(given["interval"]), "terms": _terms(given["terms"])})

        mixture = document["mixture"]
        names, score = [given["name"] for given in document["arms"]], document["score"]["name"]
        tried = document.get("sensitivity")
        return cls(
            version=document["version"],
            objective=document["objective"],
            kernels=tuple(document["kernels"]),
            arms=tuple(arm(given) for given in document["arms"]),
            loss=mixture["loss"],
            score=mixture["score"],
            score_name=document["score"]["name"],
            more_is_better=document["score"]["more_is_better"],
            gap=mixture["gap"],
            terms=_terms(mixture["terms"]),
            best_single=document["best_single"]["name"],
            gain=document["gain"],
            gain_interval=_pair(document["gain_interval"]),
            p_value=document["p_value"],
            quadratic=_matrix(document["quadratic"]),
            linear=tuple(document["linear"]),
            constant=document["constant"],
            sentence=sentence,
            certainty=certainty,
            subsets=Subsets._read(document["subsets"], score) if "subsets" in document else None,
            cheapest=Cheapest._read(document["cheapest"]) if "cheapest" in document else None,
            front=Front._read(document["front"], names, score) if "front" in document else None,
            sensitivity=None if tried is None else Sensitivity._read(tried, names, score),
        )

    def _answers(self) -> dict[str, Any]:
        """What was asked beside, by name."""
        names = ("subsets", "cheapest", "front", "sensitivity")
        answers = {name: getattr(self, name) for name in names}
        return {name: answer for name, answer in answers.items() if answer is not None}

    def __str__(self) -> str:
        """A table, and one for each answer to what was asked beside."""
        return "\n\n".join([self._table().text(), *(str(answer) for answer in self._answers().values())])

    def _repr_html_(self) -> str:
        return "".join([self._table().html(), *(answer._repr_html_() for answer in self._answers().values())])

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data: the document of ``modelmix solve --json``."""
        best = self.best_arm
        return {
            "command": "solve",
            "version": self.version,
            "objective": self.objective,
            "kernel": _plain(self.kernels[0]) if self.kernels else None,
            "kernels": _plain(self.kernels),
            "score": {"name": self.score_name, "more_is_better": self.more_is_better},
            "arms": _plain(self.arms),
            "mixture": {"loss": self.loss, "score": self.score, "gap": self.gap, "terms": _plain(self.terms)},
            "best_single": {"name": best.name, "loss": best.loss, "score": best.score},
            "gain": self.gain,
            "gain_interval": _plain(self.gain_interval),
            "p_value": self.p_value,
            "quadratic": _plain(self.quadratic),
            "linear": _plain(self.linear),
            "constant": self.constant,
            **{name: answer.to_dict() for name, answer in self._answers().items()},
        }

    def to_pandas(self) -> pd.DataFrame:
        """A frame with a row an arm."""
        return _frame(
            {
                "weight": [arm.weight for arm in self.arms],
                "weight_low": [arm.interval[0] if arm.interval else math.nan for arm in self.arms],
                "weight_high": [arm.interval[1] if arm.interval else math.nan for arm in self.arms],
                "loss": [arm.loss for arm in self.arms],
                "score": [arm.score for arm in self.arms],
                "adds": [_float(arm.adds) for arm in self.arms],
                "samples": [arm.samples for arm in self.arms],
            },
            index=[arm.name for arm in self.arms],
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the scores of all arms and of the mixture, and the weights with their intervals."""
        from . import plots

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
        if self.certainty:
            note = f"{self.certainty}\n\n{note}"
        strong = frozenset({len(rows) - 1})
        return Table(self.sentence, header, rows, note, strong=strong, bars=frozenset({2}))


def _kernel(kernel: dict[str, Any]) -> str:
    """A kernel in words, as the command line has it, with fewer digits."""
    name = str(kernel["name"])
    if "bandwidth" in kernel:
        return f"{name}, bandwidth {kernel['bandwidth']:.6g}"
    if "degree" in kernel:
        return f"{name}, ({kernel['scale']:.6g} x·y + {kernel['offset']:.6g})^{kernel['degree']}"
    return name if kernel.get("power", 1) == 1 else f"{name}^{kernel['power']}"


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
_LESS = frozenset({"kid", "kid_full", "mmd", "cmmd", "fid", "fid_infinity"})


@dataclass(frozen=True, repr=False)
class Scores(_Result):
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
        for arm in self.arms:
            if arm.name == name:
                return arm
        raise KeyError(name)

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
        return {"command": "score", **_plain(self)}

    def _sets(self) -> Iterator[tuple[str, ScoredSet | ScoredMixture]]:
        for arm in self.arms:
            yield arm.name, arm
        if self.mixture is not None:
            yield "mixture", self.mixture

    def to_pandas(self) -> pd.DataFrame:
        """A frame with a row an arm and one for the mixture, a column a score, and ``…_error`` for standard errors."""
        rows = [
            {
                **{name: _float(score) for name, score in scored.scores.items()},
                **{f"{metric}_error": _float(error) for metric, error in scored.errors.items()},
            }
            for _, scored in self._sets()
        ]
        return _frame(rows, index=[name for name, _ in self._sets()])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw every metric of every arm and the mixture, each scaled to its best."""
        from . import plots

        return plots.scores(self, ax)

    def _table(self) -> Table:
        header = ["arm", *(f"{metric} {'↓' if metric in _LESS else '↑'}" for metric in self.metrics)]
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
                best = (min if metric in _LESS else max)(values)
                found |= {(at, column) for at, value in enumerate(values) if value == best}
        return frozenset(found)


@dataclass(frozen=True)
class Spread:
    """A quantity over rounds: mean and standard deviation over seeds."""

    mean: tuple[float, ...]
    std: tuple[float, ...]


@dataclass(frozen=True)
class Stopped:
    """When the sessions of a policy were sure enough to stop."""

    #: The median round; none where half of the seeds were never sure.
    round: float | None
    #: The share of seeds that were sure before the last round.
    share: float
    #: The share of seeds that were sure, and wrong by what all recorded samples say.
    wrong: float


@dataclass(frozen=True)
class SimulatedFeatures:
    """What random features did to simulated sessions at their end, the mean over seeds."""

    #: How many features a kernel had.
    features: int
    #: The share of all pairs of samples whose κ came from features.
    estimated: float
    #: How far the entry of K that is most in error is estimated to be off.
    entry: float
    #: By how much the loss at a session's weights is estimated to be too large.
    loss_bias: float


@dataclass(frozen=True)
class SimulatedPolicy:
    """How a policy did."""

    #: The rounds at which results were kept.
    rounds: tuple[int, ...]
    #: The loss of the samples collected.
    loss: Spread
    #: How far the proportions are from the optimum.
    regret: Spread
    #: The proportions at each of the rounds, by arm: the mean over seeds.
    shares: tuple[tuple[float, ...], ...]
    #: The proportions at the end.
    weights: tuple[float, ...]
    #: The median round from which on 90, 95 and 99 percent of the gain are kept; none where half of the seeds do not get there.
    reached: dict[str, float | None]
    #: When its sessions were sure enough to stop; none where that was not asked for.
    stopped: Stopped | None = None
    #: What random features did, the mean over seeds, where sessions held only so many samples.
    features: SimulatedFeatures | None = None
    #: The loss of the samples that were kept, and how many they were; none where all were.
    kept_loss: Spread | None = None
    kept_samples: Spread | None = None
    #: The median round from which on their loss is at most the optimum's; none where half of the seeds do not get there.
    kept_reached: float | None = None


@dataclass(frozen=True, repr=False)
class Simulation(_Result):
    """How policies did on recorded arms."""

    version: str
    objective: str
    kernel: dict[str, Any] | None
    #: What the loss reads as: "RKE", "KID ×100".
    score_name: str
    more_is_better: bool
    #: The arms' names.
    arms: tuple[str, ...]
    #: How many seeds every policy ran with, and the first one.
    seeds: int
    seed: int
    #: The optimal weights on all recorded samples, and their loss.
    optimum: dict[str, float]
    optimal_loss: float
    #: The best single arm, and its loss.
    best_single: str
    best_single_loss: float
    gain: float
    #: By policy, as the command line takes it, in the order given.
    policies: dict[str, SimulatedPolicy]
    #: When sessions were to stop; none where that was not asked for.
    until: dict[str, Any] | None = None
    #: Which samples were kept, and what everyone who is handed them must know; none where all were.
    select: str | None = None
    note: str | None = None

    def __getitem__(self, policy: object) -> SimulatedPolicy:
        """How a policy did: by its text or its object."""
        return self.policies[str(policy)]

    @classmethod
    def _read(cls, document: dict[str, Any]) -> Simulation:
        def spread(given: dict[str, Any]) -> Spread:
            return Spread(tuple(given["mean"]), tuple(given["std"]))

        def policy(given: dict[str, Any]) -> SimulatedPolicy:
            return SimulatedPolicy(
                rounds=tuple(given["rounds"]),
                loss=spread(given["loss"]),
                regret=spread(given["regret"]),
                shares=_matrix(given["shares"]),
                weights=tuple(given["weights"]),
                reached=given["reached"],
                stopped=Stopped(**given["stopped"]) if "stopped" in given else None,
                features=SimulatedFeatures(**given["features"]) if "features" in given else None,
                kept_loss=spread(given["kept_loss"]) if "kept_loss" in given else None,
                kept_samples=spread(given["kept_samples"]) if "kept_samples" in given else None,
                kept_reached=given.get("kept_reached"),
            )

        return cls(
            version=document["version"],
            objective=document["objective"],
            kernel=document["kernel"],
            score_name=document["score"]["name"],
            more_is_better=document["score"]["more_is_better"],
            arms=tuple(document["arms"]),
            seeds=document["seeds"],
            seed=document["seed"],
            optimum=dict(zip(document["arms"], document["optimum"]["weights"])),
            optimal_loss=document["optimum"]["loss"],
            best_single=document["best_single"]["name"],
            best_single_loss=document["best_single"]["loss"],
            gain=document["gain"],
            policies={name: policy(document["policies"][name]) for name in document["order"]},
            until=document.get("until"),
            select=document.get("select"),
            note=document.get("note"),
        )

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data: the document of ``modelmix simulate --json``."""
        policies = {name: _known(**_plain(done)) for name, done in self.policies.items()}
        return {
            "command": "simulate",
            "version": self.version,
            "objective": self.objective,
            "kernel": _plain(self.kernel),
            "score": {"name": self.score_name, "more_is_better": self.more_is_better},
            "arms": list(self.arms),
            "seeds": self.seeds,
            "seed": self.seed,
            "optimum": {"weights": list(self.optimum.values()), "loss": self.optimal_loss},
            "best_single": {"name": self.best_single, "loss": self.best_single_loss},
            "gain": self.gain,
            **({} if self.until is None else {"until": _plain(self.until)}),
            **_known(select=self.select, note=self.note),
            "order": list(self.policies),
            "policies": policies,
        }

    def to_pandas(self) -> pd.DataFrame:
        """A frame with a row a policy and kept round."""
        columns: tuple[str, ...] = ("policy", "round", "loss", "loss_std", "regret", "regret_std")
        if self.select is not None:
            columns = (*columns, "kept_loss", "kept_loss_std", "kept_samples")
        rows = []
        for name, done in self.policies.items():
            series = [done.rounds, done.loss.mean, done.loss.std, done.regret.mean, done.regret.std]
            if done.kept_loss is not None and done.kept_samples is not None:
                series += [done.kept_loss.mean, done.kept_loss.std, done.kept_samples.mean]
            rows += [(name, *values) for values in zip(*series)]
        return _frame(rows, columns=columns)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the loss of the samples collected against the round, as the paper's figures do."""
        from . import plots

        return plots.simulation(self, ax)

    def _table(self) -> Table:
        header = ["policy", "final loss", "regret", "to 90%", "to 95%", "to 99%", "pulls most"]
        header += ["sure at", "sure", "wrong"] if self.until else []
        header += [] if self.select is None else ["kept", "their loss", "at optimum"]
        rows: list[Sequence[str]] = []
        for name, done in self.policies.items():
            share, most = max((share, arm) for arm, share in enumerate(done.weights))
            kept = []
            if done.kept_loss is not None and done.kept_samples is not None:
                kept = [
                    count(done.kept_samples.mean[-1]),
                    spread(done.kept_loss.mean[-1], done.kept_loss.std[-1]),
                    count(done.kept_reached),
                ]
            rows.append(
                [
                    name,
                    spread(done.loss.mean[-1], done.loss.std[-1]),
                    number(done.regret.mean[-1]),
                    *(count(done.reached[kept]) for kept in ("90", "95", "99")),
                    f"{shorten(self.arms[most], 30)} {100 * share:.0f}%",
                    *_sure(done.stopped),
                    *kept,
                ]
            )
        first, done = next(iter(self.policies.items()))
        reached, rounds = done.reached["95"], done.rounds[-1]
        title = (
            f"{first} does not keep 95% of the gain within {count(rounds)} rounds."
            if reached is None
            else f"{first} keeps 95% of the gain from round {count(reached)} of {count(rounds)} on."
        )
        note = (
            f"objective {self.objective}, {self.seeds} seed{'' if self.seeds == 1 else 's'}; "
            f"optimum {number(self.optimal_loss)}, "
            f"best single arm {self.best_single} {number(self.best_single_loss)}; "
            '"to 95%" is the median round from which on 95% of the gain between them is kept'
        )
        if self.until:
            gap = self.until["gap"] + (" of the gain" if self.until["gap"].endswith("%") else "")
            note += (
                f'; "sure at" is the median round after which the {self.until["of"]} were known to be within {gap} '
                f"of the optimum with {100 * self.until['confidence']:g}% confidence"
            )
        for name, done in self.policies.items():
            if done.features is not None:
                note += (
                    f"; {name}: κ of {100 * done.features.estimated:.0f}% of the pairs was estimated by "
                    f"{count(done.features.features)} features; K off by {number(done.features.entry)} at most, "
                    f"the mixture's loss by {number(done.features.loss_bias)}"
                )
        if self.note is not None:
            note += (
                "; \"at optimum\" is the one from which on the kept samples' loss is at most the optimum's\n"
                + self.note
            )
        return Table(title, header, rows, note, left=frozenset({6}))


def _sure(stopped: Stopped | None) -> list[str]:
    return [] if stopped is None else [count(stopped.round), percent(stopped.share), percent(stopped.wrong)]


@dataclass(frozen=True)
class SessionArm:
    """An arm of a :class:`SessionReport`."""

    name: str
    #: Samples held.
    samples: int
    #: Samples in flight.
    pending: int
    #: Pulls given up.
    abandoned: int
    #: Its share of the samples held.
    share: float
    #: Its weight in the best mixture of the samples held.
    weight: float
    #: Its loss alone; none before its first sample.
    loss: float | None
    #: The round in which its alarm rang, since its samples are not like its first ones; none where it did not.
    changed: int | None = None


@dataclass(frozen=True)
class FeatureError:
    """What random features do to a session's numbers, estimated from the samples held, between which κ is known."""

    #: How many features a kernel has.
    features: int
    #: The standard error of an entry of K that was asked for.
    stated: float
    #: Samples held one by one.
    held: int
    #: The share of all pairs of samples whose κ came from features.
    estimated: float
    #: By how much the entry of K that is most in error is too large or, negative, too small; and its standard error.
    entry: float
    entry_error: float
    #: By how much ``mixture_loss`` is too large, and its standard error.
    loss_bias: float
    loss_bias_error: float
    #: By how much the score (RKE mode count, MMD, KID × 100) is too large, where the objective is one such term.
    score_bias: float | None
    score_bias_error: float | None

    def __str__(self) -> str:
        """The bias and how well it is known."""
        pairs = f"κ of {percent(self.estimated)} of the pairs is estimated by {count(self.features)} features"
        if self.score_bias is None or self.score_bias_error is None:
            return f"{pairs}; bias of the mixture's loss {brief(self.loss_bias)} ± {brief(self.loss_bias_error)}"
        return f"{pairs}; bias of the mixture's score {brief(self.score_bias)} ± {brief(self.score_bias_error)}"

    #: Samples kept; none where all are.
    kept: int | None = None


@dataclass(frozen=True, repr=False)
class SessionReport(_Result):
    """Where a session stands."""

    policy: str
    objective: str | None
    kernels: tuple[dict[str, Any], ...]
    #: Pulls that were answered.
    rounds: int
    #: Samples held.
    samples: int
    arms: tuple[SessionArm, ...]
    #: The loss of the samples held; none before the first.
    loss: float | None
    #: The loss of the best mixture of them, by ``weights``.
    mixture_loss: float | None
    #: How far from the optimum of what is known the weights can be.
    gap: float | None
    #: The name of the best single arm so far.
    best_single: str | None
    #: K and f (V-statistics); arms without samples have zeros.
    quadratic: tuple[tuple[float, ...], ...]
    linear: tuple[float, ...]
    #: How far above the least loss of any mixture of the models the weights, and the shares, are at most, with the confidence
    #: asked for (95% where none was), at this moment; none while an arm has fewer than ten samples.
    bound_on_weights: float | None = None
    bound_on_shares: float | None = None
    #: Whether the session may stop, and what by: ``{"samples": …, "mixture": […], "within": …}``.
    is_done: bool = False
    verdict: dict[str, Any] | None = None
    #: What random features do to these numbers, once a session with ``hold`` has let samples go.
    feature_error: FeatureError | None = None
    #: How many samples are kept, their loss, and what everyone who is handed them must know; none where all are kept.
    kept: int | None = None
    kept_loss: float | None = None
    note: str | None = None

    @property
    def weights(self) -> dict[str, float]:
        """The best mixture as far as it is known."""
        return {arm.name: arm.weight for arm in self.arms}

    @property
    def shares(self) -> dict[str, float]:
        """The proportions of the samples held."""
        return {arm.name: arm.share for arm in self.arms}

    def __getitem__(self, name: str) -> SessionArm:
        """The arm of that name."""
        for arm in self.arms:
            if arm.name == name:
                return arm
        raise KeyError(name)

    @classmethod
    def _read(cls, document: dict[str, Any], objective: str | None) -> SessionReport:
        arms = tuple(SessionArm(**arm) for arm in document["arms"])
        best, flat = document["best_single"], document["form"]["quadratic"]
        return cls(
            policy=document["policy"],
            objective=objective,
            kernels=tuple(document["kernels"]),
            rounds=document["rounds"],
            samples=document["samples"],
            arms=arms,
            loss=document["loss"],
            mixture_loss=document["mixture_loss"],
            gap=document["gap"],
            best_single=None if best is None else arms[best].name,
            quadratic=_matrix([flat[at : at + len(arms)] for at in range(0, len(flat), len(arms))]),
            linear=tuple(document["form"]["linear"]),
            bound_on_weights=document["bound_on_weights"],
            bound_on_shares=document["bound_on_shares"],
            is_done=document["is_done"],
            verdict=document["verdict"],
            feature_error=FeatureError(**document["feature_error"]) if "feature_error" in document else None,
            kept=document.get("kept"),
            kept_loss=document.get("kept_loss"),
            note=document.get("note"),
        )

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        plain = _without(_plain(self), "feature_error", "kept", "kept_loss", "note")
        return {**plain, "arms": [_without(arm, "changed") for arm in plain["arms"]]}

    def to_pandas(self) -> pd.DataFrame:
        """A frame with a row an arm."""
        columns = ("weight", "share", "samples", "pending", "abandoned")
        return _frame(
            {
                **{name: [getattr(arm, name) for arm in self.arms] for name in columns},
                "loss": [_float(arm.loss) for arm in self.arms],
            },
            index=[arm.name for arm in self.arms],
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the weights beside the proportions of the samples held."""
        from . import plots

        return plots.session(self, ax)

    def _table(self) -> Table:
        troubled = any(arm.abandoned for arm in self.arms)
        flying = any(arm.pending for arm in self.arms)
        header = ["arm", "weight", "", "share", "samples", "loss"]
        header += [] if self.kept is None else ["kept"]
        header += (["in flight"] if flying else []) + (["given up"] if troubled else [])
        rows: list[Sequence[str]] = []
        for arm in self.arms:
            row = [arm.name, percent(arm.weight), bar(arm.weight), percent(arm.share)]
            row += [count(arm.samples), number(arm.loss)]
            row += [] if self.kept is None else [count(arm.kept)]
            row += [count(arm.pending)] if flying else []
            rows.append(row + ([count(arm.abandoned)] if troubled else []))
        samples = f"{count(self.samples)} sample{'' if self.samples == 1 else 's'}"
        if self.mixture_loss is None:
            title = f"No samples yet of {len(self.arms)} arm{'' if len(self.arms) == 1 else 's'}."
        else:
            used = sorted(self.arms, key=lambda arm: -arm.weight)
            named = [f"{arm.name} {100 * arm.weight:.0f}%" for arm in used if arm.weight >= 0.005]
            title = f"After {samples}: {', '.join(named)}."
        objective = f"objective {self.objective}, " if self.objective else ""
        note = (
            f"{objective}policy {self.policy}; loss of the samples held {number(self.loss)}, "
            f"of the best mixture of them {number(self.mixture_loss)}, "
            f"best single arm {NOTHING if self.best_single is None else self.best_single}"
        )
        if self.bound_on_weights is not None:
            note += f"; the weights are at most {number(self.bound_on_weights)} above the least loss"
        if self.is_done:
            note += "; the session may stop"
        changed = [f"{arm.name} in round {count(arm.changed)}" for arm in self.arms if arm.changed is not None]
        if changed:
            note += f"; changed: {', '.join(changed)}"
        if self.feature_error is not None:
            note += f"; {self.feature_error}"
        if self.note is not None:
            note += f"; {count(self.kept)} samples are kept, with a loss of {number(self.kept_loss)}\n{self.note}"
        return Table(title, header, rows, note, bars=frozenset({2}))
