"""Ray: the sums of one process on 1, 2 and 4 workers, killed workers, named rows, and encoders, on a real local cluster."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import clusters
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fashion_images import ENCODER, close, expected, pixels, write_folder

import modelmix as mm

ray: Any = pytest.importorskip("ray")
pytest.importorskip("ray.data")

# Warnings of Ray, and of the libraries that it starts with.
pytestmark = pytest.mark.filterwarnings("ignore")

FEATURES: dict[str, Any] = {"method": "features", "random_features": 256}


@pytest.fixture(scope="session", autouse=True)
def cluster() -> Iterator[None]:
    """Four worker processes on this machine; sockets need a short path."""
    paths = [str(Path(__file__).parent), str(Path(mm.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    folder = tempfile.mkdtemp(prefix="mmray", dir="/tmp")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "disabled")
        patch.setenv("PYTHONPATH", os.pathsep.join(paths))
        ray.init(
            num_cpus=4, include_dashboard=False, object_store_memory=200_000_000, _temp_dir=folder, log_to_driver=False,
            logging_level="ERROR", _node_ip_address="127.0.0.1",
        )  # fmt: skip
        ray.data.DataContext.get_current().enable_progress_bars = False
        yield
        ray.shutdown()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return clusters.written(tmp_path_factory.mktemp("parts"))


@pytest.fixture(scope="module")
def data(files: list[str]) -> Any:
    return ray.data.read_parquet(files, override_num_blocks=7).materialize()


@pytest.fixture(scope="module")
def alone() -> mm.Accumulator:
    return clusters.alone(mm.Mmd(bandwidth=2.0), True, **FEATURES)


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_any_number_of_workers_has_the_same_bits(workers: int, data: Any, alone: mm.Accumulator) -> None:
    """A task reserves its share of the four CPUs, so that this many run at once."""
    sums = mm.ray.accumulate(
        data, mm.Mmd(clusters.reference(), bandwidth=2.0), sample=clusters.SAMPLE, num_cpus=4 / workers, **FEATURES
    )
    assert sums.to_bytes() == alone.to_bytes()
    assert sums.solve().weights == alone.solve().weights


def test_every_kind_of_input(files: list[str], alone: mm.Accumulator) -> None:
    """Files by path, datasets by arm, tensors, other floats, and a reference of Ray."""
    arms = clusters.arms()
    expected = alone.solve().weights
    from_numpy = {name: ray.data.from_numpy(rows).rename_columns({"data": "features"}) for name, rows in arms.items()}
    reference = ray.data.from_arrow(pa.table({"features": clusters.fixed(clusters.reference())})).repartition(3)
    by_arm = mm.ray.solve(from_numpy, mm.Mmd(bandwidth=2.0), reference=reference, sample=clusters.SAMPLE, **FEATURES)
    assert by_arm.weights == expected
    by_path = mm.ray.solve(
        files, mm.Mmd(bandwidth=2.0), arm="arm", reference=clusters.reference(), sample=clusters.SAMPLE, **FEATURES
    )
    assert by_path.weights == expected


def test_few_rows_are_exact(data: Any) -> None:
    best = mm.ray.solve(data, "rke(bandwidth=2) - 0.01*reward", scores=["reward"], sample=10**6, floor={"middle": 0.1})
    arms = clusters.arms()
    scores = {"reward": {name: rows[:, 0].astype(np.float64) ** 2 for name, rows in arms.items()}}
    exact = mm.solve(arms, "rke(bandwidth=2) - 0.01*reward", scores=scores, floor={"middle": 0.1})
    for name in arms:
        assert best.weights[name] == pytest.approx(exact.weights[name], abs=1e-5)
    assert best.approximation is None and best.weights["middle"] >= 0.1 - 1e-9


def test_precision_takes_the_reference_to_the_workers(data: Any) -> None:
    objective = "mmd(bandwidth=2) - 0.1*precision"
    reference = ray.data.from_numpy(clusters.reference()).rename_columns({"data": "features"})
    best = mm.ray.solve(data, objective, reference=reference, sample=clusters.SAMPLE, **FEATURES)
    expected = clusters.alone(objective, True, **FEATURES).solve()
    for name in expected:
        assert best[name].terms[1].value == pytest.approx(expected[name].terms[1].value, rel=1e-12)
        assert best.weights[name] == pytest.approx(expected.weights[name], abs=1e-5)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of at most 512 rows: 6 of the arms and one of the reference."""
    monkeypatch.setattr("modelmix._ray_pairs._LEAST_ROWS", 512)


def test_all_pairs_are_exact_on_any_number_of_workers(small_blocks: None, files: list[str]) -> None:
    """Blocks are cut from the rows in order, so those of a dataset may be any, and workers may finish in any order."""
    rows: dict[str, Any] = {"objective": "kid + 0.1*rke(bandwidth=2) - 0.01*reward", "scores": ["reward"]}
    rows |= {"sample": clusters.SAMPLE, "method": "pairs"}
    arms, real = clusters.arms(), clusters.reference()
    table = clusters.table(arms)
    one = mm.ray.accumulate(ray.data.from_arrow(table), reference=real, num_cpus=4, **rows)
    parts = [table.slice(at, 300) for at in range(0, table.num_rows, 300)]
    split = ray.data.from_arrow(parts).map_batches(_slow_first, batch_size=None, batch_format="pyarrow")
    reference = ray.data.from_arrow(pa.table({"features": clusters.fixed(real)})).repartition(3)
    four = mm.ray.accumulate(split, reference=reference, num_cpus=1, **rows)
    assert four.to_bytes() == one.to_bytes()
    scores = {"reward": {name: values[:, 0].astype(np.float64) ** 2 for name, values in arms.items()}}
    exact, best = mm.solve(arms, rows["objective"], reference=real, scores=scores), one.solve()
    assert best.approximation is None and best.loss == pytest.approx(exact.loss, rel=1e-5)
    by_path = mm.ray.solve(files, arm="arm", reference=real, progress=True, **rows)
    sampled = mm.ray.solve(files, arm="arm", reference=real, **{**rows, "method": "sample"})
    for name in arms:
        assert best.weights[name] == pytest.approx(exact.weights[name], abs=1e-5)
        assert by_path.weights[name] == pytest.approx(exact.weights[name], abs=1e-5)
    assert max(abs(sampled.weights[name] - exact.weights[name]) for name in arms) > 1e-4, "the comparison can fail"


def _slow_first(table: Any) -> Any:
    """Wait with the first rows, so that others are there before them."""
    if table["reward"][0] == clusters.table(clusters.arms())["reward"][0]:
        time.sleep(1.0)
    return table


def test_a_missing_pair_is_refused(small_blocks: None, data: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from modelmix import _ray_pairs

    every = _ray_pairs.squares
    monkeypatch.setattr(_ray_pairs, "squares", lambda count: list(every(count))[:-1])
    sums = mm.ray.accumulate(data, "rke(bandwidth=2)", method="pairs", sample=clusters.SAMPLE)
    with pytest.raises(ValueError, match=r"1 of 21 are missing, such as part 0, rows 2250 to 2699 × part 0, rows 2250"):
        sums.solve()


def test_a_worker_killed_between_pairs_changes_nothing(
    small_blocks: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from modelmix import _ray_pairs

    for name, rows in clusters.arms().items():
        np.save(tmp_path / f"{name}.npy", rows)
    files = {name: tmp_path / f"{name}.npy" for name in clusters.arms()}
    expected = mm.ray.accumulate(files, "rke(bandwidth=2)", method="pairs", sample=clusters.SAMPLE)
    summed, kill = _ray_pairs._pair_summed, _killing(str(tmp_path / "killed"))
    monkeypatch.setattr(_ray_pairs, "_pair_summed", lambda job, *blocks: summed(job, *kill(blocks)))
    sums = mm.ray.accumulate(files, "rke(bandwidth=2)", method="pairs", sample=clusters.SAMPLE)
    assert (tmp_path / "killed").exists() and sums.to_bytes() == expected.to_bytes()


def test_rows_are_cut_by_their_number() -> None:
    from modelmix._ray_pairs import overlaps, rows_of_block, spans, squares

    assert [rows_of_block(*size) for size in ((100, 8), (10**7, 64), (10**9, 768))] == [4096, 156250, 21845]
    assert spans(10, 4) == [(0, 3), (3, 6), (6, 10)] and spans(0, 4) == []
    assert list(overlaps([3, 0, 4, 5], 2, 8)) == [(0, 2, 3), (2, 0, 4), (3, 0, 1)]
    for count in (0, 1, 4, 11):
        pairs = list(squares(count))
        assert sorted(pairs) == [(i, j) for i in range(count) for j in range(i, count)]
        assert [i // 4 for i, _ in pairs] == sorted(i // 4 for i, _ in pairs)


def test_only_sums_need_a_gpu() -> None:
    """Tasks that sum rows or merge, and the driver, reserve none, so they compute on the processor."""
    from modelmix._blocks import Columns
    from modelmix._cluster import Job

    survey = mm.Accumulator.survey()
    survey.update("left", clusters.arms()["left"])
    job = Job(
        Columns(None, None), (0, 2000, None, []), survey.plan("rke(bandwidth=2)", method="pairs").data, engine="cuda"
    )
    summed = job.tables([clusters.table({"left": clusters.arms()["left"]})])
    merged = mm.Accumulator.from_bytes(job.merged([summed])[0])
    assert merged.counts == {"left": clusters.COUNT}
    with pytest.raises(ValueError, match="num_gpus is 1, but only sums over pairs use a GPU; leave it out"):
        mm.ray.solve("none.npy", "rke", num_gpus=1)


def _killing(marker: str) -> Any:
    """A step that kills its worker process once."""

    def step(block: Any) -> Any:
        try:
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return block
        os.kill(os.getpid(), signal.SIGKILL)

    return step


def test_a_killed_worker_changes_nothing(data: Any, alone: mm.Accumulator, tmp_path: Path) -> None:
    marker = tmp_path / "killed"
    data = data.map_batches(_killing(str(marker)), batch_size=None, batch_format="pyarrow")
    sums = mm.ray.accumulate(
        data, mm.Mmd(clusters.reference(), bandwidth=2.0), sample=clusters.SAMPLE, progress=True, **FEATURES
    )
    assert marker.exists() and sums.to_bytes() == alone.to_bytes()


@pytest.mark.parametrize("way", ["dataset", "paths"])
@pytest.mark.parametrize("width", [None, WIDER := clusters.WIDTH + 2])
def test_rows_are_named_by_file_and_row_group(way: str, width: int | None, tmp_path: Path) -> None:
    files = clusters.written(tmp_path)
    clusters.damaged(files[2], group=1, row=5, width=width)
    data: Any = files
    if way == "dataset":
        data = ray.data.read_parquet(files, include_paths=True, override_num_blocks=12)
    with pytest.raises(ValueError) as raised:
        mm.ray.solve(data, mm.Rke(bandwidth=2.0), arm="arm")
    sentence = str(raised.value)
    assert type(raised.value) is ValueError and "\n" not in sentence
    assert sentence.startswith(f"{files[2]}, row group 1"), sentence
    assert ("row 5" in sentence and "NaN" in sentence) if width is None else f"has {width} columns" in sentence


def test_mistakes_are_sentences(data: Any) -> None:
    with pytest.raises(ValueError, match=r"^the dataset has no column feature \(did you mean features\?\)"):
        mm.ray.solve(data, "rke", features="feature")
    with pytest.raises(ValueError, match="column reward contains double, but features must be lists of floats"):
        mm.ray.solve(data, "rke", features="reward")
    with pytest.raises(TypeError, match="dataset is 5, but it must be a Ray Dataset, files"):
        mm.ray.solve(5, "rke")
    with pytest.raises(TypeError, match=r"solve has no argument sampel \(did you mean sample\?\)"):
        mm.ray.solve(data, "rke", sampel=5)
    with pytest.raises(ValueError, match="no file matches"):
        mm.ray.solve("nothing-*.parquet", "rke")
    with pytest.raises(OSError, match="none.npy"):
        mm.ray.solve("none.npy", "rke")
    with pytest.raises(ValueError, match="the dataset has no rows"):
        mm.ray.solve([], "rke")


def test_encoders_run_in_actors(tmp_path: Path) -> None:
    images = pixels()[:12]
    folder = write_folder(tmp_path / "images", images)
    encoded = mm.ray.encode(folder, str(ENCODER), batch_size=5, concurrency=2).materialize()
    rows = sorted(encoded.take_all(), key=lambda row: int(Path(row["path"]).stem))
    assert [Path(row["id"]).name for row in rows] == [f"{at}.png" for at in range(12)]
    close(np.stack([row["features"] for row in rows]), expected(images))
    (folder / "bad.png").write_bytes(b"no image")
    skipped = mm.ray.encode(folder, str(ENCODER), batch_size=5, concurrency=1, on_error="skip")
    assert skipped.count() == 12
    with pytest.raises(ValueError, match=r"bad\.png"):
        mm.ray.solve({"vae": mm.ray.encode(folder, str(ENCODER), concurrency=1)}, "rke(bandwidth=20)")


def test_a_dataset_of_images_in_memory(tmp_path: Path) -> None:
    images = pixels()[:4]
    folder = write_folder(tmp_path / "images", images)
    data = ray.data.from_items([{"image": (folder / f"{at}.png").read_bytes(), "at": at} for at in range(4)])
    rows = sorted(mm.ray.encode(data, str(ENCODER), concurrency=1).take_all(), key=lambda row: row["at"])
    close(np.stack([row["features"] for row in rows]), expected(images))
    assert set(rows[0]) == {"at", "features"}


def test_columns_of_arrow_are_not_copied(tmp_path: Path) -> None:
    """The values that NumPy sees are those of the table; other floats and layouts have the same rows."""
    from modelmix._blocks import matrix

    rows = clusters.arms()["left"]
    column = pa.chunked_array([clusters.fixed(rows)])
    seen = matrix(column.slice(10, 50), "features")
    assert np.array_equal(seen, rows[10:60])
    address = column.chunk(0).values.buffers()[1].address
    assert seen.__array_interface__["data"][0] == address + 10 * 4 * clusters.WIDTH
    listed = rows.tolist()
    for kind in (pa.float16(), pa.float32(), pa.float64()):
        for lists in (pa.list_(kind), pa.large_list(kind), pa.list_(kind, clusters.WIDTH)):
            values = rows.astype(np.float16) if kind == pa.float16() else rows
            made = pa.chunked_array(
                [pa.array([list(row) for row in values] if kind == pa.float16() else listed, lists)]
            )
            assert np.array_equal(matrix(made.slice(3), "features"), values[3:])
    two = pa.chunked_array([clusters.fixed(rows[:7]), clusters.fixed(rows[7:])])
    assert np.array_equal(matrix(two, "features"), rows)
    pq.write_table(pa.table({"features": two}), tmp_path / "one.parquet")
