#!/usr/bin/env python3
"""Reduce the generators and the encoder of the fashion data to the small models of the repository.

Usage: python tools/cut_models.py SOURCE [--check]   (needs the packages of tools/requirements-models.txt)

SOURCE is a folder with ``fashion/models/<name>.onnx``, models in single precision. Weights are written in half precision, each
followed by a cast to single precision; the rest of the graph is unchanged. A model then takes half the space, runs wherever the
original does, and computes in single precision: onnxruntime folds the casts when it loads the model. Vectors (biases, means and
variances) take little space and stay unchanged. The script always writes the same bytes.

``--check`` writes nothing. It runs the originals and the models of the repository on the same noise, compares images and features,
and compares the features by MMD² with those that were recorded when the data was made.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

GENERATORS = ("tops_gan", "shoes_gan", "legs_bags_gan", "vae", "digits_vae")
ENCODER = "encoder"
SIZE_LIMIT_BYTES = 3_200_000
"""The limit for all models of the repository together."""

DATA = Path(__file__).resolve().parent.parent / "data" / "fashion"
DESTINATION = DATA / "models"


def halved(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with its weights in half precision, followed by casts."""
    smaller = onnx.ModelProto()
    smaller.CopyFrom(model)
    graph = smaller.graph
    casts, weights = [], []
    for tensor in graph.initializer:
        values = numpy_helper.to_array(tensor)
        if tensor.data_type != TensorProto.FLOAT or values.ndim < 2:
            weights.append(tensor)
            continue
        if np.abs(values).max() > np.finfo(np.float16).max:
            raise ValueError(f"{tensor.name}: a weight is too large for half precision")
        stored = f"{tensor.name}.half"
        weights.append(numpy_helper.from_array(values.astype("<f2"), stored))
        casts.append(helper.make_node("Cast", [stored], [tensor.name], name=f"{tensor.name}.cast", to=TensorProto.FLOAT))
    nodes = [*casts, *graph.node]
    del graph.initializer[:], graph.node[:]
    graph.initializer.extend(weights)
    graph.node.extend(nodes)
    onnx.checker.check_model(smaller, full_check=True)
    return smaller


def cut(source: Path) -> None:
    """Write the models and print their sizes."""
    DESTINATION.mkdir(parents=True, exist_ok=True)
    total = 0
    for name in (*GENERATORS, ENCODER):
        data = halved(onnx.load(source / f"{name}.onnx")).SerializeToString(deterministic=True)
        (DESTINATION / f"{name}.onnx").write_bytes(data)
        total += len(data)
        print(f"{name + '.onnx':<24}{len(data):>10,} bytes")
    print(f"{'total':<24}{total:>10,} bytes")
    if total > SIZE_LIMIT_BYTES:
        raise SystemExit(f"the models take {total:,} bytes; the limit is {SIZE_LIMIT_BYTES:,}")


def check(source: Path, samples: int = 1500, seed: int = 1) -> None:
    """Compare the models of the repository with the originals, and their samples with the recorded ones."""
    import onnxruntime

    def run(folder: Path, name: str, values: np.ndarray) -> np.ndarray:
        session = onnxruntime.InferenceSession(folder / f"{name}.onnx", providers=["CPUExecutionProvider"])
        parts = [session.run(None, {session.get_inputs()[0].name: part})[0] for part in np.array_split(values, 6)]
        return np.concatenate(parts)

    def rounded(images: np.ndarray) -> np.ndarray:
        return np.rint(images * 255) / np.float32(255)

    with np.load(DATA / "specialists.npz") as archive:
        recorded = {name: archive[name].astype(np.float64) for name in archive.files}
    with np.load(DATA / "quality.npz") as archive:
        recorded["digits_vae"] = archive["digits"].astype(np.float64)
    random = np.random.default_rng(seed)
    for name in GENERATORS:
        width = onnx.load(source / f"{name}.onnx").graph.input[0].type.tensor_type.shape.dim[1].dim_value
        noise = random.standard_normal((samples, width), dtype=np.float32)
        original, image = run(source, name, noise), run(DESTINATION, name, noise)
        levels = np.abs(rounded(original) - rounded(image)) * 255
        encoded, features = run(source, ENCODER, rounded(original)), run(DESTINATION, ENCODER, rounded(image))
        same = run(DESTINATION, ENCODER, rounded(original))
        spread = float(encoded.std(axis=0).mean())
        known = recorded[name][:samples]
        (distance, chance), (before, _) = (permuted_mmd(rows.astype(np.float64), known, seed) for rows in (features, encoded))
        print(
            f"{name}: images differ by {np.abs(original - image).max():.1e} at most, {np.mean(levels > 0.5):.2%} of pixels by a level, "
            f"none by more than {levels.max():.0f}; features (spread {spread:.1f}) by {np.abs(encoded - same).max():.1e} at most on "
            f"the same images, {np.abs(encoded - features).max():.1e} from the noise on; MMD² ×100 to what was recorded "
            f"{100 * distance:.4f}, p = {chance:.2f} (originals: {100 * before:.4f})"
        )


def permuted_mmd(made: np.ndarray, recorded: np.ndarray, seed: int, shuffles: int = 500) -> tuple[float, float]:
    """Return MMD² with a Gaussian kernel of bandwidth 20 (U-statistic) and the p-value of a permutation test."""
    random = np.random.default_rng(seed)
    rows = np.concatenate([made, recorded])
    squares = (rows**2).sum(axis=1)
    kernel = np.exp(-np.maximum(squares[:, None] + squares[None, :] - 2 * rows @ rows.T, 0) / (2 * 20.0**2))
    np.fill_diagonal(kernel, 0)
    n, m = len(made), len(recorded)

    def distance(first: np.ndarray) -> float:
        second = 1 - first
        towards = kernel @ first
        within, across = first @ towards, second @ towards
        others = kernel.sum() - within - 2 * across
        return float(within / (n * (n - 1)) + others / (m * (m - 1)) - 2 * across / (n * m))

    labels = np.concatenate([np.ones(n), np.zeros(m)])
    measured = distance(labels)
    as_much = sum(distance(random.permutation(labels)) >= measured for _ in range(shuffles))
    return measured, (as_much + 1) / (shuffles + 1)


def main() -> None:
    parser = argparse.ArgumentParser(description="Reduce the fashion models to the small models of the repository.")
    parser.add_argument("source", type=Path, help="folder with fashion/models/")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    arguments = parser.parse_args()
    source = arguments.source / "fashion" / "models"
    if arguments.check:
        check(source)
    else:
        cut(source)


if __name__ == "__main__":
    main()
