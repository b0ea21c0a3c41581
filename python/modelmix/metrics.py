"""Single metrics, each with its standard error.

``samples`` are features of one model, or of several by name with ``weights``. All are those of :func:`modelmix.score`.

>>> import modelmix as mm
>>> arms = mm.load("data/fashion/specialists.npz")
>>> reference = mm.load_array("data/fashion/reference.npy")
>>> fid = mm.metrics.fid(arms["flow"], reference)
>>> bool(fid.value > 0 and fid.standard_error > 0)
True
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from . import _modelmix
from ._arrays import Arms, ArrayLike, as_array, named
from ._settings import ScoreSettings
from .objectives import KernelName
from .results import Estimate, Prdc

__all__ = ["cmmd", "fid", "fid_infinity", "kid", "mmd", "prdc", "rke", "vendi"]

#: Features of one model, or of several by name.
Samples: TypeAlias = "ArrayLike | Arms"


def _kernel(**settings: object) -> str:
    return ", ".join(f"{key}={value}" for key, value in settings.items() if value is not None)


def _estimates(
    names: list[str],
    samples: Samples,
    weights: Mapping[str, float] | None,
    reference: ArrayLike | None,
    threads: int | None,
    **settings: Any,
) -> list[Estimate]:
    if isinstance(samples, Mapping):
        sets = named(samples)
    elif weights is not None:
        raise ValueError(
            'weights are given for one set of samples; give several by name, as in {"flux": flux, "sdxl": sdxl}'
        )
    else:
        sets = [("", as_array("the samples", samples))]
    found = _modelmix.metrics(
        sets,
        None if weights is None else {str(name): float(weight) for name, weight in weights.items()},
        None if reference is None else as_array("the reference", reference),
        ScoreSettings(metrics=names, **settings),
        threads,
    )
    return [Estimate(value, error, by) for _, value, error, by in found]


def rke(
    samples: Samples,
    *,
    weights: Mapping[str, float] | None = None,
    kernel: Literal["gaussian", "laplacian", "cosine"] | None = None,
    bandwidth: float | Literal["auto"] | None = None,
    seed: int = 0,
    threads: int | None = None,
) -> Estimate:
    """The RKE mode count: how many different things there are."""
    settings = _kernel(kernel=kernel, bandwidth=bandwidth)
    return _estimates(["rke"], samples, weights, None, threads, kernel=settings, seed=seed)[0]


def vendi(
    samples: Samples,
    *,
    weights: Mapping[str, float] | None = None,
    order: float = 1.0,
    kernel: Literal["gaussian", "laplacian", "cosine"] | None = None,
    bandwidth: float | Literal["auto"] | None = None,
    seed: int = 0,
    threads: int | None = None,
) -> Estimate:
    """The Vendi score of an order (``float("inf")`` for the largest eigenvalue alone), on the cosine kernel unless another is named."""
    settings = _kernel(kernel=kernel, bandwidth=bandwidth)
    return _estimates(["vendi"], samples, weights, None, threads, vendi_kernel=settings, order=order, seed=seed)[0]


def mmd(
    samples: Samples,
    reference: ArrayLike,
    *,
    weights: Mapping[str, float] | None = None,
    kernel: KernelName | None = None,
    bandwidth: float | Literal["auto"] | None = None,
    scale: float | None = None,
    offset: float | None = None,
    degree: int | None = None,
    seed: int = 0,
    threads: int | None = None,
) -> Estimate:
    """The unbiased squared maximum mean discrepancy of all samples to a reference."""
    settings = _kernel(kernel=kernel, bandwidth=bandwidth, scale=scale, offset=offset, degree=degree)
    return _estimates(["mmd"], samples, weights, reference, threads, kernel=settings, seed=seed)[0]


def cmmd(
    samples: Samples, reference: ArrayLike, *, weights: Mapping[str, float] | None = None, threads: int | None = None
) -> Estimate:
    """CMMD, which is meant for CLIP features."""
    return _estimates(["cmmd"], samples, weights, reference, threads)[0]


def kid(
    samples: Samples,
    reference: ArrayLike,
    *,
    weights: Mapping[str, float] | None = None,
    subsets: int = 100,
    subset_size: int | None = None,
    subset_seed: int = 2020,
    threads: int | None = None,
) -> Estimate:
    """The Kernel Inception Distance over subsets, as torch-fidelity defines it.

    Its ``standard_error`` is the spread between subsets, as tools print it. For all samples at once use
    ``mmd(…, kernel="kid")``.
    """
    return _estimates(
        ["kid"], samples, weights, reference, threads,
        subsets=subsets, subset_size=subset_size, subset_seed=subset_seed,
    )[0]  # fmt: skip


def fid(
    samples: Samples, reference: ArrayLike, *, weights: Mapping[str, float] | None = None, threads: int | None = None
) -> Estimate:
    """The Fréchet distance to a reference."""
    return _estimates(["fid"], samples, weights, reference, threads)[0]


def fid_infinity(
    samples: Samples,
    reference: ArrayLike,
    *,
    weights: Mapping[str, float] | None = None,
    seed: int = 0,
    threads: int | None = None,
) -> Estimate:
    """The Fréchet distance extrapolated to samples without end."""
    return _estimates(["fid_infinity"], samples, weights, reference, threads, seed=seed)[0]


def prdc(
    samples: Samples,
    reference: ArrayLike,
    *,
    weights: Mapping[str, float] | None = None,
    neighbours: int = 5,
    closed: bool = False,
    threads: int | None = None,
) -> Prdc:
    """Precision, recall, density and coverage.

    What lies at the very radius of a ball is outside, as in prdc; with ``closed=True`` it is inside, as in torch-fidelity.
    """
    names = ["precision", "recall", "density", "coverage"]
    return Prdc(*_estimates(names, samples, weights, reference, threads, neighbours=neighbours, closed=closed))
