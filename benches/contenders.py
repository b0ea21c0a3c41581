"""The peers: the sum of K over all arms, as each tool computes it. Measurements are in peers.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel



def pairs_of_arms(arms: list[Any], pair: Callable[[Any, Any], float]) -> float:
    """Return the sum of K over arms: each pair of different arms is computed once and counted twice."""
    total = 0.0
    for i, x in enumerate(arms):
        for j, y in enumerate(arms[: i + 1]):
            total += (1 if i == j else 2) * pair(x, y) / (len(x) * len(y))
    return total


def numpy_kernel(kernel: str, gamma: float, block: int = 2048) -> Callable[[list[np.ndarray]], float]:
    """Well-written NumPy: BLAS products of one block at a time, everything else in place."""

    def pair(x: np.ndarray, y: np.ndarray) -> float:
        total = 0.0
        x_norms, y_norms = np.einsum("ij,ij->i", x, x), np.einsum("ij,ij->i", y, y)
        for start in range(0, len(x), block):
            part = x[start : start + block] @ y.T
            if kernel == "gaussian":
                part *= 2.0 * gamma
                part -= gamma * x_norms[start : start + block, None]
                part -= gamma * y_norms[None, :]
                np.exp(part, out=part)
            else:
                part *= 1.0 / x.shape[1]
                part += 1.0
                part *= part * part
            total += float(part.sum(dtype=np.float64))
        return total

    return lambda arms: pairs_of_arms(arms, pair)


def torch_addmm(kernel: str, gamma: float) -> Callable[[list[torch.Tensor]], float]:
    """Well-written torch: the norms inside the product, the kernel in place."""

    def pair(x: torch.Tensor, y: torch.Tensor) -> float:
        if kernel == "gaussian":
            norms = (x * x).sum(1)[:, None] + (y * y).sum(1)[None, :]
            part = torch.addmm(norms, x, y.T, beta=-gamma, alpha=2.0 * gamma).exp_()
        else:
            part = torch.addmm(torch.ones(()), x, y.T, beta=1.0, alpha=1.0 / x.shape[1])
            part = part * part * part
        return float(part.sum(dtype=torch.float64))

    return lambda arms: pairs_of_arms(arms, pair)


def torch_fidelity(kernel: str, gamma: float) -> Callable[[list[np.ndarray]], float]:
    """The kernel functions of torch-fidelity, as its KID calls them."""
    from torch_fidelity import metric_kid

    def pair(x: np.ndarray, y: np.ndarray) -> float:
        if kernel == "gaussian":
            values = metric_kid.kernel_rbf(x, y, kid_kernel_rbf_sigma=(0.5 / gamma) ** 0.5)
        else:
            values = metric_kid.kernel_poly(x, y, kid_kernel_poly_degree=3, kid_kernel_poly_gamma=None, kid_kernel_poly_coef0=1.0)
        return float(np.asarray(values).sum(dtype=np.float64))

    return lambda arms: pairs_of_arms(arms, pair)


def scikit_learn(kernel: str, gamma: float) -> Callable[[list[np.ndarray]], float]:
    """The kernels of scikit-learn."""

    def pair(x: np.ndarray, y: np.ndarray) -> float:
        values = rbf_kernel(x, y, gamma=gamma) if kernel == "gaussian" else polynomial_kernel(x, y, degree=3)
        return float(values.sum(dtype=np.float64))

    return lambda arms: pairs_of_arms(arms, pair)


def broadcasting_loop(gamma: float) -> Callable[[list[np.ndarray]], float]:
    """All differences at once, for every ordered pair of arms, as is common in scripts of papers."""

    def run(arms: list[np.ndarray]) -> float:
        total = 0.0
        for x in arms:
            for y in arms:
                total += np.exp(-gamma * ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1)).mean()
        return total

    return run
