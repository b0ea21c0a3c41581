"""Single metrics, each with its standard error.

``samples`` are features of one model, or of several models by name with ``weights``. The values are those of :func:`modelmix.score`.

>>> import modelmix as mm
>>> arms = mm.load("data/fashion/specialists.npz")
>>> fid = mm.metrics.fid(arms["flow"], "data/fashion/reference.npy")
>>> bool(fid.value > 0 and fid.standard_error > 0)
True
"""

from ._frechet import fid, fid_infinity
from ._kernels import cmmd, kid, mmd, rke, vendi
from ._neighbours import coverage, density, prdc, precision, recall

__all__ = [
    "cmmd", "coverage", "density", "fid", "fid_infinity", "kid", "mmd", "prdc", "precision", "recall", "rke", "vendi",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__
