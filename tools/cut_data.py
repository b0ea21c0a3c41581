#!/usr/bin/env python3
"""Cut the full feature archives down to the small data that the repository carries.

Usage: python tools/cut_data.py SOURCE

SOURCE is a folder with ``features/<scenario>.npz`` (one array an arm) and ``features/reference.npy``. The first rows of
every array are kept, in their stored order, as float16. The archives are written uncompressed and with a fixed time stamp, so
that running the script again gives the same bytes on every machine: deflate would save only 8% of such noisy numbers, and its
output differs from one zlib build to the next.
"""

from __future__ import annotations

import argparse
import io
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
SIZE_LIMIT_BYTES = 4_500_000
ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest time a zip archive can hold."""

DESTINATION = Path(__file__).resolve().parent.parent / "data" / "fashion"


def first_rows(array: np.ndarray, count: int, name: str) -> np.ndarray:
    """The first ``count`` rows as contiguous float16, or an error that says what is wrong with ``name``."""
    if array.ndim != 2 or array.shape[0] < count:
        raise ValueError(f"{name}: shape {array.shape}, but a matrix of at least {count} rows is needed")
    cut = np.ascontiguousarray(array[:count], dtype="<f2")
    if not np.isfinite(cut).all():
        raise ValueError(f"{name}: not all values are finite as float16")
    return cut


def npy_bytes(array: np.ndarray) -> bytes:
    """The array as a version 1.0 ``.npy`` file."""
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, version=(1, 0), allow_pickle=False)
    return buffer.getvalue()


def write_archive(path: Path, arms: dict[str, np.ndarray]) -> None:
    """Write an ``.npz`` whose bytes depend on nothing but the names, the order and the values of the arms."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arms.items():
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=ZIP_EPOCH)
            entry.create_system = 3
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, npy_bytes(array))


def cut(source: Path, destination: Path) -> list[Path]:
    """Write every scenario and the reference; return the files written."""
    features = source / "features"
    destination.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for scenario, count in ROWS_PER_ARM.items():
        with np.load(features / f"{scenario}.npz", allow_pickle=False) as archive:
            arms = {name: first_rows(archive[name], count, f"{scenario}/{name}") for name in archive.files}
        written.append(destination / f"{scenario}.npz")
        write_archive(written[-1], arms)
    reference = np.load(features / "reference.npy", allow_pickle=False)
    written.append(destination / "reference.npy")
    written[-1].write_bytes(npy_bytes(first_rows(reference, REFERENCE_ROWS, "reference")))
    return written


def main() -> None:
    parser = argparse.ArgumentParser(description="Cut the full feature archives down to the repository's small data.")
    parser.add_argument("source", type=Path, help="folder with features/*.npz and features/reference.npy")
    written = cut(parser.parse_args().source, DESTINATION)
    total = sum(path.stat().st_size for path in written)
    for path in written:
        print(f"{path.name:<18}{path.stat().st_size:>10,} bytes")
    print(f"{'total':<18}{total:>10,} bytes")
    if total > SIZE_LIMIT_BYTES:
        raise SystemExit(f"the data takes {total:,} bytes; the limit is {SIZE_LIMIT_BYTES:,}")


if __name__ == "__main__":
    main()
