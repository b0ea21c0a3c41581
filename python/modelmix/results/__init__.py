"""What comes back: plain data that prints as tables, shows in notebooks, converts and plots.

Every result is a dataclass and a mapping: of arms (:class:`Mixture`, :class:`Scores`, :class:`SessionReport`, :class:`Curated`,
:class:`Cheapest`, :class:`SamplePlan`), of policies (:class:`Simulation`) or of sizes (:class:`Subsets`). :class:`Front` and :class:`Sensitivity` are
sequences of points; :class:`Encoded` is an array of features with ids. ``to_dict()`` gives the document that the command line prints with ``--json``, ``to_pandas()`` a
frame, ``plot()`` a figure by matplotlib; ``to_latex()``, ``to_markdown()`` and ``to_csv()`` give the table that is printed.
"""

from ._base import TermValue
from .curated import Curated, CuratedArm, RandomDraws, Tried
from .encoded import Encoded, Encoding, Skipped
from .front import Front, FrontPoint
from .mixture import Mixture, MixtureArm
from .plan import Allocation, HalfWidths, PlannedArm, SamplePlan
from .provenance import InputFile, Provenance, UsedBandwidth
from .scores import Estimate, Prdc, ScoredMixture, ScoredSet, Scores
from .sensitivity import Sensitivity, SensitivityPoint
from .session import ChosenBandwidth, FeatureError, SessionArm, SessionReport, Verdict
from .simulation import SimulatedFeatures, SimulatedPolicy, Simulation, Spread, Stopped
from .worth import Cheapest, Subset, Subsets

__all__ = [
    "Allocation", "Cheapest", "ChosenBandwidth", "Curated", "CuratedArm", "Encoded", "Encoding", "Estimate", "FeatureError", "Front", "FrontPoint", "HalfWidths",
    "InputFile", "Mixture", "MixtureArm", "PlannedArm", "Prdc", "Provenance", "RandomDraws", "SamplePlan", "ScoredMixture", "ScoredSet",
    "Scores", "Sensitivity", "SensitivityPoint", "SessionArm", "SessionReport", "SimulatedFeatures", "SimulatedPolicy", "Simulation",
    "Skipped", "Spread", "Stopped", "Subset", "Subsets", "TermValue", "Tried", "UsedBandwidth", "Verdict",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__
