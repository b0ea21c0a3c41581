"""Simulated policies on recorded arms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .._lazy import Lazy
from .._table import EMPTY, Table, best_of, count, number, percent, spread
from ._base import Keyed, entry, frame, matrix, plain, present
from .provenance import Provenance, documented

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib import axes
else:
    pd, axes = Lazy("pandas"), Lazy("matplotlib.axes")

__all__ = ["SimulatedFeatures", "SimulatedPolicy", "Simulation", "Spread", "Stopped"]


def __dir__() -> list[str]:
    return __all__


@dataclass(frozen=True)
class Spread:
    """A quantity per round.

    Attributes
    ----------
    mean
        The mean over seeds, per round.
    std
        The standard deviation over seeds, per round.

    Examples
    --------
    >>> import modelmix as mm
    >>> report = mm.simulate("data/fashion/truncated.npz", "rke(bandwidth=20)", policies=["uniform"], rounds=20, seeds=2)
    >>> len(report["uniform"].loss.mean) == len(report["uniform"].rounds)
    True
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]


@dataclass(frozen=True)
class Stopped:
    """When the sessions of a policy would have stopped.

    Attributes
    ----------
    round
        The median stopping round; ``None`` if fewer than half of the seeds would have stopped.
    share
        The share of seeds that would have stopped before the last round.
    wrong
        The share of seeds that would have stopped outside the tolerance, measured on all recorded samples.

    Examples
    --------
    >>> Stopped(round=550.0, share=0.75, wrong=0.0).share
    0.75
    """

    round: float | None
    share: float
    wrong: float


@dataclass(frozen=True)
class SimulatedFeatures:
    """The effect of random features on simulated sessions at their end; means over seeds.

    Attributes
    ----------
    features
        Random features per kernel.
    estimated
        The share of all pairs of samples whose κ is estimated by random features.
    entry
        The estimated error of the least accurate entry of K.
    loss_bias
        The estimated bias of the loss at a session's weights; positive if it is too large.

    Examples
    --------
    >>> SimulatedFeatures(features=512, estimated=0.8, entry=0.001, loss_bias=0.0).features
    512
    """

    features: int
    estimated: float
    entry: float
    loss_bias: float


@dataclass(frozen=True)
class SimulatedPolicy:
    """The results of one policy.

    Attributes
    ----------
    rounds
        The rounds at which results were recorded.
    loss
        The loss of the collected samples.
    regret
        Their loss minus the optimum.
    shares
        The arms' shares per recorded round; means over seeds.
    weights
        The arms' shares at the end.
    reached
        The median round from which 90, 95 and 99 percent of the gain are kept; ``None`` if fewer than half of the seeds reach
        that.
    stopped
        When its sessions would have stopped; ``None`` without ``until``.
    features
        The effect of random features, if samples were evicted.
    kept_loss
        The loss of the kept samples; ``None`` if all were kept.
    kept_samples
        Number of samples kept.
    kept_reached
        The median round from which their loss is at most the optimum; ``None`` if fewer than half of the seeds reach that.

    Examples
    --------
    >>> import modelmix as mm
    >>> report = mm.simulate("data/fashion/truncated.npz", "rke(bandwidth=20)", policies=["uniform"], rounds=20, seeds=2)
    >>> report["uniform"].rounds[-1], sorted(report["uniform"].reached)
    (20, ['90', '95', '99'])
    """

    rounds: tuple[int, ...]
    loss: Spread
    regret: Spread
    shares: tuple[tuple[float, ...], ...]
    weights: tuple[float, ...]
    reached: dict[str, float | None]
    stopped: Stopped | None = None
    features: SimulatedFeatures | None = None
    kept_loss: Spread | None = None
    kept_samples: Spread | None = None
    kept_reached: float | None = None


@dataclass(frozen=True, repr=False)
class Simulation(Keyed[str, SimulatedPolicy]):
    """The results of simulated policies on recorded arms: a mapping of policies.

    Attributes
    ----------
    version
        The library's version.
    objective
        The objective's text.
    kernel
        Its kernel, with the bandwidth used.
    score_name
        The score's name, such as "RKE" or "MMD² ×100".
    more_is_better
        Whether a larger score is better.
    arms
        The arms' names.
    seeds
        Runs per policy.
    seed
        The first seed.
    optimum
        The optimal weights on all recorded samples, per arm.
    optimal_loss
        Their loss.
    best_single
        The best single arm.
    best_single_loss
        Its loss.
    gain
        The difference between both losses.
    policies
        Results per policy, in the order given.
    until
        The stopping rule of the sessions; ``None`` without one.
    select
        Which samples were kept; ``None`` if all were.
    note
        A caution for users of the kept samples.
    known
        Samples per arm known before the first round; ``None`` if there were none.
    provenance
        Provenance: version, engine, seed, inputs and bandwidths. Comparisons ignore it.

    Examples
    --------
    >>> import modelmix as mm
    >>> report = mm.simulate("data/fashion/truncated.npz", "rke(bandwidth=20)", policies=["uniform"], rounds=20, seeds=2)
    >>> list(report), mm.Uniform() in report
    (['uniform'], True)
    """

    version: str
    objective: str
    kernel: dict[str, Any] | None
    score_name: str
    more_is_better: bool
    arms: tuple[str, ...]
    seeds: int
    seed: int
    optimum: dict[str, float]
    optimal_loss: float
    best_single: str
    best_single_loss: float
    gain: float
    policies: dict[str, SimulatedPolicy]
    until: dict[str, Any] | None = None
    select: str | None = None
    note: str | None = None
    known: int | None = None
    provenance: Provenance | None = field(default=None, compare=False)

    def __getitem__(self, policy: object) -> SimulatedPolicy:
        """The results of a policy, by its text or its object."""
        return entry(self.policies, str(policy))

    def _entries(self) -> dict[str, SimulatedPolicy]:
        return self.policies

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
            provenance=Provenance._read(document.get("provenance")),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data: the document of ``modelmix simulate --json``.

        Returns
        -------
        dict
            Fields by name.
        """
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
            **documented(self.provenance),
        }
        return present(document, "until", "select", "note", "known")

    def to_pandas(self) -> pd.DataFrame:
        """Return a data frame with one row per policy and recorded round.

        Returns
        -------
        pandas.DataFrame
            The frame.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
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

    def plot(self, ax: axes.Axes | None = None) -> axes.Axes:
        """Draw the loss of the collected samples against the round, as in the paper's figures.

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

        return plots.simulation(self, ax)

    def _table(self) -> Table:
        header = ["policy", "final loss", "regret", "to 90%", "to 95%", "to 99%", "pulls most"]
        header += ["stopped at", "stopped", "wrong"] if self.until else []
        header += [] if self.select is None else ["kept", "kept loss", "at optimum"]
        rows: list[Sequence[str]] = [self._row(name, done) for name, done in self.policies.items()]
        first, done = next(iter(self.policies.items()))
        reached, rounds = done.reached["95"], done.rounds[-1]
        title = self._without_gain or (
            f"{first} does not keep 95% of the gain within {count(rounds)} rounds."
            if reached is None
            else f"{first} keeps 95% of the gain from round {count(reached)} of {count(rounds)} on."
        )
        return Table(title, header, rows, "\n".join(self._notes()), left=frozenset({6}))

    @property
    def _without_gain(self) -> str | None:
        """The title if no mixture improves on a single arm."""
        if len(self.arms) == 1:
            return f"{self.arms[0]} is the only arm, so there is no mixture to find."
        if self.gain <= 0:
            loss = number(self.best_single_loss)
            return f"No mixture has a lower loss than {self.best_single} alone, {loss}, so there is no gain."
        return None

    def _std(self, over_rounds: Spread) -> float | None:
        """The standard deviation over seeds at the end; ``None`` for one run."""
        return None if self.seeds == 1 else over_rounds.std[-1]

    def _row(self, name: str, done: SimulatedPolicy) -> list[str]:
        share, most = max((share, arm) for arm, share in enumerate(done.weights))
        row = [
            name,
            spread(done.loss.mean[-1], self._std(done.loss), "std"),
            number(done.regret.mean[-1]),
            *(count(done.reached[part]) for part in ("90", "95", "99")),
            best_of(self.arms[most], f"{100 * share:.0f}%", share, "share"),
        ]
        if self.until:
            sure = done.stopped
            row += [EMPTY] * 3 if sure is None else [count(sure.round), percent(sure.share), percent(sure.wrong)]
        if self.select is not None:
            loss, kept = done.kept_loss, done.kept_samples
            row.append(EMPTY if kept is None else count(kept.mean[-1]))
            row.append(EMPTY if loss is None else spread(loss.mean[-1], self._std(loss), "std"))
            row.append(count(done.kept_reached))
        return row

    def _notes(self) -> Iterator[str]:
        """Explanations of the columns, one per line."""
        yield (
            f"objective {self.objective}, {self.seeds} seed{'' if self.seeds == 1 else 's'}; "
            f"optimum {number(self.optimal_loss)}, "
            f"best single arm {self.best_single} {number(self.best_single_loss)}; "
            '"to 95%": median round from which 95% of the gain is kept'
        )
        if self.known:
            yield f"warm start: {count(self.known)} recorded samples per arm were known before the first round"
        if self.until:
            yield (
                f'"stopped at": median round at which the {self.until["of"]} are certified to be {self._near} '
                f'at {100 * self.until["confidence"]:g}% confidence; "stopped": share of seeds that reach it; '
                '"wrong": share of seeds that stop outside the tolerance'
            )
        for name, done in self.policies.items():
            if done.features is not None:
                yield (
                    f"{name}: κ of {100 * done.features.estimated:.0f}% of the pairs was estimated with "
                    f"{count(done.features.features)} random features; estimated error: "
                    f"{number(done.features.entry)} in the worst entry of K, "
                    f"{number(done.features.loss_bias)} in the loss of the mixture"
                )
        if self.note is not None:
            yield '"at optimum": median round from which the loss of the kept samples is at most the optimum'
            yield self.note

    @property
    def _near(self) -> str:
        """The tolerance of ``until`` as text."""
        gap = self.until["gap"] if self.until else ""
        return f"within {gap}{' of the gain' if gap.endswith('%') else ''} of the optimum"
