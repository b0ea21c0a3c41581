"""modelmix finds the mixture of generative models that beats every single one of them.

>>> import modelmix as mm
>>> arms = mm.load("data/fashion/specialists.npz")       # or {"flux": array, "sdxl": tensor, …}
>>> reference = mm.load_array("data/fashion/reference.npy")
>>> best = mm.solve(arms, mm.Kid(reference, bandwidth=20))
>>> best.sentence
'Mix tops_gan 37%, shoes_gan 31%, legs_bags_gan 31%: KID ×100 0.147 instead of 1.97 with the best single model, flow.'

Offline: :func:`solve`, :func:`score`, :func:`simulate`, :func:`curate`, :func:`load`, :mod:`modelmix.metrics`. Online: :class:`Session`, which says
which model to ask next, and :func:`run`, which asks them. What is minimised is a sum of :class:`Rke`, :class:`Kid`, :class:`Mmd`,
:class:`Fid`, :class:`Vendi`, :class:`Precision`, :class:`Density`, :class:`Cost` and any :class:`Score` of your own.
"""

from . import metrics
from ._modelmix import __version__
from .curated import curate
from .live import Failure, Run, run
from .objectives import Cost, Density, Fid, Kid, Mmd, Objective, Precision, Rke, Score, Vendi
from .offline import load, load_array, score, simulate, solve
from .policies import (
    Adaptive,
    Cab,
    Fixed,
    Greedy,
    Halving,
    MixtureOracle,
    Ogd,
    OneArmOracle,
    Policy,
    Sparse,
    Uniform,
    Vanilla,
)
from .results import (
    Cheapest,
    Curated,
    Estimate,
    Front,
    Mixture,
    Prdc,
    Scores,
    Sensitivity,
    SessionReport,
    Simulation,
    Subsets,
)
from .session import Pull, Session

__all__ = [
    "Adaptive",
    "Cab",
    "Cheapest",
    "Cost",
    "Curated",
    "Density",
    "Estimate",
    "Failure",
    "Fid",
    "Fixed",
    "Front",
    "Greedy",
    "Halving",
    "Kid",
    "Mixture",
    "MixtureOracle",
    "Mmd",
    "Objective",
    "Ogd",
    "OneArmOracle",
    "Policy",
    "Prdc",
    "Precision",
    "Pull",
    "Rke",
    "Run",
    "Score",
    "Scores",
    "Sensitivity",
    "Session",
    "SessionReport",
    "Simulation",
    "Sparse",
    "Subsets",
    "Uniform",
    "Vanilla",
    "Vendi",
    "__version__",
    "curate",
    "load",
    "load_array",
    "metrics",
    "run",
    "score",
    "simulate",
    "solve",
]
