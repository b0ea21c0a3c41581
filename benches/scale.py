"""Time data in parts: rows per second from Parquet beside the limits of disk and memory, memory against the number of rows, merging of
accumulators, and FID and KID of a million rows beside torch-fidelity. Stores a dated run.

Usage: `python benches/scale.py FOLDER [--binary target/release/modelmix] [--quick]`, with numpy, pyarrow and torch-fidelity installed, and
the package modelmix for the merges. FOLDER gets about 15 GB of files, which later runs use again. As root, the page cache is emptied
before reading from disk is timed.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ARMS = 4
ROWS_PER_GROUP = {64: 100_000, 768: 10_000}
ROOT = Path(__file__).resolve().parent.parent


def features(random: np.random.Generator, rows: int, width: int, arm: int) -> np.ndarray:
    """Eight clusters, of which each arm covers some."""
    centres = np.random.default_rng(7).standard_normal((8, width), dtype=np.float32)
    shares = np.roll([0.4, 0.3, 0.2, 0.1, 0, 0, 0, 0], 2 * arm)
    return 2 * centres[random.choice(8, rows, p=shares)] + random.standard_normal((rows, width), dtype=np.float32)


def parquet(path: Path, rows: int, width: int) -> Path:
    """A file of embeddings and the names of their models, as encoders write them: not compressed, since floats are noise."""
    if path.exists():
        return path
    random = np.random.default_rng(rows + width)
    schema = pa.schema({"model": pa.string(), "embedding": pa.list_(pa.float32(), width)})
    temporary = path.with_suffix(".tmp")
    options = {"compression": "none", "use_dictionary": ["model"]}
    with pq.ParquetWriter(temporary, schema, **options) as writer:
        group = ROWS_PER_GROUP[width]
        for first in range(0, rows, group):
            count = min(group, rows - first)
            arms = np.sort(random.integers(0, ARMS, count))
            values = np.concatenate([features(random, int((arms == arm).sum()), width, arm) for arm in range(ARMS)])
            order = random.permutation(count)
            names = pa.array(np.array(list("abcd"))[arms[order]])
            rows_of = pa.FixedSizeListArray.from_arrays(pa.array(values[order].ravel()), width)
            writer.write_table(pa.table([names, rows_of], schema=schema))
    temporary.rename(path)
    return path


def run(*command: object) -> dict[str, float]:
    """Seconds, processor seconds and the largest memory of a command. The memory is asked of the kernel while it runs: what `wait4` says
    includes that of this process before it became the command."""
    start = time.perf_counter()
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL)
    peak = 0.0
    while True:
        ended, status, usage = os.wait4(process.pid, os.WNOHANG)
        if ended:
            break
        lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        peak = max(peak, *(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)
        time.sleep(0.005)
    seconds = time.perf_counter() - start
    if status != 0:
        raise SystemExit(f"{' '.join(map(str, command))} failed")
    return {"seconds": seconds, "processor": usage.ru_utime + usage.ru_stime, "peak_mb": peak}


def empty_page_cache() -> bool:
    """Whether files are read from disk from now on."""
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3")
    except OSError:
        return False
    return True


def read_seconds(path: Path) -> float:
    """The time to read a file with nothing done with it."""
    start = time.perf_counter()
    with path.open("rb", buffering=0) as file:
        block = bytearray(16 << 20)
        while file.readinto(block):
            pass
    return time.perf_counter() - start


def machine() -> dict[str, object]:
    """The processor."""
    model = next((line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), "")
    return {"processor": model, "cores": os.cpu_count(), "python": platform.python_version(), "numpy": np.__version__}


class Run:
    """Results, written one by one."""

    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self.file = (path / "scale.jsonl").open("w")

    def add(self, **result: object) -> None:
        """Print and store a result."""
        rounded = {key: float(f"{value:.4g}") if isinstance(value, float) else value for key, value in result.items()}
        print(json.dumps(rounded), flush=True)
        self.file.write(json.dumps(rounded) + "\n")
        self.file.flush()


def passes(results: Run, modelmix: Path, folder: Path, sizes: list[tuple[int, int]]) -> None:
    """Both passes over files of several sizes."""
    for rows, width in sizes:
        path = parquet(folder / f"{rows}x{width}.parquet", rows, width)
        size = path.stat().st_size / 1e6
        is_cold = empty_page_cache()
        cold = read_seconds(path)
        warm = min(read_seconds(path) for _ in range(2))
        limits = {"mb": size, "disk_mb_s": size / cold if is_cold else None, "memory_mb_s": size / warm}
        results.add(what="limits", rows=rows, width=width, **limits)
        columns = ["--arm-column", "model", "--quiet"]
        for threads in (1, 2):
            base = ["--threads", threads, "--memory", "4GB", *columns]
            survey = run(modelmix, "accumulate", path, "--survey", "--out", folder / "survey.acc", *base)
            results.add(what="survey", rows=rows, width=width, threads=threads, rows_s=rows / survey["seconds"], **survey)
            for objective, features_ in (("rke", 4096), ("rke", 1024)):
                options = ["--objective", objective, "--method", "features", "--random-features", features_]
                both = run(modelmix, "solve", path, *options, *base, "--no-intervals")
                results.add(
                    what=f"solve {objective}, D = {features_}", rows=rows, width=width, threads=threads, rows_s=rows / both["seconds"], **both
                )
        both = run(modelmix, "solve", path, "--objective", "vendi", "--method", "features", *base)
        results.add(what="solve vendi", rows=rows, width=width, threads=2, rows_s=rows / both["seconds"], **both)


def merges(results: Run, workers: int) -> None:
    """Accumulators of many workers, merged from bytes in groups of eight as the engines do, in one process, at width 768. Surveys have full
    samples; parts of the second pass have those of their rows that the survey sampled."""
    import modelmix as mm

    random = np.random.default_rng(0)
    blocks = [{arm: features(random, 2500, 768, at) for at, arm in enumerate("abcd")} for _ in range(8)]

    def summed(empty: mm.Accumulator) -> list[bytes]:
        parts = []
        for block in blocks:
            part = empty.empty()
            for arm, values in block.items():
                part.update(arm, values)
            parts.append(part.to_bytes())
        return parts

    surveys = summed(mm.Accumulator.survey())
    survey = mm.Accumulator.survey()
    for data in surveys:
        survey._inner.merge_bytes(data)
    sums = mm.Accumulator(survey.plan("rke", method="features", random_features=4096))
    for what, empty, parts in (("merge surveys", mm.Accumulator.survey(), surveys), ("merge sums", sums, summed(sums))):
        start = time.perf_counter()
        level, total = workers, 0
        while level > 1:
            groups = -(-level // 8)
            for group in range(groups):
                whole, count = empty._inner.empty(), min(8, level - 8 * group)
                for data in parts[:count]:
                    whole.merge_bytes(data)
                total += count
                whole.to_bytes()
            level = groups
        seconds = time.perf_counter() - start
        results.add(what=what, workers=workers, mb=len(parts[0]) / 1e6, seconds=seconds, merges_s=total / seconds)


PEER = """
import contextlib, io, sys, time, resource, json
import numpy as np, torch
torch.set_num_threads(2)
from torch_fidelity.metric_fid import fid_statistics_to_metric, fid_features_to_statistics
from torch_fidelity.metric_kid import kid_features_to_metric
metric, x, y = sys.argv[1], np.load(sys.argv[2], mmap_mode="r"), np.load(sys.argv[3], mmap_mode="r")
start = time.perf_counter()
if metric == "fid":
    given = [fid_features_to_statistics(torch.from_numpy(np.array(side))) for side in (x, y)]
    value = fid_statistics_to_metric(*given, False)["frechet_inception_distance"]
else:
    x, y = (torch.from_numpy(np.array(side)) for side in (x, y))
    value = kid_features_to_metric(x, y, kid_subsets=100, kid_subset_size=1000, rng_seed=2020, verbose=False,
        kid_kernel="poly", kid_kernel_poly_degree=3, kid_kernel_poly_gamma=None, kid_kernel_poly_coef0=1.0)["kernel_inception_distance_mean"]
print(json.dumps({"value": float(value), "seconds": time.perf_counter() - start}))
"""


def peers(results: Run, modelmix: Path, folder: Path, rows: int, width: int) -> None:
    """FID and KID of two large sets, from files, against torch-fidelity; its imports are not counted."""
    paths = [folder / f"{name}-{rows}x{width}.npy" for name in ("x", "y")]
    for at, path in enumerate(paths):
        if not path.exists():
            random = np.random.default_rng(at)
            written = np.lib.format.open_memmap(path, "w+", np.float32, (rows, width))
            for first in range(0, rows, 50_000):
                count = min(50_000, rows - first)
                written[first : first + count] = features(random, count, width, at)
    for path in paths:
        read_seconds(path)
    for metric in ("fid", "kid"):
        start = time.perf_counter()
        options = ["--metrics", metric, "--preset", "torch-fidelity", "--no-mixture", "--json"]
        document = subprocess.run([modelmix, "score", f"x={paths[0]}", "--reference", paths[1], *options], check=True, capture_output=True)
        seconds = time.perf_counter() - start
        value = json.loads(document.stdout)["arms"][0]["scores"][metric]
        value = value if isinstance(value, float) else value["value"]
        results.add(what=f"score {metric}", rows=rows, width=width, value=value, seconds=seconds)
        if metric == "fid":
            options = ["--objective", "fid", "--memory", "4GB", "--method", "features", "--json"]
            start = time.perf_counter()
            document = subprocess.run(
                [modelmix, "solve", f"x={paths[0]}", "--reference", paths[1], *options], check=True, capture_output=True
            )
            streamed = time.perf_counter() - start
            results.add(what="solve fid in parts", rows=rows, width=width, value=json.loads(document.stdout)["arms"][0]["score"], seconds=streamed)
        peer = subprocess.run([sys.executable, "-c", PEER, metric, *map(str, paths)], check=True, capture_output=True)
        found = json.loads(peer.stdout.splitlines()[-1])
        results.add(what=f"torch-fidelity {metric}", rows=rows, width=width, ratio=found["seconds"] / seconds, **found)


def main() -> None:
    """Run everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--binary", type=Path, default=ROOT / "target/release/modelmix")
    parser.add_argument("--out", type=Path, default=ROOT / f"benches/runs/{datetime.date.today()}-scale")
    parser.add_argument("--quick", action="store_true", help="a hundredth of the rows")
    parser.add_argument("--only", nargs="*", choices=["passes", "merges", "peers"], default=["passes", "merges", "peers"])
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    results = Run(given.out)
    results.add(what="machine", **machine())
    share = 100 if given.quick else 1
    if "passes" in given.only:
        sizes = [(100_000, 64), (1_000_000, 64), (10_000_000, 64), (100_000, 768), (1_000_000, 768)]
        passes(results, given.binary, given.folder, [(rows // share, width) for rows, width in sizes])
    if "merges" in given.only:
        merges(results, 10_000 // share)
    if "peers" in given.only:
        for width in (64, 768):
            peers(results, given.binary, given.folder, 1_000_000 // share, width)


if __name__ == "__main__":
    main()
