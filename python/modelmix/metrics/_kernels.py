"""Metrics with a kernel: RKE, Vendi, MMD², CMMD and KID."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from .. import _check
from .._arguments import checked
from .._files import Rows
from ..objectives import Bandwidth, KernelName
from ..results import Estimate
from ._estimates import Samples, estimates, kernel_text


@checked
def rke(
    samples: Samples,
    *,
    weights: Mapping[str, float] | None = None,
    kernel: Literal["gaussian", "laplacian", "cosine"] | None = None,
    bandwidth: Bandwidth | None = None,
    seed: int = 0,
    threads: int | None = None,
    engine: str = "auto",
    gpu_memory: int | str | None = None,
) -> Estimate:
    """Compute the RKE mode count, 1/E[k²(X, X′)]: the effective number of modes.

    Parameters
    ----------
    samples
        Features of one model, one row per sample, or of several models by name; arrays or files.
    weights
        The weights of the mixture, by arm, if there are several; equal weights if ``None``.
    kernel
        ``"gaussian"`` (the default), ``"laplacian"`` or ``"cosine"``.
    bandwidth
        σ of the kernel; ``None`` or ``"auto"`` for the median distance (:func:`modelmix.median_bandwidth`).
    seed
        The random seed.
    threads
        The number of threads; all cores if ``None``.
    engine, gpu_memory
        Where to compute, and the maximum GPU memory, as in :func:`modelmix.solve`.

    Returns
    -------
    Estimate
        The value and its standard error.

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
    >>> float(mm.metrics.rke([[0.0], [100.0]], bandwidth=1))
    2.0
    """
    settings = kernel_text(kernel=kernel, bandwidth=bandwidth)
    return estimates(
        ["rke"], samples, weights, None, (threads, engine, gpu_memory), kernel=settings, seed=_check.seed(seed)
    )[0]


@checked
def vendi(
    samples: Samples,
    *,
    weights: Mapping[str, float] | None = None,
    order: float = 1.0,
    kernel: Literal["gaussian", "laplacian", "cosine"] | None = None,
    bandwidth: Bandwidth | None = None,
    seed: int = 0,
    threads: int | None = None,
    engine: str = "auto",
    gpu_memory: int | str | None = None,
) -> Estimate:
    """Compute the Vendi score: an effective number of different samples, from the entropy of the kernel matrix's eigenvalues.

    Parameters
    ----------
    samples
        Features of one model, one row per sample, or of several models by name; arrays or files.
    weights
        The weights of the mixture, by arm, if there are several; equal weights if ``None``.
    order
        The order of the entropy; ``float("inf")`` uses only the largest eigenvalue.
    kernel
        ``"cosine"`` (the default), ``"gaussian"`` or ``"laplacian"``.
    bandwidth
        σ of the kernel; ``None`` or ``"auto"`` for the median distance (:func:`modelmix.median_bandwidth`).
    seed
        The random seed.
    threads
        The number of threads; all cores if ``None``.
    engine, gpu_memory
        Where to compute, and the maximum GPU memory, as in :func:`modelmix.solve`.

    Returns
    -------
    Estimate
        The value and its standard error.

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
    >>> round(float(mm.metrics.vendi([[1.0, 0.0], [0.0, 1.0]])), 6)
    2.0
    """
    settings = kernel_text(kernel=kernel, bandwidth=bandwidth)
    seed = _check.seed(seed)
    return estimates(
        ["vendi"],
        samples,
        weights,
        None,
        (threads, engine, gpu_memory),
        vendi_kernel=settings,
        order=_check.real("order", order),
        seed=seed,
    )[0]


@checked
def mmd(
    samples: Samples,
    reference: Rows,
    *,
    weights: Mapping[str, float] | None = None,
    kernel: KernelName | None = None,
    bandwidth: Bandwidth | None = None,
    scale: float | None = None,
    offset: float | None = None,
    degree: int | None = None,
    seed: int = 0,
    threads: int | None = None,
    engine: str = "auto",
    gpu_memory: int | str | None = None,
) -> Estimate:
    """Compute the unbiased squared maximum mean discrepancy (MMD²) between all samples and a reference.

    Parameters
    ----------
    samples
        Features of one model, one row per sample, or of several models by name; arrays or files.
    reference
        Features of real samples, or a file.
    weights
        The weights of the mixture, by arm, if there are several; equal weights if ``None``.
    kernel
        ``"gaussian"`` (the default), ``"laplacian"``, ``"polynomial"``, ``"cosine"`` or ``"kid"``.
    bandwidth
        σ of the kernel; ``None`` or ``"auto"`` for the median distance (:func:`modelmix.median_bandwidth`).
    scale, offset, degree
        Parameters of the polynomial kernel (scale·x·y + offset)^degree.
    seed
        The random seed.
    threads
        The number of threads; all cores if ``None``.
    engine, gpu_memory
        Where to compute, and the maximum GPU memory, as in :func:`modelmix.solve`.

    Returns
    -------
    Estimate
        The value and its standard error.

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
    >>> near = mm.metrics.mmd("data/fashion/specialists.npz:flow", "data/fashion/reference.npy", bandwidth=20)
    >>> bool(0 < near.value < 1)
    True
    """
    settings = kernel_text(kernel=kernel, bandwidth=bandwidth, scale=scale, offset=offset, degree=degree)
    return estimates(
        ["mmd"], samples, weights, reference, (threads, engine, gpu_memory), kernel=settings, seed=_check.seed(seed)
    )[0]


@checked
def cmmd(
    samples: Samples,
    reference: Rows,
    *,
    weights: Mapping[str, float] | None = None,
    threads: int | None = None,
    engine: str = "auto",
    gpu_memory: int | str | None = None,
) -> Estimate:
    """Compute CMMD, for CLIP features: 1000 times the biased MMD² of rows scaled to length 1, with a Gaussian kernel of bandwidth 10.

    Parameters
    ----------
    samples
        Features of one model, one row per sample, or of several models by name; arrays or files.
    reference
        Features of real samples, or a file.
    weights
        The weights of the mixture, by arm, if there are several; equal weights if ``None``.
    threads
        The number of threads; all cores if ``None``.
    engine, gpu_memory
        Where to compute, and the maximum GPU memory, as in :func:`modelmix.solve`.

    Returns
    -------
    Estimate
        The value and its standard error.

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
    >>> bool(mm.metrics.cmmd("data/fashion/specialists.npz:flow", "data/fashion/reference.npy").value > 0)
    True
    """
    return estimates(["cmmd"], samples, weights, reference, (threads, engine, gpu_memory))[0]


@checked
def kid(
    samples: Samples,
    reference: Rows,
    *,
    weights: Mapping[str, float] | None = None,
    subsets: int = 100,
    subset_size: int | None = None,
    subset_seed: int = 2020,
    threads: int | None = None,
    engine: str = "auto",
    gpu_memory: int | str | None = None,
) -> Estimate:
    """Compute the kernel inception distance (KID): the mean over random subsets of MMD² with the cubic kernel (x·y/d + 1)³.

    The definition is that of torch-fidelity: ``standard_error`` is the standard deviation between subsets. For an estimate from all
    samples, use ``mmd(…, kernel="kid")``.

    Parameters
    ----------
    samples
        Features of one model, one row per sample, or of several models by name; arrays or files.
    reference
        Features of real samples, or a file.
    weights
        The weights of the mixture, by arm, if there are several; equal weights if ``None``.
    subsets
        The number of subsets.
    subset_size
        Samples per subset; if ``None``, 1000, or as many as there are if that is less.
    subset_seed
        The random seed of the subsets.
    threads
        The number of threads; all cores if ``None``.
    engine, gpu_memory
        Where to compute, and the maximum GPU memory, as in :func:`modelmix.solve`.

    Returns
    -------
    Estimate
        The value and its standard error.

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
    >>> mm.metrics.kid("data/fashion/specialists.npz:flow", "data/fashion/reference.npy", subsets=10).by
    'subsets'
    """
    settings = {
        "subsets": _check.whole_or_none("subsets", subsets, 1),
        "subset_size": _check.whole_or_none("subset_size", subset_size, 1),
        "subset_seed": _check.whole_or_none("subset_seed", subset_seed, 0, _check.MOST_SHORT_SEED),
    }
    return estimates(["kid"], samples, weights, reference, (threads, engine, gpu_memory), **settings)[0]
