"""Rows of encoded samples: none is lost or held twice, whatever the form of the samples, and each is one of a known sample."""

from __future__ import annotations

import hashlib
import json
import shutil
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fashion_images import ENCODER, Pixels, close, expected, pixels, write_folder

import modelmix as mm
from modelmix import _samples
from modelmix.encoders import _buffer

SIDE = 28
RKE = mm.Rke(bandwidth=5)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODELMIX_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def images() -> Pixels:
    return pixels()[:36]


@pytest.fixture(scope="module")
def encoder() -> mm.encoders.Encoder:
    return mm.encoders.open(ENCODER)


def means(batch: list[Any]) -> Any:
    return [[float(image.mean()), float(image.std())] for image in batch]


#: The sizes of batches. A chunk ends with the batch that makes it ten images or more.
BATCHES = {
    "large chunks, then a small one": [5] * 7 + [1],
    "a small chunk, then large ones": [10, 1, 1, 1, 1, 1, 1, 20],
    "one batch": [36],
    "batches of one": [1] * 36,
    "as many batches as rows of a chunk": [9, 3] * 3,
    "growing": [1, 2, 3, 4, 5, 6, 7, 8],
}


@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("case", BATCHES)
def test_every_row_of_a_list_of_batches_is_there(
    case: str, labels: bool, images: Pixels, encoder: mm.encoders.Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_samples, "_CHUNK", 10 * SIDE * SIDE * 3)
    colours = np.stack([images] * 3, axis=-1)
    ends = np.cumsum(BATCHES[case])
    batches: list[Any] = [colours[end - size : end] for end, size in zip(ends, BATCHES[case])]
    if labels:
        batches = [(batch, np.arange(len(batch))) for batch in batches]
    for given in (batches, tuple(batches), iter(batches)):
        encoded = mm.encode(given, encoder, cache=False)
        assert encoded.ids == tuple(map(str, range(len(images))))
        close(encoded, expected(images))
        by_function = mm.encode(batches, means)
        np.testing.assert_allclose(by_function.features, means(list(images)), rtol=1e-6)


def test_a_progress_bar_of_batches_has_no_total(
    images: Pixels, encoder: mm.encoders.Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tqdm.auto

    bars: list[Any] = []

    class Bar:
        def __init__(self, total: int | None, **_: Any) -> None:
            self.total, self.n = total, 0
            bars.append(self)

        def update(self, count: int) -> None:
            self.n += count

        def close(self) -> None: ...

    monkeypatch.setattr(tqdm.auto, "tqdm", Bar)
    colours = np.stack([images] * 3, axis=-1)
    labelled = [(image, 0) for image in images]
    for given in ([colours[:20], colours[20:]], list(images), labelled, [{"image": image} for image in images]):
        mm.encode(given, encoder, progress=True)
    assert [(bar.total, bar.n) for bar in bars] == [(None, 36), (36, 36), (36, 36), (36, 36)]


def test_rows_without_an_id_are_refused(images: Pixels, encoder: mm.encoders.Encoder) -> None:
    encoded = mm.encode(images, encoder)
    with pytest.raises(
        ValueError, match=r"there are 5 rows of features, 36 ids and 36 files; give one id and one file"
    ):
        mm.Encoded(encoded.features[:5], encoded.ids, encoded.files)


def test_features_of_functions_are_held_once() -> None:
    count, width = 4000, 400
    made = np.random.default_rng(0).normal(size=(64, width)).astype(np.float32)
    for given in ([str(at) for at in range(count)], (str(at) for at in range(count))):
        tracemalloc.start()
        found = mm.encode(given, lambda batch: made[: len(batch)].copy())
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert found.features.nbytes == 4 * count * width
        assert most < 1.5 * found.features.nbytes, most / found.features.nbytes
    np.testing.assert_array_equal(found.features, np.concatenate([np.tile(made, (62, 1)), made[:32]]))


def test_many_chunks_are_held_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A generator says nothing about its length, so the array grows."""
    count, width = 4000, 400
    row = np.arange(width, dtype=np.float32)
    monkeypatch.setattr(_samples, "_CHUNK", 1000)
    tracemalloc.start()
    found = mm.encode((f"{at:04}" for at in range(count)), lambda batch: [int(text) + row for text in batch])
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    np.testing.assert_array_equal(found.features, np.arange(count)[:, None] + row)
    assert most < 1.5 * found.features.nbytes, most / found.features.nbytes


def test_rows_are_kept_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_buffer, "_BLOCK", 3)
    random = np.random.default_rng(2)
    for _ in range(50):
        whole = random.normal(size=(random.integers(1, 20), 4)).astype(np.float32)
        rows = np.flatnonzero(random.random(len(whole)) < 0.6).tolist()
        wanted = whole[rows]
        kept = _buffer.keep_rows(whole, rows)
        np.testing.assert_array_equal(kept, wanted)
        assert kept is whole and kept.flags.owndata


def test_a_function_that_changes_its_width_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def wider(batch: list[str]) -> Any:
        return [[1.0] * (2 if batch[0] == "0" else 3)] * len(batch)

    texts = [str(at) for at in range(100)]
    sentence = (
        r"returned 3 features per sample after 2 for earlier ones; it must return the same number for every sample"
    )
    with pytest.raises(ValueError, match=sentence):
        mm.encode(texts, wider)
    monkeypatch.setattr(_samples, "_CHUNK", 50)
    with pytest.raises(ValueError, match=sentence):
        mm.encode(texts, wider)


def test_folders_that_a_function_encodes_have_a_checksum(images: Pixels, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "png", images)
    whole = hashlib.sha256()
    for at in range(len(images)):
        whole.update(f"{at}.png".encode() + b"\0" + hashlib.sha256((folder / f"{at}.png").read_bytes()).digest())
    assert mm.encode(folder, means).sha256 == whole.hexdigest()
    assert mm.encode(images, means).sha256 is None
    best = mm.solve({"a": folder, "b": images}, RKE, encoder=means)
    assert best.provenance is not None
    found = best.provenance.inputs[0]
    assert (found.path, found.bytes, found.sha256) == (str(folder), None, whole.hexdigest())
    (folder / "99.png").write_bytes(b"no")
    with pytest.warns(UserWarning, match="1 of 37 samples"):
        assert mm.encode(folder, means, on_error="skip").sha256 == whole.hexdigest()
    texts = tmp_path / "texts.txt"
    texts.write_text("a cat\nné\n", encoding="utf-8")
    encoded = mm.encode(texts, lambda batch: [[1.0]] * len(batch))
    lines = [(name, text) for name, text in zip(encoded.ids, ("a cat", "né"))]
    written = b"".join(name.encode() + b"\0" + hashlib.sha256(text.encode()).digest() for name, text in lines)
    assert encoded.sha256 == hashlib.sha256(written).hexdigest()


@pytest.mark.parametrize("given", [ENCODER, means])
def test_the_remedy_for_a_broken_file_is_one_that_python_has(given: Any, images: Pixels, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "png", images)
    (folder / "7.png").write_bytes(b"")
    remedy = r"7\.png: .* \(or leave such samples out with mm\.encode\(\.\.\., on_error=\"skip\"\)\)$"
    for call in (
        lambda: mm.solve({"a": folder, "b": images}, RKE, encoder=given),
        lambda: mm.encode(folder, given),
        lambda: mm.encode([*images, folder / "7.png"], given),
    ):
        with pytest.raises(ValueError, match=remedy):
            call()
    with pytest.raises(ValueError, match=r"use the runtime onnxruntime for a GPU$"):
        mm.encoders.open(ENCODER, device="cuda")


@pytest.mark.parametrize("change", ["one", "two", "reference"])
def test_the_checksum_of_a_file_is_that_of_the_whole_file(
    change: str, images: Pixels, encoder: mm.encoders.Encoder, tmp_path: Path
) -> None:
    """A file of several sets is one input, whichever of them changes."""
    sets = {"one": images[:12], "two": images[12:24], "reference": images[24:]}
    file, seen = tmp_path / "sets.npz", []
    for now in (sets, {**sets, change: 255 - sets[change]}):
        np.savez(file, **now)  # type: ignore[arg-type]
        best = mm.solve(
            {"a": f"{file}:one", "b": f"{file}:two"},
            mm.Mmd(bandwidth=5),
            reference=f"{file}:reference",
            encoder=encoder,
        )
        assert best.provenance is not None
        content = file.read_bytes()
        wanted = (str(file), len(content), hashlib.sha256(content).hexdigest())
        arms, reference = best.provenance.inputs
        assert (arms.path, arms.bytes, arms.sha256) == (reference.path, reference.bytes, reference.sha256) == wanted
        seen.append(arms.sha256)
    assert seen[0] != seen[1]


def test_files_of_texts_have_their_own_checksum(tmp_path: Path) -> None:
    file = tmp_path / "texts.json"
    file.write_text(json.dumps({"one": ["a", "bb"], "two": ["ccc", "dddd"]}))
    best = mm.solve(file, RKE, encoder=lambda texts: [[float(len(text))] for text in texts])
    assert best.provenance is not None
    [found] = best.provenance.inputs
    assert (found.bytes, found.sha256) == (file.stat().st_size, hashlib.sha256(file.read_bytes()).hexdigest())


def test_a_folder_with_an_onnx_file_is_not_one_of_transformers(tmp_path: Path) -> None:
    """As published for CLIP: a config.json, and the vision tower beside it."""
    (tmp_path / "onnx").mkdir()
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "clip"}))
    shutil.copy(ENCODER, tmp_path / "onnx" / "vision_model.onnx")
    with pytest.raises(ValueError, match=r"vision_model\.onnx: "):
        mm.encoders.open("clip-vit-b32", weights=tmp_path)
