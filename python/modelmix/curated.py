"""Coreset selection: the best subset of recorded samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from . import _check, _modelmix
from ._arguments import checked
from ._arms import Arms, Scores, arms_and_scores
from ._files import Rows
from ._inputs import Inputs
from ._problem import problem
from ._progress import Bar
from ._provenance import add_inputs
from ._settings import CurateSettings
from .encoders._registry import EncoderGiven
from .objectives import Objective
from .results import Curated

__all__ = ["curate"]


def __dir__() -> list[str]:
    return __all__


@checked
def curate(
    arms: Arms,
    objective: Objective | str | None = None,
    *,
    count: int,
    arm: str | None = None,
    features: str | Sequence[str] | None = None,
    proportions: Literal["best", "mixture", "free"] = "best",
    floor: Mapping[str, float] | None = None,
    cap: Mapping[str, float] | None = None,
    sweeps: int = 10,
    pool: int = 100_000,
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
    progress: bool = False,
) -> Curated:
    """Select the best subset of ``count`` rows (a coreset), to publish or to train on.

    No row is selected twice. **A curated set is no longer an i.i.d. mixture**: its rows are chosen together to minimise the
    objective, so its score is optimistically biased. Evaluate it on held-out data.

    Parameters
    ----------
    arms
        Features of every model, as in :func:`modelmix.solve`.
    objective
        The objective to minimise, as in :func:`modelmix.solve`.
    count
        The number of rows to select.
    arm, features
        Columns, if ``arms`` is a frame with one row per sample, as in :func:`modelmix.solve`.
    proportions
        ``"mixture"`` uses the shares of the optimal mixture, ``"free"`` allows any shares within ``floor`` and ``cap``, ``"best"``
        tries both and returns the better set.
    floor, cap
        The smallest and the largest share of an arm, by arm.
    sweeps
        The maximum number of passes that try to exchange each selected row.
    pool
        The maximum number of candidate rows; if there are more, a random pool of this size is drawn.
    reference, bandwidth, costs, scores
        Inputs of the objective, as in :func:`modelmix.solve`.
    encoder
        What turns images and texts into features, as in :func:`modelmix.solve`.
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
    Curated
        The selected rows and their loss; a mapping of arms.

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
    >>> chosen = mm.curate("data/fashion/truncated.npz", mm.Rke(bandwidth=20), count=50)
    >>> chosen.loss < chosen.random.loss[0]
    True
    >>> sum(len(rows) for rows in chosen.indices.values())
    50
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
    settings = CurateSettings(
        _check.whole("count", count),
        _check.choice("proportions", proportions, "best", "mixture", "free"),
        _check.whole("sweeps", sweeps),
        _check.whole("pool", pool),
        _check.by_arm("floor", "floor", floor),
        _check.by_arm("cap", "cap", cap),
    )
    with Bar(progress, "selecting", "row") as shown:
        document, sentence, how = _modelmix.curate(
            recorded, given, settings, shown.started, shown.done if progress else None
        )
    return Curated._read(
        add_inputs(document, arms, given.reference_given, scores, inputs), sentence, how, inputs.encoded
    )
