"""mm.encode: every form of images and texts gives the same features as onnxruntime, with ids, a cache and files."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fashion_images import ENCODER, IMAGES, Pixels, close, expected, pixels, write_folder
from PIL import Image

import modelmix as mm
from modelmix import _modelmix, _samples

COUNT = 20


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MODELMIX_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def images() -> Pixels:
    return pixels()[:COUNT]


@pytest.fixture(scope="module")
def encoder() -> mm.encoders.Encoder:
    return mm.encoders.open(ENCODER)


class Dataset:
    """As torch's map-style datasets: a length, items, and no end."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, at: int) -> Any:
        return self.items[at % len(self.items)]


class Column:
    """As a column of Hugging Face's datasets: an iterable without a shape."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)


def in_bytes(image: Pixels, kind: str = "PNG") -> bytes:
    file = io.BytesIO()
    Image.fromarray(image).save(file, kind)
    return file.getvalue()


def archive(path: Path, images: Pixels) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for at, image in enumerate(images):
            file.writestr(f"images/{at}.png", in_bytes(image))
    return path


def colours(images: Pixels) -> Pixels:
    return np.stack([images] * 3, axis=-1)


def saved(path: Path, images: Pixels) -> Path:
    np.save(path, images)
    return path


def saved_arms(path: Path, images: Pixels) -> str:
    np.savez(path, one=images, other=images[:3])
    return f"{path}:one"


FORMS: dict[str, Callable[[Pixels, Path], Any]] = {
    "a folder": lambda images, folder: write_folder(folder / "png", images),
    "text": lambda images, folder: str(write_folder(folder / "png", images)),
    "a folder of BMP files": lambda images, folder: write_folder(folder / "bmp", images, "bmp"),
    "an archive": lambda images, folder: archive(folder / "images.zip", images),
    "a .npy file": lambda images, folder: saved(folder / "images.npy", images),
    "an array of a .npz file": lambda images, folder: saved_arms(folder / "images.npz", images),
    "a list of paths": lambda images, folder: [write_folder(folder / "png", images) / f"{n}.png" for n in range(COUNT)],
    "a tuple of texts": lambda images, folder: tuple(
        str(write_folder(folder / "png", images) / f"{n}.png") for n in range(COUNT)
    ),
    "Pillow's images": lambda images, folder: [Image.fromarray(image) for image in images],
    "Pillow's palettes": lambda images, folder: [Image.fromarray(image).convert("P") for image in images],
    "Pillow's images with alpha": lambda images, folder: [Image.fromarray(image).convert("RGBA") for image in images],
    "Pillow's files": lambda images, folder: [
        Image.open(write_folder(folder / "png", images) / f"{n}.png") for n in range(COUNT)
    ],
    "bytes": lambda images, folder: [in_bytes(image) for image in images],
    "grey": lambda images, folder: images,
    "height × width × 3": lambda images, folder: colours(images),
    "height × width × 1": lambda images, folder: images[..., None],
    "height × width × 4": lambda images, folder: np.concatenate([colours(images), images[..., None]], axis=-1),
    "3 × height × width": lambda images, folder: np.moveaxis(colours(images), -1, 1),
    "not contiguous": lambda images, folder: np.repeat(colours(images), 2, axis=2)[:, :, ::2],
    "a list of arrays": lambda images, folder: list(colours(images)),
    "a list of grey arrays": lambda images, folder: list(images),
    "a list of planes": lambda images, folder: list(np.moveaxis(colours(images), -1, 1)),
    "a generator": lambda images, folder: (image for image in images),
    "a generator of labelled images": lambda images, folder: ((image, at) for at, image in enumerate(images)),
    "a dataset": lambda images, folder: Dataset(list(images)),
    "a dataset with labels": lambda images, folder: Dataset([(Image.fromarray(image), 3) for image in images]),
    "a column": lambda images, folder: Column([Image.fromarray(image) for image in images]),
    "rows of a dataset": lambda images, folder: [{"image": Image.fromarray(image), "label": 1} for image in images],
    "rows that are not decoded": lambda images, folder: [{"bytes": in_bytes(image), "path": None} for image in images],
    "batches": lambda images, folder: (colours(images)[at : at + 8] for at in range(0, COUNT, 8)),
    "batches with labels": lambda images, folder: (
        [colours(images)[at : at + 8], np.arange(8)] for at in range(0, COUNT, 8)
    ),
    "batches as lists": lambda images, folder: (list(images[at : at + 8]) for at in range(0, COUNT, 8)),
    "mixed": lambda images, folder: [in_bytes(image) if at % 2 else image for at, image in enumerate(images)],
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_features_of_onnxruntime(
    form: str, images: Pixels, encoder: mm.encoders.Encoder, tmp_path: Path
) -> None:
    encoded = mm.encode(FORMS[form](images, tmp_path), encoder)
    assert encoded.features.shape == (COUNT, 64) and encoded.features.dtype == np.float32
    close(encoded, expected(images))
    assert len(encoded) == len(encoded.ids) == len(encoded.files) == COUNT and encoded.skipped == ()


def test_larger_images_are_resized_as_by_pillow(encoder: mm.encoders.Encoder) -> None:
    """The settings file of the encoder says: grey, then Pillow's bicubic resize to 28 × 28."""
    random = np.random.default_rng(5)
    large = random.integers(0, 256, size=(6, 61, 40, 3), dtype=np.uint8)
    grey = [Image.fromarray(image).convert("L").resize((28, 28), Image.Resampling.BICUBIC) for image in large]
    close(mm.encode(large, encoder), expected(np.stack([np.asarray(image) for image in grey])))


@pytest.mark.parametrize("runtime", ["rten", "onnxruntime"])
def test_both_runtimes(runtime: Any, images: Pixels) -> None:
    encoder = mm.encoders.open(ENCODER, runtime=runtime)
    close(encoder(images), expected(images))
    assert encoder.encoding is not None and encoder.encoding.runtime is not None
    assert encoder.encoding.runtime.startswith(runtime)
    assert encoder.encoding.fingerprint == mm.encoders.open(ENCODER).encoding.fingerprint  # type: ignore[union-attr]


def test_chunks_of_any_size_give_the_same_rows(
    images: Pixels, encoder: mm.encoders.Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory is bounded by chunks; here each has two or three images."""
    whole = mm.encode(images, encoder, cache=False)
    monkeypatch.setattr(_samples, "_CHUNK", 2 * images[0].nbytes + 1)
    sizes: list[int] = []
    of_images = _modelmix.Samples.of_images

    class Counted:
        @staticmethod
        def of_images(origin: str, given: list[Any]) -> Any:
            sizes.append(len(given))
            return of_images(origin, given)

    monkeypatch.setattr("modelmix._samples._modelmix.Samples", Counted)
    for given in (images, (image for image in images), list(images)):
        parts = mm.encode(given, encoder, cache=False)
        close(parts, whole.features)  # the size of a batch may change the last digit
        assert parts.ids == whole.ids == tuple(map(str, range(COUNT)))
        assert parts.encoding == whole.encoding
    assert max(sizes) == 3 and len(sizes) == 3 * 7


def test_a_generator_is_consumed_with_bounded_memory(
    encoder: mm.encoders.Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    alive, most = 0, 0

    class Counted(np.ndarray[Any, Any]):
        def __del__(self) -> None:
            nonlocal alive
            alive -= 1

    def generate() -> Iterator[Any]:
        nonlocal alive, most
        for _ in range(400):
            image = np.zeros((28, 28), dtype=np.uint8).view(Counted)
            alive += 1
            most = max(most, alive)
            yield image
            del image

    monkeypatch.setattr(_samples, "_CHUNK", 20 * 28 * 28)
    assert mm.encode(generate(), encoder, cache=False).features.shape == (400, 64)
    assert most <= 45


def test_ids_and_files(images: Pixels, encoder: mm.encoders.Encoder, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "flux" / "a", images[:12]).parent
    write_folder(folder / "b", images[12:])
    encoded = mm.encode(folder, encoder)
    # natural order: 2 before 10, folder by folder
    assert encoded.ids == tuple(f"a/{n}.png" for n in range(12)) + tuple(f"b/{n}.png" for n in range(8))
    assert encoded.files == tuple(str(folder / name) for name in encoded.ids)
    close(encoded, expected(images))
    paths = [folder / "b" / "3.png", folder / "a" / "0.png"]
    listed = mm.encode(paths, encoder)
    assert listed.ids == listed.files == tuple(map(str, paths))
    assert mm.encode(images, encoder).files == (None,) * COUNT


def test_a_second_run_reads_the_cache(
    images: Pixels, encoder: mm.encoders.Encoder, tmp_path: Path, own_cache: Path
) -> None:
    folder = write_folder(tmp_path / "png", images)
    first = mm.encode(folder, encoder)
    assert first.cached == 0 and any(own_cache.rglob("rows"))
    second = mm.encode(folder, encoder)
    assert second.cached == COUNT and second.sha256 == first.sha256
    np.testing.assert_array_equal(first.features, second.features)
    Image.fromarray(255 - images[3]).save(folder / "3.png")
    changed = mm.encode(folder, encoder)
    assert changed.cached == COUNT - 1 and changed.sha256 != first.sha256
    close(changed.features[3:4], expected(255 - images[3:4]))
    assert mm.encode(folder, encoder, cache=False).cached == 0
    elsewhere = tmp_path / "elsewhere"
    assert mm.encode(folder, encoder, cache=elsewhere).cached == 0
    assert mm.encode(folder, encoder, cache=str(elsewhere)).cached == COUNT
    assert mm.encode(list(images), encoder).cached == 0, "pixels are not files"
    assert mm.encode(images, encoder).cached == COUNT


BROKEN: dict[str, Callable[[Pixels], Any]] = {
    "bytes": lambda images: [images[0], b"not an image", images[1]],
    "a truncated file": lambda images: [images[0], in_bytes(images[2])[:60], images[1]],
    "an image of Pillow": lambda images: [images[0], Image.open(io.BytesIO(in_bytes(images[2])[:90])), images[1]],
}


@pytest.mark.parametrize("form", BROKEN)
def test_samples_that_cannot_be_read_are_named_or_skipped(
    form: str, images: Pixels, encoder: mm.encoders.Encoder
) -> None:
    with pytest.raises(ValueError, match=r"1: .*leave such samples out"):
        mm.encode(BROKEN[form](images), encoder)
    with pytest.warns(UserWarning, match=r"^1 of 3 samples were skipped \(1: "):
        encoded = mm.encode(BROKEN[form](images), encoder, on_error="skip")
    assert [one.id for one in encoded.skipped] == ["1"] and encoded.ids == ("0", "2")
    close(encoded, expected(images[:2]))
    assert repr(encoded) == "Encoded(2 × 64 by encoder.onnx, 1 skipped)"


def test_a_broken_file_is_named_with_its_path(images: Pixels, encoder: mm.encoders.Encoder, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "flux", images)
    (folder / "7.png").write_bytes(b"")
    with pytest.raises(ValueError, match=f"^{folder / '7.png'}: "):
        mm.encode(folder, encoder)
    with pytest.warns(UserWarning, match=r"1 of 20 samples of flux were skipped \(7\.png: "):
        encoded = mm.encode(folder, encoder, on_error="skip")
    assert encoded.skipped[0].id == "7.png" and "7.png" not in encoded.ids
    close(encoded, expected(np.delete(images, 7, axis=0)))
    with pytest.raises(ValueError, match="no sample could be read"):
        mm.encode([b"a", b"b"], encoder, on_error="skip")


WRONG: dict[str, tuple[type[Exception], Callable[[Pixels], Any]]] = {
    r"is an array of float32, but pixels are 8-bit integers; multiply by 255 and convert to uint8, as the tools do":
        (TypeError, lambda images: images / np.float32(255)),
    r"sample 0 is an array of int64, .* convert values in 0–255 with x\.astype":
        (TypeError, lambda images: images.astype(np.int64)),
    r"has the shape \(28, 28, 3\), which is one image; pass a list of images, as in \[image\]":
        (ValueError, lambda images: colours(images)[0]),
    r"has the shape \(28, 28\), but images are n × height × width × 3":
        (ValueError, lambda images: images[0]),
    r"sample 1 has the shape \(5,\)": (ValueError, lambda images: [images[0], np.zeros(5, dtype=np.uint8)]),
    r"sample 0 has the shape \(28, 28, 2\)": (ValueError, lambda images: [np.zeros((28, 28, 2), dtype=np.uint8)]),
    r"there are no images to encode": (ValueError, lambda images: []),
    r"sample 0 is 3, but images are paths, arrays of 8-bit integers, or images of Pillow": (TypeError, lambda images: [3]),
    r"samples is 3, but it must be a path, an array, or a list of images": (TypeError, lambda images: 3),
    r"samples is b'abc', but it must be a path": (TypeError, lambda images: b"abc"),
    r'sample 0 has the fields img, label; pass the column of images, as in dataset\["img"\]':
        (ValueError, lambda images: [{"img": images[0], "label": 3}]),
    r"has neither images nor texts": (ValueError, lambda images: str(ENCODER)),
    r"cannot read .*nowhere": (FileNotFoundError, lambda images: "nowhere"),
    r"specialists.npz has 5 sets of samples \(tops_gan, .*pick one, as in .*specialists.npz:tops_gan":
        (ValueError, lambda images: IMAGES / "specialists.npz"),
}  # fmt: skip


@pytest.mark.parametrize("sentence", WRONG)
def test_wrong_samples_are_refused_with_a_remedy(sentence: str, images: Pixels, encoder: mm.encoders.Encoder) -> None:
    kind, make = WRONG[sentence]
    with pytest.raises(kind, match=sentence):
        mm.encode(make(images), encoder)


def test_a_file_of_texts_needs_an_encoder_of_texts(encoder: mm.encoders.Encoder, tmp_path: Path) -> None:
    file = tmp_path / "prompts.txt"
    file.write_text("a cat\na dog\n")
    with pytest.raises(ValueError, match=r"prompts.txt has texts, but encoder.onnx encodes images; choose another"):
        mm.encode(file, encoder)


def test_functions_stay_welcome(images: Pixels, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "png", images)
    seen: list[tuple[int, ...]] = []

    def means(batch: list[Pixels]) -> Any:
        seen.extend(image.shape for image in batch)
        return [[float(image.mean()), 1.0] for image in batch]

    wanted = np.array([[image.mean(), 1.0] for image in images], dtype=np.float32)
    for given in (
        folder,
        images,
        [folder / f"{n}.png" for n in range(COUNT)],
        [Image.fromarray(one) for one in images],
    ):
        encoded = mm.encode(given, means)
        np.testing.assert_allclose(encoded.features, wanted, rtol=1e-6)
        assert encoded.encoding is None and repr(encoded) == "Encoded(20 × 2 by a function)"
    assert set(seen) == {(28, 28, 3)}
    (folder / "4.png").write_bytes(b"GIF89a")
    with pytest.raises(ValueError, match=f"^{folder / '4.png'}: .*leave such samples out"):
        mm.encode(folder, means)
    with pytest.warns(UserWarning, match="1 of 20 samples"):
        assert len(mm.encode(folder, means, on_error="skip")) == COUNT - 1
    with pytest.raises(ValueError, match=r"shape \(1, 2\) for 20 samples; it must return one row per sample"):
        mm.encode(images, lambda batch: [[1.0, 2.0]])


def test_functions_of_texts(tmp_path: Path) -> None:
    def lengths(texts: list[str]) -> Any:
        return [[float(len(text)), float(text.count("a"))] for text in texts]

    texts = ["a cat", "a banana", "🐈 né", ""]
    wanted = [[5.0, 2.0], [8.0, 4.0], [4.0, 0.0], [0.0, 0.0]]
    file = tmp_path / "texts.json"
    file.write_text(json.dumps(texts))
    table = tmp_path / "texts.csv"
    table.write_text("id,prompt\n" + "".join(f'{at},"{text}"\n' for at, text in enumerate(texts)))
    for given in (
        texts,
        tuple(texts),
        iter(texts),
        file,
        f"{table}:prompt",
        ((text, 1) for text in texts),
        np.array(texts),
    ):
        encoded = mm.encode(given, lengths)
        assert encoded.features.tolist() == wanted and encoded.ids == ("0", "1", "2", "3")


def test_saved_features_come_back_with_ids_and_encoding(
    images: Pixels, encoder: mm.encoders.Encoder, tmp_path: Path
) -> None:
    encoded = mm.encode(write_folder(tmp_path / "png", images), encoder)
    for name in ("flux.npz", "flux.safetensors"):
        encoded.save(tmp_path / name)
        read = mm.load(tmp_path / name)["flux"]
        np.testing.assert_array_equal(read, encoded.features)
        assert encoder.encoding is not None
        assert _modelmix.encoding_of(read) == encoder.encoding._document()
    with np.load(tmp_path / "flux.npz") as arrays:
        assert json.loads(arrays["modelmix-ids.json"]) == {"flux": list(encoded.ids)}
        np.testing.assert_array_equal(arrays["flux"], encoded.features)
    encoded.save(tmp_path / "flux.npz", name="other")
    assert list(mm.load(tmp_path / "flux.npz")) == ["other"]
    with pytest.raises(ValueError, match=r"written as \.npz or \.safetensors; rename the file"):
        encoded.save(tmp_path / "flux.csv")
    with pytest.raises(ValueError, match=r"a function made these features.*numpy\.savez\('flux.npz', flux=encoded"):
        mm.encode(images, lambda batch: [[1.0]] * len(batch)).save(tmp_path / "flux.npz")
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["flux.npz", "flux.safetensors"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_nothing_half_written_is_left(images: Pixels, encoder: mm.encoders.Encoder, tmp_path: Path) -> None:
    encoded = mm.encode(images, encoder)
    with pytest.raises(OSError):
        encoded.save(tmp_path / "no" / "such" / "folder.npz")
    with pytest.raises(IsADirectoryError):
        (tmp_path / "folder.npz").mkdir()
        encoded.save(tmp_path / "folder.npz")
    assert [path.name for path in tmp_path.iterdir() if path.name != "cache"] == ["folder.npz"]


def test_an_encoded_set_is_an_array_without_a_copy(images: Pixels, encoder: mm.encoders.Encoder) -> None:
    encoded = mm.encode(images, encoder)
    assert np.asarray(encoded) is encoded.features and not encoded.features.flags.writeable
    assert np.asarray(encoded, dtype=np.float64).dtype == np.float64
    before = _modelmix.copied_bytes()
    mm.solve({"one": encoded, "two": mm.encode(images[:7], encoder)}, mm.Rke(bandwidth=5))
    assert _modelmix.copied_bytes() == before


def test_a_progress_bar_counts_samples(
    images: Pixels, encoder: mm.encoders.Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tqdm.auto

    bars: list[Any] = []

    class Bar:
        def __init__(self, total: int | None, desc: str, unit: str, **_: Any) -> None:
            self.total, self.desc, self.unit, self.n = total, desc, unit, 0
            bars.append(self)

        def update(self, count: int) -> None:
            self.n += count

        def close(self) -> None: ...

    monkeypatch.setattr(tqdm.auto, "tqdm", Bar)
    folder = write_folder(tmp_path / "flux", images)
    for given in (images, folder):
        mm.encode(given, encoder, progress=True)
    mm.encode((image for image in images), encoder, progress=True)
    assert [(bar.total, bar.desc, bar.unit, bar.n) for bar in bars] == [
        (20, "encoding images", "image", 20),
        (20, "encoding flux", "image", 20),
        (None, "encoding images", "image", 20),
    ]


def test_settings_of_an_open_encoder_are_refused(encoder: mm.encoders.Encoder, images: Pixels) -> None:
    with pytest.raises(
        ValueError, match=r"encoder is open already, so preset, weights, runtime and device have no effect"
    ):
        mm.encode(images, encoder, preset="dgm-eval")
    with pytest.raises(TypeError, match=r"encoder is 3, but it must be a name such as"):
        mm.encode(images, 3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"on_error is 'ignore'.*must be refuse or skip"):
        mm.encode(images, encoder, on_error="ignore")  # type: ignore[arg-type]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_cache_that_cannot_be_written_is_a_warning(
    images: Pixels, encoder: mm.encoders.Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = mm.encode(images, encoder, cache=False)
    (folder,) = [tmp_path / "full" / str(encoder._network.cache_name)]
    folder.mkdir(parents=True)
    (folder / "rows").symlink_to("/dev/full")
    with pytest.warns(UserWarning, match=r"new features are not in the cache: .*cannot be used"):
        found = mm.encode(images, encoder, cache=tmp_path / "full")
    np.testing.assert_array_equal(found.features, wanted.features)
    # The usual folder is not one that anybody asked for.
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MODELMIX_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.warns(UserWarning, match=r"features are not cached: .*file"):
        mm.encode(images, encoder)
    with pytest.raises((OSError, ValueError), match="file"):
        mm.encode(images, encoder, cache=tmp_path / "file" / "cache")
