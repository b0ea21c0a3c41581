"""Standard errors by brute force, for ``golden_metrics.py``: leave-one-out, or influence functions.

No peer computes them. Influences are computed by numerical differentiation and must agree with their closed forms.
"""

from __future__ import annotations

import math

import numpy as np

import golden_brute as brute
from golden import Array, gaussian
from golden_sets import Case, Set, agree, arm, reference


def rke_jackknife(generated: Set, bandwidth: float) -> Case:
    rows = generated.features()
    squares = np.square(brute.kernel_matrix(gaussian(bandwidth), rows, rows))

    def count(kept: Array) -> float:
        return len(kept) ** 2 / math.fsum(squares[np.ix_(kept, kept)].ravel())

    everyone = np.arange(len(rows))
    variance = brute.jackknife_variance([count(np.delete(everyone, row)) for row in everyone])
    setting = {"metric": "rke", "method": "jackknife", "generated": generated.describe(), "bandwidth": bandwidth}
    return {**setting, "value": count(everyone), "standard_error": math.sqrt(variance)}


def mmd_jackknife(generated: Set, other: Set, bandwidth: float) -> Case:
    x, y = generated.features(), other.features()
    among, across, within = (brute.kernel_matrix(gaussian(bandwidth), *sets) for sets in ((x, x), (x, y), (y, y)))
    np.fill_diagonal(among, 0.0)
    np.fill_diagonal(within, 0.0)

    def value(kept_x: Array, kept_y: Array) -> float:
        n, m = len(kept_x), len(kept_y)
        of_x = math.fsum(among[np.ix_(kept_x, kept_x)].ravel()) / (n * (n - 1))
        of_y = math.fsum(within[np.ix_(kept_y, kept_y)].ravel()) / (m * (m - 1))
        return of_x + of_y - 2.0 * math.fsum(across[np.ix_(kept_x, kept_y)].ravel()) / (n * m)

    all_x, all_y = np.arange(len(x)), np.arange(len(y))
    generated_variance = brute.jackknife_variance([value(np.delete(all_x, row), all_y) for row in all_x])
    reference_variance = brute.jackknife_variance([value(all_x, np.delete(all_y, row)) for row in all_y])
    return {
        "metric": "mmd",
        "method": "jackknife",
        "generated": generated.describe(),
        "reference": other.describe(),
        "bandwidth": bandwidth,
        "value": value(all_x, all_y),
        "generated_variance": generated_variance,
        "reference_variance": reference_variance,
        "standard_error": math.sqrt(generated_variance + reference_variance),
    }


def fid_influence(generated: Set, other: Set) -> Case:
    """Two definitions that differ by O(1/n): covariances with ddof 0 throughout, so that FID is a functional of row weights; or
    FID at the covariances with ddof 1, moved along (x - mean)(x - mean)' - (covariance with ddof 0)."""
    sets = [generated.features(), other.features()]
    even = [np.full(len(rows), 1.0 / len(rows)) for rows in sets]
    plug_in = [brute.plug_in_moments(rows, weights) for rows, weights in zip(sets, even, strict=True)]
    unbiased = [(rows.mean(axis=0), np.cov(rows, rowvar=False)) for rows in sets]
    variances: dict[str, list[float]] = {"plug_in": [], "unbiased": []}
    for own, rows in enumerate(sets):
        fixed = 1 - own
        influence = brute.influences(
            lambda weights: brute.frechet_of_moments(*brute.plug_in_moments(rows, weights), *plug_in[fixed]), len(rows)
        )
        by_formula = brute.frechet_influences(rows, *plug_in[own], *plug_in[fixed])
        agree(float(np.abs(influence - by_formula).max() / np.abs(by_formula).max()) + 1.0, 1.0, 1e-8, "influences on FID")
        variances["plug_in"].append(brute.influence_variance(influence))
        moved = []
        for row in rows:
            step = row - plug_in[own][0]
            turn = np.outer(step, step) - plug_in[own][1]
            mean, covariance = unbiased[own]
            moved.append(
                brute.derivative_at_zero(
                    lambda share: brute.frechet_of_moments(mean + share * step, covariance + share * turn, *unbiased[fixed])
                )
            )
        by_formula = brute.frechet_influences(rows, *unbiased[own], *unbiased[fixed])
        agree(float(np.var(moved)), float(np.var(by_formula)), 1e-8, "influences on FID at unbiased covariances")
        variances["unbiased"].append(brute.influence_variance(np.array(moved)))
    result: Case = {"metric": "fid", "method": "influence", "generated": generated.describe(), "reference": other.describe()}
    for name, base in (("plug_in", plug_in), ("unbiased", unbiased)):
        value = brute.frechet_of_moments(*base[0], *base[1])
        result[name] = {
            "value": value,
            "generated_variance": variances[name][0],
            "reference_variance": variances[name][1],
            "standard_error": math.sqrt(sum(variances[name])),
        }
    return result


def vendi_influence(generated: Set, order: float) -> Case:
    rows = generated.features()
    influence = brute.influences(lambda weights: brute.vendi_cosine(rows, weights, order), len(rows))
    value = brute.vendi_cosine(rows, np.full(len(rows), 1.0 / len(rows)), order)
    by_formula = brute.vendi_influences(rows, order)
    agree(float(np.abs(influence - by_formula).max() / np.abs(by_formula).max()) + 1.0, 1.0, 1e-8, "influences on Vendi")
    setting = {"metric": "vendi", "method": "influence", "generated": generated.describe(), "order": order}
    return {**setting, "value": value, "standard_error": math.sqrt(brute.influence_variance(influence))}


def standard_error_cases() -> list[Case]:
    eight = arm("specialists", "flow", 200, columns=8)
    return [
        rke_jackknife(arm("specialists", "flow", 200), 20.0),
        mmd_jackknife(arm("specialists", "flow", 150), reference(200), 20.0),
        fid_influence(arm("specialists", "flow", 300, columns=8), reference(400, columns=8)),
        vendi_influence(eight, 1.0),
        vendi_influence(eight, 2.0),
    ]
