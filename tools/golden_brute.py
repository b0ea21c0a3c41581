"""The metrics by brute force, directly from their formulas, for ``golden_metrics.py``.

Everything is float64. No function calls a peer or shares a method with the library. Distances are sums of squared differences. Sets
have one row per sample; weights of rows sum to one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from golden import Array, Kappa, Kernel, Pairs, blocks, pair_means

COUNT_TOLERANCE = 1e-9
"""Tolerance of sums of effective counts, so that k rows of equal weight count as k."""

DERIVATIVE_STEP = 1e-4


# Fréchet distance -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Moments:
    """Mean, covariance, and a factor R of the covariance, R'R, that is computed without forming the covariance."""

    mean: Array
    covariance: Array
    factor: Array


def moments(arms: list[Array], weights: list[float]) -> Moments:
    """mean = sum a_i m_i and covariance = sum a_i (S_i + m_i m_i') - mean mean', each S_i with ddof 1."""
    means = [arm.mean(axis=0) for arm in arms]
    mean = sum(weight * own for weight, own in zip(weights, means, strict=True))
    second = sum(
        weight * (np.cov(arm, rowvar=False) + np.outer(own, own)) for weight, arm, own in zip(weights, arms, means, strict=True)
    )
    within = [math.sqrt(weight / (len(arm) - 1)) * (arm - own) for weight, arm, own in zip(weights, arms, means, strict=True)]
    between = [math.sqrt(weight) * (own - mean)[None, :] for weight, own in zip(weights, means, strict=True)]
    return Moments(mean, second - np.outer(mean, mean), np.linalg.qr(np.vstack(within + between), mode="r"))


def frechet_by_factors(first: Moments, second: Moments) -> float:
    """tr sqrt(S1 S2) is the nuclear norm of R1 R2'; no root of a product is needed, so covariances may be singular."""
    cross = float(np.linalg.svd(first.factor @ second.factor.T, compute_uv=False).sum())
    traces = float(np.square(first.factor).sum() + np.square(second.factor).sum())
    return float(np.square(first.mean - second.mean).sum()) + traces - 2.0 * cross


def frechet_by_rows(first: Array, second: Array) -> float:
    """The same from the nuclear norm of the n1 x n2 matrix of products of centred rows."""
    left = (first - first.mean(axis=0)) / math.sqrt(len(first) - 1)
    right = (second - second.mean(axis=0)) / math.sqrt(len(second) - 1)
    cross = float(np.linalg.svd(left @ right.T, compute_uv=False).sum())
    difference = first.mean(axis=0) - second.mean(axis=0)
    return float(np.square(difference).sum() + np.square(left).sum() + np.square(right).sum()) - 2.0 * cross


def frechet_of_moments(mean1: Array, covariance1: Array, mean2: Array, covariance2: Array) -> float:
    """For nonsingular covariances: the trace of the root of the symmetric sqrt(S1) S2 sqrt(S1)."""
    values, vectors = np.linalg.eigh(covariance1)
    root = (vectors * np.sqrt(values)) @ vectors.T
    cross = float(np.sqrt(np.linalg.eigvalsh(root @ covariance2 @ root)).sum())
    return float(np.square(mean1 - mean2).sum() + np.trace(covariance1) + np.trace(covariance2)) - 2.0 * cross


# Kernels --------------------------------------------------------------------------------------------------------------


def kernel_matrix(kernel: Kernel, left: Array, right: Array) -> Array:
    return np.vstack([kernel.values(Pairs(left[rows], right)) for rows in blocks(len(left))])


@dataclass(frozen=True)
class Discrepancy:
    """Squared maximum mean discrepancy, with and without the pairs of a row with itself."""

    biased: float
    unbiased: float


def discrepancy(arms: list[Array], weights: list[float], reference: Array, kernel: Kernel) -> Discrepancy:
    """a'Ka - 2 a'(mean k(X_i, Y)) + mean k(Y, Y'); the unbiased estimate omits pairs of a row with itself."""
    kappa = Kappa(kernel, squared=False)
    of_reference = pair_means(reference, None, [kappa])[kappa]
    biased, unbiased = [of_reference.all_pairs], [of_reference.without_self]
    for i, arm in enumerate(arms):
        cross = -2.0 * weights[i] * pair_means(arm, reference, [kappa])[kappa].all_pairs
        biased.append(cross)
        unbiased.append(cross)
        for j in range(i, len(arms)):
            mean = pair_means(arm, None if i == j else arms[j], [kappa])[kappa]
            share = weights[i] * weights[j] * (1.0 if i == j else 2.0)
            biased.append(share * mean.all_pairs)
            unbiased.append(share * mean.without_self)
    return Discrepancy(math.fsum(biased), math.fsum(unbiased))


def mode_count(arms: list[Array], weights: list[float], kernel: Kernel) -> float:
    """1 / a'Ka, where K has the means of k^2 over all pairs; for one arm, n^2 / (sum of k^2) including the diagonal."""
    kappa = Kappa(kernel, squared=True)
    terms: list[float] = []
    for i, arm in enumerate(arms):
        for j in range(i, len(arms)):
            mean = pair_means(arm, None if i == j else arms[j], [kappa])[kappa].all_pairs
            terms.append(weights[i] * weights[j] * (1.0 if i == j else 2.0) * mean)
    return 1.0 / math.fsum(terms)


# Vendi ----------------------------------------------------------------------------------------------------------------


def unit_rows(rows: Array) -> Array:
    return rows / np.sqrt(np.square(rows).sum(axis=1))[:, None]


def vendi_of_eigenvalues(eigenvalues: Array, order: float) -> float:
    positive = eigenvalues[eigenvalues > 1e-15]  # the rest are rounding errors of zeros, which orders below one would amplify
    if order == 1.0:
        return math.exp(-math.fsum(positive * np.log(positive)))
    if math.isinf(order):
        return 1.0 / float(positive.max())
    return math.fsum(positive**order) ** (1.0 / (1.0 - order))


def cosine_eigenvalues(rows: Array, weights: Array) -> Array:
    """Return the eigenvalues of the weighted second moment of unit rows: it is d x d, so no n x n kernel is formed."""
    unit = unit_rows(rows)
    return np.linalg.eigvalsh((unit * weights[:, None]).T @ unit)


def vendi_cosine(rows: Array, weights: Array, order: float) -> float:
    return vendi_of_eigenvalues(cosine_eigenvalues(rows, weights), order)


# Precision, recall, density, coverage ---------------------------------------------------------------------------------


def distances(left: Array, right: Array) -> Array:
    return np.sqrt(np.vstack([Pairs(left[rows], right).squared_distances for rows in blocks(len(left))]))


def radii(rows: Array, neighbours: int) -> Array:
    """Return the distance of each row to its k-th nearest other row."""
    among = distances(rows, rows)
    np.fill_diagonal(among, np.inf)
    return np.sort(among, axis=1)[:, neighbours - 1]


def prdc_exact(reference: Array, generated: Array, neighbours: int, strict: bool = True) -> tuple[dict[str, float], float]:
    """Return the four scores with exact distances, and the smallest distance of a row to the boundary of a ball, relative to its radius."""
    across = distances(reference, generated)
    reference_radii, generated_radii = radii(reference, neighbours)[:, None], radii(generated, neighbours)[None, :]
    inside = np.less if strict else np.less_equal
    held, covered = inside(across, reference_radii), inside(across, generated_radii)
    scores = {
        "precision": int(held.any(axis=0).sum()) / len(generated),
        "recall": int(covered.any(axis=1).sum()) / len(reference),
        "density": (1.0 / neighbours) * (int(held.sum()) / len(generated)),
        "coverage": int(held.any(axis=1).sum()) / len(reference),
    }
    with np.errstate(divide="ignore", invalid="ignore"):
        margins = [np.nanmin(np.abs(across / of - 1.0)) for of in (reference_radii, generated_radii) if (of > 0.0).any()]
    return scores, float(min(margins, default=0.0))


def prdc_weighted(reference: Array, generated: Array, weights: Array, neighbours: int) -> tuple[dict[str, float], float]:
    """Return the scores of weighted rows, each of which counts as (effective sample size) x (weight) samples, and the closest boundary.

    The ball of a generated row extends to the nearest other row at which it contains k samples. A ball of the reference is covered
    if it contains at least one whole sample.
    """
    counts = weights / math.fsum(np.square(weights))
    among = distances(generated, generated)
    np.fill_diagonal(among, np.inf)
    generated_radii = np.empty(len(generated))
    slack = math.inf
    for row, line in enumerate(among):
        order = np.argsort(line, kind="stable")
        order = order[order != row]
        held_so_far = np.cumsum(counts[order])
        reached = int(np.argmax(held_so_far >= neighbours - COUNT_TOLERANCE))
        if held_so_far[reached] < neighbours - COUNT_TOLERANCE:
            raise ArithmeticError("the rows do not add up to k samples")
        slack = min(slack, float(np.abs(held_so_far - neighbours + COUNT_TOLERANCE).min()))
        generated_radii[row] = line[order[reached]]
    reference_radii = radii(reference, neighbours)
    across = distances(reference, generated)
    held, covered = across < reference_radii[:, None], across < generated_radii[None, :]
    samples_held = np.array([math.fsum(counts[line]) for line in held])
    slack = min(slack, float(np.abs(samples_held - 1.0 + COUNT_TOLERANCE).min()))
    if slack < 0.5 * COUNT_TOLERANCE:
        raise ArithmeticError(f"a sum of counts is {slack!r} from its threshold")
    scores = {
        "precision": math.fsum(weights[held.any(axis=0)]),
        "recall": int(covered.any(axis=1).sum()) / len(reference),
        "density": math.fsum(weights * held.sum(axis=0)) / neighbours,
        "coverage": int((samples_held >= 1.0 - COUNT_TOLERANCE).sum()) / len(reference),
    }
    borders = [np.abs(across / reference_radii[:, None] - 1.0).min(), np.abs(across / generated_radii[None, :] - 1.0).min()]
    return scores, float(min(borders))


# Standard errors ------------------------------------------------------------------------------------------------------


def jackknife_variance(left_out: list[float]) -> float:
    """Return (n - 1)/n times the sum of squared deviations of the leave-one-out values."""
    values = np.array(left_out)
    mean = math.fsum(values) / len(values)
    return (len(values) - 1) / len(values) * math.fsum(np.square(values - mean))


def derivative_at_zero(function: Callable[[float], float]) -> float:
    """Return central differences with two step sizes, extrapolated to step size zero."""
    wide, narrow = ((function(step) - function(-step)) / (2.0 * step) for step in (DERIVATIVE_STEP, 0.5 * DERIVATIVE_STEP))
    return (4.0 * narrow - wide) / 3.0


def influences(functional: Callable[[Array], float], count: int) -> Array:
    """Return the derivative of a functional of row weights as weight moves evenly from all rows to one row."""
    even = np.full(count, 1.0 / count)

    def moved(row: int, share: float) -> float:
        weights = (1.0 - share) * even
        weights[row] += share
        return functional(weights)

    return np.array([derivative_at_zero(lambda share, row=row: moved(row, share)) for row in range(count)])


def influence_variance(influence: Array) -> float:
    return math.fsum(np.square(influence)) / len(influence) ** 2


def plug_in_moments(rows: Array, weights: Array) -> tuple[Array, Array]:
    """Return mean and covariance of weighted rows as a distribution (ddof 0)."""
    mean = weights @ rows
    centred = rows - mean
    return mean, (centred * weights[:, None]).T @ centred


def frechet_influences(rows: Array, mean: Array, covariance: Array, other_mean: Array, other_covariance: Array) -> Array:
    """Return the derivative in closed form: 2 (m - m')'u + u'(I - T)u minus its mean, u = x - m, T the optimal map from S to S'."""
    values, vectors = np.linalg.eigh(covariance)
    root, inverse = ((vectors * values**power) @ vectors.T for power in (0.5, -0.5))
    inner_values, inner_vectors = np.linalg.eigh(root @ other_covariance @ root)
    transport = inverse @ (inner_vectors * np.sqrt(inner_values)) @ inner_vectors.T @ inverse
    centred = rows - mean
    squares = np.einsum("ij,jk,ik->i", centred, np.eye(len(mean)) - transport, centred)
    return 2.0 * centred @ (mean - other_mean) + squares - squares.mean()


def vendi_influences(rows: Array, order: float) -> Array:
    """Return the derivative of the cosine score in closed form: the derivative of the entropy times the score."""
    unit = unit_rows(rows)
    values, vectors = np.linalg.eigh(unit.T @ unit / len(unit))
    shares = np.square(unit @ vectors)
    if order == 1.0:
        entropy = -math.fsum(values * np.log(values))
        return math.exp(entropy) * (-shares @ np.log(values) - entropy)
    total = math.fsum(values**order)
    return total ** (1.0 / (1.0 - order)) * order / (1.0 - order) * (shares @ values ** (order - 1.0) / total - 1.0)
