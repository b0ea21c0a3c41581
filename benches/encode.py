"""Time the way from image files to features against common tools, interleaved in one session, and store a dated run.

    python benches/encode.py WEIGHTS [--images N] [--turns N] [--quick]

WEIGHTS is the FID Inception as TorchScript (``inception-2015-12-05.pt``). Three comparisons, each on the same files:

- prepare: decoding, and decoding with a bicubic resize to 299, against Pillow, on one and on two threads;
- network: the Inception in each runtime against onnxruntime's and torch's own Python packages;
- features: the command ``modelmix encode`` from start to end against the extractors and loaders of torch-fidelity and clean-fid.

Images are crops of the photographs that scikit-learn has. Every contender's features are compared with ours.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from peers import ROOT, machine  # first, because it limits the threads of BLAS

import cleanfid.fid
import numpy as np
import onnxruntime
import torch
import torch_fidelity.utils as fidelity
from PIL import Image
from sklearn.datasets import load_sample_images
from torch_fidelity.datasets import ImagesPathDataset

RELEASE = ROOT / "target/release"
SIDE = 384
FORMATS = ("png", "jpg")
THREADS = (1, 2)


def write_images(folder: Path, kind: str, count: int) -> None:
    """Write crops of photographs, as PNG or as JPEG of quality 90."""
    random = np.random.default_rng(3)
    photographs = load_sample_images().images
    folder.mkdir()
    for at in range(count):
        photograph = photographs[at % len(photographs)]
        top, left = (random.integers(0, size - SIDE + 1) for size in photograph.shape[:2])
        Image.fromarray(photograph[top : top + SIDE, left : left + SIDE]).save(folder / f"{at:04}.{kind}", quality=90)


def prepared_per_second(folder: Path, step: str, threads: int, seconds: float) -> float:
    """Run modelmix's own decoding and resizing."""
    command = [RELEASE / "examples/prepare", folder, step, str(threads), str(seconds)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def pillow_per_second(folder: Path, step: str, threads: int, seconds: float) -> float:
    """Do the same with Pillow, which lets threads run in parallel while it decodes and resizes."""
    paths = sorted(folder.iterdir())

    def one(path: Path) -> None:
        with Image.open(path) as image:
            pixels = image.convert("RGB")
        if step == "resize":
            pixels = pixels.resize((299, 299), Image.Resampling.BICUBIC)

    done, start = 0, time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        while time.perf_counter() - start < seconds:
            if threads == 1:
                for path in paths:
                    one(path)
            else:
                list(pool.map(one, paths))
            done += len(paths)
        return done / (time.perf_counter() - start)


def prepare(folders: dict[str, Path], turns: int, seconds: float) -> dict[str, Any]:
    """Compare decoding and resizing with Pillow."""
    contenders = {"modelmix": prepared_per_second, "pillow": pillow_per_second}
    figures: dict[str, Any] = {}
    for kind, folder in folders.items():
        for step in ("decode", "resize"):
            speeds: dict[str, list[float]] = {}
            for _ in range(turns):
                for name, contender in contenders.items():
                    for threads in THREADS:
                        speeds.setdefault(f"{name} {threads}", []).append(contender(folder, step, threads, seconds))
            median = {name: statistics.median(found) for name, found in speeds.items()}
            figures[f"{kind} {step}"] = {
                "images_per_second": median,
                "times_faster": {threads: median[f"modelmix {threads}"] / median[f"pillow {threads}"] for threads in THREADS},
                "two_threads_over_one": median["modelmix 2"] / median["modelmix 1"],
                "raw": speeds,
            }
            print(kind, step, json.dumps({key: value for key, value in figures[f"{kind} {step}"].items() if key != "raw"}), flush=True)
    return figures


def network(weights: Path, folder: Path, turns: int, images: int) -> dict[str, Any]:
    """Compare the network alone in each runtime: ours in Rust, onnxruntime's and torch's packages in Python."""
    model = folder / "inception.onnx"
    subprocess.run([RELEASE / "examples/model_speed", weights, "--write", model], check=True)
    script = torch.jit.load(weights).eval()
    figures: dict[str, Any] = {}
    for threads in THREADS:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        given = session.get_inputs()[0].name
        torch.set_num_threads(threads)

        def in_torch(batch: np.ndarray) -> None:
            with torch.inference_mode():
                script(torch.from_numpy(batch))

        runs: dict[str, Callable[[np.ndarray], Any]] = {
            "onnxruntime's package": lambda batch, session=session, given=given: session.run(None, {given: batch}),
            "torch's package": in_torch,
        }
        for size in (1, 16):
            speeds: dict[str, list[float]] = {}
            batch = np.random.default_rng(1).uniform(-1, 1, (size, 3, 299, 299)).astype(np.float32)
            for _ in range(turns):
                for name in ("rten", "onnxruntime"):
                    command = [RELEASE / "examples/model_speed", weights, str(images), name, str(threads), str(size)]
                    answer = subprocess.run(command, check=True, capture_output=True, text=True, env=environment())
                    speeds.setdefault(f"modelmix {name}", []).append(float(answer.stdout.split()[-2]))
                for name, run in runs.items():
                    run(batch)
                    start = time.perf_counter()
                    for _ in range(0, images, size):
                        run(batch)
                    speeds.setdefault(name, []).append(images / (time.perf_counter() - start))
            median = {name: statistics.median(found) for name, found in speeds.items()}
            peer = median["onnxruntime's package"]
            figures[f"threads={threads} batch={size}"] = {
                "images_per_second": median,
                "of_onnxruntime": {name: speed / peer for name, speed in median.items()},
                "raw": speeds,
            }
            print(f"threads={threads} batch={size}", json.dumps(median), flush=True)
    return figures


def environment() -> dict[str, str]:
    """The environment in which modelmix finds the onnxruntime of this Python."""
    return os.environ | {"VIRTUAL_ENV": sys.prefix}


def modelmix_features(folder: Path, weights: Path, preset: str, runtime: str) -> tuple[float, np.ndarray]:
    """Run the whole command, including its start and the reading of weights."""
    with tempfile.TemporaryDirectory() as temporary:
        out = Path(temporary) / "features.npz"
        command = [RELEASE / "modelmix", "encode", folder, "--encoder", "inception-v3-fid", "--weights", weights, "--preset", preset]
        command += ["--runtime", runtime, "--threads", "2", "--no-cache", "--out", out]
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True, env=environment())
        seconds = time.perf_counter() - start
        with np.load(out) as arrays:
            return seconds, arrays[folder.name]


def features(weights: Path, temporary: Path, folders: dict[str, Path], turns: int) -> dict[str, Any]:
    """Compare the whole way with torch-fidelity and clean-fid, which have loaded their network before the clock starts."""
    script = torch.jit.load(weights).eval()
    torch.set_num_threads(2)
    state = temporary / "weights.pth"
    sys.path[:0] = [str(ROOT / "python/tests/peers"), str(ROOT / "python/tests")]
    from inception_weights import pytorch_fid_network

    torch.save(pytorch_fid_network(weights).state_dict(), state)
    extractor = fidelity.create_feature_extractor(
        "inception-v3-compat", ["2048"], cuda=False, feature_extractor_weights_path=str(state), verbose=False
    )

    def torch_fidelity_features(folder: Path) -> np.ndarray:
        data = ImagesPathDataset([str(path) for path in sorted(folder.iterdir())])
        found = fidelity.get_featuresdict_from_dataset(data, extractor, 64, False, False, False)
        return found["2048"].numpy()

    def clean_network(batch: torch.Tensor) -> torch.Tensor:
        # What clean-fid's own wrapper of this network does.
        return script((batch - 128) / 128)

    def clean_fid_features(folder: Path) -> np.ndarray:
        with torch.inference_mode():
            return cleanfid.fid.get_folder_features(
                str(folder), clean_network, num_workers=2, batch_size=32, device=torch.device("cpu"), mode="clean", verbose=False
            )

    figures: dict[str, Any] = {}
    for preset, peer in (("torch-fidelity", torch_fidelity_features), ("clean-fid", clean_fid_features)):
        for kind, folder in folders.items():
            seconds: dict[str, list[float]] = {}
            found: dict[str, np.ndarray] = {}
            for _ in range(turns):
                for runtime in ("rten", "onnxruntime"):
                    spent, found[runtime] = modelmix_features(folder, weights, preset, runtime)
                    seconds.setdefault(f"modelmix {runtime}", []).append(spent)
                start = time.perf_counter()
                found[preset] = peer(folder)
                seconds.setdefault(preset, []).append(time.perf_counter() - start)
            count = len(found[preset])
            speed = {name: count / statistics.median(spent) for name, spent in seconds.items()}
            norms = np.linalg.norm(found[preset], axis=1)
            figures[f"{preset} {kind}"] = {
                "images_per_second": speed,
                "times_faster": {name: speed[name] / speed[preset] for name in speed if name != preset},
                "largest_relative_difference": {
                    name: float((np.linalg.norm(found[name] - found[preset], axis=1) / norms).max()) for name in ("rten", "onnxruntime")
                },
                "raw": seconds,
            }
            print(preset, kind, json.dumps({key: value for key, value in figures[f"{preset} {kind}"].items() if key != "raw"}), flush=True)
    return figures


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights", type=Path, help="the FID Inception as TorchScript")
    parser.add_argument("--images", type=int, default=96, help="images per folder [default: 96]")
    parser.add_argument("--turns", type=int, default=5, help="turns of decoding and resizing; at most three of networks [default: 5]")
    parser.add_argument("--quick", action="store_true", help="8 images, one turn; store nothing")
    arguments = parser.parse_args()
    images, turns, seconds = (8, 1, 0.5) if arguments.quick else (arguments.images, arguments.turns, 2.0)
    with tempfile.TemporaryDirectory() as name:
        temporary = Path(name)
        folders = {kind: temporary / kind for kind in FORMATS}
        for kind, folder in folders.items():
            write_images(folder, kind, images)
        figures = {
            "prepare": prepare(folders, turns, seconds),
            "network": network(arguments.weights, temporary, min(turns, 3), min(images, 16)),
            "features": features(arguments.weights, temporary, folders, min(turns, 3)),
        }
    if arguments.quick:
        return
    run = ROOT / "benches/runs" / f"{datetime.date.today().isoformat()}-encode"
    run.mkdir(parents=True, exist_ok=True)
    packages = ("pillow", "onnxruntime", "torch", "torch-fidelity", "clean-fid", "numpy")
    command = f"benches/encode.py WEIGHTS --images {images} --turns {turns}"
    kept = {"command": command, "machine": machine(packages), "figures": figures}
    (run / "figures.json").write_text(json.dumps(kept, indent=1) + "\n")
    print("stored in", run.relative_to(ROOT))


if __name__ == "__main__":
    main()
