"""Sample-size planning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .._lazy import Lazy
from .._modelmix import brief
from .._table import Table, count
from ._base import Keyed, by_name, frame, plain
from .provenance import Provenance, documented

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib import axes
else:
    pd, axes = Lazy("pandas"), Lazy("matplotlib.axes")

__all__ = ["Allocation", "HalfWidths", "PlannedArm", "SamplePlan"]


def __dir__() -> list[str]:
    return __all__


@dataclass(frozen=True)
class HalfWidths:
    """Half-widths of 95% intervals.

    Attributes
    ----------
    gain
        Of the gain.
    weight
        Of the least certain weight.

    Examples
    --------
    >>> import modelmix as mm
    >>> planned = mm.plan("data/fashion/categories.npz", mm.Rke(bandwidth=20), weight_error=0.1)
    >>> planned.pilot.weight < 0.1
    True
    """

    gain: float
    weight: float


@dataclass(frozen=True)
class PlannedArm:
    """An arm of an :class:`Allocation`. ``int()`` of it is its number of samples.

    Attributes
    ----------
    name
        The arm's name.
    pilot
        Samples in the pilot.
    samples
        Samples planned, including the pilot's.
    more
        Samples still to be recorded.

    Examples
    --------
    >>> import modelmix as mm
    >>> planned = mm.plan("data/fashion/categories.npz", mm.Rke(bandwidth=20), weight_error=0.1)
    >>> planned["bag"].pilot, planned["bag"].more
    (1000, 0)
    """

    name: str
    pilot: int
    samples: int
    more: int

    def __int__(self) -> int:
        """Samples planned."""
        return self.samples


@dataclass(frozen=True)
class Allocation:
    """Samples per arm, and the expected half-widths.

    Attributes
    ----------
    arms
        The arms.
    samples
        Samples of all arms together.
    more
        Samples to record in addition to the pilot.
    cost
        The cost of the samples to record; ``None`` if no costs were given.
    expected
        The expected half-widths.

    Examples
    --------
    >>> import modelmix as mm
    >>> planned = mm.plan("data/fashion/categories.npz", mm.Rke(bandwidth=20), weight_error=0.1)
    >>> planned.equal.expected.weight <= 0.1
    True
    """

    arms: tuple[PlannedArm, ...]
    samples: int
    more: int
    cost: float | None
    expected: HalfWidths

    @classmethod
    def _read(cls, document: dict[str, Any] | None) -> Allocation | None:
        if document is None:
            return None
        arms = tuple(PlannedArm(**arm) for arm in document["arms"])
        return cls(**{**document, "arms": arms, "expected": HalfWidths(**document["expected"])})


@dataclass(frozen=True, repr=False)
class SamplePlan(Keyed[str, PlannedArm]):
    """The number of samples per arm needed for confidence intervals of a wanted width: a mapping of arms.

    Its entries are those of the cheaper allocation; it is empty if the wanted widths cannot be reached.

    Attributes
    ----------
    version
        The version of modelmix that computed it.
    objective
        The objective's text, with the bandwidth given.
    kernels
        Its kernels, with the bandwidths used.
    gain
        The unbiased gain in the pilot.
    gain_interval
        Its 95% interval.
    p_value
        The p-value of the hypothesis that some single model is as good as any mixture.
    gain_error
        The wanted half-width of the gain's interval, as a loss; ``None`` if none was wanted.
    gain_error_share
        The same as a share of the gain, if it was given as a share.
    weight_error
        The wanted half-width of the widest interval of a weight; ``None`` if none was wanted.
    pilot
        The half-widths of the pilot's intervals.
    is_enough
        Whether the pilot's intervals are already narrow enough.
    limit
        The half-widths that remain with unlimited samples, because the reference is a sample too.
    equal
        The plan with an equal number of samples per arm; ``None`` if the wanted widths cannot be reached.
    optimal
        The plan with the cheapest addition to the pilot: more samples of the arms that the gain depends on, fewer of expensive
        ones; ``None`` if it is not cheaper, or without ``gain_error``.
    notes
        Cautions about the plan.
    sentence
        The plan in one sentence.
    provenance
        Where it comes from: version, engine, seed, inputs and bandwidths. It plays no part in comparisons.

    Examples
    --------
    >>> import modelmix as mm
    >>> planned = mm.plan("data/fashion/categories.npz", mm.Rke(bandwidth=20), weight_error=0.1)
    >>> planned.is_enough, planned.equal.more, list(planned)
    (True, 0, ['sneaker', 'bag', 'coat'])
    """

    version: str
    objective: str
    kernels: tuple[dict[str, Any], ...]
    gain: float
    gain_interval: tuple[float, float]
    p_value: float
    gain_error: float | None
    gain_error_share: float | None
    weight_error: float | None
    pilot: HalfWidths
    is_enough: bool
    limit: HalfWidths
    equal: Allocation | None
    optimal: Allocation | None
    notes: tuple[str, ...]
    sentence: str
    provenance: Provenance | None = field(default=None, compare=False)

    @property
    def best(self) -> Allocation | None:
        """The cheaper allocation."""
        return self.equal if self.optimal is None else self.optimal

    def _entries(self) -> dict[str, PlannedArm]:
        return {} if self.best is None else by_name(self.best.arms)

    @classmethod
    def _read(cls, document: dict[str, Any], sentence: str) -> SamplePlan:
        fields = {name: value for name, value in document.items() if name != "command"}
        low, high = document["gain_interval"]
        fields |= {
            "kernels": tuple(document["kernels"]),
            "gain_interval": (low, high),
            "pilot": HalfWidths(**document["pilot"]),
            "limit": HalfWidths(**document["limit"]),
            "equal": Allocation._read(document["equal"]),
            "optimal": Allocation._read(document["optimal"]),
            "notes": tuple(document["notes"]),
            "provenance": Provenance._read(document.get("provenance")),
        }
        return cls(**fields, sentence=sentence)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain data: the document of ``modelmix plan --json``.

        Returns
        -------
        dict
            Fields by name.
        """
        whole: dict[str, Any] = plain(self)
        del whole["sentence"], whole["provenance"]
        return {"command": "plan", **whole, **documented(self.provenance)}

    def to_pandas(self) -> pd.DataFrame:
        """Return a data frame with one row per arm: samples in the pilot, and planned by each allocation.

        Returns
        -------
        pandas.DataFrame
            The frame.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        kinds = [(name, kind) for name, kind in (("equal", self.equal), ("optimal", self.optimal)) if kind is not None]
        data: dict[str, Any] = {name: [arm.samples for arm in kind.arms] for name, kind in kinds}
        arms = kinds[0][1].arms if kinds else ()
        return frame({"pilot": [arm.pilot for arm in arms], **data}, index=[arm.name for arm in arms])

    def plot(self, ax: axes.Axes | None = None) -> axes.Axes:
        """Draw the samples of the pilot and of each allocation, per arm.

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

        return plots.plan(self, ax)

    def _table(self) -> Table:
        kinds = [(name, kind) for name, kind in (("equal", self.equal), ("optimal", self.optimal)) if kind is not None]
        header = ["arm", "pilot"]
        for name, _ in kinds:
            header += [name, "more"]
        rows: list[Sequence[str]] = []
        for place, arm in enumerate(kinds[0][1].arms if kinds else ()):
            row = [arm.name, count(arm.pilot)]
            for _, kind in kinds:
                row += [count(kind.arms[place].samples), count(kind.arms[place].more)]
            rows.append(row)
        widths = "; ".join(
            f"{name}: gain ±{brief(kind.expected.gain)}, widest weight ±{brief(kind.expected.weight)}"
            + (f", cost {brief(kind.cost)}" if kind.cost is not None else "")
            for name, kind in kinds
        )
        pilot = f"pilot: gain ±{brief(self.pilot.gain)}, widest weight ±{brief(self.pilot.weight)}"
        note = f"objective {self.objective}; {pilot}" + (f"; {widths}" if widths else "")
        return Table(self.sentence, header, rows, note, remark=" ".join(self.notes))
