"""Objectives: terms that can be added and scaled.

>>> import modelmix as mm
>>> objective = mm.Rke(bandwidth=30) - 0.2 * mm.Precision()
>>> str(objective)
'rke(bandwidth=30) - 0.2*precision'
>>> objective == mm.Objective("rke(bandwidth=30) - 0.2*precision")
True
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from . import _check
from ._arguments import checked
from ._arms import ScoreValues
from ._files import Rows
from ._objective import Objective

__all__ = [
    "Cost",
    "Density",
    "Fid",
    "Kid",
    "Mmd",
    "Objective",
    "Precision",
    "Rke",
    "SampleScore",
    "Vendi",
]

#: The kernels' names.
KernelName: TypeAlias = Literal["gaussian", "laplacian", "polynomial", "cosine", "kid"]

#: A kernel's bandwidth, or the name of the median rule.
Bandwidth: TypeAlias = float | Literal["auto"]


def __dir__() -> list[str]:
    return __all__


class _Quadratic(Objective):
    """A mean over pairs of samples, with a kernel."""

    __slots__ = ()
    _name = ""

    def __init__(
        self,
        reference: Rows | None,
        kernel: KernelName | None,
        bandwidth: Bandwidth | None,
        scale: float | None,
        offset: float | None,
        degree: int | None,
    ) -> None:
        settings = {"kernel": kernel, "bandwidth": bandwidth, "scale": scale, "offset": offset, "degree": degree}
        self._one(self._name, settings, reference=reference)


class Rke(_Quadratic):
    """Diversity without a reference: the mean of k² over pairs of samples, whose inverse is the RKE mode count.

    Parameters
    ----------
    kernel
        ``"gaussian"`` (the default), ``"laplacian"`` or ``"cosine"``.
    bandwidth
        The kernel's bandwidth σ. ``None`` or ``"auto"``: the median distance between samples
        (:func:`modelmix.median_bandwidth`).

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If the kernel is unknown or the bandwidth is not a positive number.

    Examples
    --------
    >>> str(Rke(bandwidth=30))
    'rke(bandwidth=30)'
    >>> Rke(kernel="gausian")
    Traceback (most recent call last):
    ...
    ValueError: cannot read "rke(kernel=gausian)" at character 5: there is no kernel gausian (did you mean gaussian?); there are gaussian, laplacian, polynomial, cosine, kid
    """

    __slots__ = ()
    _name = "rke"

    @checked
    def __init__(
        self,
        *,
        kernel: Literal["gaussian", "laplacian", "cosine"] | None = None,
        bandwidth: Bandwidth | None = None,
    ) -> None:
        super().__init__(None, kernel, bandwidth, None, None, None)


class Mmd(_Quadratic):
    """The squared maximum mean discrepancy (MMD²) to a reference: small if samples resemble it. Reported × 100.

    Parameters
    ----------
    reference
        Features of real samples, one row per sample, or a file. May be given to :func:`modelmix.solve` instead.
    kernel
        ``"gaussian"`` (the default), ``"laplacian"``, ``"polynomial"``, ``"cosine"`` or ``"kid"``.
    bandwidth
        σ of a Gaussian or Laplacian kernel. ``None`` or ``"auto"``: the median distance within the reference
        (:func:`modelmix.median_bandwidth`).
    scale, offset, degree
        The polynomial kernel (scale·x·y + offset)^degree.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If the kernel is unknown or has no such setting.

    Examples
    --------
    >>> str(Mmd(kernel="laplacian", bandwidth=5))
    'mmd(kernel=laplacian, bandwidth=5)'
    """

    __slots__ = ()
    _name = "mmd"

    @checked
    def __init__(
        self,
        reference: Rows | None = None,
        *,
        kernel: KernelName | None = None,
        bandwidth: Bandwidth | None = None,
        scale: float | None = None,
        offset: float | None = None,
        degree: int | None = None,
    ) -> None:
        super().__init__(reference, kernel, bandwidth, scale, offset, degree)


class Kid(Objective):
    """The Kernel Inception Distance (KID) to a reference: MMD² with the kernel (x·y/d + 1)³, over all pairs of samples.

    Its score is the metric ``kid_full`` of :func:`modelmix.score`. It has no bandwidth; for other kernels use :class:`Mmd`.

    Parameters
    ----------
    reference
        Features of real samples, one row per sample, or a file. May be given to :func:`modelmix.solve` instead.

    Raises
    ------
    TypeError
        If there is any other argument.

    Examples
    --------
    >>> str(Kid())
    'kid'
    >>> Kid(bandwidth=20)
    Traceback (most recent call last):
    TypeError: Kid has no argument bandwidth: KID has one kernel, (x·y/d + 1)³, which has no bandwidth; write Mmd(reference, bandwidth=20)
    """

    __slots__ = ()

    @checked
    def __init__(self, reference: Rows | None = None) -> None:
        self._one("kid", {}, reference=reference)


class Fid(Objective):
    """The Fréchet distance to a reference: small if mean and covariance match. Offline only.

    Parameters
    ----------
    reference
        Features of real samples, one row per sample, or a file.

    Raises
    ------
    TypeError
        If there is any other argument.

    Examples
    --------
    >>> str(Fid())
    'fid'
    """

    __slots__ = ()

    @checked
    def __init__(self, reference: Rows | None = None) -> None:
        self._one("fid", {}, reference=reference)


class Vendi(Objective):
    """Diversity by the Vendi score. Add it: more diversity is a smaller loss. Offline only.

    Parameters
    ----------
    order
        The order of the entropy, more than 0.
    kernel
        ``"cosine"`` (the default), ``"gaussian"`` or ``"laplacian"``.
    bandwidth
        σ of a Gaussian or Laplacian kernel; ``None`` or ``"auto"`` for the median distance between samples.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If the kernel is unknown, or the order or bandwidth is not positive.

    Examples
    --------
    >>> str(Vendi(order=2))
    'vendi(order=2)'
    """

    __slots__ = ()

    @checked
    def __init__(
        self,
        *,
        order: float = 1.0,
        kernel: Literal["gaussian", "laplacian", "cosine"] | None = None,
        bandwidth: Bandwidth | None = None,
    ) -> None:
        self._one("vendi", {"order": order, "kernel": kernel, "bandwidth": bandwidth})


class Precision(Objective):
    """The share of samples within a k-nearest-neighbour ball of the reference. Higher is better, so subtract it.

    Parameters
    ----------
    reference
        Features of real samples, one row per sample, or a file.
    neighbours
        k of the balls' radii; 5 if ``None``.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If ``neighbours`` is not a whole number, at least 1.

    Examples
    --------
    >>> str(Mmd() - 0.2 * Precision())
    'mmd - 0.2*precision'
    """

    __slots__ = ()

    @checked
    def __init__(self, reference: Rows | None = None, *, neighbours: int | None = None) -> None:
        self._one("precision", {"neighbours": neighbours}, reference=reference)


class Density(Objective):
    """The mean number of the reference's k-nearest-neighbour balls that contain a sample, divided by k. Subtract it.

    Parameters
    ----------
    reference
        Features of real samples, one row per sample, or a file.
    neighbours
        k of the balls' radii; 5 if ``None``.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If ``neighbours`` is not a whole number, at least 1.

    Examples
    --------
    >>> str(Rke(bandwidth=30) - 0.1 * Density(neighbours=3))
    'rke(bandwidth=30) - 0.1*density(neighbours=3)'
    """

    __slots__ = ()

    @checked
    def __init__(self, reference: Rows | None = None, *, neighbours: int | None = None) -> None:
        self._one("density", {"neighbours": neighbours}, reference=reference)


class Cost(Objective):
    """The cost per sample, given per arm.

    Parameters
    ----------
    costs
        The cost per sample of every arm. May be given to :func:`modelmix.solve` instead.

    Raises
    ------
    TypeError
        If there is any other argument.

    Examples
    --------
    >>> str(Rke(bandwidth=30) + 0.5 * Cost({"flux": 0.04, "sdxl": 0.01}))
    'rke(bandwidth=30) + 0.5*cost'
    """

    __slots__ = ()

    @checked
    def __init__(self, costs: Mapping[str, float] | None = None) -> None:
        self._one("cost", {}, costs=costs)


class SampleScore(Objective):
    """A custom score, one value per sample. Subtract it if higher is better.

    In a session, scores are told with the samples instead. In :func:`modelmix.run`, the values given here are those of the
    known samples.

    Parameters
    ----------
    name
        The score's name.
    values
        One value per sample, by arm; or files: one by arm, or an ``.npz`` file with one array per arm.
    range
        The smallest and largest value, for policies with constants.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If the name is that of a built-in term, or is not a valid name.

    Examples
    --------
    >>> str(Rke(bandwidth=30) - 0.1 * SampleScore("aesthetic"))
    'rke(bandwidth=30) - 0.1*aesthetic'
    """

    __slots__ = ()

    @checked
    def __init__(
        self,
        name: str,
        values: ScoreValues | None = None,
        *,
        range: tuple[float, float] | None = None,
    ) -> None:
        ends = None if range is None else _check.interval("range", range)
        self._one(_check.text("name", name), {}, score=name, values=values, range=ends)
