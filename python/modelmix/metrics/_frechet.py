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
) -> Estimate:
    """The Fréchet distance to a reference: between normal distributions with the same means and covariances.

    Parameters
    ----------
    samples
        Features of one model, one row per sample, or of several by name; arrays or files.
    reference
        Features of real samples, or a file.
    weights
        The mixture's weights, by arm, if samples of several arms are given; equal ones if ``None``.
    threads
        Threads to compute with; all cores if ``None``.

    Returns
    -------
    Estimate
        The value and its standard error.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If something does not fit; the message names it and says what to do.
    OSError
        If a file cannot be read.

    Examples
    --------
    >>> import modelmix as mm
    >>> rows = [[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]]
    >>> round(float(mm.metrics.fid(rows, [[x + 3, y] for x, y in rows])), 6)
    9.0
    """
    return estimates(["fid"], samples, weights, reference, threads)[0]


@checked
def fid_infinity(
    samples: Samples,
    reference: Rows,
    *,
    weights: Mapping[str, float] | None = None,
    seed: int = 0,
    threads: int | None = None,
) -> Estimate:
    """The Fréchet distance extrapolated to infinitely many samples.

    Parameters
    ----------
    samples
        Features of one model, one row per sample, or of several by name; arrays or files.
    reference
        Features of real samples, or a file.
    weights
        The mixture's weights, by arm, if samples of several arms are given; equal ones if ``None``.
    seed
        The random seed.
    threads
        Threads to compute with; all cores if ``None``.

    Returns
    -------
    Estimate
        The value and its standard error.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If something does not fit; the message names it and says what to do.
    OSError
        If a file cannot be read.

    Examples
    --------
    >>> import modelmix as mm
    >>> mm.metrics.fid_infinity("data/fashion/specialists.npz:flow", "data/fashion/reference.npy").by
    'regression'
    """
    return estimates(["fid_infinity"], samples, weights, reference, threads, seed=_check.seed(seed))[0]
