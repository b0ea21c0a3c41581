#!/usr/bin/env python3
"""Write the Parquet files of texts that crates/modelmix-encode/tests/it/texts.rs reads, with pyarrow and polars as independent writers.

Usage: python tools/make_text_fixtures.py  (needs pyarrow and polars)

Writes ``crates/modelmix-encode/tests/fixtures/texts``, with the expected texts in ``expected.json``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars
import pyarrow as pa
import pyarrow.parquet as pq

OUT = Path(__file__).resolve().parent.parent / "crates/modelmix-encode/tests/fixtures/texts"

FEW = [
    "a plain text",
    "",
    "naïve 👩‍👩‍👧‍👦 日本語",
    "two\nlines\r\nand a\ttab",
    'quotes " and, commas',
    "a plain text",
    "NUL \x00 inside",
    "x" * 300,
    "a plain text",
]
LONG = ["a" * 4095, "m", "z" * 4095]
MANY = [f"text {i} {'é' * (i * i % 17)}" for i in range(700)]


def write(name: str, column: Any, nullable: bool = True, **options: Any) -> None:
    """Write a table with the column ``text``."""
    array = column if isinstance(column, pa.Array | pa.ChunkedArray) else pa.array(column, pa.string())
    schema = pa.schema([pa.field("text", array.type, nullable=nullable)])
    defaults = {"compression": "none", "store_schema": False, "use_dictionary": False, "write_statistics": False}
    pq.write_table(pa.table([array], schema=schema), OUT / f"{name}.parquet", **(defaults | options))


def main() -> None:
    """Write all files."""
    OUT.mkdir(parents=True, exist_ok=True)
    for compression in ["none", "snappy", "gzip", "zstd", "lz4"]:
        write(f"plain_{compression}", FEW, compression=compression)
    write("dictionary", FEW, use_dictionary=True)
    write("dictionary_version2", FEW, use_dictionary=True, data_page_version="2.0", compression="zstd")
    write("required", FEW, nullable=False)
    write("large", pa.array(FEW, pa.large_string()), store_schema=True)
    write("view", pa.array(FEW, pa.string_view()), store_schema=True)
    write("categories", pa.array(FEW).dictionary_encode(), use_dictionary=True, store_schema=True)
    write("groups", FEW, row_group_size=2, use_dictionary=True)
    write("lengths", FEW, column_encoding={"text": "DELTA_LENGTH_BYTE_ARRAY"})
    pages = {"data_page_size": 512, "write_batch_size": 32, "compression": "zstd"}
    write("many_plain", MANY, **pages)
    write("many_lengths", MANY, column_encoding={"text": "DELTA_LENGTH_BYTE_ARRAY"}, data_page_version="2.0", **pages)
    # The dictionary grows too large after some pages, and the others are plain.
    write("many_fallback", MANY, use_dictionary=True, dictionary_pagesize_limit=2048, **pages)
    # The least and the greatest text are in the header of the page.
    write("long_header", LONG, write_statistics=True, use_dictionary=False)
    polars.DataFrame({"text": FEW}).write_parquet(OUT / "polars.parquet", statistics=False)
    beside = pa.table({"number": list(range(len(FEW))), "text": FEW, "features": [[0.5, 1.5]] * len(FEW), "other": FEW})
    pq.write_table(beside, OUT / "beside.parquet", compression="zstd", store_schema=False, write_statistics=False)

    # Files that are refused.
    write("null", ["a", "b", None, "d"])
    write("not_utf8", pa.array([b"a", b"\xff\xfe"], pa.binary()))
    write("prefixes", FEW, column_encoding={"text": "DELTA_BYTE_ARRAY"})
    write("numbers", pa.array([1, 2, 3]))
    # A megabyte of text, twenty thousand times.
    repeated = pa.DictionaryArray.from_arrays(pa.array([0] * 20_000, pa.int32()), pa.array(["a" * (1 << 20)]))
    pq.write_table(
        pa.table({"text": repeated}),
        OUT / "bomb.parquet",
        compression="zstd",
        use_dictionary=True,
        dictionary_pagesize_limit=1 << 22,
        write_statistics=False,
        store_schema=True,
    )

    expected = {"few": FEW, "long": LONG, "many": MANY}
    (OUT / "expected.json").write_text(json.dumps(expected, ensure_ascii=False) + "\n", encoding="utf-8")
    for path in sorted(OUT.iterdir()):
        print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
