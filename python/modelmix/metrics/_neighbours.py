"""Metrics with k-nearest-neighbour balls: precision, recall, density and coverage."""

from __future__ import annotations

from collections.abc import Mapping

from .. import _check
from .._arguments import checked
from .._files import Rows
from ..results import Estimate, Prdc
from ._estimates import Given, Samples, estimates


def _ball(
    metric: str,
    samples: Samples,
    reference: Rows,
    weights: Mapping[str, float] | None,
    neighbours: int,
    closed: bool,
    given: Given,
) -> Estimate:
    """Compute one of the four metrics."""
    settings = {"neighbours": _check.whole("neighbours", neighbours, 1), "closed": _check.flag("closed", closed)}
    return estimates([metric], samples, weights, reference, given, **settings)[0]


@checked
def precision(
    samples: Samples,
    reference: Rows,
    *,
    weights: Mapping[str, float] | None = None,
    neighbours: int = 5,
    closed: bool = False,
    threads: int | None = None,
    engine: str = "auto",
    gpu_memory: int | str | None = None,
) -> Estimate:
    """Compute precision (fidelity): the share of samples inside the k-nearest-neighbour balls of the reference.

    Parameters
    ----------
    samples
        Features of one model, one row per sample, or of several models by name; arrays or files.
    reference
        Features of real samples, or a file.
    weights
        The weights of the mixture, by arm, if there are several; equal weights if ``None``.
    neighbours
        k of the k-nearest-neighbour radii.
    closed
        Whether a point exactly at the radius of a ball is inside (as in torch-fidelity) or outside (``False``, as in prdc).
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
    >>> float(mm.metrics.precision([[0.0], [1.0]], [[0.0], [1.0]], neighbours=1, closed=True))
    1.0
    """
    return _ball("precision", samples, reference, weights, neighbours, closed, (threads, engine, gpu_memory))


@checked
def recall(
    samples: Samples,
    reference: Rows,
    *,
    weights: Mapping[str, float] | None = None,
    neighbours: int = 5,
    closed: bool = False,
    threads: int | None = None,
    engine: str = "auto",
    gpu_memory: int | str | None = None,
) -> Estimate:
    """Compute recall (mode coverage): the share of reference samples inside the k-nearest-neighbour balls of the samples.

    Parameters
    ----------
    samples
        Features of one model, one row per sample, or of several models by name; arrays or files.
    reference
        Features of real samples, or a file.
    weights
        The weights of the mixture, by arm, if there are several; equal weights if ``None``.
    neighbours
        k of the k-nearest-neighbour radii.
    closed
        Whether a point exactly at the radius of a ball is inside (as in torch-fidelity) or outside (``False``, as in prdc).
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
    >>> float(mm.metrics.recall([[0.0], [1.0]], [[0.0], [1.0]], neighbours=1, closed=True))
    1.0
    """
    return _ball("recall", samples, reference, weights, neighbours, closed, (threads, engine, gpu_memory))


@checked
def density(
    samples: Samples,
    reference: Rows,
    *,
    weights: Mapping[str, float] | None = None,
    neighbours: int = 5,
    closed: bool = False,
    threads: int | None = None,
    engine: str = "auto",
    gpu_memory: int | str | None = None,
) -> Estimate:
    """Compute density (fidelity): the mean number of k-nearest-neighbour balls of the reference per sample, divided by k.

    Parameters
    ----------
    samples
        Features of one model, one row per sample, or of several models by name; arrays or files.
    reference
        Features of real samples, or a file.
    weights
        The weights of the mixture, by arm, if there are several; equal weights if ``None``.
    neighbours
        k of the k-nearest-neighbour radii.
    closed
        Whether a point exactly at the radius of a ball is inside (as in torch-fidelity) or outside (``False``, as in prdc).
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
    >>> float(mm.metrics.density([[0.0], [1.0]], [[0.0], [1.0]], neighbours=1, closed=True))
    2.0
    """
    return _ball("density", samples, reference, weights, neighbours, closed, (threads, engine, gpu_memory))


@checked
def coverage(
    samples: Samples,
    reference: Rows,
    *,
    weights: Mapping[str, float] | None = None,
    neighbours: int = 5,
    closed: bool = False,
    threads: int | None = None,
    engine: str = "auto",
    gpu_memory: int | str | None = None,
) -> Estimate:
    """Compute coverage (mode coverage): the share of k-nearest-neighbour balls of the reference that contain a sample.

    Parameters
    ----------
    samples
        Features of one model, one row per sample, or of several models by name; arrays or files.
    reference
        Features of real samples, or a file.
    weights
        The weights of the mixture, by arm, if there are several; equal weights if ``None``.
    neighbours
        k of the k-nearest-neighbour radii.
    closed
        Whether a point exactly at the radius of a ball is inside (as in torch-fidelity) or outside (``False``, as in prdc).
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
    >>> float(mm.metrics.coverage([[0.0], [1.0]], [[0.0], [1.0]], neighbours=1, closed=True))
    1.0
    """
    return _ball("coverage", samples, reference, weights, neighbours, closed, (threads, engine, gpu_memory))


@checked
def prdc(
    samples: Samples,
    reference: Rows,
    *,
    weights: Mapping[str, float] | None = None,
    neighbours: int = 5,
    closed: bool = False,
    threads: int | None = None,
    engine: str = "auto",
    gpu_memory: int | str | None = None,
) -> Prdc:
    """Compute precision, recall, density and coverage together, which is faster than one by one.

    Parameters
    ----------
    samples
        Features of one model, one row per sample, or of several models by name; arrays or files.
    reference
        Features of real samples, or a file.
    weights
        The weights of the mixture, by arm, if there are several; equal weights if ``None``.
    neighbours
        k of the k-nearest-neighbour radii.
    closed
        Whether a point exactly at the radius of a ball is inside (as in torch-fidelity) or outside (``False``, as in prdc).
    threads
        The number of threads; all cores if ``None``.
    engine, gpu_memory
        Where to compute, and the maximum GPU memory, as in :func:`modelmix.solve`.

    Returns
    -------
    Prdc
        The four values with their standard errors.

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
    >>> four = mm.metrics.prdc("data/fashion/specialists.npz:flow", "data/fashion/reference.npy")
    >>> bool(0 < four.recall.value < four.precision.value < 1)
    True
    """
    names = ["precision", "recall", "density", "coverage"]
    settings = {"neighbours": _check.whole("neighbours", neighbours, 1), "closed": _check.flag("closed", closed)}
    return Prdc(*estimates(names, samples, weights, reference, (threads, engine, gpu_memory), **settings))
