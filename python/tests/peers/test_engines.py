"""Dask and Spark: the sums of one process on 1, 2 and 4 workers, and named rows, on real local sessions."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import clusters
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import modelmix as mm

FEATURES: dict[str, Any] = {"method": "features", "random_features": 256}
OBJECTIVE = mm.Mmd(bandwidth=2.0)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return clusters.written(tmp_path_factory.mktemp("parts"))


@pytest.fixture(scope="module")
def alone() -> mm.Accumulator:
    return clusters.alone(OBJECTIVE, True, **FEATURES)


@pytest.fixture(params=[1, 2, 4])
def client(request: pytest.FixtureRequest) -> Iterator[Any]:
    from dask.distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=request.param, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def test_dask_has_the_same_bits(client: Any, files: list[str], alone: mm.Accumulator) -> None:
    import dask
    import dask.array as da

    parts = [dask.delayed(pq.read_table)(file) for file in files]
    settings: dict[str, Any] = {"reference": clusters.reference(), "sample": clusters.SAMPLE, **FEATURES}
    sums = mm.dask.accumulate(parts, OBJECTIVE, **settings)
    assert sums.to_bytes() == alone.to_bytes()
    assert sums.solve().weights == alone.solve().weights
    arrays = {name: da.from_array(rows, chunks=(170, 3)) for name, rows in clusters.arms().items()}
    reference = da.from_array(clusters.reference(), chunks=(200, 6))
    by_arm = mm.dask.accumulate(arrays, OBJECTIVE, reference=reference, sample=clusters.SAMPLE, **FEATURES)
    assert by_arm.to_bytes() == alone.to_bytes()
    assert mm.dask.solve(files, OBJECTIVE, arm="arm", **settings).weights == alone.solve().weights


def test_dask_frames_and_named_rows(files: list[str], alone: mm.Accumulator, tmp_path: Path) -> None:
    import dask
    import dask.dataframe as dd
    import pandas as pd

    frame = clusters.table(clusters.arms()).to_pandas(types_mapper=pd.ArrowDtype)
    with dask.config.set(scheduler="threads"):
        parts = dd.from_pandas(frame, npartitions=5)
        best = mm.dask.solve(parts, OBJECTIVE, reference=clusters.reference(), sample=clusters.SAMPLE, **FEATURES)
        assert best.weights == alone.solve().weights
        broken = clusters.written(tmp_path)
        clusters.damaged(broken[1], group=2, row=3)
        with pytest.raises(ValueError, match=r"part-1\.parquet, row group 2: row 3, column 1 is NaN"):
            mm.dask.solve(broken, OBJECTIVE, arm="arm", reference=clusters.reference())


@pytest.fixture(params=[1, 2, 4])
def session(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    from pyspark.sql import SparkSession

    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    paths = [str(Path(mm.__file__).parents[1]), str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    builder = SparkSession.builder.master(f"local[{request.param}]")
    session = (
        builder.config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.warehouse.dir", str(tmp_path))
        .config("spark.sql.shuffle.partitions", "4")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


def test_spark_has_the_same_bits(session: Any, files: list[str], alone: mm.Accumulator, tmp_path: Path) -> None:
    data = session.read.parquet(*files).repartition(7)
    settings: dict[str, Any] = {"reference": clusters.reference(), "sample": clusters.SAMPLE, **FEATURES}
    sums = mm.spark.accumulate(data, OBJECTIVE, **settings)
    assert sums.to_bytes() == alone.to_bytes()
    assert sums.solve().weights == alone.solve().weights
    pq.write_table(pa.table({"features": clusters.fixed(clusters.reference())}), tmp_path / "reference.parquet")
    by_arm = {name: data.where(data.arm == name) for name in clusters.arms()}
    settings["reference"] = session.read.parquet(str(tmp_path / "reference.parquet"))
    assert mm.spark.accumulate(by_arm, OBJECTIVE, **settings).to_bytes() == alone.to_bytes()


def test_spark_names_rows(session: Any, tmp_path: Path) -> None:
    from pyspark.sql.functions import input_file_name

    (tmp_path / "parts").mkdir()
    broken = clusters.written(tmp_path / "parts")
    clusters.damaged(broken[3], group=0, row=7)
    data = session.read.parquet(*broken).withColumn("path", input_file_name())
    with pytest.raises(ValueError, match=r"part-3\.parquet, row group 0: row 7, column 1 is NaN") as raised:
        mm.spark.solve(data, mm.Rke(bandwidth=2.0))
    assert "\n" not in str(raised.value)
    assert np.isfinite(mm.spark.solve(data.where("path not like '%part-3%'"), mm.Rke(bandwidth=2.0)).loss)
