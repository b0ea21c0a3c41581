"""Figures with matplotlib, in the colours of the command line's reports, for ``plot()`` of results.

Each function draws into the given axes, or into a new figure, and returns the axes. It does not show the figure and does not
change any matplotlib setting. Text has the colour of the axes' text, so that dark styles stay readable.
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
