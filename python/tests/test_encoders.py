"""mm.encoders: the list, what is opened from where, downloads, and preprocessing without weights."""

from __future__ import annotations

import hashlib
import http.server
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fashion_images import ENCODER, pixels, write_folder
from PIL import Image

import modelmix as mm


@pytest.fixture(autouse=True)
def no_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder without weights."""
    for name in ("HF_HOME", "HF_HUB_CACHE", "TORCH_HOME", "XDG_CACHE_HOME", "HF_HUB_OFFLINE", "HUGGINGFACE_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MODELMIX_CACHE", str(tmp_path / "cache"))
    return tmp_path


def test_the_list_has_the_encoders_of_the_field() -> None:
    listed = {one.name: one for one in mm.encoders.list()}
    assert {
        "inception-v3-fid",
        "dinov2-vits14",
        "dinov2-vitg14",
        "clip-vit-b32",
        "clip-vit-l14-336",
        "swav",
    } <= set(listed)
    assert {"roberta-base", "all-minilm-l6-v2", "all-mpnet-base-v2", "e5-base-v2", "bge-m3", "gte-large"} <= set(listed)
    assert {one.kind for one in listed.values()} == {"images", "texts"}
    dino = listed["dinov2-vitl14"]
    assert (dino.width, dino.size, dino.presets[0].tool, dino.found) == (1024, 224, "dgm-eval", None)
    assert dino.how_to_get is not None and "dinov2-vitl14" in dino.how_to_get
    e5 = listed["e5-base-v2"]
    assert (e5.prefix, e5.max_length, e5.presets[0].pooling, e5.presets[0].normalise) == ("query: ", 512, "mean", True)
    assert listed["bge-m3"].presets[0].pooling == "cls"
    kinds = {kind: [one.name for one in mm.encoders.list(kind)] for kind in ("images", "texts")}  # type: ignore[arg-type]
    assert kinds["images"] + kinds["texts"] == list(listed) and "roberta-base" in kinds["texts"]
    with pytest.raises(ValueError, match=r"kind is 'image' \(did you mean images\?\), but it must be images or texts"):
        mm.encoders.list("image")  # type: ignore[arg-type]


def test_weights_in_the_caches_are_found(no_weights: Path) -> None:
    file = no_weights / ".cache" / "torch" / "hub" / "checkpoints" / "pt_inception-2015-12-05-6726825d.pth"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"PK")
    found = next(one for one in mm.encoders.list() if one.name == "inception-v3-fid")
    assert (found.found, found.origin, found.how_to_get) == (str(file), "torch-hub", None)


def test_missing_weights_are_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    # torch may be installed where the tests run, but its caches are empty
    with pytest.raises(
        ValueError,
        match=r'^encoder dinov2-vitl14: its weights are not on this machine; .*backend="torch"\) loads the original network$',
    ):
        mm.encoders.open("dinov2-vitl14")
    with pytest.raises(ValueError, match=r"^encoder dinov2-vitl14: its weights are not on this machine; "):
        mm.encoders.open("dinov2-vitl14", backend="onnx")
    with pytest.raises(ValueError, match=r'there is no encoder named "dinov2-vitl" \(did you mean dinov2-vitl14\?\)'):
        mm.encoders.open("dinov2-vitl")
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(ImportError, match=r'backend="torch" needs torch; install it with pip install torch'):
        mm.encoders.open("dinov2-vitl14", backend="torch")


WRONG: dict[str, dict[str, Any]] = {
    r"backend is 'onx' \(did you mean onnx\?\), but it must be auto, onnx or torch": {"backend": "onx"},
    r"runtime is 'ort'.*must be rten or onnxruntime": {"runtime": "ort"},
    r'"gpu" is not a device; use cpu, cuda, or cuda:1': {"device": "gpu"},
    r"no encoder named": {"preset": "no-such-encoder"},
}


@pytest.mark.parametrize("sentence", WRONG)
def test_wrong_settings_are_refused(sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        mm.encoders.open(ENCODER, **WRONG[sentence])


def test_an_encoder_is_opened_not_made() -> None:
    with pytest.raises(TypeError, match=r'opened by name or path, as in mm\.encoders\.open\("dinov2-vitl14"\)'):
        mm.encoders.Encoder()
    encoder = mm.encoders.open(ENCODER)
    assert (encoder.name, encoder.kind, encoder.width) == ("encoder.onnx", "images", 64)
    assert repr(encoder).startswith("Encoder(encoder.onnx (")
    assert encoder.encoding is not None and encoder.encoding.version == mm.__version__


def test_the_fingerprint_depends_on_weights_and_preprocessing(tmp_path: Path) -> None:
    settings = ENCODER.with_suffix(".encoder.toml").read_text()
    fingerprints = set()
    for name, content, text in (
        ("one", ENCODER.read_bytes(), settings),
        ("same", ENCODER.read_bytes(), settings + "# a remark\n"),
        ("filter", ENCODER.read_bytes(), settings.replace("bicubic", "lanczos")),
        ("range", ENCODER.read_bytes(), settings.replace("255.0", "256.0")),
    ):
        (tmp_path / f"{name}.onnx").write_bytes(content)
        (tmp_path / f"{name}.encoder.toml").write_text(text)
        encoding = mm.encoders.open(tmp_path / f"{name}.onnx").encoding
        assert encoding is not None
        fingerprints.add(encoding.fingerprint)
    assert len(fingerprints) == 3


def test_an_onnx_file_without_settings_needs_a_preset(tmp_path: Path) -> None:
    shutil.copy(ENCODER, tmp_path / "bare.onnx")
    with pytest.raises(ValueError, match=r"nothing says how its images are preprocessed"):
        mm.encoders.open(tmp_path / "bare.onnx")


@pytest.mark.parametrize(("name", "preset"), [("dinov2-vitl14", "dgm-eval"), ("clip-vit-b32", "clean-fid")])
def test_preprocessing_needs_no_weights(name: str, preset: str, tmp_path: Path) -> None:
    """DINOv2 as dgm-eval and CLIP as clean-fid prepare them, written down with Pillow and NumPy."""
    random = np.random.default_rng(3)
    images = random.integers(0, 256, size=(3, 250, 301, 3), dtype=np.uint8)
    constants = {
        "dgm-eval": ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        "clean-fid": ([0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]),
    }
    mean, std = (np.array(values, np.float32) for values in constants[preset])
    made = mm.encoders.preprocess(images, name, preset=preset)
    assert made.shape == (3, 3, 224, 224) and made.dtype == np.float32
    for image, tensor in zip(images, made):
        picture = Image.fromarray(image)
        if preset == "dgm-eval":
            picture = picture.resize((224, 224), Image.Resampling.BICUBIC)
        else:
            picture = picture.resize((int(224 * 301 / 250), 224), Image.Resampling.BICUBIC)
            left = round((picture.width - 224) / 2)
            picture = picture.crop((left, 0, left + 224, 224))
        wanted = (np.asarray(picture) / np.float32(255) - mean) / std
        np.testing.assert_allclose(tensor, np.moveaxis(wanted, -1, 0), atol=1e-6)
    folder = write_folder(tmp_path / "png", images)
    np.testing.assert_array_equal(mm.encoders.preprocess(folder, name, preset=preset), made)
    pictures = [Image.fromarray(image) for image in images]
    np.testing.assert_array_equal(mm.encoders.preprocess(pictures, name, preset=preset, threads=1), made)


def test_preprocessing_is_refused_with_a_remedy(tmp_path: Path) -> None:
    images = pixels()[:2]
    with pytest.raises(ValueError, match=r'dinov2-vitl14 has no preset "cmmd"; use one of dgm-eval, mixture-ucb'):
        mm.encoders.preprocess(images, "dinov2-vitl14", preset="cmmd")
    with pytest.raises(ValueError, match="roberta-base"):
        mm.encoders.preprocess(images, "roberta-base")
    with pytest.raises(ValueError, match=r"^1: "):
        mm.encoders.preprocess([images[0], b"no"], "dinov2-vitl14")
    with pytest.raises(ValueError, match=r"size depends on the image \(2 sizes\); pass images of one size"):
        mm.encoders.preprocess([images[0], np.zeros((30, 60, 3), dtype=np.uint8)], "swav")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, bytes]]:
    """A hub on this machine: paths and contents."""
    files: dict[str, bytes] = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = files.get(self.path)
            self.send_response(404 if content is None else 200)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            self.wfile.write(content or b"")

        do_HEAD = do_GET

        def log_message(self, *_: Any) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield files
    server.shutdown()
    server.server_close()


def test_weights_are_pulled_from_a_hub(hub: dict[str, bytes], no_weights: Path) -> None:
    content = ENCODER.read_bytes()
    hub["/onnx-community/dinov2-small/resolve/main/onnx/model.onnx"] = content
    files = mm.encoders.pull("dinov2-vits14")
    assert [hashlib.sha256(Path(file).read_bytes()).digest() for file in files] == [hashlib.sha256(content).digest()]
    assert all(no_weights / "cache" in Path(file).parents for file in files)
    found = next(one for one in mm.encoders.list() if one.name == "dinov2-vits14")
    assert (found.found, found.origin) == (files[0], "modelmix")
    # the file is no DINOv2, and the encoder says so
    with pytest.raises(ValueError, match="model.onnx"):
        mm.encoders.open("dinov2-vits14")


def test_pulls_that_cannot_work_are_a_sentence(hub: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        ValueError, match=r"^encoder dinov2-vitg14: no ONNX file of dinov2-vitg14 is published; export it"
    ):
        mm.encoders.pull("dinov2-vitg14")
    with pytest.raises(ValueError, match=r"^encoder all-mpnet-base-v2: "):
        mm.encoders.pull("all-mpnet-base-v2")
    with pytest.raises(ValueError, match="there is no encoder named"):
        mm.encoders.pull("dino")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ValueError, match="HF_HUB_OFFLINE is set"):
        mm.encoders.pull("dinov2-vits14")
