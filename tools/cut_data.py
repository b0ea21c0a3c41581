#!/usr/bin/env python3
"""Reduce full archives of features, images and passages to the small data sets of the repository.

Usage: python tools/cut_data.py SOURCE

SOURCE is a folder with

* ``fashion/features/<scenario>.npz`` (one array per arm) and ``fashion/features/reference.npy``;
* ``fashion/images/<scenario>.npz`` and ``fashion/images/reference.npz``: the images behind the first rows of the features;
* ``text/features.npz``, ``text/reference.npy`` and ``text/samples.json``: the passages behind the first rows of the features.

The first rows of every array are kept, in their stored order, so image or passage i of an arm belongs to row i of its features.
Features are written as float16, uncompressed and with a fixed time stamp, so the script writes the same bytes on every machine:
deflate would save only 8% of such noisy numbers, and its output differs between zlib builds. Images are compressed, since that
saves more than half of their size; their values, not their bytes, are the same everywhere.
"""

from __future__ import annotations

import argparse
import io
import json
import zipfile
from pathlib import Path

import numpy as np

ROWS_PER_ARM: dict[str, int] = {
    "specialists": 1500,
    "generators": 1000,
    "truncated": 1500,
    "categories": 1000,
    "quality": 1000,
}
REFERENCE_ROWS = 2000
IMAGES_PER_ARM = 60
IMAGE_SHAPE = (28, 28)
TEXT_ROWS = 1000
TEXT_PASSAGES = 100
SIZE_LIMIT_BYTES = 9_500_000
"""The limit for all data of the repository except the models; with its READMEs it must stay below 10 MB."""
ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest time that a zip archive can store."""

DESTINATION = Path(__file__).resolve().parent.parent / "data"


def first_rows(array: np.ndarray, count: int, name: str) -> np.ndarray:
    """Return the first ``count`` rows as contiguous float16; raise an error that names ``name`` if that is impossible."""
    if array.ndim != 2 or array.shape[0] < count:
        raise ValueError(f"{name}: shape {array.shape}, but a matrix of at least {count} rows is needed")
    cut = np.ascontiguousarray(array[:count], dtype="<f2")
    if not np.isfinite(cut).all():
        raise ValueError(f"{name}: not all values are finite as float16")
    return cut


def first_images(array: np.ndarray, name: str) -> np.ndarray:
    """Return the first images unchanged; raise an error that names ``name`` if that is impossible."""
    if array.dtype != np.uint8 or array.shape[1:] != IMAGE_SHAPE or array.shape[0] < IMAGES_PER_ARM:
        raise ValueError(f"{name}: {array.dtype} of shape {array.shape}, but {IMAGES_PER_ARM} images of bytes are needed")
    return np.ascontiguousarray(array[:IMAGES_PER_ARM])


def npy_bytes(array: np.ndarray) -> bytes:
    """Return the array as a version 1.0 ``.npy`` file."""
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, version=(1, 0), allow_pickle=False)
    return buffer.getvalue()


def write_archive(path: Path, arrays: dict[str, np.ndarray], deflated: bool = False) -> Path:
    """Write an ``.npz``. Uncompressed, its bytes depend only on the names, the order and the values of the arrays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=ZIP_EPOCH)
            entry.create_system = 3
            entry.external_attr = 0o644 << 16
            method = zipfile.ZIP_DEFLATED if deflated else zipfile.ZIP_STORED
            archive.writestr(entry, npy_bytes(array), compress_type=method, compresslevel=9 if deflated else None)
    return path


def write_reference(path: Path, source: Path, count: int) -> Path:
    reference = np.load(source, allow_pickle=False)
    path.write_bytes(npy_bytes(first_rows(reference, count, "reference")))
    return path


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def cut_fashion(source: Path, destination: Path) -> list[Path]:
    """Write every scenario, its images and the reference; return the files written."""
    written: list[Path] = []
    for scenario, count in ROWS_PER_ARM.items():
        features = read_arrays(source / "features" / f"{scenario}.npz")
        arms = {name: first_rows(array, count, f"{scenario}/{name}") for name, array in features.items()}
        written.append(write_archive(destination / f"{scenario}.npz", arms))
    written.append(write_reference(destination / "reference.npy", source / "features" / "reference.npy", REFERENCE_ROWS))
    for scenario in [*ROWS_PER_ARM, "reference"]:
        images = read_arrays(source / "images" / f"{scenario}.npz")
        cut = {name: first_images(array, f"images/{scenario}/{name}") for name, array in images.items()}
        written.append(write_archive(destination / "images" / f"{scenario}.npz", cut, deflated=True))
    return written


def cut_text(source: Path, destination: Path) -> list[Path]:
    """Write the arms, the reference and the passages; return the files written."""
    features = read_arrays(source / "features.npz")
    arms = {name: first_rows(array, TEXT_ROWS, f"text/{name}") for name, array in features.items()}
    written = [write_archive(destination / "features.npz", arms)]
    written.append(write_reference(destination / "reference.npy", source / "reference.npy", TEXT_ROWS))
    passages = json.loads((source / "samples.json").read_text(encoding="utf-8"))
    if list(passages) != list(arms) or any(len(texts) < TEXT_PASSAGES for texts in passages.values()):
        raise ValueError(f"samples.json: {TEXT_PASSAGES} passages are needed of each of {', '.join(arms)}")
    cut = {name: texts[:TEXT_PASSAGES] for name, texts in passages.items()}
    written.append(destination / "samples.json")
    written[-1].write_text(json.dumps(cut, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")
    return written


def main() -> None:
    parser = argparse.ArgumentParser(description="Reduce full archives to the small data sets of the repository.")
    parser.add_argument("source", type=Path, help="folder with fashion/ and text/")
    source = parser.parse_args().source
    written = cut_fashion(source / "fashion", DESTINATION / "fashion") + cut_text(source / "text", DESTINATION / "text")
    total = sum(path.stat().st_size for path in written)
    for path in written:
        print(f"{path.relative_to(DESTINATION)!s:<32}{path.stat().st_size:>10,} bytes")
    print(f"{'total':<32}{total:>10,} bytes")
    if total > SIZE_LIMIT_BYTES:
        raise SystemExit(f"the data takes {total:,} bytes; the limit is {SIZE_LIMIT_BYTES:,}")


if __name__ == "__main__":
    main()
