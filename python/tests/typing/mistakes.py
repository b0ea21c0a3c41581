"""Mistakes that type checkers must find, each on a line that says so."""

from __future__ import annotations

import numpy as np

import modelmix as mm

rows = np.zeros((4, 2), dtype=np.float32)

mm.solve([rows, rows])  # wrong
mm.solve({"a": rows}, mm.Rke(bandwith=3))  # wrong
mm.solve({"a": rows}, mm.Rke() + 2)  # wrong
mm.Kid(kernel="gausian")  # wrong
mm.score({"a": rows}, metrics=["fidd"])  # wrong
mm.Session(["a"], mm.Rke(), policy=3)  # wrong
mm.solve({"a": rows}).weights + 1  # wrong
mm.solve({"a": 7})  # wrong
