"""Time torch on an NVIDIA GPU on the sums that `crates/modelmix-cuda/examples/speed.rs` times.

    python benches/cuda.py [--runs 7] [--compile]

Prints one JSON line per question, like `speed`; run both in one sitting and store their lines in `benches/runs`. Features are on the
GPU, and sums by row are left there. `--compile` adds torch.compile. Needs torch with CUDA, and nothing of modelmix.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable

import torch

BLOCKS = (2500, 5000, 10_000)


def sums(x: torch.Tensor, square: torch.Tensor, arms: int, rate: float, block: int) -> torch.Tensor:
    """Return the sums of exp(-rate ‖x-y‖²) of every row over every arm, in blocks, each pair once."""
    size = len(x) // arms
    out = torch.zeros(arms, len(x), dtype=torch.float64, device=x.device)
    blocks = [slice(first, first + block) for first in range(0, len(x), block)]
    for index, rows in enumerate(blocks):
        for columns in blocks[index:]:
            by_row, by_column = values(x[rows], x[columns], square[rows], square[columns], rate)
            out[columns.start // size, rows] += by_row
            if rows != columns:
                out[rows.start // size, columns] += by_column
    # A row is not paired with itself.
    own = torch.arange(len(x), device=x.device)
    out[own // size, own] -= 1.0
    return out


def values(x: torch.Tensor, y: torch.Tensor, x2: torch.Tensor, y2: torch.Tensor, rate: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the sums of a block of kernel values, by row and by column."""
    k = torch.addmm(y2, x, y.T, beta=-rate, alpha=2.0 * rate).sub_(rate * x2[:, None]).exp_()
    return k.sum(1), k.sum(0)


def fastest(x: torch.Tensor, square: torch.Tensor, rate: float) -> int:
    """Return the block that is fastest for these rows."""
    times = {}
    for block in BLOCKS:
        for _ in range(2):
            torch.cuda.synchronize()
            start = time.perf_counter()
            sums(x, square, 5, rate, block)
            torch.cuda.synchronize()
            times[block] = time.perf_counter() - start
    return min(times, key=times.__getitem__)


def report(name: str, runs: int, work: Callable[[], object]) -> None:
    """Time `work` after two runs of warm-up and print a line."""
    times = []
    for _ in range(runs + 2):
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 1e3)
    times = sorted(times[2:])
    line = {"name": name, "median_ms": round(statistics.median(times), 4), "least_ms": round(times[0], 4), "most_ms": round(times[-1], 4)}
    print(json.dumps({**line, "device": f"torch {torch.__version__}, {torch.cuda.get_device_name()}"}), flush=True)


def main() -> None:
    global values
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--runs", type=int, default=7)
    arguments.add_argument("--compile", action="store_true", help="add torch.compile")
    options = arguments.parse_args()
    generator = torch.Generator("cuda").manual_seed(1)
    plain = values
    for rows, width in [(10_000, 64), (10_000, 768), (10_000, 1024), (10_000, 2048), (50_000, 1024)]:
        x = torch.randn(5 * rows, width, generator=generator, device="cuda")
        square, rate = (x * x).sum(1), 0.5 / (2.2 * width)
        for precision in ("fp32", "TF32"):
            torch.backends.cuda.matmul.allow_tf32 = precision == "TF32"
            runs = options.runs if rows == 10_000 else 3
            values = plain
            block = fastest(x, square, rate)
            report(f"torch {precision}, sums 5x{rows}x{width}, blocks of {block}", runs, lambda: sums(x, square, 5, rate, block))
            if options.compile and rows == 10_000:
                values = torch.compile(plain)
                block = fastest(x, square, rate)
                name = f"torch.compile {precision}, sums 5x{rows}x{width}, blocks of {block}"
                report(name, runs, lambda: sums(x, square, 5, rate, block))
    torch.backends.cuda.matmul.allow_tf32 = False
    held, fresh = (torch.randn(rows, 1024, generator=generator, device=place) for rows, place in ((8000, "cuda"), (64, "cuda")))
    fresh, bandwidth = fresh.cpu().pin_memory(), 45.0
    for count in (1, 64):
        new_rows = lambda: torch.exp(-torch.cdist(fresh[:count].cuda(), held).square() / (2 * bandwidth**2)).cpu()
        report(f"torch fp32, {count} new rows to 8000x1024", 50, new_rows)
    x = torch.randn(10_000, 2048, generator=generator, device="cuda")
    for precision in ("fp32", "TF32"):
        torch.backends.cuda.matmul.allow_tf32 = precision == "TF32"
        square = (x * x).sum(1)
        near = lambda: (square[:, None] + square[None, :] - 2.0 * (x @ x.T)).fill_diagonal_(math.inf).topk(5, largest=False)[0].cpu()
        report(f"torch {precision}, neighbours k=5 10000x2048", options.runs, near)


if __name__ == "__main__":
    main()
