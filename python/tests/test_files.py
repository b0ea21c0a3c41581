"""Arms, references and scores from files, and frames with one row per sample."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl
import pytest

import modelmix as mm

Array = npt.NDArray[Any]
RKE = mm.Rke(bandwidth=2.0)


@pytest.fixture
def folder(tmp_path: Path, blobs: dict[str, Array]) -> Path:
    np.savez(tmp_path / "arms.npz", **blobs)  # type: ignore[arg-type]
    for name, rows in blobs.items():
        np.save(tmp_path / f"{name}.npy", rows)
    return tmp_path


@pytest.fixture
def reference(blobs: dict[str, Array]) -> Array:
    return np.concatenate([blobs["left"], blobs["right"]])


def ways(folder: Path) -> dict[str, Any]:
    return {
        "text": str(folder / "arms.npz"),
        "a path": folder / "arms.npz",
        "a list": [folder / "left.npy", str(folder / "middle.npy"), folder / "right.npy"],
        "a tuple with names": tuple(f"{name}={folder / name}.npy" for name in ("left", "middle", "right")),
        "by name": {"left": folder / "left.npy", "middle": f"{folder / 'arms.npz'}:middle", "right": str(folder / "right.npy")},
    }  # fmt: skip


@pytest.mark.parametrize("way", ways(Path()))
def test_arms_are_read_from_files(way: str, folder: Path, blobs: dict[str, Array], reference: Array) -> None:
    given = ways(folder)[way]
    assert mm.solve(given, RKE) == mm.solve(blobs, RKE)
    assert mm.score(given, metrics=["vendi"], mixture=False) == mm.score(blobs, metrics=["vendi"], mixture=False)
    assert mm.simulate(given, RKE, rounds=5, seeds=1) == mm.simulate(blobs, RKE, rounds=5, seeds=1)
    assert mm.curate(given, RKE, count=5) == mm.curate(blobs, RKE, count=5)
    assert mm.median_bandwidth(given) == mm.median_bandwidth(blobs)
    assert mm.metrics.fid(given, reference) == mm.metrics.fid(blobs, reference)


def test_a_file_with_one_arm_is_one_set_of_samples(folder: Path, blobs: dict[str, Array], reference: Array) -> None:
    one = mm.metrics.fid(folder / "left.npy", reference)
    assert one == mm.metrics.fid(blobs["left"], reference) == mm.metrics.fid(f"{folder / 'arms.npz'}:left", reference)
    with pytest.raises(ValueError, match="there is only one set of samples"):
        mm.metrics.fid(folder / "left.npy", reference, weights={"left": 1})


def test_a_reference_is_read_from_a_file(folder: Path, blobs: dict[str, Array]) -> None:
    path, rows = folder / "middle.npy", blobs["middle"]
    kept = {"left": blobs["left"], "right": blobs["right"]}
    expected = mm.solve(kept, mm.Mmd(rows, bandwidth=2.0) - 0.1 * mm.Precision(rows))
    assert mm.solve(kept, mm.Mmd(path, bandwidth=2.0) - 0.1 * mm.Precision(path)) == expected
    # the same path given twice is the same reference
    assert mm.solve(kept, mm.Mmd(str(path), bandwidth=2.0) - 0.1 * mm.Precision(str(path) + "")) == expected
    assert mm.solve(kept, "mmd(bandwidth=2) - 0.1*precision", reference=path) == expected
    assert mm.score(kept, path, metrics=["fid"]) == mm.score(kept, rows, metrics=["fid"])
    assert mm.metrics.precision(kept, path) == mm.metrics.precision(kept, rows)
    assert mm.Mmd("reference.npy") == mm.Mmd("reference" + ".npy")
    sessions = [mm.Session(["a"], mm.Mmd(given, bandwidth=2.0)) for given in (path, rows)]
    for session in sessions:
        session.tell(session.ask(), rows[0])
    assert sessions[0].report().loss == sessions[1].report().loss


def test_known_samples_are_read_from_files(folder: Path, blobs: dict[str, Array]) -> None:
    session = mm.Session(["left", "right"], RKE)
    session.known("left", folder / "left.npy")
    session.known("right", str(folder / "right.npy"))
    assert session.report().known == 120

    def one(count: int) -> Any:
        return blobs["left"][:count]

    arms = dict.fromkeys(blobs, one)
    expected = mm.run(arms, lambda rows: rows, RKE, budget=3, known=blobs).report
    assert mm.run(arms, lambda rows: rows, RKE, budget=3, known=folder / "arms.npz").report == expected
    by_name = {name: folder / f"{name}.npy" for name in blobs}
    assert mm.run(arms, lambda rows: rows, RKE, budget=3, known=by_name).report == expected


def test_tell_does_not_accept_paths() -> None:
    """Text samples without an encoder raise an error, and no file is opened."""
    session = mm.Session(["a"], RKE)
    with pytest.raises(TypeError, match="pull 0 is 'a photo of a cat', but it must be rows of numbers"):
        session.tell(session.ask(), "a photo of a cat")  # type: ignore[arg-type]


def test_scores_are_read_from_files(folder: Path, blobs: dict[str, Array]) -> None:
    objective = RKE - 0.1 * mm.SampleScore("taste")
    # doubles that are not exact in single precision
    taste = {name: np.random.default_rng(len(name)).uniform(size=60) for name in blobs}
    expected = mm.solve(blobs, objective, scores={"taste": taste})
    np.savez(folder / "taste.npz", **taste)  # type: ignore[arg-type]
    (folder / "taste.json").write_text(json.dumps({"taste": {name: list(values) for name, values in taste.items()}}))
    for name, values in taste.items():
        np.save(folder / f"taste-{name}.npy", values)
    files = {name: folder / f"taste-{name}.npy" for name in blobs}
    assert mm.solve(blobs, objective, scores=folder / "taste.json") == expected
    assert mm.solve(blobs, objective, scores={"taste": folder / "taste.npz"}) == expected
    assert mm.solve(blobs, objective, scores={"taste": files}) == expected
    assert mm.solve(blobs, RKE - 0.1 * mm.SampleScore("taste", str(folder / "taste.npz"))) == expected
    with pytest.raises(ValueError, match="has no arms; pass an .npz file with one array per arm"):
        mm.solve(blobs, objective, scores={"taste": folder / "left.npy"})
    (folder / "bad.json").write_text("[1, 2]")
    with pytest.raises(ValueError, match="scores must be a JSON object"):
        mm.solve(blobs, objective, scores=folder / "bad.json")
    with pytest.raises(ValueError, match=r"bad\.json: Expecting value.*scores must be a JSON object"):
        (folder / "bad.json").write_text("nothing")
        mm.solve(blobs, objective, scores=folder / "bad.json")
    with pytest.raises(TypeError, match=r"score taste is \[0.5\], but it must be one list of numbers per arm"):
        mm.solve(blobs, objective, scores={"taste": [0.5]})  # type: ignore[dict-item]


@pytest.mark.parametrize("name", ["features.pt", "a=features.pth", "dir/features.PT", "features.pt:flux"])
def test_torch_files_get_a_hint(name: str, blobs: dict[str, Array]) -> None:
    hint = r"is a PyTorch file, which modelmix does not read; convert it to \.npy or \.safetensors, as in numpy\.save\("
    for call in (mm.load, mm.load_array, mm.solve, mm.median_bandwidth):
        with pytest.raises(ValueError, match=hint) as raised:
            call(name)
        assert ":flux" not in str(raised.value) and "a=" not in str(raised.value)
    with pytest.raises(ValueError, match=hint):
        mm.solve({"a": name})
    with pytest.raises(ValueError, match=hint):
        mm.solve(blobs, mm.Mmd(name))


def test_missing_files(tmp_path: Path, blobs: dict[str, Array]) -> None:
    calls: list[Callable[[], object]] = [
        lambda: mm.solve(tmp_path / "nothing.npz"),
        lambda: mm.solve({"a": tmp_path / "nothing.npy"}),
        lambda: mm.solve(blobs, mm.Kid(tmp_path / "nothing.npy")),
        lambda: mm.solve(tmp_path / "nothing.parquet", arm="model"),
        lambda: mm.solve(blobs, scores=tmp_path / "nothing.json"),
    ]
    for call in calls:
        with pytest.raises(FileNotFoundError, match=r"nothing\."):
            call()
    with pytest.raises(TypeError, match="the file is 3, but it must be a path"):
        mm.load_array(3)  # type: ignore[arg-type]


class LikeArrow:
    """The used part of a pyarrow table: column names, and columns with ``to_pylist`` and ``to_numpy``."""

    class Column:
        def __init__(self, values: list[Any]) -> None:
            self.values = values

        def to_pylist(self) -> list[Any]:
            return self.values

        def to_numpy(self) -> Array:
            if isinstance(self.values[0], list):
                rows = np.empty(len(self.values), object)
                rows[:] = [np.array(row) for row in self.values]
                return rows
            return np.array(self.values)

    def __init__(self, columns: dict[str, list[Any]]) -> None:
        self.held = columns
        self.column_names = list(columns)
        self.columns = [LikeArrow.Column(values) for values in columns.values()]
        self.shape = (len(next(iter(columns.values()))), len(columns))

    def __getitem__(self, name: str) -> LikeArrow.Column:
        return LikeArrow.Column(self.held[name])


def long_columns(blobs: dict[str, Array]) -> dict[str, list[Any]]:
    """One row per sample, with alternating arms."""
    order = [(name, at) for at in range(60) for name in blobs]
    rows = [blobs[name][at] for name, at in order]
    return {
        "model": [name for name, _ in order],
        **{f"x{column}": [float(row[column]) for row in rows] for column in range(4)},
    }


def nested(blobs: dict[str, Array]) -> dict[str, list[Any]]:
    columns = long_columns(blobs)
    rows = [list(row) for row in zip(*(columns[f"x{at}"] for at in range(4)))]
    return {"model": columns["model"], "prompt": ["a cat"] * 180, "embedding": rows}


FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": LikeArrow}


@pytest.mark.parametrize("kind", FRAMES)
def test_long_frames(kind: str, blobs: dict[str, Array]) -> None:
    expected = mm.solve(blobs, RKE)
    wide, deep = FRAMES[kind](long_columns(blobs)), FRAMES[kind](nested(blobs))
    assert mm.solve(wide, RKE, arm="model") == expected
    assert mm.solve(wide, RKE, arm="model", features=["x0", "x1", "x2", "x3"]) == expected
    assert mm.solve(deep, RKE, arm="model", features="embedding") == expected
    two = {name: rows[:, :2] for name, rows in blobs.items()}
    assert mm.solve(wide, RKE, arm="model", features=["x0", "x1"]) == mm.solve(two, RKE)
    loaded = mm.load(deep, arm="model", features="embedding")
    assert list(loaded) == list(blobs) and all(np.array_equal(loaded[name], blobs[name]) for name in blobs)
    assert all(rows.dtype == np.float32 for rows in loaded.values())
    given: Any = {"arm": "model", "features": ["x0", "x1", "x2", "x3"]}
    assert mm.score(wide, metrics=["rke"], bandwidth=2, **given) == mm.score(blobs, metrics=["rke"], bandwidth=2)
    assert mm.simulate(wide, RKE, rounds=5, seeds=1, **given) == mm.simulate(blobs, RKE, rounds=5, seeds=1)
    assert mm.curate(wide, RKE, count=5, **given) == mm.curate(blobs, RKE, count=5)
    assert mm.median_bandwidth(wide, **given) == mm.median_bandwidth(blobs)


@pytest.mark.parametrize("kind", FRAMES)
def test_scores_of_a_long_frame(kind: str, blobs: dict[str, Array]) -> None:
    columns = long_columns(blobs)
    columns["taste"] = list(np.random.default_rng(0).uniform(size=180))
    taste = {name: columns["taste"][at::3] for at, name in enumerate(blobs)}
    objective = RKE - 0.1 * mm.SampleScore("taste")
    expected = mm.solve(blobs, objective, scores={"taste": taste})
    # a column of scores is not a feature
    assert mm.solve(FRAMES[kind](columns), objective, arm="model", scores=["taste"]) == expected
    with pytest.raises(ValueError, match=r"no column tast \(did you mean taste\?\)"):
        mm.solve(FRAMES[kind](columns), objective, arm="model", scores=["tast"])
    with pytest.raises(ValueError, match="also needs arm="):
        mm.solve(blobs, objective, scores=["taste"])


def test_long_parquet(tmp_path: Path, blobs: dict[str, Array], monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "samples.parquet"
    pl.DataFrame(nested(blobs)).write_parquet(path)
    expected = mm.solve(blobs, RKE)
    assert mm.solve(path, RKE, arm="model", features="embedding") == expected
    scored = nested(blobs) | {"taste": [0.5] * 180}
    pl.DataFrame(scored).write_parquet(tmp_path / "scored.parquet")
    objective = RKE - 0.1 * mm.SampleScore("taste")
    given: Any = {"arm": "model", "features": "embedding", "scores": ["taste"]}
    assert mm.solve(tmp_path / "scored.parquet", objective, **given).linear == pytest.approx([-0.05] * 3)
    assert mm.solve(str(path), RKE, arm="model", features=["embedding"]) == expected
    with pytest.raises(ValueError, match=r"samples\.parquet has no column embeding \(did you mean embedding\?\)"):
        mm.solve(path, arm="model", features="embeding")
    with pytest.raises(ValueError, match="has no column modle"):
        mm.solve(path, arm="modle", features="embedding")
    # with either library
    for hidden in ("pyarrow", "pyarrow.parquet", "polars"):
        monkeypatch.setitem(sys.modules, hidden, None)
    with pytest.raises(ImportError, match="needs pyarrow or polars .* pip install pyarrow"):
        mm.solve(path, arm="model", features="embedding")


def test_long_parquet_by_pyarrow(tmp_path: Path, blobs: dict[str, Array]) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / "samples.parquet"
    pl.DataFrame(nested(blobs)).write_parquet(path)
    assert mm.solve(path, RKE, arm="model", features="embedding") == mm.solve(blobs, RKE)


REFUSED: dict[str, tuple[Any, dict[str, Any]]] = {
    'name the column that contains the arm of each row, as in mm.solve(frame, arm="model")': (pd.DataFrame({"a": [1.0]}), {}),
    "the frame has no column modle (did you mean model?); it has model, x": (
        pd.DataFrame({"model": ["a"], "x": [1.0]}), {"arm": "modle"}),
    "the frame has no column y": (pd.DataFrame({"model": ["a"], "x": [1.0]}), {"arm": "model", "features": ["x", "y"]}),
    "the frame has no columns besides model": (pd.DataFrame({"model": ["a"]}), {"arm": "model"}),
    "column model is missing in row 0": (pd.DataFrame({"model": pd.array([pd.NA, "a"]), "x": [1.0, 2.0]}), {"arm": "model"}),
    "column model is missing in row 1": (pd.DataFrame({"model": ["a", None], "x": [1.0, 2.0]}), {"arm": "model"}),
    'column model is of type int in row 0, but names of arms must be text; drop such rows, or convert the column, as in frame["model"].astype(str)': (
        pl.DataFrame({"model": [1, 2], "x": [1.0, 2.0]}), {"arm": "model"}),
    "column prompt contains": (pd.DataFrame({"model": ["a", "b"], "prompt": ["x", "y"], "x": [1.0, 2.0]}), {"arm": "model"}),
    "column e: its rows have different shapes": (
        pd.DataFrame({"model": ["a", "b"], "e": [np.ones(2), np.ones(3)]}), {"arm": "model", "features": "e"}),
    "column e contains lists, but features must be numbers": (
        pd.DataFrame({"model": ["a", "b"], "e": [[1.0], [2.0]], "x": [1.0, 2.0]}), {"arm": "model"}),
    "but it must be a frame or a .parquet file, because arm= names a column": ({"a": [[1.0]]}, {"arm": "model"}),
    'also name the column of arms, as in arm="model"': (pd.DataFrame({"x": [1.0]}), {"features": ["x"]}),
    "a LazyFrame has no rows yet; pass frame.collect()": (
        pl.DataFrame({"model": ["a"], "x": [1.0]}).lazy(), {"arm": "model"}),
    'arm= is for frames and .parquet files; read other files yourself, as in mm.solve(pandas.read_csv("samples.csv"), arm="model")': (
        "samples.csv", {"arm": "model"}),
}  # fmt: skip


@pytest.mark.parametrize("sentence", REFUSED)
def test_rejected_frames(sentence: str) -> None:
    given, settings = REFUSED[sentence]
    with pytest.raises((TypeError, ValueError)) as raised:
        mm.solve(given, **settings)
    assert sentence in str(raised.value)


def test_several_frames_are_rejected() -> None:
    with pytest.raises(ValueError, match="load them one by one"):
        mm.load("a.parquet", "b.parquet", arm="model")


def test_no_library_is_imported_for_frames() -> None:
    import subprocess

    script = """
import sys, modelmix as mm
mm.solve({"a": [[0.0], [1.0]], "b": [[5.0], [6.0]]}, mm.Rke(bandwidth=1))
print([name for name in ("pandas", "polars", "pyarrow") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr
