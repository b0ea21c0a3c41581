"""Offline functions: weights, scores and simulated runs from recorded samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from . import _check, _modelmix
from ._arguments import checked
from ._arms import Arms, arms_and_scores
from ._arms import Scores as ScoresGiven
from ._files import Rows
from ._inputs import Inputs
from ._problem import of, problem
from ._progress import Bar
from ._provenance import add_inputs
from ._settings import Analyses, ScoreSettings, SimulationArguments
from .encoders._registry import EncoderGiven
from .objectives import Objective
from .policies import Policy
from .policies import texts as policy_texts
from .results import Mixture, Scores, Simulation
from .settings import SessionSettings, Until, share_or_loss

__all__ = ["score", "simulate", "solve"]


def __dir__() -> list[str]:
    return __all__


#: Names of metrics.
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

#: Tools whose definitions are available as presets.
PresetName: TypeAlias = Literal["torch-fidelity", "clean-fid", "prdc", "vendi-score"]


@checked
def solve(
    arms: Arms,
    objective: Objective | str | None = None,
    *,
    arm: str | None = None,
    features: str | Sequence[str] | None = None,
    reference: Rows | None = None,
    encoder: EncoderGiven | None = None,
    bandwidth: float | None = None,
    costs: Mapping[str, float] | None = None,
    scores: ScoresGiven | None = None,
    floor: Mapping[str, float] | None = None,
    cap: Mapping[str, float] | None = None,
    subsets: bool = False,
    fees: Mapping[str, float] | None = None,
    samples: float | None = None,
    within: str | None = None,
    front: Objective | str | None = None,
    bandwidths: Sequence[float] | Literal["auto"] | None = None,
    intervals: bool = True,
    seed: int = 0,
    threads: int | None = None,
    engine: str = "auto",
    gpu_memory: int | str | None = None,
    precision: str = "auto",
    progress: bool = False,
) -> Mixture:
    """Find the weights of the mixture that minimises the objective.

    Parameters
    ----------
    arms
        Features of the models, one row per sample: a mapping from name to an array (NumPy, torch, a frame, a list of rows) or a
        file; one file or a list of files, as in :func:`modelmix.load`; or, with ``arm``, a frame with one row per sample. With
        ``encoder``, also images and texts: folders, files, and what :func:`modelmix.encode` takes.
    objective
        The objective to minimise, such as ``mm.Mmd(reference) - 0.2 * mm.Precision(reference)``, or its text. If ``None``, ``mmd``
        with a reference and ``rke`` without one.
    arm, features
        Columns, if ``arms`` is a frame or a ``.parquet`` file with one row per sample. ``arm`` is the column that contains the arm.
        ``features`` are the numeric columns, or one column with lists of numbers; all other columns if ``None``.
    reference
        Features of real samples, or a file, unless the terms of the objective contain it.
    encoder
        What turns images and texts into features, if ``arms`` or the reference are folders or files of them: a name, an ``.onnx`` file, an
        encoder from :func:`modelmix.encoders.open`, or a function, as in :func:`modelmix.encode`.
    bandwidth
        The bandwidth of :class:`Rke` and :class:`Mmd` terms that name no kernel. If ``None``, the median distance
        (:func:`modelmix.median_bandwidth`).
    costs
        The price per sample, by arm, unless the objective contains it.
    scores
        Scores that the objective names: a mapping from name to arm to one value per sample, or to files; a JSON file of that form;
        or, with ``arm``, names of columns.
    floor, cap
        The smallest and the largest weight of an arm, by arm.
    subsets
        Whether to find the best mixture of at most 1, 2, … arms (``Mixture.subsets``).
    fees
        The fixed cost per period of using an arm, one per arm. Requests the cheapest mixture (``Mixture.cheapest``).
    samples
        The number of samples per period, for the cheapest mixture.
    within
        The tolerance of the cheapest mixture: ``"5%"`` of the gain, or a loss, ``"loss=0.001"``.
    front
        A second objective. Requests the Pareto front of both (``Mixture.front``).
    bandwidths
        ``"auto"`` or a list. Requests the best mixture for each bandwidth (``Mixture.sensitivity``).
    intervals
        Whether to compute confidence intervals and the p-value. ``False`` saves time and memory if there are many arms.
    seed
        The random seed.
    threads
        The number of threads; all cores if ``None``.
    engine
        Where to compute: ``"cpu"``, ``"cuda"`` or a device such as ``"cuda:1"``. ``"auto"`` uses a GPU if there is one and the work
        is large, or if arrays are on one.
    gpu_memory
        The maximum GPU memory: bytes, or text such as ``"8GB"``; all that is free if ``None``.
    precision
        ``"auto"`` computes kernel sums from 16-bit integers or, on a GPU, split half precision, if their estimated error is small.
        ``"exact"`` uses at least single precision, and double precision on a GPU. Results name what was used.
    progress
        Whether to show a progress bar (needs tqdm).

    Returns
    -------
    Mixture
        The weights, as a mapping of arms that converts to a table, a frame and a figure.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If an input is invalid; the message names it and states the fix.
    OSError
        If a file cannot be read.

    Examples
    --------
    >>> import modelmix as mm
    >>> reference = mm.load_array("data/fashion/reference.npy")
    >>> best = mm.solve("data/fashion/specialists.npz", mm.Mmd(reference, bandwidth=20))
    >>> {name: round(weight, 2) for name, weight in best.weights.items()}
    {'tops_gan': 0.37, 'shoes_gan': 0.31, 'legs_bags_gan': 0.31, 'vae': 0.0, 'flow': 0.0}
    """
    second = of(front, "front")
    inputs = Inputs(encoder, threads, progress)
    recorded, values = arms_and_scores(arms, arm, features, scores, inputs)
    given = problem(
        objective,
        beside=second,
        reference=reference,
        costs=costs,
        scores=values,
        bandwidth=bandwidth,
        seed=seed,
        threads=threads,
        engine=engine,
        gpu_memory=gpu_memory,
        precision=precision,
        inputs=inputs,
    )
    auto = isinstance(bandwidths, str)
    analyses = Analyses(
        subsets=_check.flag("subsets", subsets),
        fees=None if fees is None else _check.by_arm("fees", "fee", fees),
        samples=_check.real_or_none("samples", samples),
        within=None if within is None else share_or_loss("within", within),
        front=None if second is None else str(second),
        bandwidths=None if bandwidths is None or auto else _list(bandwidths),
        bandwidths_text=str(bandwidths) if auto else None,
        intervals=_check.flag("intervals", intervals),
    )
    with Bar(progress, "solving", "pair", scaled=True) as bar:
        document, sentence, certainty = _modelmix.solve(
            recorded,
            given,
            _check.by_arm("floor", "floor", floor),
            _check.by_arm("cap", "cap", cap),
            analyses,
            bar.started,
            bar.done if progress else None,
        )
    return Mixture._read(add_inputs(document, arms, given.reference_given, scores, inputs), sentence, certainty)


def _list(bandwidths: Any) -> list[float]:
    found = _check.items("bandwidths", bandwidths, "auto, or a list of positive numbers")
    return [_check.positive("a bandwidth in bandwidths", bandwidth) for bandwidth in found]


@checked
def score(
    arms: Arms,
    reference: Rows | None = None,
    *,
    encoder: EncoderGiven | None = None,
    arm: str | None = None,
    features: str | Sequence[str] | None = None,
    metrics: Sequence[MetricName] | None = None,
    preset: PresetName | None = None,
    weights: Mapping[str, float] | None = None,
    mixture: bool = True,
    objective: Objective | str | None = None,
    bandwidth: float | None = None,
    costs: Mapping[str, float] | None = None,
    scores: ScoresGiven | None = None,
    order: float | None = None,
    neighbours: int | None = None,
    subsets: int | None = None,
    subset_size: int | None = None,
    subset_seed: int | None = None,
    seed: int = 0,
    threads: int | None = None,
    engine: str = "auto",
    gpu_memory: int | str | None = None,
    precision: str = "auto",
    progress: bool = False,
) -> Scores:
    """Score every arm, and a mixture of them: RKE, Vendi, KID, FID, precision, recall, density, coverage.

    Parameters
    ----------
    arms
        Features of every model, as in :func:`solve`.
    reference
        Features of real samples, or a file. Without a reference, only RKE and Vendi are computed.
    encoder
        What turns images and texts into features, as in :func:`solve`. If it is a name and has the preprocessing of ``preset``, that is
        used.
    arm, features
        Columns, if ``arms`` is a frame with one row per sample, as in :func:`solve`.
    metrics
        Names of the metrics, such as ``["fid", "precision"]``. If ``None``, those of the paper, or of ``preset``.
    preset
        A tool whose definitions to use: ``"torch-fidelity"``, ``"clean-fid"``, ``"prdc"`` or ``"vendi-score"``.
    weights
        The weights of the mixture, by arm, with sum 1, or a :class:`Mixture`. If ``None``, the optimal weights for ``objective``.
    mixture
        Whether to score a mixture.
    objective, costs, scores
        The objective that the mixture minimises, and its inputs, as in :func:`solve`.
    bandwidth
        The bandwidth of the Gaussian kernel of RKE and MMD. If ``None``, the median distance.
    order
        The order of the Vendi score.
    neighbours
        k of the k-nearest-neighbour radii.
    subsets, subset_size, subset_seed
        The random subsets of KID: their number, size and seed.
    seed
        The random seed.
    threads
        The number of threads; all cores if ``None``.
    engine, gpu_memory, precision
        Where to compute, the maximum GPU memory, and the precision of kernel sums, as in :func:`modelmix.solve`.
    progress
        Whether to show a progress bar (needs tqdm).

    Returns
    -------
    Scores
        A table with one row per arm and one for the mixture; a mapping of arms.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If an input is invalid; the message names it and states the fix.
    OSError
        If a file cannot be read.

    Examples
    --------
    >>> import modelmix as mm
    >>> arms, reference = "data/fashion/specialists.npz", "data/fashion/reference.npy"
    >>> table = mm.score(arms, reference, metrics=["fid"], weights={"vae": 0.5, "flow": 0.5})
    >>> round(table["vae"]["fid"], 1) > round(table.mixture["fid"], 1)
    True
    """
    mixture = _check.flag("mixture", mixture)
    if not mixture and weights is not None:
        raise ValueError("weights are given, but mixture=False asks for no mixture; remove one of them")
    inputs = Inputs(encoder, threads, progress, _check.text_or_none("preset", preset))
    recorded, values = arms_and_scores(arms, arm, features, scores, inputs)
    given = problem(
        objective,
        reference=reference,
        costs=costs,
        scores=values,
        bandwidth=bandwidth,
        seed=seed,
        threads=threads,
        engine=engine,
        gpu_memory=gpu_memory,
        precision=precision,
        inputs=inputs,
    )
    settings = ScoreSettings(
        metrics=None if metrics is None else _check.name_list("metrics", metrics),
        preset=_check.text_or_none("preset", preset),
        kernel=None if bandwidth is None else f"bandwidth={bandwidth}",
        order=_check.real_or_none("order", order),
        neighbours=_check.whole_or_none("neighbours", neighbours, 1),
        subsets=_check.whole_or_none("subsets", subsets, 1),
        subset_size=_check.whole_or_none("subset_size", subset_size, 1),
        subset_seed=_check.whole_or_none("subset_seed", subset_seed, 0, _check.MOST_SHORT_SEED),
        seed=given.seed,
    )
    with Bar(progress, "scoring", "set") as bar:
        document = _modelmix.score(
            recorded,
            given,
            settings,
            None if weights is None else _check.by_arm("weights", "weight", weights),
            mixture,
            bar.started,
            bar.done if progress else None,
        )
    return Scores._read(add_inputs(document, arms, given.reference_given, scores, inputs))


@checked
def simulate(
    arms: Arms,
    objective: Objective | str | None = None,
    *,
    arm: str | None = None,
    features: str | Sequence[str] | None = None,
    policies: Sequence[Policy | str] | None = None,
    rounds: int = 1000,
    seeds: int = 10,
    seed: int = 0,
    batch: int = 1,
    in_flight: int = 1,
    until: Until | str | None = None,
    settings: SessionSettings | None = None,
    known: int = 0,
    replacement: bool = True,
    checkpoints: int = 100,
    memory: int | None = None,
    reference: Rows | None = None,
    encoder: EncoderGiven | None = None,
    bandwidth: float | None = None,
    costs: Mapping[str, float] | None = None,
    scores: ScoresGiven | None = None,
    threads: int | None = None,
    engine: str = "auto",
    gpu_memory: int | str | None = None,
    precision: str = "auto",
    progress: bool = False,
) -> Simulation:
    """Simulate online runs of policies on recorded arms.

    Policies with the same seed receive the same samples.

    Parameters
    ----------
    arms
        Features of every model, as in :func:`solve`.
    objective
        The objective to minimise, as in :func:`solve`.
    arm, features
        Columns, if ``arms`` is a frame with one row per sample, as in :func:`solve`.
    policies
        Objects such as ``mm.Adaptive()``, or their text. If ``None``, the default policy, greedy and both oracles.
    rounds
        Pulls per run.
    seeds
        Runs per policy, with consecutive seeds: ``seed``, ``seed + 1``, ….
    seed
        The first random seed.
    batch
        Samples per pull.
    in_flight
        The number of pulls in flight at the same time.
    until
        The condition for early stopping (:class:`Until`). Each run continues, but records when it would have stopped and whether it
        was then outside the tolerance.
    settings
        Settings of the sessions. With ``select="better-half"``, the loss of the kept samples is also reported. ``alarm`` and
        ``storage`` have no effect here.
    known
        Samples per arm that are known before the first round (:meth:`Session.known`). They do not count as rounds.
    replacement
        Whether samples are drawn with replacement.
    checkpoints
        The number of rounds at which results are recorded.
    memory
        The maximum memory for precomputed kernel values, in bytes.
    reference, bandwidth, costs, scores
        Inputs of the objective, as in :func:`solve`.
    encoder
        What turns images and texts into features, as in :func:`solve`.
    threads
        The number of threads; all cores if ``None``.
    engine, gpu_memory, precision
        Where to compute, the maximum GPU memory, and the precision of kernel sums, as in :func:`modelmix.solve`.
    progress
        Whether to show a progress bar (needs tqdm).

    Returns
    -------
    Simulation
        The results by policy.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If an input is invalid; the message names it and states the fix.
    OSError
        If a file cannot be read.

    Examples
    --------
    >>> import modelmix as mm
    >>> arms = mm.load("data/fashion/truncated.npz")
    >>> report = mm.simulate(arms, mm.Rke(bandwidth=20), policies=[mm.Adaptive(), "greedy"], rounds=200, seeds=2)
    >>> list(report)
    ['adaptive', 'greedy']
    """
    inputs = Inputs(encoder, threads, progress)
    recorded, values = arms_and_scores(arms, arm, features, scores, inputs)
    given = problem(
        objective,
        reference=reference,
        costs=costs,
        scores=values,
        bandwidth=bandwidth,
        seed=seed,
        threads=threads,
        engine=engine,
        gpu_memory=gpu_memory,
        precision=precision,
        inputs=inputs,
    )
    chosen = SessionSettings._read(settings)
    arguments = SimulationArguments(
        policies=None if policies is None else policy_texts(policies),
        rounds=_check.whole("rounds", rounds),
        seeds=_check.whole("seeds", seeds),
        replacement=_check.flag("replacement", replacement),
        batch=_check.whole("batch", batch),
        in_flight=_check.whole("in_flight", in_flight),
        select=chosen.select,
        checkpoints=_check.whole("checkpoints", checkpoints),
        memory=_check.whole_or_none("memory", memory),
        until=Until._read(until),
        retention=chosen._retention(),
        known=_check.whole("known", known),
    )
    with Bar(progress, "simulating", "run") as bar:
        document = _modelmix.simulate(recorded, given, arguments, bar.started, bar.done if progress else None)
    return Simulation._read(add_inputs(document, arms, given.reference_given, scores, inputs))
