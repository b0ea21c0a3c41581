"""Accuracy and speed of kernel sums from 16-bit integers, beside single precision and NumPy, interleaved in one session.

    python3 benches/integers.py BENCH [--other OLD] [--threads 1 2] [--rows 2000] [--turns 5] [--accuracy] [--pool]

BENCH is built by `cargo build --release --example bench`; OLD is the same program of another commit. Prints Markdown. K and the sums of
rows of five sets are computed for every width; with `--accuracy`, the largest relative errors against double precision on twelve
kinds of data. With `--pool`, NumPy computes blocks on a pool of threads; otherwise BLAS has the threads that its variables say (1). Needs NumPy.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

import numpy as np

SETS = 5
WIDTHS = (64, 384, 768, 1024, 2048)
ENGINES = ("auto", "exact", "avx2", "avx2-exact")
BLOCK = 1000
ROOT = Path(__file__).resolve().parent.parent


class Program:
    """A benchmark program that answers one command per line."""

    def __init__(self, path: str) -> None:
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, command: str) -> str:
        """Send a command and return the answer."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()


def median_distance(sets: list[np.ndarray]) -> float:
    """The median distance between some rows of all sets."""
    rows = np.concatenate([one[:: max(1, len(one) // 200)] for one in sets]).astype(float)
    norms = (rows * rows).sum(1)
    squared = norms[:, None] + norms - 2 * rows @ rows.T
    return float(np.sqrt(np.median(squared[np.triu_indices(len(rows), 1)])))


def with_far_rows(rows: int, width: int, far: int, distance: float, seed: int) -> list[np.ndarray]:
    """Normal rows, of which some of every set lie around one point far away."""
    random = np.random.default_rng(seed)
    sets = [random.standard_normal((rows, width)) for _ in range(SETS)]
    for one in sets:
        one[random.permutation(rows)[:far]] += distance * random.standard_normal(width)
    return sets


def with_near_copies(rows: int, width: int, copies: int) -> list[np.ndarray]:
    """Normal rows, of which some of every set are near copies of one with an ordinary norm, as of a collapsed model."""
    random = np.random.default_rng(29)
    sets = [random.standard_normal((rows, width)) for _ in range(SETS)]
    for one in sets:
        copied = one[np.argsort((one * one).sum(1))[rows // 3]].copy()
        one[random.permutation(rows)[:copies]] = copied + 0.01 * random.standard_normal((copies, width))
    return sets


def kinds() -> Iterator[tuple[str, list[np.ndarray], float]]:
    """Kinds of data, with a bandwidth each."""
    random = np.random.default_rng(0)
    normal = [random.standard_normal((2000, 1024)) for _ in range(SETS)]
    typical = median_distance(normal)
    yield "normal, d = 1024", normal, typical
    yield "common offset of 30 standard deviations", [one + 30 for one in normal], typical
    centres = random.standard_normal((SETS, 1024))
    centres *= 50 * np.sqrt(512) / np.linalg.norm(centres, axis=1, keepdims=True)
    clusters = [one + centre for one, centre in zip(normal, centres, strict=True)]
    yield "sets far apart (50 ×), median bandwidth", clusters, median_distance(clusters)
    yield "the same, bandwidth of one set", clusters, median_distance(clusters[:1])
    yield "normal, a fifth of the median bandwidth", normal, typical / 5
    heavy = [np.maximum(one, 0) * np.exp(random.standard_normal(one.shape)) for one in normal]
    yield "not negative, heavy tails", heavy, median_distance(heavy)
    yield "517 rows, 129 columns", list(np.random.default_rng(5).standard_normal((3, 517, 129))), 16.0
    yield "a tenth of every set far away, d = 384", with_far_rows(2000, 384, 200, 20, 9), float(np.sqrt(768))
    yield "a twentieth of every set less far away, d = 256", with_far_rows(1000, 256, 50, 8, 19), float(np.sqrt(512))
    yield "a tenth of every set near copies of one row, d = 256, σ = 9", with_near_copies(2000, 256, 200), 9.0
    # The recorded features of the repository: of images, and of texts.
    for name, path, bandwidth in (("fashion", "fashion/specialists.npz", 20.0), ("text", "text/features.npz", 0.6)):
        if (ROOT / "data" / path).exists():
            with np.load(ROOT / "data" / path) as arrays:
                yield f"{name} (data/{path}), σ = {bandwidth}", [arrays[key] for key in arrays.files[:SETS]], bandwidth


def save(folder: str, name: str, sets: list[np.ndarray]) -> str:
    """Store sets in a file for the program."""
    path = f"{folder}/{name}.npz"
    np.savez(path, **{f"set{index}": np.asarray(one, np.float32) for index, one in enumerate(sets)})
    return path


def accuracy(program: Program, folder: str) -> None:
    """Print the errors of every kind of data."""
    print("\n| data | K | sums of rows | engine |\n|---|---|---|---|")
    for index, (name, sets, bandwidth) in enumerate(kinds()):
        program.ask(f"load kind{index} {save(folder, f'kind{index}', sets)}")
        for engine in ("auto", "avx2"):
            entry, row, description = program.ask(f"accuracy kind{index} {bandwidth} {engine}").split(maxsplit=2)
            print(f"| {name} | {entry} | {row} | {description} |", flush=True)


def numpy_sums(sets: list[np.ndarray], bandwidth: float, threads: int, pool: bool) -> float:
    """Sums of K as NumPy does them well: centred, one product per pair of sets or blocks, in place."""
    centre = np.mean(np.concatenate(sets), 0)
    rows = [one - centre for one in sets]
    norms = [(one * one).sum(1) for one in rows]

    def block(i: int, j: int, first: slice, second: slice) -> float:
        values = rows[i][first] @ rows[j][second].T
        values *= 2
        values -= norms[i][first][:, None]
        values -= norms[j][second]
        values /= 2 * bandwidth * bandwidth
        np.exp(values, out=values)
        return float(values.sum(dtype=np.float64))

    pairs = [(i, j) for i in range(len(rows)) for j in range(i, len(rows))]
    if not pool:
        return sum(block(i, j, slice(None), slice(None)) for i, j in pairs)
    blocks = [
        (i, j, slice(s, s + BLOCK), slice(t, t + BLOCK))
        for i, j in pairs
        for s in range(0, len(rows[i]), BLOCK)
        for t in range(0, len(rows[j]), BLOCK)
        if i != j or t >= s
    ]
    with ThreadPoolExecutor(threads) as executor:
        return sum(executor.map(lambda one: block(*one), blocks))


def numpy_seconds(sets: list[np.ndarray], bandwidth: float, threads: int, pool: bool) -> float:
    """How long NumPy takes."""
    start = time.perf_counter()
    numpy_sums(sets, bandwidth, threads, pool)
    return time.perf_counter() - start


def speed(programs: dict[str, Program], folder: str, args: argparse.Namespace) -> None:
    """Print seconds and rates for every width and number of threads."""
    random = np.random.default_rng(1)
    names = [*ENGINES, *(["other"] if "other" in programs else []), "numpy"]
    print(f"\n{SETS} × {args.rows} rows; seconds (10⁹ operations per second)\n")
    print(f"| d | threads | {' | '.join(names)} |\n|---|---|{'---|' * len(names)}")
    for width in args.widths:
        means = 0.3 * random.standard_normal((SETS, width), np.float32)
        sets = [random.standard_normal((args.rows, width), np.float32) + mean for mean in means]
        bandwidth = median_distance(sets)
        path = save(folder, f"w{width}", sets)
        for program in programs.values():
            program.ask(f"load w{width} {path}")
        for threads in args.threads:
            best = dict.fromkeys(names, float("inf"))
            for _ in range(args.turns):
                for name in names:
                    if name == "numpy":
                        found = numpy_seconds(sets, bandwidth, threads, args.pool)
                    elif name == "other":
                        found = float(programs["other"].ask(f"offline w{width} gaussian {bandwidth} {threads}").split()[0])
                    else:
                        command = f"offline w{width} gaussian {bandwidth} {threads} {name}"
                        found = float(programs["this"].ask(command).split()[0])
                    best[name] = min(best[name], found)
            work = (SETS * args.rows) ** 2 * width / 1e9
            cells = " | ".join(f"{best[name]:.4f} ({work / best[name]:.0f})" for name in names)
            print(f"| {width} | {threads} | {cells} |", flush=True)


def main() -> None:
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench")
    parser.add_argument("--other")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--widths", type=int, nargs="+", default=WIDTHS)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--accuracy", action="store_true")
    parser.add_argument("--pool", action="store_true")
    args = parser.parse_args()
    print(f"{platform.platform()}, NumPy {np.__version__}\n\n`{' '.join(Path(word).name for word in sys.argv)}`")
    programs = {"this": Program(args.bench)} | ({"other": Program(args.other)} if args.other else {})
    with tempfile.TemporaryDirectory() as folder:
        if args.accuracy:
            accuracy(programs["this"], folder)
        speed(programs, folder, args)


if __name__ == "__main__":
    main()
