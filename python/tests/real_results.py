"""Computed results on a part of the included data, for tests of their text, conversions and figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import modelmix as mm

FASHION = Path(__file__).parents[2] / "data" / "fashion"


class Real:
    """Computed results on a part of the included data."""

    def __init__(self) -> None:
        arms = mm.load(FASHION / "specialists.npz")
        self.arms = {name: arms[name][:120] for name in ("tops_gan", "shoes_gan", "flow")}
        self.reference = mm.load_array(FASHION / "reference.npy")[:200]
        kid = mm.Mmd(self.reference, bandwidth=20)
        self.mixture = mm.solve(self.arms, kid)
        self.fid = mm.solve(self.arms, "fid", reference=self.reference)
        self.single = mm.solve({"flow": self.arms["flow"]}, "rke")
        self.scores = mm.score(self.arms, self.reference)
        self.alone = mm.score({"flow": self.arms["flow"]}, metrics=["rke", "vendi"])
        self.simulation = mm.simulate(self.arms, kid, policies=[mm.Adaptive(), "uniform"], rounds=40, seeds=2)
        session = mm.Session(self.arms, kid)
        self.empty = session.report()
        for turn in range(12):
            self.pull = session.ask()
            session.tell(self.pull, self.arms[self.pull.arm][turn])
        self.session = session.report()
        self.asked = mm.solve(
            self.arms,
            kid,
            subsets=True,
            fees=dict.fromkeys(self.arms, 0.0) | {"flow": 5},
            costs=dict.fromkeys(self.arms, 0.1),
            samples=100,
            within="20%",
            front=mm.Precision(self.reference),
            bandwidths="auto",
        )
        self.curated = mm.curate(self.arms, kid, count=30)
        half = mm.SessionSettings(select="better-half")
        self.stopped = mm.simulate(
            self.arms, kid, policies=["adaptive"], rounds=60, seeds=2, until="90%", settings=half, known=2
        )
        self.run = mm.run({"left": _left, "right": _right}, embed=list, objective="rke(bandwidth=1)", budget=9)

    def all(self) -> list[Any]:
        found = [self.mixture, self.fid, self.single, self.scores, self.alone, self.simulation]
        answers = [self.asked.subsets, self.asked.cheapest, self.asked.front, self.asked.sensitivity]
        return [*found, self.empty, self.session, self.run, *answers, self.curated, self.stopped]


def _left(count: int) -> list[list[float]]:
    return [[0.0, float(at)] for at in range(count)]


_calls = iter(range(1000))


def _right(count: int) -> list[list[float]]:
    if next(_calls) % 3 == 0:
        raise TimeoutError("the service is late")
    return [[9.0, float(at)] for at in range(count)]
