"""The median rule, and single nearest-neighbour metrics."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import modelmix as mm

Array = npt.NDArray[Any]


def median_distance(rows: Array) -> float:
    rows = rows.astype(np.float64)
    distances = np.sqrt(((rows[:, None] - rows[None]) ** 2).sum(-1))[np.triu_indices(len(rows), 1)]
    return float(np.median(distances[distances > 0]))


def test_the_median_rule_against_numpy(blobs: dict[str, Array]) -> None:
    # fewer than 500 rows in all, so every row is used
    everything = np.concatenate(list(blobs.values()))
    assert mm.median_bandwidth(blobs) == pytest.approx(median_distance(everything), rel=1e-12)
    assert mm.median_bandwidth(blobs["left"]) == pytest.approx(median_distance(blobs["left"]), rel=1e-12)
    assert mm.median_bandwidth(reference=blobs["left"]) == mm.median_bandwidth(blobs, blobs["left"])
    assert mm.median_bandwidth([[0.0], [0.0], [3.0]]) == 3.0


@pytest.mark.parametrize("seed", [0, 7])
def test_solve_uses_the_median_rule(specialists: dict[str, Array], reference: Array, seed: int) -> None:
    free = mm.solve(specialists, mm.Rke(), seed=seed, intervals=False)
    assert free.kernels[0]["bandwidth"] == mm.median_bandwidth(specialists, seed=seed)
    bound = mm.solve(specialists, mm.Mmd(reference), seed=seed, intervals=False)
    assert bound.kernels[0]["bandwidth"] == mm.median_bandwidth(specialists, reference, seed=seed)
    assert mm.median_bandwidth(specialists, seed=0) != mm.median_bandwidth(specialists, seed=7)


def test_inputs_that_the_median_rule_rejects(blobs: dict[str, Array]) -> None:
    with pytest.raises(ValueError, match="needs samples; pass arms or a reference"):
        mm.median_bandwidth()
    with pytest.raises(ValueError, match="needs samples; pass at least one arm"):
        mm.median_bandwidth({})
    with pytest.raises(ValueError, match="all sampled rows are equal"):
        mm.median_bandwidth([[1.0], [1.0]])
    with pytest.raises(ValueError, match="samples have 4 and 2 columns; use features of one encoder"):
        mm.median_bandwidth({**blobs, "wide": [[0.0, 1.0], [2.0, 3.0]]})
    with pytest.raises(ValueError, match="arm left: 1 of its 2 values are masked"):
        mm.median_bandwidth({"left": np.ma.masked_array([[0.0], [1.0]], [[False], [True]])})


@pytest.mark.parametrize("metric", ["precision", "recall", "density", "coverage"])
@pytest.mark.parametrize("settings", [{}, {"neighbours": 3, "closed": True}])
def test_single_neighbour_metrics(metric: str, settings: dict[str, Any], blobs: dict[str, Array]) -> None:
    reference = blobs["middle"]
    one = getattr(mm.metrics, metric)
    assert one(blobs["left"], reference, **settings) == getattr(
        mm.metrics.prdc(blobs["left"], reference, **settings), metric
    )
    weights = {"left": 0.5, "middle": 0.25, "right": 0.25}
    mixed = mm.metrics.prdc(blobs, reference, weights=weights, **settings)
    assert one(blobs, reference, weights=weights, **settings) == getattr(mixed, metric)
    assert 0 <= float(one(blobs, reference, weights=weights, **settings)) <= 3


def test_precision_against_numpy(blobs: dict[str, Array]) -> None:
    reference, rows = blobs["middle"].astype(float), blobs["left"].astype(float)
    between = np.linalg.norm(rows[:, None] - reference[None], axis=-1)
    radii = np.sort(np.linalg.norm(reference[:, None] - reference[None], axis=-1), axis=1)[:, 3]
    own = np.sort(np.linalg.norm(rows[:, None] - rows[None], axis=-1), axis=1)[:, 3]
    settings: Any = {"neighbours": 3}
    assert float(mm.metrics.precision(rows, reference, **settings)) == pytest.approx((between < radii).any(1).mean())
    assert float(mm.metrics.recall(rows, reference, **settings)) == pytest.approx(
        (between < own[:, None]).any(0).mean()
    )
    assert float(mm.metrics.density(rows, reference, **settings)) == pytest.approx((between < radii).sum(1).mean() / 3)
    assert float(mm.metrics.coverage(rows, reference, **settings)) == pytest.approx((between.min(0) < radii).mean())
    with pytest.raises(ValueError, match="neighbours is 0, but it must be a whole number, at least 1"):
        mm.metrics.precision(rows, reference, neighbours=0)
