"""Mistakes that type checkers must find; each line is marked with a comment."""

from __future__ import annotations

import numpy as np

import modelmix as mm

rows = np.zeros((4, 2), dtype=np.float32)

mm.solve([rows, rows])  # wrong
mm.solve({"a": rows}, mm.Rke(bandwith=3))  # wrong
mm.solve({"a": rows}, mm.Rke() + 2)  # wrong
mm.Mmd(kernel="gausian")  # wrong
mm.score({"a": rows}, metrics=["fidd"])  # wrong
mm.Session(["a"], mm.Rke(), policy=3)  # wrong
mm.solve({"a": rows}).weights + 1  # wrong
mm.Score("taste")  # wrong
mm.SessionSettings(retention="window=500")  # wrong
mm.SessionSettings(mm.Window(500))  # wrong
mm.Session(["a"], mm.Rke(), forget="window=500")  # wrong
mm.Until(0.05)  # wrong
mm.Until(gain=0.05, of="share")  # wrong
mm.run({"a": lambda count: rows}, lambda rows: rows, budget=3, known=rows)  # wrong
mm.solve({"a": 7})  # wrong
mm.solve(7)  # wrong
mm.Kid(bandwidth=20)  # wrong
mm.solve({"a": rows}, arm=3)  # wrong
mm.score({"a": rows})["a"] + 1  # wrong
mm.encode(rows, 3)  # wrong
mm.encode(rows, "dinov2-vits14", on_error="ignore")  # wrong
mm.encoders.open("dinov2-vits14", backend="tensorflow")  # wrong
mm.solve({"a": rows}, encoder=3)  # wrong
