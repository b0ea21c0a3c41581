"""An objective with its inputs, in the form that the extension accepts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _check, _modelmix
from ._arms import ScoreValues
from ._compute import Compute, compute
from ._cuda import DeviceArray
from ._files import Rows, is_path, rows, score_arms, score_values
from ._inputs import Inputs
from ._lazy import Lazy
from ._warnings import warn
from .objectives import Objective

if TYPE_CHECKING:
    import numpy.typing as npt
else:
    npt = Lazy("numpy.typing")


@dataclass(frozen=True)
class Problem:
    """An objective with its inputs, in the form that the extension accepts."""

    objective: str | None
    reference: npt.NDArray[Any] | DeviceArray | None
    costs: dict[str, float] | None
    scores: dict[str, dict[str, list[float]]]
    bandwidth: float | None
    kappa_range: tuple[float, float] | None
    score_ranges: dict[str, tuple[float, float]]
    width: int | None
    seed: int
    compute: Compute
    #: The reference as it was given: a path or rows.
    reference_given: Any = None


def of(objective: Objective | str | None, name: str = "objective") -> Objective | None:
    """Return the objective, parsed if it is text, or ``None`` if there is none; ``name`` is that of the argument."""
    if isinstance(objective, str):
        return Objective(objective)
    if objective is not None and not isinstance(objective, Objective):
        raise _check.wrong_type(name, objective, "an objective: text, or terms such as mm.Rke()")
    return objective


def problem(
    objective: Objective | str | None,
    *,
    beside: Objective | None = None,
    reference: Rows | None = None,
    costs: Mapping[str, float] | None = None,
    scores: Mapping[str, ScoreValues] | None = None,
    bandwidth: float | None = None,
    kappa_range: tuple[float, float] | None = None,
    score_ranges: Mapping[str, tuple[float, float]] | None = None,
    width: int | None = None,
    seed: int = 0,
    threads: int | None = None,
    engine: str = "auto",
    gpu_memory: int | str | None = None,
    precision: str = "auto",
    inputs: Inputs | None = None,
) -> Problem:
    """Combine the inputs of the terms of the objective, those of a second objective ``beside`` it, and the arguments of the call."""
    objective = of(objective)
    if objective is not None:
        warn(_modelmix.objective_warnings(str(objective), False))
    if beside is not None:
        warn(_modelmix.objective_warnings(str(beside), True))
    terms = tuple(term for part in (objective, beside) if part is not None for term in part._terms)
    all_scores = dict(scores or {})
    ranges = _check.intervals("score_ranges", score_ranges)
    for term in terms:
        reference = _same("reference", term.reference, reference)
        costs = _same("costs", term.costs, costs)
        if term.score is not None and term.values is not None:
            all_scores[term.score] = _same(f"values of {term.score}", term.values, all_scores.get(term.score)) or {}
        if term.score is not None and term.range is not None:
            ranges[term.score] = _check.interval(f"the range of {term.score}", term.range)
    read = rows if inputs is None else inputs.rows
    features = None if reference is None else read("the reference", reference)
    if inputs is not None:
        inputs.check_encoder()
    return Problem(
        objective=None if objective is None else str(objective),
        reference=features,
        costs=None if costs is None else _check.by_arm("costs", "cost", costs),
        scores={name: _score(name, values) for name, values in all_scores.items()},
        bandwidth=_check.real_or_none("bandwidth", bandwidth),
        kappa_range=None if kappa_range is None else _check.interval("kappa_range", kappa_range),
        score_ranges=ranges,
        width=_check.whole_or_none("width", width, 1),
        seed=_check.seed(seed),
        compute=compute(threads, engine, gpu_memory, precision),
        reference_given=reference,
    )


def _score(name: str, values: ScoreValues) -> dict[str, list[float]]:
    """Return the values of a score, by arm."""
    given: Any = values
    arms = score_arms(f"score {name}", given) if is_path(given) else given
    by_arm = _check.mapping(f"score {name}", arms, 'one list of numbers per arm, such as {"flux": [0.5, …]}')
    return {_check.arm_name(arm): score_values(f"score {name} of arm {arm}", one) for arm, one in by_arm.items()}


def _same(what: str, one: Any, other: Any) -> Any:
    """Return the one that is not ``None``; raise if two different ones are given."""
    same = one is other or (is_path(one) and one == other)
    if one is not None and other is not None and not same:
        raise ValueError(
            f"the objective has two different {what}; pass the same object to all terms, or pass it once, as in mm.solve(…, {what.split()[0]}=…)"
        )
    return other if one is None else one
