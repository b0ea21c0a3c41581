"""modelmix finds the mixture of generative models that beats every single one of them.

>>> import modelmix as mm
>>> reference = "data/fashion/reference.npy"                     # a file or an array
>>> best = mm.solve("data/fashion/specialists.npz", mm.Mmd(reference, bandwidth=20))     # or {"flux": array, "sdxl": tensor, …}
>>> best.sentence
'Mix tops_gan 37%, shoes_gan 32%, legs_bags_gan 31%: MMD² ×100 0.147 instead of 1.97 with the best single model, flow.'

Features: :func:`encode` turns images and texts into features with the encoders of :mod:`modelmix.encoders`, and the functions below take
folders of images and files of texts with ``encoder=``. Offline: :func:`solve`, :func:`score`, :func:`simulate`, :func:`curate`, :func:`plan`, :func:`load`, :func:`median_bandwidth`,
:mod:`modelmix.metrics`. Online: :class:`Session` chooses which model to sample next, and :func:`run` calls it; :class:`Until` and
:class:`SessionSettings` are their settings. Data larger than memory: :class:`Accumulator`; on clusters: ``mm.ray``, ``mm.dask`` and
``mm.spark``. The objective is a sum of :class:`Rke`, :class:`Mmd`, :class:`Kid`, :class:`Fid`,
:class:`Vendi`, :class:`Precision`, :class:`Density`, :class:`Cost` and any :class:`SampleScore` of your own. Results are in
:mod:`modelmix.results`.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from . import encoders, metrics, results
from ._modelmix import __version__
from .accumulation import Accumulator, AccumulatorPlan, Block
from .bandwidths import median_bandwidth
from .curated import curate
from .encoding import encode
from .live import Failure, Run, run
from .loading import load, load_array
from .objectives import Cost, Density, Fid, Kid, Mmd, Objective, Precision, Rke, SampleScore, Vendi
from .offline import score, simulate, solve
from .planning import plan
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
    Encoded,
    Estimate,
    Front,
    Mixture,
    Prdc,
    SamplePlan,
    Scores,
    Sensitivity,
    SessionReport,
    Simulation,
    Subsets,
)
from .session import Pull, Session
from .settings import Capped, HalfLife, SessionSettings, Until, Window

__all__ = [
    "Accumulator",
    "AccumulatorPlan",
    "Adaptive",
    "Block",
    "Cab",
    "Capped",
    "Cheapest",
    "Cost",
    "Curated",
    "Density",
    "Encoded",
    "Estimate",
    "Failure",
    "Fid",
    "Fixed",
    "Front",
    "Greedy",
    "HalfLife",
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
    "SamplePlan",
    "SampleScore",
    "Scores",
    "Sensitivity",
    "Session",
    "SessionReport",
    "SessionSettings",
    "Simulation",
    "Sparse",
    "Subsets",
    "Uniform",
    "Until",
    "Vanilla",
    "Vendi",
    "Window",
    "__version__",
    "curate",
    "encode",
    "encoders",
    "load",
    "load_array",
    "median_bandwidth",
    "metrics",
    "plan",
    "results",
    "run",
    "score",
    "simulate",
    "solve",
]


def __dir__() -> list[str]:
    return __all__


if _TYPE_CHECKING:
    from . import dask as dask
    from . import ray as ray
    from . import spark as spark
else:
    # The engines of clusters, imported when they are asked for, and names of earlier releases.

    def __getattr__(name: str) -> object:
        if name in ("dask", "ray", "spark"):
            from importlib import import_module

            return import_module(f"{__name__}.{name}")
        if name == "Score":
            raise AttributeError("modelmix.Score is now modelmix.SampleScore; modelmix.score is the table of metrics")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
