"""Time the metrics and common tools for them, interleaved in one session, and store a dated run.

Everything is measured on the same features, on one and on two threads, and every value is compared with that of the peer.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import io
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from peers import ROOT, Engine, machine, threads, timed  # first, because it limits the threads of BLAS

import numpy as np
import scipy.linalg
import torch
from prdc import compute_prdc
from torch_fidelity.metric_fid import fid_statistics_to_metric
from torch_fidelity.metric_kid import kid_features_to_metric
from vendi_score import vendi

SIZES = ((2000, 64), (2000, 768), (2000, 2048), (10_000, 64), (10_000, 768), (10_000, 2048))
METRICS = ("prdc", "kid", "fid", "vendi")


def features(rows: int, width: int, seed: int, spread: float) -> np.ndarray:
    """Return features like those of encoders: a few strong directions, many weak ones, and a nonzero mean."""
    shape = np.random.default_rng(5)
    directions = shape.standard_normal((width, width)) / np.sqrt(width)
    strengths = 1.0 / np.sqrt(1.0 + np.arange(width) / 8.0)
    random = np.random.default_rng(seed)
    return ((random.standard_normal((rows, width)) * strengths * spread) @ directions + 0.3).astype(np.float32)


def prdc(x: np.ndarray, y: np.ndarray) -> list[float]:
    """The package prdc, whose first argument is the reference."""
    with contextlib.redirect_stdout(io.StringIO()):
        result = compute_prdc(y, x, 5)
    return [float(result[name]) for name in ("precision", "recall", "density", "coverage")]


def torch_fidelity_kid(x: np.ndarray, y: np.ndarray) -> list[float]:
    """KID of torch-fidelity: 100 subsets of 1,000."""
    settings = {"kid_kernel_poly_degree": 3, "kid_kernel_poly_gamma": None, "kid_kernel_poly_coef0": 1.0, "kid_kernel": "poly"}
    result = kid_features_to_metric(
        torch.from_numpy(x), torch.from_numpy(y), kid_subsets=100, kid_subset_size=1000, rng_seed=2020, verbose=False, **settings
    )
    return [result["kernel_inception_distance_mean"], result["kernel_inception_distance_std"]]


def moments(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance, as common FID scripts compute them."""
    return x.mean(axis=0, dtype=np.float64), np.cov(x, rowvar=False)


def scipy_fid(x: np.ndarray, y: np.ndarray) -> list[float]:
    """FID with scipy's matrix square root."""
    (x_mean, x_covariance), (y_mean, y_covariance) = moments(x), moments(y)
    root = scipy.linalg.sqrtm(x_covariance @ y_covariance)
    distance = ((x_mean - y_mean) ** 2).sum() + np.trace(x_covariance) + np.trace(y_covariance) - 2.0 * np.trace(root).real
    return [float(distance)]


def torch_fidelity_fid(x: np.ndarray, y: np.ndarray) -> list[float]:
    """FID as torch-fidelity computes it, from eigenvalues."""
    given = [dict(zip(("mu", "sigma"), moments(side))) for side in (x, y)]
    return [float(fid_statistics_to_metric(*given, False)["frechet_inception_distance"])]


def vendi_score(x: np.ndarray, _: np.ndarray) -> list[float]:
    """The package vendi-score, with the smaller of its two matrices."""
    return [float(vendi.score_dual(x.astype(np.float64), normalize=True) if x.shape[1] < x.shape[0] else vendi.score_X(x, normalize=True))]


PEERS: dict[str, dict[str, Callable[[np.ndarray, np.ndarray], list[float]]]] = {
    "prdc": {"prdc": prdc},
    "kid": {"torch-fidelity": torch_fidelity_kid},
    "fid": {"scipy sqrtm": scipy_fid, "torch-fidelity": torch_fidelity_fid},
    "vendi": {"vendi-score": vendi_score},
}


def compare(metric: str, rows: int, width: int, count: int, repeats: int, engine: Engine, sides: list[np.ndarray]) -> dict[str, object]:
    """Run modelmix and the peers in turn; return the best time of each."""
    names = ["modelmix", *PEERS[metric]]
    seconds: dict[str, list[float]] = {name: [] for name in names}
    values: dict[str, list[float]] = {}
    for _ in range(repeats):
        time, *values["modelmix"] = engine.ask("metric", metric, "x", "y", count)
        seconds["modelmix"].append(time)
        for name, peer in PEERS[metric].items():
            with threads(count):
                time, values[name] = timed(lambda: peer(*sides))
            seconds[name].append(time)
    best = {name: min(times) for name, times in seconds.items()}
    return {
        "best": best,
        "median": {name: statistics.median(times) for name, times in seconds.items()},
        "times_faster": {name: best[name] / best["modelmix"] for name in names[1:]},
        "values": values,
        "seconds": seconds,
    }


def peak_memory(command: list[str]) -> int:
    """Return the peak resident memory of a separate process, in bytes."""
    code = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    return 1024 * int(subprocess.run([sys.executable, "-c", code, *command], check=True, capture_output=True, text=True).stdout)


def memory(folder: Path, rows: int, width: int) -> dict[str, object]:
    """Return the peak memory of PRDC including the inputs, of modelmix and of prdc."""
    paths = [str(folder / f"{side}.npy") for side in "xy"]
    script = f"import sys, numpy as np; sys.path.insert(0, {str(ROOT / 'benches')!r}); from prdc import compute_prdc; compute_prdc(np.load({paths[1]!r}), np.load({paths[0]!r}), 5)"
    peer = peak_memory([sys.executable, "-c", script])
    engine = Engine()
    for side, path in zip("xy", paths):
        engine.ask("load", side, path)
    engine.ask("metric", "prdc", "x", "y", 2)
    ours = int(engine.ask("memory")[0])
    engine.close()
    return {"modelmix": ours, "prdc": peer, "times_less": peer / ours}


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="run only n = 2,000, once, and store nothing")
    parser.add_argument("--repeats", type=int, default=3, help="repetitions at n = 2,000; a third of them at n = 10,000 [default: 3]")
    parser.add_argument("--metrics", nargs="+", default=METRICS, choices=METRICS)
    parser.add_argument("--sizes", nargs="+", metavar="ROWSxWIDTH", help="sizes to run, such as 2000x768 [default: all]")
    arguments = parser.parse_args()
    figures: dict[str, dict[str, object]] = {}
    folder = ROOT / "benches/runs" / f"{datetime.date.today().isoformat()}-metrics"
    with tempfile.TemporaryDirectory() as temporary:
        wanted = [tuple(map(int, size.split("x"))) for size in arguments.sizes or ()]
        for rows, width in wanted or (SIZES[:3] if arguments.quick else SIZES):
            engine = Engine()
            sides = [features(rows, width, 1, 1.0), features(rows, width, 2, 1.03)]
            for name, side in zip("xy", sides):
                path = Path(temporary) / f"{name}.npy"
                np.save(path, side)
                engine.ask("load", name, path)
            repeats = 1 if arguments.quick else max(1, arguments.repeats // (1 if rows == 2000 else 3))
            for metric in arguments.metrics:
                for count in (1, 2):
                    name = f"{metric} n={rows} d={width} threads={count}"
                    figures[name] = compare(metric, rows, width, count, repeats, engine, sides)
                    print(name, json.dumps(figures[name]["times_faster"]), json.dumps(figures[name]["best"]), flush=True)
            engine.close()
            if not arguments.quick and "prdc" in arguments.metrics:
                figures[f"memory prdc n={rows} d={width}"] = memory(Path(temporary), rows, width)
                print(f"memory prdc n={rows} d={width}", figures[f"memory prdc n={rows} d={width}"], flush=True)
            if not arguments.quick:
                folder.mkdir(parents=True, exist_ok=True)
                command = " ".join(["benches/metrics.py", *sys.argv[1:]])
                document = {"command": command, "machine": machine(), "figures": figures}
                (folder / "figures.json").write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
