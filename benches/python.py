"""Measure the overhead of the Python package: the import, the wheel, and the time of a solve outside the compute engine.

The time of the engine is that of the same sums in the same release build without Python (`examples/bench.rs`), interleaved. Wall time
is noisy, so CPU time is recorded as well.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import modelmix as mm
import numpy as np
from modelmix import _modelmix

ROOT = Path(__file__).resolve().parent.parent
ARMS, ROWS, WIDTH, BANDWIDTH = 5, 10_000, 64, 8.0


def spread(values: list[float]) -> dict[str, float]:
    """Return the median, the smallest and the largest value."""
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def imports(turns: int) -> dict[str, Any]:
    """Return the milliseconds of `import modelmix` and of `import numpy`, each in a new interpreter."""
    script = "import time; start = time.perf_counter(); import {name}; print(time.perf_counter() - start)"
    found: dict[str, list[float]] = {"modelmix": [], "numpy": []}
    for _ in range(turns):
        for name, values in found.items():
            run = subprocess.run(
                [sys.executable, "-c", script.format(name=name)], capture_output=True, text=True, check=True
            )
            values.append(1000 * float(run.stdout))
    return {name: spread(values) for name, values in found.items()}


class Engine:
    """The engine without Python, as a process that answers one measurement per line."""

    def __init__(self, path: Path) -> None:
        binary = ROOT / "target/release/examples/bench"
        self.process = subprocess.Popen([binary], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ask("load", "x", path)

    def ask(self, *words: object) -> list[float]:
        """Send a command and return the numbers of the answer."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(" ".join(str(word) for word in words) + "\n")
        self.process.stdin.flush()
        return [float(number) for number in self.process.stdout.readline().split()]

    def processor(self) -> float:
        """Return the CPU time of the process, in seconds."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def mine() -> float:
    """Return the CPU time of this process, in seconds."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def solving(turns: int, threads: int) -> dict[str, Any]:
    """Time a solve of 5 × 10,000 × 64 in Python and its kernel sums without Python, interleaved."""
    random = np.random.default_rng(7)
    arms = {
        f"arm{at}": (random.standard_normal((ROWS, WIDTH)) + 0.3 * random.standard_normal(WIDTH)).astype(np.float32)
        for at in range(ARMS)
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "arms.npz"
        np.savez(path, **arms)
        engine = Engine(path)
    wall: dict[str, list[float]] = {"solve": [], "sums": []}
    work: dict[str, list[float]] = {"solve": [], "sums": []}
    copied = _modelmix.copied_bytes()
    for turn in range(turns + 1):
        before, start = mine(), time.perf_counter()
        best = mm.solve(arms, mm.Rke(bandwidth=BANDWIDTH * 2**0.5), threads=threads)
        took, spent = time.perf_counter() - start, mine() - before
        before = engine.processor()
        sums, total = engine.ask("offline", "x", "gaussian", BANDWIDTH, threads)
        of_sums = engine.processor() - before
        assert abs(np.sum(best.quadratic) / total - 1) < 1e-12, "both must compute the same sums"
        if turn:  # the first turn is a warm-up
            for values, one, other in ((wall, took, sums), (work, spent, of_sums)):
                values["solve"].append(one)
                values["sums"].append(other)
    shares = [1 - sums / solve for solve, sums in zip(wall["solve"], wall["sums"])]
    return {
        "threads": threads,
        "wall_s": {name: spread(values) for name, values in wall.items()},
        "processor_s": {name: spread(values) for name, values in work.items()},
        "outside_the_engine": {
            "wall": 1 - statistics.median(wall["sums"]) / statistics.median(wall["solve"]),
            "wall_by_least": 1 - min(wall["sums"]) / min(wall["solve"]),
            "processor": 1 - statistics.median(work["sums"]) / statistics.median(work["solve"]),
            "by_turn": spread(shares),
        },
        "copied_bytes": _modelmix.copied_bytes() - copied,
    }


def rounds(turns: int) -> dict[str, Any]:
    """Return the microseconds of ask and tell through Python when there is almost nothing to compute."""
    found = []
    row = np.zeros(8, np.float32)
    for _ in range(turns):
        session = mm.Session(["a", "b", "c"], mm.Rke(bandwidth=1.0), policy=mm.Uniform())
        start = time.perf_counter()
        for _ in range(500):
            session.tell(session.ask(), row)
        found.append(1e6 * (time.perf_counter() - start) / 500)
    return {"ask_and_tell_us": spread(found)}


def main() -> None:
    """Run all measurements, print them and store them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--out", type=Path, help="folder of the run [default: benches/runs/DATE-python]")
    options = parser.parse_args()
    wheel = next((ROOT / "target/wheels").glob("*.whl"))
    figures = {
        "date": datetime.date.today().isoformat(),
        "machine": {
            "cores": os.cpu_count(),
            "system": platform.platform(terse=True),
            "python": platform.python_version(),
            "numpy": np.__version__,
        },
        "command": "benches/python.py " + " ".join(sys.argv[1:]),
        "wheel_mb": wheel.stat().st_size / 1e6,
        "import_ms": imports(options.turns),
        "solve": [solving(options.turns, threads) for threads in (1, 2)],
        "session": rounds(options.turns),
    }
    out = options.out or ROOT / "benches/runs" / f"{figures['date']}-python"
    out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(figures, indent=2)
    (out / "figures.json").write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
