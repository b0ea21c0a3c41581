"""The median rule for the bandwidth of a kernel."""

from __future__ import annotations

from collections.abc import Sequence

from . import _check, _modelmix
from ._arguments import checked
from ._arms import Arms, Named, sets_of
from ._files import Rows
from ._files import rows as read

__all__ = ["median_bandwidth"]


def __dir__() -> list[str]:
    return __all__


@checked
def median_bandwidth(
    samples: Arms | Rows | None = None,
    reference: Rows | None = None,
    *,
    arm: str | None = None,
    features: str | Sequence[str] | None = None,
    seed: int = 0,
) -> float:
    """Compute a bandwidth by the median rule: the median distance between samples, the usual first choice.

    The rule uses all pairs of at most 500 rows, drawn evenly from the arms, without pairs of equal rows. :func:`modelmix.solve` uses
    it if no bandwidth is given; with a reference, it is the median distance within the reference.

    Parameters
    ----------
    samples
        Features of several arms, as in :func:`modelmix.solve`, or of one model. Ignored if a ``reference`` is given.
    reference
        Features of real samples, or a file.
    arm, features
        Columns, if ``samples`` is a frame with one row per sample, as in :func:`modelmix.load`.
    seed
        The random seed for drawing the rows. Sessions use 0.

    Returns
    -------
    float
        The bandwidth σ.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If there are no samples, they have different widths, or all are equal.
    OSError
        If a file cannot be read.

    Examples
    --------
    >>> import modelmix as mm
    >>> sigma = mm.median_bandwidth("data/fashion/specialists.npz")
    >>> best = mm.solve("data/fashion/specialists.npz", mm.Rke())
    >>> best.kernels[0]["bandwidth"] == sigma
    True
    >>> mm.median_bandwidth([[0.0], [3.0]])
    3.0
    """
    if reference is not None:
        sets: Named = [("the reference", read("the reference", reference))]
    elif samples is None:
        raise ValueError("the median rule needs samples; pass arms or a reference")
    else:
        sets = [(f"arm {name}" if name else "the samples", rows) for name, rows in sets_of(samples, arm, features)]
    return _modelmix.median_bandwidth(sets, _check.seed(seed))
