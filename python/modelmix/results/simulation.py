"""How policies did on recorded arms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._names import shorten
from .._table import NOTHING, Table, count, number, percent, spread
from ._base import Result, frame, matrix, plain, present

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["SimulatedFeatures", "SimulatedPolicy", "Simulation", "Spread", "Stopped"]


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
class Simulation(Result):
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
    #: Recorded samples of every arm that were known before the first round; none if there were none.
    known: int | None = None

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
                shares=matrix(given["shares"]),
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
            known=document.get("known"),
        )

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data: the document of ``modelmix simulate --json``."""
        optional = ("stopped", "features", "kept_loss", "kept_samples", "kept_reached")
        policies = {name: present(plain(done), *optional) for name, done in self.policies.items()}
        document = {
            "command": "simulate",
            "version": self.version,
            "objective": self.objective,
            "kernel": plain(self.kernel),
            "score": {"name": self.score_name, "more_is_better": self.more_is_better},
            "arms": list(self.arms),
            "seeds": self.seeds,
            "seed": self.seed,
            "optimum": {"weights": list(self.optimum.values()), "loss": self.optimal_loss},
            "best_single": {"name": self.best_single, "loss": self.best_single_loss},
            "gain": self.gain,
            "until": plain(self.until),
            "select": self.select,
            "known": self.known,
            "note": self.note,
            "order": list(self.policies),
            "policies": policies,
        }
        return present(document, "until", "select", "note", "known")

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
        return frame(rows, columns=columns)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the loss of the samples collected against the round, as the paper's figures do."""
        from .. import plots

        return plots.simulation(self, ax)

    def _table(self) -> Table:
        header = ["policy", "final loss", "regret", "to 90%", "to 95%", "to 99%", "pulls most"]
        header += ["sure at", "sure", "wrong"] if self.until else []
        header += [] if self.select is None else ["kept", "their loss", "at optimum"]
        rows: list[Sequence[str]] = [self._row(name, done) for name, done in self.policies.items()]
        first, done = next(iter(self.policies.items()))
        reached, rounds = done.reached["95"], done.rounds[-1]
        title = (
            f"{first} does not keep 95% of the gain within {count(rounds)} rounds."
            if reached is None
            else f"{first} keeps 95% of the gain from round {count(reached)} of {count(rounds)} on."
        )
        return Table(title, header, rows, "\n".join(self._notes()), left=frozenset({6}))

    def _row(self, name: str, done: SimulatedPolicy) -> list[str]:
        share, most = max((share, arm) for arm, share in enumerate(done.weights))
        row = [
            name,
            spread(done.loss.mean[-1], done.loss.std[-1]),
            number(done.regret.mean[-1]),
            *(count(done.reached[part]) for part in ("90", "95", "99")),
            f"{shorten(self.arms[most], 30)} {100 * share:.0f}%",
        ]
        if self.until:
            sure = done.stopped
            row += [NOTHING] * 3 if sure is None else [count(sure.round), percent(sure.share), percent(sure.wrong)]
        if self.select is not None:
            loss, kept = done.kept_loss, done.kept_samples
            row.append(NOTHING if kept is None else count(kept.mean[-1]))
            row.append(NOTHING if loss is None else spread(loss.mean[-1], loss.std[-1]))
            row.append(count(done.kept_reached))
        return row

    def _notes(self) -> Iterator[str]:
        """What the columns are, a line each."""
        yield (
            f"objective {self.objective}, {self.seeds} seed{'' if self.seeds == 1 else 's'}; "
            f"optimum {number(self.optimal_loss)}, "
            f"best single arm {self.best_single} {number(self.best_single_loss)}; "
            '"to 95%" is the median round from which on 95% of the gain between them is kept'
        )
        if self.known:
            yield f"{count(self.known)} samples of every arm were known before the first round"
        if self.until:
            yield (
                f'"sure at" is the median round after which the {self.until["of"]} were known to be {self._near} '
                f'with {100 * self.until["confidence"]:g}% confidence, "sure" the share of seeds that got there, '
                '"wrong" the share that were sure and should not have been'
            )
        for name, done in self.policies.items():
            if done.features is not None:
                yield (
                    f"{name}: κ of {100 * done.features.estimated:.0f}% of the pairs was estimated by "
                    f"{count(done.features.features)} features; K off by {number(done.features.entry)} at most, "
                    f"the mixture's loss by {number(done.features.loss_bias)}"
                )
        if self.note is not None:
            yield "\"at optimum\" is the median round from which on the kept samples' loss is at most the optimum's"
            yield self.note

    @property
    def _near(self) -> str:
        """What ``until`` asked for, in words."""
        gap = self.until["gap"] if self.until else ""
        return f"within {gap}{' of the gain' if gap.endswith('%') else ''} of the optimum"
