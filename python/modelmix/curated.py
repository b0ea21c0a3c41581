"""A set to publish: the rows of the samples at hand that make the best set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from . import _modelmix
from ._arrays import Arms, ArrayLike, named
from ._numbers import by_arm, whole
from ._progress import Bar
from ._settings import CurateSettings
from .objectives import Objective, ScoreValues, problem
from .results import Curated

__all__ = ["curate"]


def curate(
    arms: Arms,
    objective: Objective | str | None = None,
    *,
    count: int,
    proportions: Literal["best", "mixture", "free"] = "best",
    floor: Mapping[str, float] | None = None,
    cap: Mapping[str, float] | None = None,
    sweeps: int = 10,
    pool: int = 100_000,
    reference: ArrayLike | None = None,
    bandwidth: float | None = None,
    costs: Mapping[str, float] | None = None,
    scores: Mapping[str, ScoreValues] | None = None,
    seed: int = 0,
    threads: int | None = None,
    progress: bool = False,
) -> Curated:
    """Choose ``count`` rows of the arms whose loss is the smallest found: a set to publish, or to train on.

    No row comes twice. ``proportions="mixture"`` keeps the optimal mixture's shares, ``"free"`` any that ``floor`` and ``cap``
    allow; ``"best"`` tries both. Every chosen row is looked at for an exchange up to ``sweeps`` times. Of more than ``pool`` rows
    a pool is drawn by ``seed``. The rest is as in :func:`solve`.

    **A curated set is no longer an i.i.d. mixture**: its rows were chosen to fit the objective together, so its score flatters
    it.

    >>> import modelmix as mm
    >>> arms = mm.load("data/fashion/truncated.npz")
    >>> chosen = mm.curate(arms, mm.Rke(bandwidth=20), count=50)
    >>> chosen.loss < chosen.random.loss[0]
    True
    >>> sum(len(rows) for rows in chosen.indices.values())
    50
    """
    given = problem(
        objective, reference=reference, costs=costs, scores=scores, bandwidth=bandwidth, seed=seed, threads=threads
    )
    settings = CurateSettings(
        whole("count", count),
        str(proportions),
        whole("sweeps", sweeps),
        whole("pool", pool),
        by_arm("floor", floor),
        by_arm("cap", cap),
    )
    with Bar(progress, "choosing", "row") as shown:
        found = _modelmix.curate(named(arms), given, settings, shown.started, shown.done if progress else None)
    return Curated._read(*found)
