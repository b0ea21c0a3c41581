"""Fréchet distances."""

from __future__ import annotations

from collections.abc import Mapping

from .. import _check
from .._arguments import checked
from .._files import Rows
from ..results import Estimate
from ._estimates import Samples, estimates


@checked
def fid(
    samples: Samples,
    reference: Rows,
    *,
    weights: Mapping[str, float] | None = None,
    threads: int | None = None,
    engine: str = "auto",
    gpu_memory: int | str | None = None,
) -> Estimate:
    """Compute the Fréchet distance (FID): between Gaussians with the means and covariances of samples and reference.

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
    >>> rows = [[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]]
    >>> round(float(mm.metrics.fid(rows, [[x + 3, y] for x, y in rows])), 6)
    9.0
    """
    return estimates(["fid"], samples, weights, reference, (threads, engine, gpu_memory))[0]


@checked
def fid_infinity(
    samples: Samples,
    reference: Rows,
    *,
    weights: Mapping[str, float] | None = None,
    seed: int = 0,
    threads: int | None = None,
    engine: str = "auto",
    gpu_memory: int | str | None = None,
) -> Estimate:
    """Compute the Fréchet distance extrapolated to an infinite number of samples (FID∞).

    Parameters
    ----------
    samples
        Features of one model, one row per sample, or of several models by name; arrays or files.
    reference
        Features of real samples, or a file.
    weights
        The weights of the mixture, by arm, if there are several; equal weights if ``None``.
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
    >>> mm.metrics.fid_infinity("data/fashion/specialists.npz:flow", "data/fashion/reference.npy").by
    'regression'
    """
    return estimates(
        ["fid_infinity"], samples, weights, reference, (threads, engine, gpu_memory), seed=_check.seed(seed)
    )[0]
