"""Offline: from recorded samples to weights, scores and simulated runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from . import _modelmix
from ._arrays import Arms, ArrayLike, named
from ._numbers import by_arm, real_or_none, whole, whole_or_none
from ._progress import Bar
from ._settings import Analyses, ScoreSettings, SimulationArguments
from .objectives import Objective, ScoreValues, of, problem
from .policies import Policy
from .policies import text as policy_text
from .results import Mixture, Scores, Simulation
from .settings import SessionSettings, Until

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["load", "load_array", "score", "simulate", "solve"]

#: The metrics' names.
MetricName: TypeAlias = Literal[
    "rke",
    "vendi",
    "kid",
    "kid_full",
    "mmd",
    "cmmd",
    "fid",
    "fid_infinity",
    "precision",
    "recall",
    "density",
    "coverage",
]

#: The tools whose definitions can be had.
PresetName: TypeAlias = Literal["torch-fidelity", "clean-fid", "prdc", "vendi-score"]


def load(*sources: str | PathLike[str]) -> dict[str, npt.NDArray[np.float32]]:
    """Read arms from files: ``.npy``, ``.npz``, ``.safetensors``, ``.csv``, ``.tsv``, ``.parquet``.

    A source is ``[name=]path[:key]``, as on the command line: an ``.npz`` or ``.safetensors`` file holds an arm an array, any
    other file is one arm named by its stem. The arrays cannot be written to; large files stay on disk and are mapped.

    >>> arms = load("data/fashion/specialists.npz")
    >>> list(arms)
    ['tops_gan', 'shoes_gan', 'legs_bags_gan', 'vae', 'flow']
    >>> load("a=data/fashion/specialists.npz:vae")["a"].shape
    (1500, 64)
    """
    return dict(_modelmix.load([fspath(source) for source in sources]))


def load_array(source: str | PathLike[str]) -> npt.NDArray[np.float32]:
    """Read one array, ``path[:key]``, such as a reference.

    >>> load_array("data/fashion/reference.npy").shape
    (2000, 64)
    """
    return _modelmix.load_array(fspath(source))


def solve(
    arms: Arms,
    objective: Objective | str | None = None,
    *,
    reference: ArrayLike | None = None,
    bandwidth: float | None = None,
    costs: Mapping[str, float] | None = None,
    scores: Mapping[str, ScoreValues] | None = None,
    floor: Mapping[str, float] | None = None,
    cap: Mapping[str, float] | None = None,
    subsets: bool = False,
    fees: Mapping[str, float] | None = None,
    samples: float | None = None,
    within: str | float | None = None,
    front: Objective | str | None = None,
    bandwidths: Sequence[float] | Literal["auto"] | None = None,
    intervals: bool = True,
    seed: int = 0,
    threads: int | None = None,
    progress: bool = False,
) -> Mixture:
    """Find the weights of the mixture that minimises the objective.

    ``arms`` are features by name: NumPy arrays, torch tensors, frames, n rows of d floats each. ``objective`` is
    ``mm.Kid(reference) - 0.2 * mm.Precision(reference)`` or text; without one it is ``kid`` where there is a reference, else
    ``rke``. ``bandwidth`` is for terms that name no kernel; without one it is the median distance. ``floor`` and ``cap`` are the
    smallest and largest shares that an arm may have.

    More can be asked: with ``subsets`` the best mixture of at most 1, 2, … arms (``best.subsets``); with ``fees`` (by arm, for a
    period in which it is used at all), or with ``costs`` and the number of ``samples`` bought in a period, the cheapest mixture
    ``within`` "5%" of the gain, or within a loss, of the best (``best.cheapest``); with ``front``, another objective, all mixtures
    between the best for the one and the best for the other (``best.front``); with ``bandwidths``, "auto" or a list, the best
    mixture for each of them (``best.sensitivity``). ``intervals=False`` leaves confidence intervals and the p-value out, which
    takes less time and memory with many arms.

    >>> import modelmix as mm
    >>> arms = mm.load("data/fashion/specialists.npz")
    >>> reference = mm.load_array("data/fashion/reference.npy")
    >>> best = mm.solve(arms, mm.Kid(reference, bandwidth=20))
    >>> {name: round(weight, 2) for name, weight in best.weights.items()}
    {'tops_gan': 0.37, 'shoes_gan': 0.31, 'legs_bags_gan': 0.31, 'vae': 0.0, 'flow': 0.0}
    """
    second = of(front)
    given = problem(
        objective,
        beside=second,
        reference=reference,
        costs=costs,
        scores=scores,
        bandwidth=bandwidth,
        seed=seed,
        threads=threads,
    )
    auto = isinstance(bandwidths, str)
    questions = Analyses(
        subsets=subsets,
        fees=None if fees is None else by_arm("fee", fees),
        samples=real_or_none("samples", samples),
        within=None if within is None else str(within),
        front=None if second is None else str(second),
        bandwidths=None if bandwidths is None or auto else _list(bandwidths),
        bandwidths_text=str(bandwidths) if auto else None,
        intervals=bool(intervals),
    )
    with Bar(progress, "solving", "pair", scaled=True) as bar:
        document, sentence, certainty = _modelmix.solve(
            named(arms),
            given,
            by_arm("floor", floor),
            by_arm("cap", cap),
            questions,
            bar.started,
            bar.done if progress else None,
        )
    return Mixture._read(document, sentence, certainty)


def _list(bandwidths: Iterable[Any]) -> list[float]:
    try:
        return [float(bandwidth) for bandwidth in bandwidths]
    except (TypeError, ValueError):
        raise ValueError(f"bandwidths is {bandwidths!r}, but it must be auto, or a list of positive numbers") from None


def score(
    arms: Arms,
    reference: ArrayLike | None = None,
    *,
    metrics: Sequence[MetricName] | None = None,
    preset: PresetName | None = None,
    weights: Mapping[str, float] | None = None,
    mixture: bool = True,
    objective: Objective | str | None = None,
    bandwidth: float | None = None,
    costs: Mapping[str, float] | None = None,
    scores: Mapping[str, ScoreValues] | None = None,
    order: float | None = None,
    neighbours: int | None = None,
    subsets: int | None = None,
    subset_size: int | None = None,
    subset_seed: int | None = None,
    seed: int = 0,
    threads: int | None = None,
    progress: bool = False,
) -> Scores:
    """Score every arm, and a mixture of them: RKE, Vendi, KID, FID, precision, recall, density, coverage.

    The mixture has the given ``weights``, or those that are best for ``objective`` (as in :func:`solve`); there is none with
    ``mixture=False``. ``preset`` gives the numbers of another tool. Without a reference there are RKE and Vendi.

    >>> import modelmix as mm
    >>> arms = mm.load("data/fashion/specialists.npz")
    >>> reference = mm.load_array("data/fashion/reference.npy")
    >>> table = mm.score(arms, reference, metrics=["fid"], weights={"vae": 1, "flow": 1})
    >>> round(table["vae"]["fid"], 1) > round(table.mixture["fid"], 1)
    True
    """
    if mixture is False and weights is not None:
        raise ValueError("weights are given, and mixture=False says that there is no mixture; leave one of them out")
    given = problem(
        objective, reference=reference, costs=costs, scores=scores, bandwidth=bandwidth, seed=seed, threads=threads
    )
    settings = ScoreSettings(
        metrics=None if metrics is None else [str(metric) for metric in metrics],
        preset=preset,
        kernel=None if bandwidth is None else f"bandwidth={bandwidth}",
        order=order,
        neighbours=neighbours,
        subsets=subsets,
        subset_size=subset_size,
        subset_seed=subset_seed,
        seed=seed,
    )
    with Bar(progress, "scoring", "set") as bar:
        document = _modelmix.score(
            named(arms),
            given,
            settings,
            None if weights is None else by_arm("weight", weights),
            mixture,
            bar.started,
            bar.done if progress else None,
        )
    return Scores._read(document)


def simulate(
    arms: Arms,
    objective: Objective | str | None = None,
    *,
    policies: Sequence[Policy | str] | None = None,
    rounds: int = 1000,
    seeds: int = 10,
    seed: int = 0,
    batch: int = 1,
    in_flight: int = 1,
    until: Until | str | float | None = None,
    settings: SessionSettings | None = None,
    known: int = 0,
    replacement: bool = True,
    checkpoints: int = 100,
    memory: int | None = None,
    reference: ArrayLike | None = None,
    bandwidth: float | None = None,
    costs: Mapping[str, float] | None = None,
    scores: Mapping[str, ScoreValues] | None = None,
    threads: int | None = None,
    progress: bool = False,
) -> Simulation:
    """Run policies on recorded arms, as if every sample had to be asked for, and see how quickly they find the mixture.

    Every policy runs with the seeds ``seed``, ``seed + 1``, …; policies of the same seed are given the same samples. With ``until``
    each run notes when it might have stopped (:class:`Until`), and whether that would have been wrong. ``settings`` are those of the
    sessions: with ``select="better-half"`` the loss of the samples that a session would keep is reported too; ``alarm`` and ``storage``
    change nothing here. ``known`` samples of every arm are drawn beforehand and known to the sessions (:meth:`Session.known`); they
    are not counted as rounds.

    >>> import modelmix as mm
    >>> arms = mm.load("data/fashion/truncated.npz")
    >>> report = mm.simulate(arms, mm.Rke(bandwidth=20), policies=[mm.Adaptive(), "greedy"], rounds=200, seeds=2)
    >>> list(report.policies)
    ['adaptive', 'greedy']
    """
    given = problem(
        objective, reference=reference, costs=costs, scores=scores, bandwidth=bandwidth, seed=seed, threads=threads
    )
    chosen = SessionSettings._read(settings)
    arguments = SimulationArguments(
        policies=None if policies is None else [policy_text(policy) for policy in policies],
        rounds=whole("rounds", rounds),
        seeds=whole("seeds", seeds),
        replacement=replacement,
        batch=whole("batch", batch),
        in_flight=whole("in_flight", in_flight),
        select=chosen.select,
        checkpoints=whole("checkpoints", checkpoints),
        memory=whole_or_none("memory", memory),
        until=Until._read(until),
        retention=chosen._retention(),
        known=whole("known", known),
    )
    with Bar(progress, "simulating", "run") as bar:
        document = _modelmix.simulate(named(arms), given, arguments, bar.started, bar.done if progress else None)
    return Simulation._read(document)
