"""The common part of all metrics: from samples, weights and a reference to estimates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from .. import _check, _modelmix
from .._arms import Arms, sets_of
from .._compute import compute
from .._files import Rows, device_rows
from .._objective import checked_setting
from .._settings import ScoreSettings
from ..results import Estimate

#: Features of one model, or of several models by name; arrays or files.
Samples: TypeAlias = Rows | Arms

#: Threads, engine and GPU memory, as they were given.
Given: TypeAlias = tuple[int | None, str, int | str | None]


def kernel_text(**settings: object) -> str:
    """Return the settings of a kernel in the notation of objectives."""
    return ", ".join(f"{key}={checked_setting(key, value)}" for key, value in settings.items() if value is not None)


def estimates(
    names: list[str],
    samples: Samples,
    weights: Mapping[str, float] | None,
    reference: Rows | None,
    given: Given,
    **settings: Any,
) -> list[Estimate]:
    """Compute the named metrics."""
    sets = sets_of(samples)
    if weights is not None and [name for name, _ in sets] == [""]:
        raise ValueError(
            'weights are given, but there is only one set of samples; pass several by name, as in {"flux": flux, "sdxl": sdxl}'
        )
    found = _modelmix.metrics(
        sets,
        None if weights is None else _check.by_arm("weights", "weight", weights),
        None if reference is None else device_rows("the reference", reference),
        ScoreSettings(metrics=names, **settings),
        compute(*given),
    )
    return [Estimate(value, error, by) for _, value, error, by in found]
