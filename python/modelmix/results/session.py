"""The state of a session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .._lazy import Lazy
from .._modelmix import brief, named_shares
from .._table import EMPTY, Table, bar, count, number, percent, percents
from ._base import Keyed, by_name, floating, frame, matrix, plain, present
from .provenance import Provenance, documented

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib import axes
else:
    pd, axes = Lazy("pandas"), Lazy("matplotlib.axes")

__all__ = ["ChosenBandwidth", "FeatureError", "SessionArm", "SessionReport", "Verdict"]


def __dir__() -> list[str]:
    return __all__


@dataclass(frozen=True)
class SessionArm:
    """An arm of a :class:`SessionReport`. ``float()`` of it is its weight.

    Attributes
    ----------
    name
        The arm's name.
    samples
        Number of collected samples: those told, without those forgotten.
    pending
        Number of samples in flight.
    abandoned
        Number of pulls abandoned.
    share
        Its share of the collected samples.
    weight
        Its weight in the best mixture of the held samples.
    loss
        Its loss alone; ``None`` before its first sample.
    changed
        The round in which drift was detected; ``None`` if it was not.
    kept
        The number of its samples that are kept; ``None`` if all are.
    known
        Number of known samples that were not collected.

    Examples
    --------
    >>> import modelmix as mm
    >>> session = mm.Session(["left", "right"], mm.Rke(bandwidth=1.0))
    >>> session.tell(session.ask(), [0.0])
    >>> session.report()["right"].samples
    1
    """

    name: str
    samples: int
    pending: int
    abandoned: int
    share: float
    weight: float
    loss: float | None
    changed: int | None = None
    kept: int | None = None
    known: int = 0

    def __float__(self) -> float:
        """Its weight."""
        return self.weight


@dataclass(frozen=True)
class ChosenBandwidth:
    """A bandwidth that a session chose by the median rule.

    Attributes
    ----------
    bandwidth
        The bandwidth σ.
    samples
        Number of samples at that time, known ones included. The median rule uses at most 500 of them.
    known
        Of these, known samples that were not collected.
    round
        Number of pulls answered at that time.

    Examples
    --------
    >>> import modelmix as mm
    >>> session = mm.Session(["one"], mm.Rke())
    >>> for place in range(10):
    ...     session.tell(session.ask(), [float(place)])
    >>> print(session.report().bandwidth)
    bandwidth 3.00: median rule over 10 samples, fixed at round 10
    """

    bandwidth: float
    samples: int
    known: int
    round: int

    def __str__(self) -> str:
        """The bandwidth and its source."""
        found = f"median rule over {count(self.samples)} samples, fixed at round {self.round}"
        return f"bandwidth {brief(self.bandwidth)}: {found}"


@dataclass(frozen=True)
class FeatureError:
    """The error that random features cause in a session's numbers, estimated from the held samples, between which κ is exact.

    Attributes
    ----------
    features
        Random features per kernel.
    stated
        The requested standard error of an entry of K.
    held
        Samples held.
    estimated
        The share of all pairs of samples whose κ is estimated by random features.
    entry
        The error of the least accurate entry of K; positive if it is too large.
    entry_error
        Its standard error.
    loss_bias
        The bias of ``mixture_loss``; positive if it is too large.
    loss_bias_error
        Its standard error.
    score_bias
        The bias of the score; ``None`` unless the objective is one term with a score.
    score_bias_error
        Its standard error.

    Examples
    --------
    >>> import modelmix as mm
    >>> settings = mm.SessionSettings(retention=mm.Capped(10))
    >>> session = mm.Session(["a"], mm.Rke(bandwidth=1.0), settings=settings, batch=5)
    >>> for _ in range(4):
    ...     session.tell(session.ask(), [[float(number)] for number in range(5)])
    >>> session.report().feature_error.held
    10
    """

    features: int
    stated: float
    held: int
    estimated: float
    entry: float
    entry_error: float
    loss_bias: float
    loss_bias_error: float
    score_bias: float | None
    score_bias_error: float | None

    def __str__(self) -> str:
        """The bias and its standard error."""
        pairs = f"κ of {percent(self.estimated)} of the pairs is estimated by {count(self.features)} features"
        if self.score_bias is None or self.score_bias_error is None:
            return f"{pairs}; bias of the mixture's loss {brief(self.loss_bias)} ± {brief(self.loss_bias_error)}"
        return f"{pairs}; bias of the mixture's score {brief(self.score_bias)} ± {brief(self.score_bias_error)}"


@dataclass(frozen=True)
class Verdict:
    """Why a session may stop.

    Attributes
    ----------
    samples
        Number of samples at that time.
    mixture
        The mixture that is near the optimum, as weights per arm.
    within
        An upper bound on its loss minus the least loss, at the requested confidence.

    Examples
    --------
    >>> Verdict(samples=500, mixture={"flux": 0.6, "sdxl": 0.4}, within=0.001).within
    0.001
    """

    samples: int
    mixture: dict[str, float]
    within: float


@dataclass(frozen=True, repr=False)
class SessionReport(Keyed[str, SessionArm]):
    """The state of a session: a mapping of arms.

    Attributes
    ----------
    policy
        The policy's text.
    objective
        The objective's text, with the bandwidth given; ``None`` for a session on values.
    kernels
        Its kernels, with the bandwidths used; without terms whose bandwidth is not chosen yet.
    rounds
        Number of pulls answered.
    samples
        Number of collected samples: those told, without those forgotten.
    arms
        The arms.
    loss
        The loss of the collected samples; ``None`` before the first.
    mixture_loss
        The loss of the best mixture of the held samples.
    gap
        The duality gap of the weights.
    best_single
        The name of the best single arm so far.
    quadratic
        K (V-statistics); zeros for arms without samples.
    linear
        f; zeros for arms without samples.
    bound_on_weights
        An upper bound on the loss of the weights minus the least loss of any mixture of the models, at the current state and at
        the requested confidence (default 95%); ``None`` without ``bounds=True``, and while an arm has fewer than ten samples.
    bound_on_shares
        The same for the shares of the collected samples.
    is_done
        Whether the session may stop.
    verdict
        Why it may stop.
    feature_error
        The effect of random features, once a session with :class:`~modelmix.Capped` has evicted samples.
    kept
        Number of samples kept; ``None`` if all are.
    kept_loss
        Their loss.
    note
        A caution for users of the kept samples.
    known
        Number of known samples that were not collected (:meth:`modelmix.Session.known`). Weights, losses of arms and bounds
        include them; ``samples``, ``loss`` and shares do not.
    bandwidth
        The bandwidth that the session chose; ``None`` if it was given, or is not chosen yet.
    is_bandwidth_open
        Whether the session still collects the samples from which it will choose a bandwidth. Weights are 0 until then.
    provenance
        Where the report comes from: version, engine and bandwidths. It plays no part in comparisons.

    Examples
    --------
    >>> import modelmix as mm
    >>> session = mm.Session(["left", "right"], mm.Rke(bandwidth=1.0))
    >>> session.tell(session.ask(), [0.0])
    >>> report = session.report()
    >>> list(report), report.samples, "right" in report
    (['left', 'right'], 1, True)
    """

    policy: str
    objective: str | None
    kernels: tuple[dict[str, Any], ...]
    rounds: int
    samples: int
    arms: tuple[SessionArm, ...]
    loss: float | None
    mixture_loss: float | None
    gap: float | None
    best_single: str | None
    quadratic: tuple[tuple[float, ...], ...]
    linear: tuple[float, ...]
    bound_on_weights: float | None = None
    bound_on_shares: float | None = None
    is_done: bool = False
    verdict: Verdict | None = None
    feature_error: FeatureError | None = None
    kept: int | None = None
    kept_loss: float | None = None
    note: str | None = None
    known: int = 0
    bandwidth: ChosenBandwidth | None = None
    is_bandwidth_open: bool = False
    provenance: Provenance | None = field(default=None, compare=False)

    @property
    def weights(self) -> dict[str, float]:
        """The weights of the best mixture so far, per arm."""
        return {arm.name: arm.weight for arm in self.arms}

    @property
    def shares(self) -> dict[str, float]:
        """The arms' shares of the collected samples."""
        return {arm.name: arm.share for arm in self.arms}

    def _entries(self) -> dict[str, SessionArm]:
        return by_name(self.arms)

    @classmethod
    def _read(cls, document: dict[str, Any]) -> SessionReport:
        arms = tuple(SessionArm(**arm) for arm in document["arms"])
        best = document["best_single"]
        stopped = document["verdict"]
        if stopped is not None:
            shares = zip((arm.name for arm in arms), stopped["mixture"], strict=True)
            stopped = Verdict(stopped["samples"], dict(shares), stopped["within"])
        return cls(
            policy=document["policy"],
            objective=document["objective"],
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
            bandwidth=ChosenBandwidth(**document["bandwidth"]) if "bandwidth" in document else None,
            is_bandwidth_open=document.get("is_bandwidth_open", False),
            provenance=Provenance._read(document.get("provenance")),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data, in the format of the library's ``SessionReport`` (``modelmix schema session``).

        The best single arm is an index into the arms, and the mixture of a verdict is in their order.

        Returns
        -------
        dict
            Fields by name.
        """
        whole = _some_known(present(plain(self), "feature_error", "kept", "kept_loss", "note", "bandwidth"))
        del whole["provenance"]
        if not self.is_bandwidth_open:
            del whole["is_bandwidth_open"]
        names = [arm.name for arm in self.arms]
        whole["form"] = {"quadratic": whole.pop("quadratic"), "linear": whole.pop("linear")}
        whole["best_single"] = None if self.best_single is None else names.index(self.best_single)
        if self.verdict is not None:
            whole["verdict"]["mixture"] = [self.verdict.mixture[name] for name in names]
        whole["arms"] = [_some_known(present(arm, "changed", "kept")) for arm in whole["arms"]]
        return {**whole, **documented(self.provenance)}

    def to_pandas(self) -> pd.DataFrame:
        """Return a data frame with one row per arm; with columns ``known``, ``kept`` and ``changed`` (the round of a drift
        alarm) if there are any.

        Returns
        -------
        pandas.DataFrame
            The frame.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
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

    def plot(self, ax: axes.Axes | None = None) -> axes.Axes:
        """Draw the weights next to the shares of the collected samples.

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

        return plots.session(self, ax)

    def _table(self) -> Table:
        troubled = any(arm.abandoned for arm in self.arms)
        flying = any(arm.pending for arm in self.arms)
        header = ["arm", "weight", "", "share", "samples", "loss"]
        header += ["known"] if self.known else []
        header += [] if self.kept is None else ["kept"]
        header += (["in flight"] if flying else []) + (["abandoned"] if troubled else [])
        rows: list[Sequence[str]] = []
        weights, shares = percents(arm.weight for arm in self.arms), percents(arm.share for arm in self.arms)
        for arm, weight, share in zip(self.arms, weights, shares, strict=True):
            row = [arm.name, weight, bar(arm.weight), share]
            row += [count(arm.samples), number(arm.loss)]
            row += [count(arm.known)] if self.known else []
            row += [] if self.kept is None else [count(arm.kept)]
            row += [count(arm.pending)] if flying else []
            rows.append(row + ([count(arm.abandoned)] if troubled else []))
        samples = _samples(self.samples)
        if self.is_bandwidth_open and self.samples + self.known:
            title = f"After {_samples(self.samples + self.known)}: the bandwidth is not chosen yet, so there are no weights."
        elif self.mixture_loss is None:
            title = f"No samples yet of {len(self.arms)} arm{'' if len(self.arms) == 1 else 's'}."
        else:
            named = named_shares([(arm.name, arm.weight) for arm in self.arms])
            before = (
                f"From {_samples(self.known, 'known ')} alone"
                if self.known and not self.samples
                else f"After {samples}"
            )
            title = f"{before}: {named}."
        objective = f"objective {self.objective}, " if self.objective else ""
        note = (
            f"{objective}policy {self.policy}; loss of the samples held {number(self.loss)}, "
            f"of the best mixture of them {number(self.mixture_loss)}, "
            f"best single arm {EMPTY if self.best_single is None else self.best_single}"
        )
        if self.bandwidth is not None:
            note += f"; {self.bandwidth}"
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
    """The field of a document, which is present only if samples were known."""
    return {name: value for name, value in fields.items() if name != "known" or value}


def _samples(number: int, kind: str = "") -> str:
    return f"{count(number)} {kind}sample{'' if number == 1 else 's'}"
