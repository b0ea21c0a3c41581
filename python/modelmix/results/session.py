"""Where a session stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._modelmix import brief
from .._table import NOTHING, Table, bar, count, number, percent
from ._base import Result, by_name, floating, frame, matrix, plain, present

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["FeatureError", "SessionArm", "SessionReport"]


@dataclass(frozen=True)
class SessionArm:
    """An arm of a :class:`SessionReport`."""

    name: str
    #: Samples collected that count: those told, less those forgotten.
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
    #: Of its samples, those kept; none where all are.
    kept: int | None = None
    #: Recorded samples that are known beside those collected.
    known: int = 0


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


@dataclass(frozen=True)
class Verdict:
    """What a session may be stopped by."""

    #: Samples held at that time.
    samples: int
    #: The mixture that is near the optimum, by arm.
    mixture: dict[str, float]
    #: By how much it misses the least loss at most, with the confidence asked for.
    within: float


@dataclass(frozen=True, repr=False)
class SessionReport(Result):
    """Where a session stands."""

    policy: str
    objective: str | None
    kernels: tuple[dict[str, Any], ...]
    #: Pulls that were answered.
    rounds: int
    #: Samples collected that count: those told, less those forgotten.
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
    #: Whether the session may stop, and what by.
    is_done: bool = False
    verdict: Verdict | None = None
    #: What random features do to these numbers, once a session with ``hold`` has let samples go.
    feature_error: FeatureError | None = None
    #: How many samples are kept, their loss, and what everyone who is handed them must know; none where all are kept.
    kept: int | None = None
    kept_loss: float | None = None
    note: str | None = None
    #: Recorded samples that are known beside those collected (:meth:`modelmix.Session.known`); weights, losses of arms and bounds
    #: count them, ``samples``, ``loss`` and shares do not.
    known: int = 0

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
        return by_name(self.arms, name)

    @classmethod
    def _read(cls, document: dict[str, Any], objective: str | None) -> SessionReport:
        arms = tuple(SessionArm(**arm) for arm in document["arms"])
        best = document["best_single"]
        stopped = document["verdict"]
        if stopped is not None:
            shares = zip((arm.name for arm in arms), stopped["mixture"], strict=True)
            stopped = Verdict(stopped["samples"], dict(shares), stopped["within"])
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
            quadratic=matrix(document["form"]["quadratic"]),
            linear=tuple(document["form"]["linear"]),
            bound_on_weights=document["bound_on_weights"],
            bound_on_shares=document["bound_on_shares"],
            is_done=document["is_done"],
            verdict=stopped,
            feature_error=FeatureError(**document["feature_error"]) if "feature_error" in document else None,
            kept=document.get("kept"),
            kept_loss=document.get("kept_loss"),
            note=document.get("note"),
            known=document.get("known", 0),
        )

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        whole = _some_known(present(plain(self), "feature_error", "kept", "kept_loss", "note"))
        return {**whole, "arms": [_some_known(present(arm, "changed", "kept")) for arm in whole["arms"]]}

    def to_pandas(self) -> pd.DataFrame:
        """A frame with a row an arm; samples ``known`` and ``kept`` and the round in which it ``changed`` if there are any."""
        columns = ("weight", "share", "samples", "pending", "abandoned")
        data: dict[str, Any] = {name: [getattr(arm, name) for arm in self.arms] for name in columns}
        data["loss"] = [floating(arm.loss) for arm in self.arms]
        if self.known:
            data["known"] = [arm.known for arm in self.arms]
        if self.kept is not None:
            data["kept"] = [arm.kept for arm in self.arms]
        if any(arm.changed is not None for arm in self.arms):
            data["changed"] = [floating(arm.changed) for arm in self.arms]
        return frame(data, index=[arm.name for arm in self.arms])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the weights beside the proportions of the samples held."""
        from .. import plots

        return plots.session(self, ax)

    def _table(self) -> Table:
        troubled = any(arm.abandoned for arm in self.arms)
        flying = any(arm.pending for arm in self.arms)
        header = ["arm", "weight", "", "share", "samples", "loss"]
        header += ["known"] if self.known else []
        header += [] if self.kept is None else ["kept"]
        header += (["in flight"] if flying else []) + (["given up"] if troubled else [])
        rows: list[Sequence[str]] = []
        for arm in self.arms:
            row = [arm.name, percent(arm.weight), bar(arm.weight), percent(arm.share)]
            row += [count(arm.samples), number(arm.loss)]
            row += [count(arm.known)] if self.known else []
            row += [] if self.kept is None else [count(arm.kept)]
            row += [count(arm.pending)] if flying else []
            rows.append(row + ([count(arm.abandoned)] if troubled else []))
        samples = _samples(self.samples)
        if self.mixture_loss is None:
            title = f"No samples yet of {len(self.arms)} arm{'' if len(self.arms) == 1 else 's'}."
        else:
            used = sorted(self.arms, key=lambda arm: -arm.weight)
            named = [f"{arm.name} {100 * arm.weight:.0f}%" for arm in used if arm.weight >= 0.005]
            before = (
                f"From {_samples(self.known, 'known ')} alone"
                if self.known and not self.samples
                else f"After {samples}"
            )
            title = f"{before}: {', '.join(named)}."
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


def _some_known(fields: dict[str, Any]) -> dict[str, Any]:
    """Documents say how many samples were known only if some were."""
    return {name: value for name, value in fields.items() if name != "known" or value}


def _samples(number: int, kind: str = "") -> str:
    return f"{count(number)} {kind}sample{'' if number == 1 else 's'}"
