"""The program of the crash tests: live_program.py CHECKPOINT FOLDER WORKERS PACE.

It prints the result. Each call takes PACE seconds; a negative PACE applies only from the thirtieth
call on.
"""

from __future__ import annotations

import hashlib
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import modelmix as mm

checkpoint, folder = sys.argv[1], Path(sys.argv[2])
workers, pace = int(sys.argv[3]), float(sys.argv[4])
calls = 0


def arm(centre: float) -> Any:
    def make(count: int, seed: int) -> Any:
        global calls
        calls += 1
        if pace > 0:
            time.sleep(pace)
        elif pace < 0 and calls >= 30:
            time.sleep(-pace)
        if seed % 4 == 0:
            raise RuntimeError(f"seed {seed}")
        return np.random.default_rng(seed).normal(size=(count, 3)) + np.array([centre, 0.0, 0.0])

    return make


def save(pull: mm.Pull, rows: Any) -> None:
    np.save(folder / f"{pull.id}.npy", rows)


done = mm.run(
    {"left": arm(-3), "middle": arm(0), "right": arm(3)},
    embed=lambda rows: rows,
    objective="rke(bandwidth=1) - 0.01*looks",
    rate=lambda rows: {"looks": np.cos(rows[:, 0])},
    budget=80,
    batch=2,
    retries=1,
    seed=3,
    workers=workers,
    save=save,
    checkpoint=checkpoint,
)
print(hashlib.sha256(done.session._inner.snapshot().encode()).hexdigest())
print({**done.to_dict(), "resumed": None})
