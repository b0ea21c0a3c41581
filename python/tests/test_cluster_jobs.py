"""Jobs of workers without a cluster: what kind of block a partition is, what errors name, versions of engines, and the recipe for Daft."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import clusters
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from places import ROOT

import modelmix as mm
from modelmix._blocks import Columns, Refused
from modelmix._cluster import Job, Request

SURVEY: tuple[int, int, int | None, list[str]] = (0, 2000, None, [])


def request() -> Request:
    """The arguments of an engine's ``solve``, all left out."""
    return Request("rke", None, None, (), None, None, None, None, None, 2000, None, 0, None)


def spoiled(column: str) -> pa.Table:
    """Two files on an object store; row 3 of the second one is bad, in the sixth row of the block that is of arm right."""
    rows = np.ones((20, 4), dtype=np.float32)
    lists: list[Any] = rows.tolist()
    if column == "NaN":
        rows[13, 1] = np.nan
        lists = rows.tolist()
    else:
        lists[13] = (
            None
            if column == "no list"
            else [1.0] * (7 if column == "another width" else 3) + [None] * (column == "no value")
        )
    return pa.table(
        {
            "features": pa.array(lists, pa.list_(pa.float32())),
            "arm": ["left"] * 8 + ["right"] * 12,
            "path": ["s3://bucket/part-0.parquet"] * 10 + ["s3://bucket/part-1.parquet"] * 10,
        }
    )


@pytest.mark.parametrize("column", ["NaN", "no list", "no value", "another width"])
def test_a_file_that_the_driver_cannot_read_is_named_without_a_row(column: str) -> None:
    """A place within a block would be taken for one within the file."""
    with pytest.raises(Refused) as raised:
        Job(Columns(None, None), SURVEY).tables([spoiled(column)])
    located = request()._located(raised.value)
    assert type(located) is ValueError and str(located).startswith("s3://bucket/part-1.parquet: ")
    assert not re.search(r"\brow \d", str(located)), located
    if column == "NaN":
        assert "arm right: column 1 of a row is NaN" in str(located)


def test_columns_of_frames_do_not_decide_what_a_partition_is() -> None:
    from modelmix.dask import _part_summed

    rows = clusters.arms()["left"]
    frame = pd.DataFrame({"features": list(rows), "arm": "left", "indices": 1, "dtype": 2, "schema": 3, "rechunk": 4})
    job = Job(Columns(None, None), SURVEY)
    expected = job.array(rows, "left")[0]
    for part in (frame, pa.Table.from_pandas(frame), pa.RecordBatch.from_pandas(frame)):
        assert _part_summed(job, part, None, False)[0] == expected
    assert _part_summed(job, rows, "left", False)[0] == expected


def test_headers_of_files_make_parts_of_surveys_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An arm with 4,000 rows in eight tasks: each has up to 200 rows of the sample without the headers, and about 50 with them."""
    from modelmix import _cluster_files

    monkeypatch.setattr(_cluster_files, "_LEAST_ROWS", 500)
    random = np.random.default_rng(5)
    rows = random.normal(size=(8, 500, 4)).astype(np.float32)
    for at, part in enumerate(rows):
        np.save(tmp_path / f"{at}.npy", part)
    columns = Columns(None, None)
    work = _cluster_files.work_of({"left": tmp_path}, columns, lambda given: False, "files")
    sizes = {}
    for is_expected in (False, True):
        made, seen = Request("rke", None, None, (), None, None, None, None, None, 200, None, 0, None), []

        def run(job: Job, reference: Any, seen: list[int] = seen) -> Any:
            parts = [job.shards(task) for _, tasks in work for task in tasks]
            seen += [len(data) for data, _ in parts]
            return job.merged(parts)

        if is_expected:
            made.expect(work)
        sums = made.accumulate(run)
        assert sums.counts == {"left": 4000}
        sizes[is_expected] = (sum(seen[:8]), sums.solve().loss)
    (large, loss), (small, same) = sizes[False], sizes[True]
    assert small < 0.4 * large and same == loss


def test_an_old_spark_and_spark_connect_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    spark = ModuleType("pyspark")
    monkeypatch.setitem(sys.modules, "pyspark", spark)
    spark.__version__ = "3.5.1"  # type: ignore[attr-defined]
    with pytest.raises(
        ImportError, match=r"pyspark is 3\.5\.1, but 4\.0 or newer is needed; run pip install 'pyspark>=4\.0'"
    ):
        mm.spark.solve({}, "rke")
    spark.__version__ = "4.0.0"  # type: ignore[attr-defined]

    class DataFrame:
        mapInArrow = None

    DataFrame.__module__ = "pyspark.sql.connect.dataframe"
    for given in (DataFrame(), {"left": DataFrame()}):
        with pytest.raises(TypeError, match="a DataFrame of Spark Connect has no RDDs") as raised:
            mm.spark.solve(given, "rke")
        assert "\n" not in str(raised.value)


def test_one_image_has_an_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers have other working directories."""
    from fashion_images import pixels, write_folder

    from modelmix._ray_encode import sample_tables

    write_folder(tmp_path / "images", pixels()[:1])
    monkeypatch.chdir(tmp_path / "images")
    (table,) = sample_tables("0.png", 8)
    assert table["path"].to_pylist() == [str(tmp_path / "images" / "0.png")]


def test_the_recipe_for_daft_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its body, over the record batches that ``to_arrow_iter`` yields, one of which is a slice."""
    table = clusters.table(clusters.arms()).rename_columns(["embedding", "model", "reward"])
    batches = table.to_batches(max_chunksize=400)
    batches = [batches[0].slice(0, 100), batches[0].slice(100), *batches[1:]]

    class Frame:
        def select(self, *names: str) -> Frame:
            assert names == ("model", "embedding")
            return self

        def to_arrow_iter(self) -> Any:
            return iter(batches)

    daft = ModuleType("daft")
    daft.read_parquet = lambda pattern: Frame()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "daft", daft)
    page = (ROOT / "docs/scale.md").read_text(encoding="utf-8")
    (recipe,) = (block for block in re.findall(r"```py\n(.*?)```", page, flags=re.DOTALL) if "import daft" in block)
    names: dict[str, Any] = {}
    exec(
        compile(recipe.replace('plan("rke")', 'plan("rke(bandwidth=2)", method="features")'), "docs/scale.md", "exec"),
        names,
    )
    assert names["sums"].counts == dict.fromkeys(clusters.arms(), clusters.COUNT)
    survey = mm.Accumulator.survey()
    for name, rows in clusters.arms().items():
        survey.update(name, rows)
    assert names["survey"].to_bytes() == survey.to_bytes()
