"""Figures by matplotlib, in the colours of the command line's reports, for ``plot()`` of results.

Each draws into the axes that it is given, or into a figure of its own, and returns the axes.
Nothing is shown, and no setting of matplotlib is changed. Text has the colour that the axes have
for theirs, so that dark styles stay readable.
"""

from ._curated import curated
from ._front import front
from ._mixture import mixture
from ._plan import plan
from ._scores import scores
from ._sensitivity import sensitivity
from ._session import session
from ._simulation import simulation
from ._worth import cheapest, subsets

__all__ = [
    "cheapest",
    "curated",
    "front",
    "mixture",
    "plan",
    "scores",
    "sensitivity",
    "session",
    "simulation",
    "subsets",
]


def __dir__() -> list[str]:
    return __all__
