"""Sample-size planning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from . import _check, _modelmix
from ._arguments import checked
from ._arms import Arms, Scores, arms_and_scores
from ._files import Rows
from ._inputs import Inputs
from ._problem import problem
from ._provenance import add_inputs
from .encoders._registry import EncoderGiven
from .objectives import Objective
from .results import SamplePlan

__all__ = ["plan"]


def __dir__() -> list[str]:
    return __all__


@checked
def plan(
    arms: Arms,
    objective: Objective | str | None = None,
    *,
    gain_error: str | None = None,
    weight_error: float | None = None,
    arm: str | None = None,
    features: str | Sequence[str] | None = None,
    reference: Rows | None = None,
    encoder: EncoderGiven | None = None,
    bandwidth: float | None = None,
    costs: Mapping[str, float] | None = None,
    scores: Scores | None = None,
    seed: int = 0,
    threads: int | None = None,
    engine: str = "auto",
    gpu_memory: int | str | None = None,
    precision: str = "auto",
) -> SamplePlan:
    """Plan how many samples per arm give confidence intervals of a wanted width, from a pilot.

    Parameters
    ----------
    arms
        Features of the pilot: a few hundred samples per model, as in :func:`modelmix.solve`.
    objective
        The objective to minimise, as in :func:`modelmix.solve`.
    gain_error
        The wanted half-width of the 95% interval of the gain: ``"5%"`` of the gain, or ``"loss=0.001"``.
    weight_error
        The wanted half-width of the widest 95% interval of a weight, such as 0.05. Give ``gain_error``, ``weight_error`` or both.
    arm, features
        Columns, if ``arms`` is a data frame with one row per sample, as in :func:`modelmix.solve`.
    costs
        The cost per sample of each arm; the optimal allocation then has the lowest cost. Also for a term :class:`Cost`.
    reference, bandwidth, scores
        Inputs of the objective, as in :func:`modelmix.solve`.
    encoder
        What turns images and texts into features, as in :func:`modelmix.solve`.
    seed
        The random seed of an automatic bandwidth.
    threads
        Threads to compute with; all cores if ``None``.
    engine, gpu_memory, precision
        Where to compute, the maximum GPU memory, and the precision of kernel sums, as in :func:`modelmix.solve`.

    Returns
    -------
    SamplePlan
        Samples per arm, with equal and with optimal allocation; a mapping of arms.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If an argument does not fit, or if ``gain_error`` is a share and the pilot shows no significant gain.
    OSError
        If a file cannot be read.

    Examples
    --------
    >>> import modelmix as mm
    >>> planned = mm.plan("data/fashion/categories.npz", mm.Rke(bandwidth=20), gain_error="5%")
    >>> planned.is_enough, planned.equal.more > 0
    (False, True)
    >>> planned.optimal.samples < planned.equal.samples
    True
    """
    inputs = Inputs(encoder, threads)
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
    if gain_error is not None and not isinstance(gain_error, str):
        raise _check.wrong_type("gain_error", gain_error, 'text with its unit, such as "5%" or "loss=0.001"')
    widest = _check.real_or_none("weight_error", weight_error)
    document, sentence = _modelmix.plan(recorded, given, gain_error, widest)
    return SamplePlan._read(add_inputs(document, arms, given.reference_given, scores, inputs), sentence)
