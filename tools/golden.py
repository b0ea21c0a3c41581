#!/usr/bin/env python3
"""Compute the golden values of the Rust tests from the formulas of the paper, with NumPy only.

Usage: python tools/golden.py

Reads ``data/fashion`` and writes ``crates/modelmix/tests/golden/fashion.json``. This script shares neither code nor methods with the
library: everything is float64, distances are sums of squared differences (no norms and dot products), block sums are added with
``math.fsum``, and the quadratic program is solved by enumeration of all supports.

A case is a loss  L(alpha) = alpha' K alpha + f' alpha + constant  over the simplex. Its terms are

* ``rke``: kappa = k^2, no linear part;
* ``mmd``: kappa = k, f_i = -2 mean k(X_i, Y), constant = mean k(Y, Y');
* ``kid``: the same with the cubic kernel k(x, y) = (x.y/d + 1)^3;
* ``precision`` and ``density``: linear only, from balls around the rows of the reference.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "data" / "fashion"
OUTPUT = ROOT / "crates" / "modelmix" / "tests" / "golden" / "fashion.json"

SCENARIOS = ("specialists", "generators", "truncated", "categories", "quality")
WIDTH = 64
BLOCK_ROWS = 256
NEIGHBOURS = 5
MEDIAN_ROWS = 500
KKT_TOLERANCE = 1e-12

REFERENCE = "reference"
"""The name of the reference where the name of an arm is expected."""

Array = np.ndarray


# Kernels --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kernel:
    """A kernel by name and parameters; hashable, so that it can be a key of stored sums."""

    name: str
    parameters: tuple[tuple[str, float], ...] = ()

    def values(self, pairs: Pairs) -> Array:
        """Return k(x, y) for every pair of a block."""
        parameter = dict(self.parameters)
        match self.name:
            case "gaussian":
                return np.exp(pairs.squared_distances / (-2.0 * parameter["bandwidth"] ** 2))
            case "laplacian":
                return np.exp(np.sqrt(pairs.squared_distances) / -parameter["bandwidth"])
            case "polynomial":
                base = parameter["gamma"] * pairs.dot_products + parameter["offset"]
                return base ** int(parameter["degree"])
            case "cosine":
                return pairs.dot_products / pairs.norm_products
        raise ValueError(f"unknown kernel {self.name}")

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, **dict(self.parameters)}

    def __str__(self) -> str:
        settings = ", ".join(f"{value:g}" for _, value in self.parameters)
        return f"{self.name}({settings})" if settings else self.name


def gaussian(bandwidth: float) -> Kernel:
    """exp(-|x - y|^2 / (2 bandwidth^2))"""
    return Kernel("gaussian", (("bandwidth", bandwidth),))


def laplacian(bandwidth: float) -> Kernel:
    """exp(-|x - y| / bandwidth), with the Euclidean norm"""
    return Kernel("laplacian", (("bandwidth", bandwidth),))


def polynomial(gamma: float, offset: float, degree: int) -> Kernel:
    """(gamma x.y + offset)^degree"""
    return Kernel("polynomial", (("gamma", gamma), ("offset", offset), ("degree", degree)))


def cosine() -> Kernel:
    """x.y / (|x| |y|)"""
    return Kernel("cosine")


class Pairs:
    """The quantities that kernels need for all pairs (x, y) of two blocks of rows.

    Each quantity is summed one coordinate at a time, so that the last digits do not depend on the matrix product of the linear
    algebra library.
    """

    def __init__(self, left: Array, right: Array) -> None:
        self._left = left
        self._right = right
        self._stored: dict[str, Array] = {}

    def _once(self, name: str, compute: Callable[[], Array]) -> Array:
        if name not in self._stored:
            self._stored[name] = compute()
        return self._stored[name]

    def _sum_over_coordinates(self, combine: Callable[[Array, Array], Array]) -> Array:
        total = np.zeros((len(self._left), len(self._right)))
        for coordinate in range(self._left.shape[1]):
            total += combine(self._left[:, coordinate, None], self._right[None, :, coordinate])
        return total

    @property
    def squared_distances(self) -> Array:
        return self._once("distance", lambda: self._sum_over_coordinates(lambda x, y: np.square(x - y)))

    @property
    def dot_products(self) -> Array:
        return self._once("dot", lambda: self._sum_over_coordinates(np.multiply))

    @property
    def norm_products(self) -> Array:
        return self._once("norm", lambda: np.outer(row_norms(self._left), row_norms(self._right)))


def row_norms(rows: Array) -> Array:
    return np.sqrt(np.square(rows).sum(axis=1))


def blocks(count: int) -> Iterator[slice]:
    for start in range(0, count, BLOCK_ROWS):
        yield slice(start, min(start + BLOCK_ROWS, count))


# Sums over pairs of sets ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kappa:
    """The function inside a quadratic term: a kernel, or its square."""

    kernel: Kernel
    squared: bool

    def values(self, pairs: Pairs) -> Array:
        values = self.kernel.values(pairs)
        return values * values if self.squared else values


@dataclass(frozen=True)
class PairMean:
    """Mean of kappa over all pairs of two sets and, within one set, over the pairs of different rows."""

    all_pairs: float
    without_self: float


def pair_means(left: Array, right: Array | None, kappas: list[Kappa]) -> dict[Kappa, PairMean]:
    """Return the means over left x right, or over left x left if ``right`` is ``None``."""
    itself = right is None
    columns = left if right is None else right
    sums: dict[Kappa, list[float]] = {kappa: [] for kappa in kappas}
    self_sums: dict[Kappa, list[float]] = {kappa: [] for kappa in kappas}
    for rows in blocks(len(left)):
        for others in blocks(len(columns)):
            if itself and others.start < rows.start:
                continue
            pairs = Pairs(left[rows], columns[others])
            for kappa in kappas:
                values = kappa.values(pairs)
                mirrored = itself and others.start > rows.start
                sums[kappa].append((2.0 if mirrored else 1.0) * float(values.sum()))
                if itself and others == rows:
                    self_sums[kappa].append(float(np.trace(values)))
    pair_count = len(left) * len(columns)
    means: dict[Kappa, PairMean] = {}
    for kappa in kappas:
        mean = math.fsum(sums[kappa]) / pair_count
        if itself:
            different = math.fsum([*sums[kappa], *(-value for value in self_sums[kappa])])
            means[kappa] = PairMean(mean, different / (pair_count - len(left)))
        else:
            means[kappa] = PairMean(mean, mean)
    return means


class Statistics:
    """All means of one scenario: between arms, between arms and the reference, and within the reference."""

    def __init__(self, arms: dict[str, Array], reference: Array, kappas: list[Kappa]) -> None:
        self.names = list(arms)
        sets = {**arms, REFERENCE: reference}
        self._means: dict[tuple[str, str], dict[Kappa, PairMean]] = {}
        for first, second in itertools.combinations_with_replacement(sets, 2):
            means = pair_means(sets[first], None if first == second else sets[second], kappas)
            self._means[first, second] = self._means[second, first] = means

    def quadratic(self, kappa: Kappa, unbiased: bool) -> Array:
        """Return K of the arms, as a V-statistic or a U-statistic."""
        return np.array([[self._mean(first, second, kappa, unbiased) for second in self.names] for first in self.names])

    def cross(self, kappa: Kappa) -> Array:
        """Return the mean of kappa between each arm and the reference."""
        return np.array([self._mean(name, REFERENCE, kappa, False) for name in self.names])

    def reference(self, kappa: Kappa, unbiased: bool) -> float:
        """Return the mean of kappa within the reference."""
        return self._mean(REFERENCE, REFERENCE, kappa, unbiased)

    def _mean(self, first: str, second: str, kappa: Kappa, unbiased: bool) -> float:
        mean = self._means[first, second][kappa]
        return mean.without_self if unbiased else mean.all_pairs


# Balls around the reference -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Quality:
    """Mean precision and density of each arm, and the smallest distance of any row to the boundary of a ball."""

    precision: Array
    density: Array
    closest_margin: float


def squared_radii(reference: Array) -> Array:
    """Return the squared distance of each reference row to its k-th nearest other row."""
    radii = np.empty(len(reference))
    for rows in blocks(len(reference)):
        squared = Pairs(reference[rows], reference).squared_distances
        own = np.arange(rows.start, rows.stop)
        squared[own - rows.start, own] = np.inf
        radii[rows] = np.partition(squared, NEIGHBOURS - 1, axis=1)[:, NEIGHBOURS - 1]
    return radii


def quality_of(arms: dict[str, Array], reference: Array) -> Quality:
    """Compute precision and density with strict membership: a row on the boundary of a ball is outside."""
    radii = squared_radii(reference)
    precision: list[float] = []
    density: list[float] = []
    margin = math.inf
    for rows_of_arm in arms.values():
        counts: list[Array] = []
        for rows in blocks(len(rows_of_arm)):
            squared = Pairs(rows_of_arm[rows], reference).squared_distances
            counts.append((squared < radii).sum(axis=1))
            margin = min(margin, float(np.min(np.abs(np.sqrt(squared / radii) - 1.0))))
        balls = np.concatenate(counts)
        precision.append(int((balls > 0).sum()) / len(balls))
        density.append(int(balls.sum()) / (NEIGHBOURS * len(balls)))
    return Quality(np.array(precision), np.array(density), margin)


# The quadratic program ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Optimum:
    """The minimum of alpha' K alpha + f' alpha on the simplex, without the constant."""

    weights: Array
    value: float


def solve_by_enumeration(quadratic: Array, linear: Array) -> Optimum:
    """Solve the stationarity equations on every support, take the best feasible point, and verify that it is optimal."""
    count = len(linear)
    best: Optimum | None = None
    for size in range(1, count + 1):
        for chosen in itertools.combinations(range(count), size):
            support = list(chosen)
            weights = np.zeros(count)
            weights[support] = stationary_weights(quadratic[np.ix_(support, support)], linear[support])
            if weights[support].min() <= 0.0:
                continue
            value = float(weights @ quadratic @ weights + linear @ weights)
            if best is None or value < best.value:
                best = Optimum(weights, value)
    if best is None:
        raise ArithmeticError("no support gave a feasible point")
    verify_optimality(quadratic, linear, best.weights)
    return best


def stationary_weights(quadratic: Array, linear: Array) -> Array:
    """Return weights that sum to one and make all entries of the gradient 2 K alpha + f equal."""
    size = len(linear)
    system = np.zeros((size + 1, size + 1))
    system[:size, :size] = 2.0 * quadratic
    system[:size, size] = -1.0
    system[size, :size] = 1.0
    target = np.append(-linear, 1.0)
    solution = np.linalg.lstsq(system, target, rcond=None)[0]
    solution += np.linalg.lstsq(system, target - system @ solution, rcond=None)[0]
    return solution[:size]


def verify_optimality(quadratic: Array, linear: Array, weights: Array) -> None:
    """Raise unless the gradient is constant on the support and nowhere lower, relative to its size if that exceeds one."""
    gradient = 2.0 * quadratic @ weights + linear
    level = float(weights @ gradient)
    tolerance = KKT_TOLERANCE * max(1.0, float(np.abs(gradient).max()))
    support = weights > 0.0
    if abs(math.fsum(weights) - 1.0) > KKT_TOLERANCE:
        raise ArithmeticError(f"weights add up to {math.fsum(weights)!r}")
    if np.abs(gradient[support] - level).max() > tolerance:
        raise ArithmeticError(f"the gradient is not constant on the support: {gradient[support]}")
    if (gradient[~support] < level - tolerance).any():
        raise ArithmeticError(f"the gradient is lower outside the support: {gradient}, level {level}")


# Cases ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """One objective on one scenario: the weights of its terms, all with the same kernel."""

    scenario: str
    objective: str
    kernel: Kernel
    rke: float = 0.0
    mmd: float = 0.0
    precision: float = 0.0
    density: float = 0.0

    def kappas(self) -> list[Kappa]:
        wanted = [(self.rke, Kappa(self.kernel, True)), (self.mmd, Kappa(self.kernel, False))]
        return [kappa for weight, kappa in wanted if weight != 0.0]

    def evaluate(self, statistics: Statistics, quality: Quality | None) -> dict[str, Any]:
        """Return all values that the tests compare with, as plain numbers and lists."""
        square, plain = Kappa(self.kernel, True), Kappa(self.kernel, False)
        count = len(statistics.names)
        quadratic, unbiased = np.zeros((count, count)), np.zeros((count, count))
        linear, constant, constant_unbiased = np.zeros(count), 0.0, 0.0
        if self.rke:
            quadratic += self.rke * statistics.quadratic(square, unbiased=False)
            unbiased += self.rke * statistics.quadratic(square, unbiased=True)
        if self.mmd:
            quadratic += self.mmd * statistics.quadratic(plain, unbiased=False)
            unbiased += self.mmd * statistics.quadratic(plain, unbiased=True)
            linear += self.mmd * -2.0 * statistics.cross(plain)
            constant = self.mmd * statistics.reference(plain, unbiased=False)
            constant_unbiased = self.mmd * statistics.reference(plain, unbiased=True)
        if quality is not None:
            linear += self.precision * quality.precision + self.density * quality.density

        optimum = solve_by_enumeration(quadratic, linear)
        single = np.diag(quadratic) + linear + constant
        loss = optimum.value + constant
        result: dict[str, Any] = {
            "scenario": self.scenario,
            "objective": self.objective,
            "kernel": self.kernel.describe(),
            "arms": statistics.names,
            "K": quadratic.tolist(),
            "K_u": unbiased.tolist(),
            "f": linear.tolist(),
            "constant": constant,
            "constant_u": constant_unbiased,
            "single_losses": single.tolist(),
            "weights": optimum.weights.tolist(),
            "loss": loss,
            "gain": float(single.min()) - loss,
        }
        if self.rke:
            rke = statistics.quadratic(square, unbiased=False)
            result["mode_count"] = 1.0 / float(optimum.weights @ rke @ optimum.weights)
            result["single_mode_counts"] = (1.0 / np.diag(rke)).tolist()
        if quality is not None and (self.precision or self.density):
            result["neighbours"] = NEIGHBOURS
            result["precision"] = quality.precision.tolist()
            result["density"] = quality.density.tolist()
            result["closest_margin"] = quality.closest_margin
        return result


def all_cases() -> list[Case]:
    bandwidths = {  # scenario: (mmd, rke)
        "specialists": (20.0, 15.0),
        "generators": (20.0, 9.0),
        "truncated": (20.0, 20.0),
        "categories": (20.0, 20.0),
        "quality": (20.0, 20.0),
    }
    cases: list[Case] = []
    for scenario, (mmd, rke) in bandwidths.items():
        cases.append(Case(scenario, "mmd", gaussian(mmd), mmd=1.0))
        cases.append(Case(scenario, "rke", gaussian(rke), rke=1.0))
        cases.append(Case(scenario, "kid", polynomial(1.0 / WIDTH, 1.0, 3), mmd=1.0))
    wide = gaussian(20.0)
    cases += [
        Case("quality", "rke - 0.2*precision", wide, rke=1.0, precision=-0.2),
        Case("quality", "rke - 0.2*density", wide, rke=1.0, density=-0.2),
        Case("specialists", "mmd", polynomial(1.0 / WIDTH, 1.0, 3), mmd=1.0),
        Case("specialists", "mmd", cosine(), mmd=1.0),
        Case("specialists", "mmd", laplacian(20.0), mmd=1.0),
        Case("categories", "rke", cosine(), rke=1.0),
        Case("categories", "0.5*rke + 2*mmd", wide, rke=0.5, mmd=2.0),
    ]
    return cases


# Reading, writing, printing -------------------------------------------------------------------------------------------


def load_arms(scenario: str) -> dict[str, Array]:
    with np.load(DATA / f"{scenario}.npz", allow_pickle=False) as archive:
        return {name: archive[name].astype(np.float64) for name in archive.files}


def median_distance(rows: Array) -> float:
    """Return the exact median distance over all pairs of different rows."""
    squared = Pairs(rows, rows).squared_distances
    upper = np.triu_indices(len(rows), k=1)
    return float(np.median(np.sqrt(squared[upper])))


def to_text(value: object, indent: int = 0) -> str:
    """Return JSON with sorted keys, one line per list of plain values and one per row of a matrix."""
    inner, outer = "  " * (indent + 1), "  " * indent
    if isinstance(value, dict):
        items = [f"{inner}{json.dumps(key)}: {to_text(value[key], indent + 1)}" for key in sorted(value)]
        return "{\n" + ",\n".join(items) + f"\n{outer}}}"
    if isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value):
        items = [f"{inner}{to_text(item, indent + 1)}" for item in value]
        return "[\n" + ",\n".join(items) + f"\n{outer}]"
    return json.dumps(value, allow_nan=False)


def table_line(case: Case, result: dict[str, Any]) -> str:
    weights = " ".join(f"{weight:.3f}" for weight in result["weights"])
    single = " ".join(f"{loss:.5g}" for loss in result["single_losses"])
    modes = f"{max(result['single_mode_counts']):.2f} -> {result['mode_count']:.2f}" if case.rke else ""
    return (
        f"{case.scenario:<12}{case.objective:<21}{case.kernel!s:<26}{result['loss']:>11.6g}{result['gain']:>11.4g}"
        f"  {modes:<18}({weights})\n{'':<12}alone: {single}"
    )


def main() -> None:
    reference = np.load(DATA / "reference.npy", allow_pickle=False).astype(np.float64)
    cases = all_cases()
    results: list[dict[str, Any]] = []
    print(f"{'scenario':<12}{'objective':<21}{'kernel':<26}{'loss':>11}{'gain':>11}  {'mode count':<18}weights")
    for scenario in SCENARIOS:
        own = [case for case in cases if case.scenario == scenario]
        arms = load_arms(scenario)
        kappas = list(dict.fromkeys(kappa for case in own for kappa in case.kappas()))
        statistics = Statistics(arms, reference, kappas)
        needs_quality = any(case.precision or case.density for case in own)
        quality = quality_of(arms, reference) if needs_quality else None
        for case in own:
            results.append(case.evaluate(statistics, quality))
            print(table_line(case, results[-1]), flush=True)
        if quality is not None:
            print(f"{'':<12}precision {quality.precision}, density {quality.density}, closest {quality.closest_margin:.2e}")

    median = median_distance(reference[:MEDIAN_ROWS])
    print(f"median distance of the first {MEDIAN_ROWS} rows of the reference: {median!r}")
    document = {
        "about": "Written by tools/golden.py from data/fashion; do not edit by hand.",
        "cases": results,
        "median_distance": {"rows": MEDIAN_ROWS, "pairs": MEDIAN_ROWS * (MEDIAN_ROWS - 1) // 2, "value": median},
        "reference_rows": len(reference),
    }
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_text(to_text(document) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
