"""Dask and Spark: the sums of one process on 1, 2 and 4 workers, killed workers, and named rows, on real local sessions."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def dask_workers(count: int) -> Iterator[Any]:
    from dask.distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=None, host="127.0.0.1") as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture(params=[1, 2, 4])
def client(request: pytest.FixtureRequest) -> Iterator[Any]:
    with dask_workers(request.param) as client:
        yield client


def kill_once(marker: str) -> None:
    """Kill this process, if no other one was."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


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


def read_or_die(file: str, marker: str) -> pa.Table:
    kill_once(marker)
    return pq.read_table(file)


def test_a_killed_worker_of_dask_changes_nothing(files: list[str], alone: mm.Accumulator, tmp_path: Path) -> None:
    import dask

    marker = tmp_path / "killed"
    with dask_workers(2):
        parts = [dask.delayed(read_or_die, pure=False)(file, str(marker)) for file in files]
        sums = mm.dask.accumulate(parts, OBJECTIVE, reference=clusters.reference(), sample=clusters.SAMPLE, **FEATURES)
    assert marker.exists() and sums.to_bytes() == alone.to_bytes()


def test_dask_frames(alone: mm.Accumulator) -> None:
    import dask
    import dask.dataframe as dd
    import pandas as pd

    frame = clusters.table(clusters.arms()).to_pandas(types_mapper=pd.ArrowDtype)
    with dask.config.set(scheduler="threads"):
        parts = dd.from_pandas(frame, npartitions=5)
        best = mm.dask.solve(parts, OBJECTIVE, reference=clusters.reference(), sample=clusters.SAMPLE, **FEATURES)
        assert best.weights == alone.solve().weights


def with_path(file: str) -> pa.Table:
    table = pq.read_table(file)
    return table.append_column("path", pa.array([file] * table.num_rows))


NAN = "row 3, column 1 is NaN"
WIDER = clusters.WIDTH + 2


@pytest.mark.parametrize("way", ["files", "tables"])
@pytest.mark.parametrize("width, problem", [(None, NAN), (WIDER, f"has {WIDER} columns")])
def test_dask_names_rows(way: str, width: int | None, problem: str, tmp_path: Path) -> None:
    import dask

    broken = clusters.written(tmp_path)
    clusters.damaged(broken[1], group=2, row=3, width=width)
    data: Any = broken if way == "files" else [dask.delayed(with_path)(file) for file in broken]
    with dask.config.set(scheduler="threads"), pytest.raises(ValueError) as raised:
        mm.dask.solve(data, OBJECTIVE, arm="arm", reference=clusters.reference())
    assert re.match(rf"{re.escape(broken[1])}, row group 2\b.*{problem}", str(raised.value)), raised.value


@contextmanager
def spark_session(master: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    from pyspark.sql import SparkSession

    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    paths = [str(Path(mm.__file__).parents[1]), str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    builder = SparkSession.builder.master(master)
    session = (
        builder.config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.warehouse.dir", str(tmp_path))
        .config("spark.sql.shuffle.partitions", "4")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    try:
        yield session
    finally:
        session.stop()


@pytest.fixture(params=[1, 2, 4])
def session(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    with spark_session(f"local[{request.param}]", tmp_path, monkeypatch) as session:
        yield session


@pytest.fixture
def retrying(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Two workers, and up to three runs per task."""
    with spark_session("local[2,3]", tmp_path, monkeypatch) as session:
        yield session


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


def test_a_killed_worker_of_spark_changes_nothing(
    retrying: Any, files: list[str], alone: mm.Accumulator, tmp_path: Path
) -> None:
    marker = str(tmp_path / "killed")

    def step(batches: Any) -> Any:
        import os
        import signal

        for batch in batches:
            try:
                os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                yield batch
            else:
                os.kill(os.getpid(), signal.SIGKILL)

    data = retrying.read.parquet(*files).repartition(5)
    data = data.mapInArrow(step, data.schema)
    sums = mm.spark.accumulate(data, OBJECTIVE, reference=clusters.reference(), sample=clusters.SAMPLE, **FEATURES)
    assert Path(marker).exists() and sums.to_bytes() == alone.to_bytes()


def test_precision_collects_the_reference_of_spark(retrying: Any, files: list[str], tmp_path: Path) -> None:
    objective = "mmd(bandwidth=2) - 0.1*precision"
    pq.write_table(pa.table({"features": clusters.fixed(clusters.reference())}), tmp_path / "reference.parquet")
    reference = retrying.read.parquet(str(tmp_path / "reference.parquet"))
    data = retrying.read.parquet(*files)
    best = mm.spark.solve(data, objective, reference=reference, sample=clusters.SAMPLE, **FEATURES)
    expected = clusters.alone(objective, True, **FEATURES).solve()
    for name in expected:
        assert best.weights[name] == pytest.approx(expected.weights[name], abs=1e-5)


@pytest.mark.parametrize("width, problem", [(None, NAN), (WIDER, f"has {WIDER} columns")])
def test_spark_names_rows(retrying: Any, width: int | None, problem: str, tmp_path: Path) -> None:
    from pyspark.sql.functions import input_file_name

    (tmp_path / "parts").mkdir()
    broken = clusters.written(tmp_path / "parts")
    clusters.damaged(broken[3], group=0, row=3, width=width)
    data = retrying.read.parquet(*broken).withColumn("path", input_file_name())
    with pytest.raises(ValueError) as raised:
        mm.spark.solve(data, mm.Rke(bandwidth=2.0))
    sentence = str(raised.value)
    assert re.match(rf"{re.escape(broken[3])}, row group 0\b.*{problem}", sentence) and "\n" not in sentence, sentence
    assert np.isfinite(mm.spark.solve(data.where("path not like '%part-3%'"), mm.Rke(bandwidth=2.0)).loss)
