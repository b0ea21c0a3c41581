#!/usr/bin/env python3
"""Writes the files that crates/modelmix/tests/it/load reads, with NumPy and safetensors as the independent source.

Needs numpy, ml_dtypes and safetensors. The same files come out of every run.
Every good array is 5 x 3 with value[i][j] = (i*7 + j*3) % 11 / 4 - 1.25, which even bfloat16 holds exactly.
"""

import io
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

OUT = Path(__file__).resolve().parent.parent / "crates/modelmix/tests/fixtures/load"

row, column = np.mgrid[0:5, 0:3]
good = ((row * 7 + column * 3) % 11) / 4 - 1.25
shifted = good + 1


class Stream(io.RawIOBase):
    """A pipe: it cannot seek, so zipfile writes sizes behind the data."""

    def __init__(self):
        self.written = bytearray()

    def writable(self):
        return True

    def write(self, data):
        self.written += data
        return len(data)


def npy(name, array, version=None):
    with open(OUT / f"{name}.npy", "wb") as file:
        np.lib.format.write_array(file, array, version=version)


def npy_bytes(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def zipped(name, method, arrays):
    with zipfile.ZipFile(OUT / name, "w", method) as archive:
        for key, array in arrays.items():
            archive.writestr(zipfile.ZipInfo(f"{key}.npy"), npy_bytes(array), method)


def main():
    OUT.mkdir(parents=True, exist_ok=True)

    for kind in ["f2", "f4", "f8"]:
        for order, letter in [("<", "little"), (">", "big")]:
            npy(f"{kind}_{letter}_c", good.astype(order + kind))
            npy(f"{kind}_{letter}_fortran", np.asfortranarray(good.astype(order + kind)))
    npy("version2", good.astype("<f4"), version=(2, 0))
    npy("version3", good.astype("<f4"), version=(3, 0))
    (OUT / "UPPER.NPY").write_bytes(npy_bytes(good.astype("<f4")))

    npy("one_dimension", good.astype("<f4").ravel())
    npy("three_dimensions", np.zeros((4, 2, 2), "<f4"))
    npy("scalar", np.float32(1.0))
    npy("one_row", good[:1].astype("<f4"))
    npy("no_rows", good[:0].astype("<f4"))
    npy("no_columns", good[:, :0].astype("<f4"))
    npy("int64", good.astype("<i8"))
    npy("uint8", good.astype("u1"))
    npy("bool", good > 0)
    npy("complex", good.astype("<c8"))
    npy("text", good.astype("<U8"))
    npy("date", np.zeros((5, 3), "<M8[s]"))
    npy("extended", np.zeros((5, 3), np.longdouble))
    npy("bfloat16", good.astype(ml_dtypes.bfloat16))
    npy("structured", np.zeros((5, 3), [("a", "<f4"), ("b", "<f8")]))
    np.save(OUT / "object.npy", np.array([[1.0, None], [2.0, "x"]], dtype=object), allow_pickle=True)

    broken = good.copy()
    broken[3, 1] = np.nan
    npy("nan", broken.astype("<f4"))
    npy("nan_fortran", np.asfortranarray(broken.astype("<f4")))
    broken[3, 1] = -np.inf
    npy("infinite", broken.astype("<f2"))
    broken[3, 1] = 1e300
    npy("too_large", broken)

    np.savez(OUT / "stored.npz", zebra=good.astype("<f4"), ant=shifted.astype(">f8"))
    np.savez_compressed(
        OUT / "deflated.npz", zebra=good.astype("<f2"), ant=np.asfortranarray(shifted.astype("<f4"))
    )
    np.savez_compressed(OUT / "single.npz", only=good.astype("<f4"))
    np.savez(OUT / "nan.npz", fine=good, broken=np.where(good == good[2, 2], np.nan, good))
    np.savez(OUT / "empty.npz")
    np.savez(OUT / "object.npz", thing=np.array([[1.0, None], [2.0, "x"]], dtype=object))
    stream = Stream()
    np.savez_compressed(stream, zebra=good.astype("<f4"), ant=shifted.astype("<f4"))
    (OUT / "streamed.npz").write_bytes(stream.written)
    zipped("bzip2.npz", zipfile.ZIP_BZIP2, {"zebra": good})

    save_file(
        {
            "zebra": good.astype(np.float16),
            "ant": shifted.astype(np.float32),
            "bee": good.astype(np.float64),
            "cow": good.astype(ml_dtypes.bfloat16),
        },
        OUT / "several.safetensors",
        metadata={"made": "by hand"},
    )
    for name, kind in [
        ("f16", np.float16),
        ("bf16", ml_dtypes.bfloat16),
        ("f32", np.float32),
        ("f64", np.float64),
    ]:
        save_file({"features": good.astype(kind)}, OUT / f"{name}.safetensors")
    save_file({"features": good.astype(np.int32)}, OUT / "int32.safetensors")
    save_file({"features": good.ravel()}, OUT / "one_dimension.safetensors")
    save_file({"features": broken}, OUT / "too_large.safetensors")
    save_file({}, OUT / "empty.safetensors")


if __name__ == "__main__":
    main()
