"""Compare the speed of two releases of this engine, interleaved.

    python3 benches/versions.py OLD NEW [--repeats 5] [--threads 2]

OLD and NEW are programs built by `cargo build --release --example bench` from two commits. Each command is sent to both, in alternating
order, and the smallest time counts. Prints Markdown; needs only Python.
"""

from __future__ import annotations

import argparse
import array
import platform
import random
import subprocess
import tempfile
import zipfile
from pathlib import Path

ARMS, ROWS = 3, 2000
WIDTHS = (64, 768)


def npy(rows: int, width: int, seed: int) -> bytes:
    """Return a matrix of normally distributed values as the bytes of a .npy file."""
    draw = random.Random(seed)
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {width}), }}"
    header += " " * (-(10 + len(header) + 1) % 64) + "\n"
    start = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()
    return start + array.array("f", (draw.gauss(0.1 * seed, 1.0) for _ in range(rows * width))).tobytes()


class Program:
    """A benchmark program that answers one command per line."""

    def __init__(self, path: str) -> None:
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, command: str) -> float:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline().split()[0])


def commands(threads: int) -> list[str]:
    asked = []
    for width in WIDTHS:
        asked += [
            f"offline w{width} gaussian 8 {threads}",
            f"offline w{width} polynomial 8 {threads}",
            f"cross w{width} w{width} {threads}",
            f"row w{width}",
            f"half w{width}",
            f"session w{width} adaptive 2000 single",
            f"metric prdc w{width} w{width} {threads}",
            f"metric fid w{width} w{width} {threads}",
            f"metric kid w{width} w{width} {threads}",
            f"metric rke w{width} w{width} {threads}",
        ]
    return [*asked, "program 5 warm 2000", "program 20 cold 2000", f"simulate w64 adaptive;uniform 500 4 {threads}"]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("old")
    arguments.add_argument("new")
    arguments.add_argument("--repeats", type=int, default=5)
    arguments.add_argument("--threads", type=int, default=2)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        programs = [Program(given.old), Program(given.new)]
        for width in WIDTHS:
            path = Path(folder) / f"w{width}.npz"
            with zipfile.ZipFile(path, "w") as archive:
                for arm in range(ARMS):
                    archive.writestr(f"arm{arm}.npy", npy(ROWS, width, arm))
            for program in programs:
                program.ask(f"load w{width} {path}")
        print(f"{platform.machine()}, {given.threads} threads, best of {given.repeats}\n")
        print("| command | old, ms | new, ms | new / old |\n|---|---|---|---|")
        for command in commands(given.threads):
            best = [float("inf"), float("inf")]
            for repeat in range(given.repeats):
                for which in (0, 1) if repeat % 2 == 0 else (1, 0):
                    best[which] = min(best[which], programs[which].ask(command))
            old, new = (1000 * seconds for seconds in best)
            print(f"| {command} | {old:.3g} | {new:.3g} | {new / old:.2f} |", flush=True)


if __name__ == "__main__":
    main()
