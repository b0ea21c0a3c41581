#!/usr/bin/env python3
"""Write the files that crates/modelmix/tests/it/load reads, with NumPy, safetensors and pyarrow as independent writers.

Needs numpy, ml_dtypes, safetensors and pyarrow. Every run writes the same files.
Every valid array is 5 x 3 with value[i][j] = (i*7 + j*3) % 11 / 4 - 1.25, which is exact even in bfloat16.
"""

import io
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors.numpy import save_file

OUT = Path(__file__).resolve().parent.parent / "crates/modelmix/tests/fixtures/load"

row, column = np.mgrid[0:5, 0:3]
good = ((row * 7 + column * 3) % 11) / 4 - 1.25
shifted = good + 1


class Stream(io.RawIOBase):
    """A stream that cannot seek, so zipfile writes sizes after the data."""

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

    csv_files()
    parquet_files()
    shard_files()
    np.savez_compressed(
        OUT / "pixels.npz",
        grey=pixels(1)[..., 0],
        one=pixels(1),
        last=pixels(3),
        first=pixels(3).transpose(0, 3, 1, 2).copy(),
    )
    np.save(OUT / "pixels.npy", pixels(3))


def csv_files():
    np.savetxt(OUT / "plain.csv", good, delimiter=",")
    np.savetxt(OUT / "header.csv", good, delimiter=",", header="a,b,c", fmt="%.17g")
    np.savetxt(OUT / "tabs.tsv", good, delimiter="\t", header="a\tb\tc", comments="")
    np.savetxt(OUT / "spaces.csv", good)


def pixels(channels):
    n, h, w, c = np.mgrid[0:3, 0:2, 0:4, 0:channels]
    return ((n * 97 + h * 31 + w * 7 + c * 50) % 256).astype(np.uint8)


def parquet(name, columns, **options):
    options = {"store_schema": False} | options
    pq.write_table(pa.table(columns), OUT / f"{name}.parquet", **options)


def lists(array, kind=pa.float32()):
    return pa.array(array.astype(kind.to_pandas_dtype()).tolist(), pa.list_(kind))


def parquet_files():
    for name, kind in [("f16", pa.float16()), ("f32", pa.float32()), ("f64", pa.float64())]:
        parquet(name, {"features": lists(good, kind)})
        parquet(f"columns_{name}", {letter: good[:, at].astype(kind.to_pandas_dtype()) for at, letter in enumerate("abc")})
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(good.ravel(), pa.float32()), 3)
    parquet("fixed", {"features": fixed})
    required = pa.schema([pa.field("features", pa.list_(pa.field("item", pa.float32(), False)), False)])
    pq.write_table(pa.Table.from_arrays([lists(good)], schema=required), OUT / "required.parquet", store_schema=False)
    for codec in ["none", "snappy", "gzip", "zstd", "lz4", "brotli"]:
        parquet(f"codec_{codec}", {"features": lists(good)}, compression=codec)
    parquet("version2", {"features": lists(good)}, data_page_version="2.0", compression="zstd")
    parquet("plain", {"features": lists(good)}, use_dictionary=False)
    for name, kind in [("split16", pa.float16()), ("split32", pa.float32()), ("split64", pa.float64())]:
        parquet(name, {"features": lists(good, kind)}, use_dictionary=False, use_byte_stream_split=True)
    parquet("groups", {"features": lists(good)}, row_group_size=2)
    parquet("columns_groups", {letter: good[:, at] for at, letter in enumerate("abc")}, row_group_size=2)
    parquet("schema_kept", {"features": lists(good)}, store_schema=True)
    parquet("beside", {"id": ["x"] * 5, "label": list(range(5)), "features": lists(good)})
    parquet("two_lists", {"zebra": lists(good), "ant": lists(shifted, pa.float64())})

    # Many pages, with and without dictionaries; rows may span pages.
    i, j = np.mgrid[0:700, 0:6]
    many = (i * 6 + j) % 1001 / 8
    for version in ["1.0", "2.0"]:
        for name, dictionary in [("dictionary", True), ("plain", False)]:
            parquet(
                f"many_{name}_{version[0]}",
                {"features": lists(many)},
                data_page_version=version,
                use_dictionary=dictionary,
                data_page_size=500,
                write_batch_size=64,
                dictionary_pagesize_limit=2000,
                row_group_size=400,
            )

    rows = good.tolist()
    parquet("null_row", {"features": pa.array(rows[:2] + [None] + rows[3:], pa.list_(pa.float32()))})
    parquet("empty_row", {"features": pa.array(rows[:2] + [[]] + rows[3:], pa.list_(pa.float32()))})
    parquet("null_value", {"features": pa.array(rows[:2] + [[1.0, None, 2.0]] + rows[3:], pa.list_(pa.float32()))})
    parquet("ragged", {"features": pa.array(rows[:3] + [[1.0, 2.0]] + rows[4:], pa.list_(pa.float32()))})
    parquet("ragged_end", {"features": pa.array(rows[:4] + [[1.0, 2.0, 3.0, 4.0]], pa.list_(pa.float32()))})
    parquet("null_cell", {"a": pa.array([1.0, 2.0, None]), "b": pa.array([1.0, 2.0, 3.0])})
    parquet("nan", {"features": pa.array(rows[:3] + [[1.0, float("nan"), 2.0]], pa.list_(pa.float32()))})
    parquet("too_large", {"a": [1.0, 2.0, 3.0], "b": [1.0, 2.0, 1e300]})
    parquet("no_rows", {"features": pa.array([], pa.list_(pa.float32()))})
    parquet("one_row", {"features": lists(good[:1])})
    parquet("mixed", {"a": good[:, 0], "name": ["x"] * 5, "b": good[:, 1], "label": list(range(5))})
    parquet("no_floats", {"name": ["x"] * 5, "flag": [True] * 5})
    parquet("nested", {"features": pa.array([[[1.0]], [[2.0]]], pa.list_(pa.list_(pa.float32())))})
    parquet("structure", {"features": pa.array([{"x": 1.0, "y": 2.0}] * 2)})


def shard_files():
    """Files that are read by row group. Row i of 300 has the features (i*4 + j) % 251 / 8."""
    i, j = np.mgrid[0:300, 0:4]
    features = (i * 4 + j) % 251 / 8
    i = np.arange(300)
    columns = {
        "id": [f"sample-{at}" for at in i],
        "reward": pa.array(i / 4, pa.float32()),
        "model": [["ant", "bee", "cow"][at * at // 5 % 3] for at in i],
        "embedding": lists(features),
        "price": pa.array(i * 0.1, pa.float64()),
        "rank": pa.array(i - 150, pa.int32()),
        "votes": pa.array(i * 10**10, pa.int64()),
        "level": pa.array(2**32 - 1 - i, pa.uint32()),
        "day": pa.array(i.tolist(), pa.date32()),
    }
    # Pages of different columns end at different rows.
    small = {"data_page_size": 200, "write_batch_size": 16, "row_group_size": 128}
    parquet("shard_dictionary", columns, **small)
    parquet("shard_plain", columns, use_dictionary=False, compression="none", **small)
    parquet(
        "shard_version2",
        columns,
        use_dictionary=False,
        column_encoding={"model": "DELTA_LENGTH_BYTE_ARRAY", "price": "BYTE_STREAM_SPLIT"},
        data_page_version="2.0",
        **small,
    )
    floats = {"a": features[:, 0], "reward": i / 4, "b": features[:, 1], "model": columns["model"]}
    parquet("shard_side_by_side", floats, **small)
    # Rows that are longer than what is decoded at once; equal values take no space.
    wide = pa.array(np.repeat(np.arange(3, dtype=np.float32), 3_000_000))
    offsets = pa.array([0, 3_000_000, 6_000_000, 9_000_000], pa.int32())
    parquet("shard_wide", {"features": pa.ListArray.from_arrays(offsets, wide)})

    rows = good.tolist()
    lists_of = lambda rows, kind=pa.float32(): {"features": pa.array(rows, pa.list_(kind))}
    broken = [[1.0, 2.0, 1e300], *rows[:2], [1.0, float("nan"), 2.0]]
    parquet("shard_nan", lists_of(rows[:2] + broken[1:]), row_group_size=2)
    parquet("shard_too_large", lists_of(rows[:3] + broken[:1], pa.float64()), row_group_size=2)
    parquet("shard_widths", lists_of(rows[:2] + [[1.0, 2.0]] * 2), row_group_size=2)
    parquet("shard_long", lists_of(rows[:4] + [[1.0] * 5, *rows[:2]]), row_group_size=3)
    parquet("shard_short", lists_of(rows[:4] + [[1.0] * 2, *rows[:2]]), row_group_size=3)
    parquet("shard_null", lists_of(rows[:4] + [None, *rows[:2]]), row_group_size=3)
    parquet("shard_null_value", lists_of(rows[:4] + [[1.0, None, 2.0], *rows[:2]]), row_group_size=3)
    parquet("shard_empty", lists_of(rows[:4] + [[], *rows[:2]]), row_group_size=3)
    arms = {"model": ["a", "b", "a", None, "b"], "bad": ["a", "b", "a", "", "b"]}
    scores = {"reward": [1.0, 2.0, 3.0, 4.0, None], "price": [1.0, 2.0, 3.0, float("inf"), 5.0]}
    parquet("shard_null_arm", lists_of(rows) | arms | scores, row_group_size=3)


if __name__ == "__main__":
    main()
