#!/usr/bin/env python3
"""Compute the golden values of the metrics, with the code of common tools (the peers) and by brute force.

Usage: python tools/golden_metrics.py  (``make golden-peers`` installs the peers)

Reads ``data/fashion`` and writes ``crates/modelmix/tests/golden/metrics.json``. Features are float16 and are converted to float64 for
the peers. Values that no peer computes (mixtures, standard errors) follow their definition in ``golden_brute.py``. Where two sources
compute the same value, they must agree, or nothing is written. Every case describes its sets as in ``golden_sets.py``.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import io
import itertools
import math
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import prdc as peer_prdc
import scipy.linalg
import sklearn.metrics.pairwise
import threadpoolctl
import torch
from cleanfid import fid as peer_clean_fid
from torch_fidelity import metric_fid, metric_kid, metric_prc
from vendi_score import vendi as peer_vendi

import golden_brute as brute
from golden import ROOT, Array, Pairs, blocks, gaussian, polynomial
from golden_errors import standard_error_cases
from golden_sets import BEST_SPECIALISTS, WIDTH, Case, Set, agree, arm, reference, specialists, to_text, truncated

OUTPUT = ROOT / "crates" / "modelmix" / "tests" / "golden" / "metrics.json"
PEERS = ("torch-fidelity", "clean-fid", "prdc", "vendi-score", "scipy", "scikit-learn", "numpy", "torch")


def tensor(features: Array) -> torch.Tensor:
    return torch.from_numpy(features)


# FID ------------------------------------------------------------------------------------------------------------------


def frechet_by_scipy(first: brute.Moments, second: brute.Moments) -> float:
    """The formula of the literature, with scipy's matrix square root of the product."""
    root = scipy.linalg.sqrtm(first.covariance @ second.covariance).real
    return float(
        np.square(first.mean - second.mean).sum() + np.trace(first.covariance + second.covariance) - 2.0 * np.trace(root)
    )


def frechet_by_torch_fidelity(first: brute.Moments, second: brute.Moments) -> float:
    statistics = [{"mu": moments.mean, "sigma": moments.covariance} for moments in (first, second)]
    return metric_fid.fid_statistics_to_metric(*statistics, verbose=False)[metric_fid.KEY_METRIC_FID]


def frechet_by_clean_fid(first: brute.Moments, second: brute.Moments) -> float:
    return float(peer_clean_fid.frechet_distance(first.mean, first.covariance, second.mean, second.covariance))


def fid_case(generated: Set, other: Set, singular: bool) -> Case:
    """``value`` is stable; if a covariance is singular, the numbers of the peers only record their error."""
    first, second = generated.moments(), other.moments()
    value = brute.frechet_by_factors(first, second)
    if min(generated.rows, other.rows) < WIDTH:
        agree(value, brute.frechet_by_rows(generated.features(), other.features()), 1e-12, f"FID by rows of {generated}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # singular matrices, as intended; and an argument of clean-fid that scipy deprecates
        peers = {
            "scipy": frechet_by_scipy(first, second),
            "torch_fidelity": frechet_by_torch_fidelity(first, second),
            "clean_fid": frechet_by_clean_fid(first, second),
        }
    size = float(np.trace(first.covariance + second.covariance))  # the size of the terms that cancel, which sets the scale of rounding errors
    if generated.weights is None:
        statistics = [metric_fid.fid_features_to_statistics(tensor(chosen.features())) for chosen in (generated, other)]
        own = metric_fid.fid_statistics_to_metric(*statistics, verbose=False)[metric_fid.KEY_METRIC_FID]
        agree(size + own, size + peers["torch_fidelity"], 1e-6 if singular else 1e-13, "torch-fidelity's own moments")
    for name, result in peers.items():
        agree(size + value, size + result, 1e-6 if singular else 1e-13, f"FID of {generated} by {name}")
    if generated == other:
        value = 0.0
    return {"generated": generated.describe(), "reference": other.describe(), "singular": singular, "value": value, **peers}


def fid_cases() -> list[Case]:
    ordinary = [
        arm("specialists", "flow"),
        arm("specialists", "shoes_gan"),
        arm("generators", "resgan"),
        arm("truncated", "center0"),
        arm("categories", "bag"),
        arm("quality", "digits"),
    ]
    narrow = [arm("specialists", "flow", columns=16), arm("quality", "digits", columns=16)]
    mixtures = [specialists(BEST_SPECIALISTS), specialists((0.2,) * 5), truncated()]
    flow, constant = arm("specialists", "flow"), {"constant_column": 5}
    return [
        *(fid_case(chosen, reference(), singular=False) for chosen in ordinary),
        *(fid_case(chosen, reference(columns=16), singular=False) for chosen in narrow),
        *(fid_case(chosen, reference(), singular=False) for chosen in mixtures),
        fid_case(arm("specialists", "flow", 40), reference(50), singular=True),
        fid_case(arm("truncated", "center3", 40), reference(), singular=True),
        fid_case(arm("specialists", "flow", **constant), reference(**constant), singular=True),
        fid_case(flow, flow, singular=False),
    ]


# KID ------------------------------------------------------------------------------------------------------------------


def kid_by_torch_fidelity(first: Array, second: Array, **settings: Any) -> Case:
    result = metric_kid.kid_features_to_metric(tensor(first), tensor(second), verbose=False, **settings)
    return {"mean": result[metric_kid.KEY_METRIC_KID_MEAN], "std": result[metric_kid.KEY_METRIC_KID_STD]}


def torch_fidelity_case(generated: Set, swapped: bool, subsets: int, size: int, seed: int) -> Case:
    sets = (reference(), generated) if swapped else (generated, reference())
    settings = {"kid_subsets": subsets, "kid_subset_size": size, "rng_seed": seed}
    result = kid_by_torch_fidelity(*(chosen.features() for chosen in sets), **settings)
    names = {"first": sets[0].describe(), "second": sets[1].describe()}
    return {"tool": "torch-fidelity", **names, "subsets": subsets, "subset_size": size, "seed": seed, **result}


def clean_fid_case(first: Set, second: Set, subsets: int, seed: int) -> Case:
    np.random.seed(seed)  # clean-fid draws from NumPy's global generator, from the second set first
    mean = peer_clean_fid.kernel_distance(first.features(), second.features(), num_subsets=subsets)
    names = {"first": first.describe(), "second": second.describe()}
    size = min(first.rows, second.rows, 1000)
    return {"tool": "clean-fid", **names, "subsets": subsets, "subset_size": size, "seed": seed, "mean": mean}


def full_kid_case(generated: Set, other: Set) -> Case:
    """KID from all rows, with the usual kernel (x.y/d + 1)^3."""
    x, y = generated.features(), other.features()
    sums = []
    for left, right in ((x, x), (y, y), (x, y)):
        values = (left @ right.T / left.shape[1] + 1.0) ** 3
        if left is right:
            np.fill_diagonal(values, 0.0)
        sums.append(math.fsum(values.sum(axis=1)))
    n, m = len(x), len(y)
    value = math.fsum([sums[0] / (n * (n - 1)), sums[1] / (m * (m - 1)), -2.0 * sums[2] / (n * m)])
    plain = brute.discrepancy([x], [1.0], y, polynomial(1.0 / x.shape[1], 1.0, 3))
    agree(value, plain.unbiased, 1e-10, "full KID")
    if n == m:
        agree(value, kid_by_torch_fidelity(x, y, kid_subsets=1, kid_subset_size=n)["mean"], 1e-10, "one subset of all rows")
    return {"tool": "full", "generated": generated.describe(), "reference": other.describe(), "unbiased": value}


def kid_cases() -> list[Case]:
    arms = [arm("specialists", "flow"), arm("specialists", "tops_gan"), arm("generators", "resgan"), arm("quality", "digits")]
    flow, resgan = arms[0], arms[2]
    return [
        *(torch_fidelity_case(chosen, swapped, 100, 1000, 2020) for chosen in arms for swapped in (False, True)),
        *(torch_fidelity_case(chosen, False, 20, 100, 7) for chosen in arms),
        *(clean_fid_case(reference(), chosen, 100, 0) for chosen in (flow, resgan)),
        clean_fid_case(reference(300), arm("specialists", "flow", 200), 50, 0),
        *(full_kid_case(chosen, reference()) for chosen in arms),
        full_kid_case(resgan, reference(1000)),
    ]


def shuffled(words: Iterator[int], count: int) -> list[int]:
    """NumPy's legacy permutation: from the last position down, swap with a position drawn by masking words until one is in range."""
    places = list(range(count))
    for last in range(count - 1, 0, -1):
        mask = (1 << last.bit_length()) - 1
        chosen = next(words) & mask
        while chosen > last:
            chosen = next(words) & mask
        places[last], places[chosen] = places[chosen], places[last]
    return places


def raw_words(seed: int) -> Iterator[int]:
    generator = np.random.RandomState(seed)._bit_generator
    while True:
        yield int(generator.random_raw())


def generator_values() -> Case:
    """Draws of NumPy's legacy generator; the algorithm above must draw the same."""
    draws = []
    for seed, sizes in ((2020, ((1500, 1000), (2000, 1000))), (7, ((10, 10),))):
        generator, words = np.random.RandomState(seed), raw_words(seed)
        for count, size in sizes:
            indices = generator.choice(count, size, replace=False).tolist()
            if indices != shuffled(words, count)[:size]:
                raise ArithmeticError(f"choice({count}, {size}) with seed {seed} is not the masked shuffle")
            checksum = sum((position + 1) * index for position, index in enumerate(indices))
            draws.append({"seed": seed, "of": count, "size": size, "first": indices[:12], "checksum": checksum})
    return {
        "about": "choice(of, size, replace=False); draws with one seed follow on; checksum: sum of (position + 1) * index",
        "draws": draws,
        "raw": [{"seed": seed, "words": list(itertools.islice(raw_words(seed), 5))} for seed in (0, 2020, 4294967295)],
    }


# Precision, recall, density, coverage ---------------------------------------------------------------------------------


def prdc_by_peer(real: Array, fake: Array, neighbours: int) -> dict[str, float]:
    with contextlib.redirect_stdout(io.StringIO()):
        scores = peer_prdc.compute_prdc(real_features=real, fake_features=fake, nearest_k=neighbours)
    return {name: float(score) for name, score in scores.items()}


def prdc_case(generated: Set, other: Set, neighbours: int, degenerate: bool = False) -> Case:
    """``value`` uses exact distances. If rows are on boundaries (degenerate), the peer decides by rounding and may differ."""
    real, fake = other.features(), generated.features()
    value, margin = brute.prdc_exact(real, fake, neighbours)
    peer = prdc_by_peer(real, fake, neighbours)
    if not degenerate:
        if margin < 1e-10 or peer != value:
            raise ArithmeticError(f"PRDC of {generated}: {value} against {peer}, margin {margin!r}")
        even, _ = brute.prdc_weighted(real, fake, np.full(len(fake), 1.0 / len(fake)), neighbours)
        for name, score in even.items():
            agree(score, value[name], 1e-12, f"weighted {name} with equal weights")
    return {
        "generated": generated.describe(),
        "reference": other.describe(),
        "neighbours": neighbours,
        "degenerate": degenerate,
        "value": value,
        "prdc": peer,
        "closest_margin": margin,
    }


def prc_case(generated: Set, other: Set, neighbours: int, degenerate: bool = False) -> Case:
    """Precision and recall of torch-fidelity: balls include their boundary; the peer rounds shares to float32."""
    result = metric_prc.prc_features_to_metric(
        tensor(generated.features()), tensor(other.features()), prc_neighborhood=neighbours, verbose=False
    )
    exact, margin = brute.prdc_exact(other.features(), generated.features(), neighbours, strict=False)
    value = {name: exact[name] for name in ("precision", "recall")}
    if not degenerate:
        for name, score in value.items():
            agree(score, result[name], 1e-7, f"{name} of {generated} by torch-fidelity")
    return {
        "generated": generated.describe(),
        "reference": other.describe(),
        "neighbours": neighbours,
        "degenerate": degenerate,
        "value": value,
        "torch_fidelity": {name: float(score) for name, score in result.items()},
        "closest_margin": margin,
    }


def neighbourhood_sets() -> tuple[list[tuple[Set, Set]], list[tuple[Set, Set]]]:
    """Pairs of sets on which the peers are reliable, and pairs with rows on the boundaries of balls."""
    arms = [
        arm("specialists", "flow"),
        arm("specialists", "tops_gan"),
        arm("generators", "resgan"),
        arm("truncated", "center0"),
        arm("quality", "digits"),
    ]
    itself, repeated = arm("specialists", "flow", 200), arm("specialists", "flow", 30, repeat=6)
    return (
        [*((chosen, reference()) for chosen in arms), (arm("specialists", "flow", 30), reference(30))],
        [(itself, itself), (repeated, repeated)],
    )


def prdc_cases() -> list[Case]:
    ordinary, degenerate = neighbourhood_sets()
    return [
        *(prdc_case(*sets, neighbours) for sets in ordinary for neighbours in (5, 3)),
        *(prdc_case(*sets, 5, degenerate=True) for sets in degenerate),
    ]


def prc_cases() -> list[Case]:
    ordinary, degenerate = neighbourhood_sets()
    return [*(prc_case(*sets, 3) for sets in ordinary), *(prc_case(*sets, 3, degenerate=True) for sets in degenerate)]


def weighted_prdc_cases() -> list[Case]:
    """The effective sample size is N = 1 / (sum of squared row weights); a row counts as N times its weight. See golden_brute.py."""
    other, neighbours = reference(400), 5
    even = specialists((0.2,) * 5, 200)
    peer = prdc_by_peer(other.features(), even.features(), neighbours)
    cases = []
    for generated in (even, specialists(BEST_SPECIALISTS, 200), specialists((0.5, 0.2, 0.1, 0.1, 0.1), 200)):
        value, margin = brute.prdc_weighted(other.features(), generated.features(), generated.row_weights(), neighbours)
        if generated is even:
            for name, score in value.items():
                agree(score, peer[name], 1e-12, f"weighted {name} with equal weights")
        if margin < 1e-10:
            raise ArithmeticError(f"a row of {generated} is on a boundary: {margin!r}")
        cases.append(
            {
                "generated": generated.describe(),
                "reference": other.describe(),
                "neighbours": neighbours,
                "effective_size": 1.0 / math.fsum(np.square(generated.row_weights())),
                "value": value,
                "closest_margin": margin,
            }
        )
    return cases


# Vendi ----------------------------------------------------------------------------------------------------------------


def vendi_by_peer(score: Callable[[Any], float], orders: tuple[float, ...], full_rank: bool) -> dict[str, float]:
    """Scores by order. The peer needs infinity as text, and below order one it counts rounded zeros as eigenvalues."""
    trusted = [order for order in orders if order >= 1.0 or full_rank]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the peer uses a deprecated name of scipy
        return {f"{order:g}": float(score("inf" if math.isinf(order) else order)) for order in trusted}


def vendi_case(generated: Set, kernel: str, bandwidth: float | None, orders: tuple[float, ...]) -> Case:
    """By the matrices of the peer: that of the samples (with weights p for a mixture), and the d x d dual if it has one."""
    features, weights = generated.features(), generated.row_weights()
    count, width = features.shape
    peers: dict[str, dict[str, float]] = {}
    if kernel == "cosine":
        matrix = brute.unit_rows(features) @ brute.unit_rows(features).T
        eigenvalues = brute.cosine_eigenvalues(features, weights)
        if generated.weights is None:
            dual = vendi_by_peer(lambda order: peer_vendi.score_dual(features, q=order), orders, full_rank=count >= width)
            agree(vendi_by_peer(lambda _: peer_vendi.score_X(features), (1.0,), False)["1"], dual["1"], 1e-9, "score_X")
            peers["score_dual"] = dual
    else:
        matrix = brute.kernel_matrix(gaussian(bandwidth), features, features)
        eigenvalues = np.linalg.eigvalsh(matrix * np.sqrt(np.outer(weights, weights)))
    weighted = None if generated.weights is None else weights
    full_rank = kernel == "gaussian" or count <= width
    peers["score_K"] = vendi_by_peer(lambda order: peer_vendi.score_K(matrix, q=order, p=weighted), orders, full_rank)
    value = {f"{order:g}": brute.vendi_of_eigenvalues(eigenvalues, order) for order in orders}
    for name, scores in peers.items():
        for order, score in scores.items():
            agree(value[order], score, 1e-10, f"Vendi of {generated}, order {order}, by {name}")
    setting = {} if bandwidth is None else {"bandwidth": bandwidth}
    return {"generated": generated.describe(), "kernel": {"name": kernel, **setting}, "value": value, **peers}


def vendi_cases() -> list[Case]:
    orders = (0.5, 1.0, 2.0, math.inf)
    arms = [arm("specialists", "flow"), arm("specialists", "tops_gan"), arm("truncated", "center0"), arm("quality", "digits")]
    mixtures = [specialists(BEST_SPECIALISTS, 300), specialists((0.2,) * 5, 300)]
    return [
        *(vendi_case(chosen, "cosine", None, (0.1, *orders)) for chosen in arms),
        vendi_case(arm("specialists", "flow", 40), "cosine", None, orders),
        vendi_case(arm("specialists", "flow", 300), "gaussian", 20.0, orders),
        vendi_case(arm("quality", "digits", 300), "gaussian", 20.0, orders),
        *(vendi_case(chosen, "cosine", None, orders) for chosen in mixtures),
        vendi_case(specialists(BEST_SPECIALISTS, 100), "gaussian", 20.0, orders),
    ]


# RKE and MMD ----------------------------------------------------------------------------------------------------------


def rke_case(generated: Set, bandwidth: float) -> Case:
    count = brute.mode_count(generated.parts(), generated.shares(), gaussian(bandwidth))
    if generated.weights is None:
        values = sklearn.metrics.pairwise.rbf_kernel(generated.features(), gamma=0.5 / bandwidth**2)
        agree(count, 1.0 / float(np.square(values).mean()), 1e-11, f"RKE of {generated} by scikit-learn")
    setting = {"generated": generated.describe(), "bandwidth": bandwidth}
    return {**setting, "mode_count": count, "entropy": math.log(count)}


def rke_cases() -> list[Case]:
    arms = [arm("specialists", "flow"), arm("generators", "vae"), arm("truncated", "center0"), arm("quality", "digits")]
    mixtures = [(specialists(BEST_SPECIALISTS), 15.0), (specialists((0.2,) * 5, 500), 15.0), (truncated(500), 20.0)]
    return [
        *(rke_case(chosen, bandwidth) for chosen in arms for bandwidth in (20.0, 15.0)),
        *(rke_case(*mixture) for mixture in mixtures),
    ]


def mmd_case(generated: Set, other: Set, bandwidth: float) -> Case:
    result = brute.discrepancy(generated.parts(), generated.shares(), other.features(), gaussian(bandwidth))
    if generated.weights is None and generated.rows == other.rows:
        settings = {"kid_subsets": 1, "kid_subset_size": other.rows, "kid_kernel": "rbf", "kid_kernel_rbf_sigma": bandwidth}
        own = kid_by_torch_fidelity(generated.features(), other.features(), **settings)
        agree(result.unbiased, own["mean"], 1e-9, f"MMD of {generated} by torch-fidelity")
    names = {"generated": generated.describe(), "reference": other.describe(), "bandwidth": bandwidth}
    return {**names, "biased": result.biased, "unbiased": result.unbiased}


def mmd_cases() -> list[Case]:
    return [
        mmd_case(arm("specialists", "flow"), reference(), 20.0),
        mmd_case(arm("generators", "vae"), reference(1000), 20.0),
        mmd_case(arm("quality", "digits"), reference(), 20.0),
        mmd_case(specialists(BEST_SPECIALISTS), reference(), 20.0),
        mmd_case(truncated(500), reference(500), 20.0),
    ]


def cmmd_cases() -> list[Case]:
    """1000 x biased MMD^2, sigma 10, unit rows. All kernel values are near 1, so k - 1 is summed instead of k."""
    cases = []
    for generated in (arm("specialists", "flow"), arm("generators", "vae"), specialists(BEST_SPECIALISTS)):
        arms, other = [brute.unit_rows(part) for part in generated.parts()], brute.unit_rows(reference().features())
        pooled = np.vstack([*arms, other])
        weights = np.concatenate([generated.row_weights(), np.full(len(other), -1.0 / len(other))])
        lines = [
            math.fsum(np.expm1(Pairs(pooled[rows], pooled).squared_distances / -200.0) @ weights * weights[rows])
            for rows in blocks(len(pooled))
        ]
        value = 1000.0 * math.fsum(lines)
        agree(value, 1000.0 * brute.discrepancy(arms, generated.shares(), other, gaussian(10.0)).biased, 1e-8, "CMMD")
        cases.append({"generated": generated.describe(), "reference": reference().describe(), "value": value})
    return cases


# Writing --------------------------------------------------------------------------------------------------------------


def main() -> None:
    threadpoolctl.threadpool_limits(1)  # faster for small products, and the order of summation is fixed
    torch.set_num_threads(1)
    document: Case = {
        "about": "Written by tools/golden_metrics.py from data/fashion with the peers below; do not edit by hand.",
        "peers": {peer: importlib.metadata.version(peer) for peer in PEERS},
    }
    makers: dict[str, Callable[[], Any]] = {
        "fid": fid_cases,
        "kid": kid_cases,
        "generator": generator_values,
        "prdc": prdc_cases,
        "prc": prc_cases,
        "weighted_prdc": weighted_prdc_cases,
        "vendi": vendi_cases,
        "rke": rke_cases,
        "mmd": mmd_cases,
        "cmmd": cmmd_cases,
        "standard_errors": standard_error_cases,
    }
    for name, make in makers.items():
        start = time.perf_counter()
        document[name] = make()
        print(f"{name:<16}{len(document[name]):>4} cases in {time.perf_counter() - start:6.1f} s", flush=True)
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_text(to_text(document) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
