"""Time modelmix and its peers, interleaved in one session, and write a dated run with all raw figures.

Everything is measured on the same data, on one and on two threads, and the results of all contenders are compared.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import importlib.metadata
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

# Set before NumPy and torch start their threads; `threadpoolctl` and torch lower it afterwards.
os.environ.setdefault("OMP_NUM_THREADS", "2")

import numpy as np
import torch
from contenders import broadcasting_loop, numpy_kernel, scikit_learn, torch_addmm, torch_fidelity
from threadpoolctl import threadpool_limits

ROOT = Path(__file__).resolve().parent.parent
ARMS = 5


class Engine:
    """The Rust engine as a process that answers one measurement per line."""

    def __init__(self, address_space: int | None = None) -> None:
        binary = ROOT / "target/release/examples/bench"
        limit = (lambda: resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))) if address_space else None
        self.process = subprocess.Popen([binary], preexec_fn=limit, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, *words: object) -> list[float]:
        """Send a command and return the numbers of the answer."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(" ".join(str(word) for word in words) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the engine stopped at {words}")
        return [float(number) for number in line.split()]

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def timed(work: Callable[[], float]) -> tuple[float, float]:
    """Return the seconds and the result."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


@contextlib.contextmanager
def threads(count: int) -> Any:
    """Limit the threads of BLAS, OpenMP and torch."""
    torch.set_num_threads(count)
    with threadpool_limits(limits=count):
        yield


def make_arms(rows: int, width: int, arms: int = ARMS) -> list[np.ndarray]:
    """Return normally distributed features with a different mean per arm."""
    random = np.random.default_rng(7)
    return [(random.standard_normal((rows, width)) + 0.3 * random.standard_normal(width)).astype(np.float32) for _ in range(arms)]


class Run:
    """Collects figures."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self.engine, self.folder, self.figures = engine, folder, {}
        self.document: Path | None = None

    def save(self, name: str, arms: list[np.ndarray]) -> None:
        """Write features to a file and load them into the engine."""
        path = self.folder / f"{name}.npz"
        np.savez(path, **{f"arm{i}": arm for i, arm in enumerate(arms)})
        self.engine.ask("load", name, path)
        path.unlink()

    def note(self, name: str, **figures: Any) -> None:
        """Store and print figures."""
        self.figures[name] = figures
        short = {key: (f"{value:.4g}" if isinstance(value, float) else value) for key, value in figures.items() if not isinstance(value, (list, dict))}
        print(f"{name:48} {short}", flush=True)
        # Written after every figure, so that a later failure does not lose it.
        if self.document is not None:
            document = {"machine": machine(), "command": " ".join(["benches/peers.py", *sys.argv[1:]]), "figures": self.figures}
            self.document.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")

    def offline(self, rows: int, width: int, count: int, repeats: int, only: set[str] | None = None) -> None:
        """Time K of five arms for every contender, interleaved."""
        arms = make_arms(rows, width)
        self.save("offline", arms)
        tensors = [torch.from_numpy(arm) for arm in arms]
        bandwidth = float(np.sqrt(width))
        gamma = 0.5 / width
        flops = float((ARMS * rows) ** 2 * width)
        for kernel in ("gaussian", "polynomial"):
            contenders: dict[str, Callable[[], tuple[float, float]]] = {
                "modelmix": lambda: tuple(self.engine.ask("offline", "offline", kernel, bandwidth, count)),  # type: ignore[return-value]
                "numpy": lambda: timed(lambda: numpy_kernel(kernel, gamma)(arms)),
                "torch": lambda: timed(lambda: torch_addmm(kernel, gamma)(tensors)),
                "torch-fidelity": lambda: timed(lambda: torch_fidelity(kernel, gamma)(arms)),
                "scikit-learn": lambda: timed(lambda: scikit_learn(kernel, gamma)(arms)),
            }
            names = [name for name in contenders if only is None or name in only]
            seconds: dict[str, list[float]] = {name: [] for name in names}
            peaks: list[float] = []
            answers: dict[str, float] = {}
            with threads(count):
                for _ in range(repeats):
                    peaks.append(self.engine.ask("peak")[0])
                    for name in names:
                        # Threads of the previous contender may still be busy-waiting.
                        time.sleep(0.3)
                        elapsed, answers[name] = contenders[name]()
                        seconds[name].append(elapsed)
            for name, answer in answers.items():
                if abs(answer - answers["modelmix"]) > 2e-4 * abs(answer):
                    raise SystemExit(f"{name} returns {answer}, but modelmix {answers['modelmix']} ({kernel}, {rows} × {width})")
            ours, peak = min(seconds["modelmix"]), max(peaks) * count
            self.note(
                f"offline {kernel} n={rows} d={width} threads={count}",
                best=ours,
                median=statistics.median(seconds["modelmix"]),
                of_peak=flops / ours / peak,
                gflops=flops / ours / 1e9,
                peak_gflops=peak / 1e9,
                times_faster={name: min(values) / ours for name, values in seconds.items()},
                times_faster_median={name: statistics.median(values) / statistics.median(seconds["modelmix"]) for name, values in seconds.items()},
                spread={name: (max(values) - min(values)) / statistics.median(values) for name, values in seconds.items()},
                raw=seconds,
                **{f"x_{name}": round(min(values) / ours, 2) for name, values in seconds.items() if name != "modelmix"},
            )

    def authors(self, rows: int, width: int) -> None:
        """Time the broadcasting loop, on as many rows as memory allows."""
        arms = make_arms(rows, width)
        self.save("authors", arms)
        with threads(1):
            theirs, answer = timed(lambda: broadcasting_loop(0.5 / width)(arms))
            ours = [self.engine.ask("offline", "authors", "gaussian", float(np.sqrt(width)), 1) for _ in range(5)]
        assert abs(answer - ours[0][1]) < 1e-4 * answer, (answer, ours)
        best = min(value[0] for value in ours)
        self.note(f"broadcasting loop n={rows} d={width}", theirs=theirs, ours=best, times_faster=theirs / best)

    def memory(self) -> None:
        """Measure peak memory beyond the input, in a fresh process; arrays of an archive are read, not memory-mapped."""
        arms = make_arms(10_000, 1024)
        path = self.folder / "memory.npz"
        np.savez(path, **{f"arm{i}": arm for i, arm in enumerate(arms)})
        bytes_in = sum(arm.nbytes for arm in arms)
        for count in (1, 2):
            engine = Engine()
            engine.ask("load", "memory", path)
            before = engine.ask("memory")[0]
            seconds = engine.ask("offline", "memory", "gaussian", 32.0, count)[0]
            after = engine.ask("memory")[0]
            engine.close()
            self.note(f"memory m=5 n=10000 d=1024 threads={count}", seconds=seconds, input_mb=bytes_in / 1e6, loaded_mb=before / 1e6, beyond_mb=(after - before) / 1e6)
        path.unlink()

    def out_of_core(self) -> None:
        """Time a million memory-mapped rows of width 768, in an address space of 4 GiB."""
        rows, width = 1_000_000, 768
        path = self.folder / "large.npy"
        values = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(rows, width))
        random = np.random.default_rng(3)
        for start in range(0, rows, 50_000):
            values[start : start + 50_000] = random.standard_normal((50_000, width), dtype=np.float32)
        values.flush()
        del values
        small = self.folder / "small.npy"
        np.save(small, random.standard_normal((1000, width), dtype=np.float32))
        engine = Engine(address_space=4 << 30)
        engine.ask("load", "large", path)
        engine.ask("load", "small", small)
        seconds = engine.ask("cross", "large", "small", 2)[0]
        engine.close()
        path.unlink()
        self.note("out of core: 1,000,000 x 768 against 1,000, address space of 4 GiB", seconds=seconds, gflops=2.0 * rows * 1000 * width / seconds / 1e9)

    def authors_cab(self, rounds: int) -> None:
        """Time Mixture-UCB-CAB as in scripts of papers: a broadcast row of kernels and a new cvxpy problem per round."""
        import cvxpy

        arms = make_arms(2000, 1024)
        self.save("cab", arms)
        random = np.random.default_rng(0)
        sums, counts = np.zeros((ARMS, ARMS)), np.zeros(ARMS)
        held: list[list[np.ndarray]] = [[] for _ in range(ARMS)]
        start = time.perf_counter()
        weights = np.full(ARMS, 1 / ARMS)
        for step in range(rounds):
            arm = step if step < ARMS else int(random.choice(ARMS, p=weights))
            sample = arms[arm][len(held[arm]) % 2000]
            for other in range(ARMS):
                if held[other]:
                    row = np.exp(-((np.array(held[other]) - sample) ** 2).sum(-1) / (28.0**2)).sum()
                    sums[arm, other] += row
                    sums[other, arm] += row
            sums[arm, arm] += 1.0
            held[arm].append(sample)
            counts[arm] += 1
            if step >= ARMS - 1:
                width = 0.1 * np.sqrt(4 * np.log(step + 1) / (2 * counts)) + 0.05 / counts
                variable = cvxpy.Variable(ARMS)
                matrix = cvxpy.psd_wrap(sums / np.outer(counts, counts))
                cvxpy.Problem(cvxpy.Minimize(cvxpy.quad_form(variable, matrix) - width @ variable), [variable >= 0, cvxpy.sum(variable) == 1]).solve()
                weights = np.maximum(variable.value, 0.0)
                weights /= weights.sum()
        theirs = time.perf_counter() - start
        ours = self.engine.ask("session", "cab", "cab(sensitivity=0.1)", rounds, "single")[0]
        total, truth = self.engine.ask("simulate", "cab", "cab(sensitivity=0.1)", rounds, 1, 1)
        self.note(f"CAB with cvxpy, {rounds} rounds, d=1024", theirs=theirs, ours=ours, recorded=total - truth, times_faster=theirs / ours, times_faster_recorded=theirs / (total - truth))

    def online(self) -> None:
        """Time rows, sessions and simulations."""
        self.save("rows", make_arms(8000, 1024, 1))
        bytes_read = 8000 * 1024 * 4
        rows, halves, reads = [], [], []
        for _ in range(11):
            reads.append(self.engine.ask("bandwidth", bytes_read)[0])
            rows.append(self.engine.ask("row", "rows")[0])
            halves.append(self.engine.ask("half", "rows")[0])
        self.note("row t=8000 d=1024", ms=1e3 * min(rows), half_ms=1e3 * min(halves), gb_a_second=bytes_read / min(rows) / 1e9, read_gb_a_second=bytes_read / min(reads) / 1e9, of_bandwidth=min(reads) / min(rows), raw={"row": rows, "half": halves, "read": reads})
        self.save("arms", make_arms(2000, 1024))
        traffic = 8000 * 8000 / 2 * 4096 / (bytes_read / min(reads))
        for policy in ("cab(sensitivity=0.1)", "adaptive"):
            for storage in ("single", "half"):
                seconds = min(self.engine.ask("session", "arms", policy, 8000, storage)[0] for _ in range(2))
                self.note(f"session {policy} 8000 rounds {storage}", seconds=seconds, memory_traffic_alone=traffic / (1 if storage == "single" else 2))
            total, truth = min(self.engine.ask("simulate", "arms", policy, 8000, 1, 1) for _ in range(2))
            self.note(f"recorded {policy} 8000 rounds", seconds=total - truth, with_truth=total)
        self.save("small", make_arms(2000, 64))
        policies = "adaptive;cab(sensitivity=0.1);ogd(sensitivity=0.1);vanilla(sensitivity=0.1);halving;greedy"
        self.note("simulate 6 policies x 10 seeds x 2000 rounds, 5 x 2000 x 64", seconds=min(self.engine.ask("simulate", "small", policies, 2000, 10, 2)[0] for _ in range(3)))

    def programs(self) -> None:
        """Time the quadratic program and common Python solvers."""
        import clarabel
        import cvxpy
        import quadprog
        from scipy import sparse

        for arms in (5, 16):
            random = np.random.default_rng(1)
            points = random.standard_normal((arms, arms + 3))
            quadratic, linear = 0.3 + points @ points.T / arms, 0.01 * random.standard_normal(arms)
            with threads(1):
                ours = {start: min(self.engine.ask("program", arms, start, 20_000)[0] for _ in range(5)) for start in ("warm", "cold")}

                def by_quadprog() -> np.ndarray:
                    constraints = np.vstack([np.ones(arms), np.eye(arms)]).T
                    return quadprog.solve_qp(2.0 * quadratic, -linear, constraints, np.r_[1.0, np.zeros(arms)], 1)[0]

                def by_clarabel() -> np.ndarray:
                    settings = clarabel.DefaultSettings()
                    settings.verbose = False
                    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(arms)]
                    a = sparse.csc_matrix(np.vstack([np.ones(arms), -np.eye(arms)]))
                    b = np.r_[1.0, np.zeros(arms)]
                    return np.array(clarabel.DefaultSolver(sparse.triu(2.0 * quadratic, format="csc"), linear, a, b, cones, settings).solve().x)

                def by_cvxpy() -> np.ndarray:
                    weights = cvxpy.Variable(arms)
                    loss = cvxpy.quad_form(weights, quadratic) + linear @ weights
                    cvxpy.Problem(cvxpy.Minimize(loss), [weights >= 0, cvxpy.sum(weights) == 1]).solve()
                    return weights.value

                peers = {"quadprog": (by_quadprog, 2000), "clarabel": (by_clarabel, 300), "cvxpy": (by_cvxpy, 20)}
                micro = {}
                for name, (solve, count) in peers.items():
                    solve()
                    micro[name] = min(timed(lambda: sum(solve()[0] for _ in range(count)))[0] / count for _ in range(3)) * 1e6
            self.note(f"program m={arms}", warm_us=1e6 * ours["warm"], cold_us=1e6 * ours["cold"], **{f"{name}_us": value for name, value in micro.items()}, **{f"x_{name}": value / (1e6 * ours["warm"]) for name, value in micro.items()})

    def growth(self) -> None:
        """Measure how time grows with n, d, T and m."""
        for axis, sizes in {"n": [(1000, 256), (2000, 256), (4000, 256)], "d": [(2000, 128), (2000, 256), (2000, 512), (2000, 1024)]}.items():
            seconds = []
            for rows, width in sizes:
                self.save("growth", make_arms(rows, width))
                seconds.append(min(self.engine.ask("offline", "growth", "gaussian", float(np.sqrt(width)), 1)[0] for _ in range(3)))
            self.note(f"growth in {axis}", seconds=seconds, ratios=[round(b / a, 2) for a, b in zip(seconds, seconds[1:])], sizes=sizes)
        self.save("growth", make_arms(2000, 256))
        seconds = [min(self.engine.ask("session", "growth", "adaptive", rounds, "single")[0] for _ in range(2)) for rounds in (1000, 2000, 4000)]
        self.note("growth in T", seconds=seconds, ratios=[round(b / a, 2) for a, b in zip(seconds, seconds[1:])], sizes=[1000, 2000, 4000])
        seconds = [min(self.engine.ask("program", arms, "cold", 500)[0] for _ in range(3)) for arms in (8, 16, 32, 64, 128)]
        self.note("growth in m (program, cold)", seconds=seconds, ratios=[round(b / a, 2) for a, b in zip(seconds, seconds[1:])], sizes=[8, 16, 32, 64, 128])

    def instructions(self) -> None:
        """Count instructions with callgrind: the difference of two lengths, so that start-up does not count."""
        if shutil.which("valgrind") is None:
            print("instructions: skipped, because valgrind is not installed")
            return
        binary = ROOT / "target/release/examples/bench"
        path = self.folder / "count.npz"
        np.savez(path, **{f"arm{i}": arm for i, arm in enumerate(make_arms(600, 64))})

        def count(commands: str) -> int:
            with tempfile.NamedTemporaryFile() as out:
                command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out.name}", str(binary)]
                done = subprocess.run(command, input=commands, capture_output=True, text=True, check=True)
            line = next(line for line in done.stderr.splitlines() if "Collected" in line)
            return int(line.split(":")[1])

        for name, command, low, high in (
            ("program m=5 warm", "program 5 warm {}\n", 1000, 3000),
            ("program m=5 cold", "program 5 cold {}\n", 1000, 3000),
            ("program m=16 warm", "program 16 warm {}\n", 1000, 3000),
            ("round of adaptive around t=1000, d=64", f"load a {path}\nsession a adaptive {{}} single\n", 900, 1100),
            ("round of cab around t=1000, d=64", f"load a {path}\nsession a cab(sensitivity=0.1) {{}} single\n", 900, 1100),
        ):
            counted = (count(command.format(high)) - count(command.format(low))) / (high - low)
            self.note(f"instructions: {name}", each=counted)
        path.unlink()


def machine(packages: Sequence[str] = ("numpy", "scipy", "scikit-learn", "torch", "cvxpy")) -> dict[str, Any]:
    """Describe the machine, with the versions of packages."""
    cpu = next((line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), "?")
    flags = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags")), "")
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "instructions": [name for name in ("avx2", "fma", "avx512f") if f" {name}" in flags],
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "versions": {name: importlib.metadata.version(name) for name in packages},
        "rust": subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=True).stdout.strip(),
        "memory_gb": resource.getpagesize() * os.sysconf("SC_PHYS_PAGES") / 1e9,
    }


def chart(figures: dict[str, Any], path: Path) -> None:
    """Draw the speed-up over each peer, by width."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(11, 4), sharey=True)
    for axis, count in zip(axes, (1, 2)):
        rows = [(int(name.split("d=")[1].split()[0]), value) for name, value in figures.items() if name.startswith("offline gaussian n=2000") and name.endswith(f"threads={count}")]
        rows.sort()
        peers = [name for name in rows[0][1]["times_faster"] if name != "modelmix"] if rows else []
        for at, peer in enumerate(peers):
            axis.bar([x + 0.2 * at for x in range(len(rows))], [value["times_faster"][peer] for _, value in rows], width=0.19, label=peer)
        axis.axhline(1.0, color="black", linewidth=0.8)
        axis.set_xticks([x + 0.3 for x in range(len(rows))], [f"d = {width}" for width, _ in rows])
        axis.set_title(f"Gaussian K over 5 × 2,000 rows, {count} thread{'s' if count > 1 else ''}")
        axis.set_ylabel("times the seconds of modelmix")
    axes[0].legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="run small sizes with few repetitions, and store nothing")
    parser.add_argument("--short", action="store_true", help="skip the longest measurements at n = 10,000")
    parser.add_argument("--only", nargs="+", help="sections to run: offline programs online memory growth instructions broadcasting out-of-core cab large")
    parser.add_argument("--repeats", type=int, default=5, help="repetitions of every contender at n = 2,000 [default: 5]")
    parser.add_argument("--cab-rounds", type=int, default=8000, help="rounds of the CAB loop with cvxpy [default: 8000]")
    parser.add_argument("--name", default="", help="suffix of the folder name of the run")
    arguments = parser.parse_args()
    folder = ROOT / "benches/runs" / (datetime.date.today().isoformat() + (f"-{arguments.name}" if arguments.name else ""))
    with tempfile.TemporaryDirectory() as temporary:
        run = Run(Engine(), Path(temporary))
        if not arguments.quick:
            folder.mkdir(parents=True, exist_ok=True)
            run.document = folder / "figures.json"
        widths, repeats = ([64, 384], 2) if arguments.quick else ([64, 384, 768, 1024, 2048], arguments.repeats)

        def small() -> None:
            for width in widths:
                for count in (1, 2):
                    run.offline(2000, width, count, repeats)
                for kernel in ("gaussian", "polynomial"):
                    one, two = (run.figures[f"offline {kernel} n=2000 d={width} threads={count}"]["best"] for count in (1, 2))
                    run.note(f"two threads over one, {kernel} d={width}", ratio=one / two)
            if not arguments.quick:
                chart(run.figures, folder / "offline.svg")

        def large() -> None:
            for width in widths:
                for count in (1, 2):
                    # A short run skips what takes minutes per repetition.
                    if not arguments.short or width == 64 or count == 2 and width <= 1024:
                        run.offline(10_000, width, count, 1, {"modelmix", "numpy", "torch"} if arguments.short else None)

        sections = {
            "offline": small,
            "programs": run.programs,
            "online": run.online,
            "memory": run.memory,
            "growth": run.growth,
            "instructions": run.instructions,
            "broadcasting": lambda: run.authors(300, 1024),
            "out-of-core": run.out_of_core,
            "cab": lambda: run.authors_cab(arguments.cab_rounds),
            "large": large,
        }
        wanted = arguments.only or (["offline", "programs", "online"] if arguments.quick else list(sections))
        for section in wanted:
            sections[section]()
        run.engine.close()


if __name__ == "__main__":
    main()
