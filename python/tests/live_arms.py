"""Small arms for the tests of mm.run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import modelmix as mm

RKE = mm.Rke(bandwidth=1.0)


def around(centre: float) -> Callable[..., Any]:
    """A generator of points near a centre, with random numbers from the given seed."""

    def make(count: int, seed: int) -> Any:
        return np.random.default_rng(seed).normal(size=(count, 2)) + np.array([centre, 0.0])

    return make


def arms() -> dict[str, Any]:
    return {"left": around(-3), "middle": around(0), "right": around(3)}


def same(rows: Any) -> Any:
    return rows


def state(done: mm.Run) -> str:
    return done.session._inner.snapshot()


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


class Stop(BaseException):
    """Ends a run like a kill signal, except that open files are closed."""


class Broken(Exception):
    pass


#: A seed with which some of the first pulls fail once, and one fails in all attempts.
SEED = 5


def faulty() -> dict[str, Any]:
    """Arms that fail for some seeds."""

    def arm(centre: float) -> Any:
        def make(count: int, seed: int) -> Any:
            if seed % 3 == 0:
                raise Broken(seed)
            return around(centre)(count, seed)

        return make

    return {"left": arm(-3), "right": arm(3)}
