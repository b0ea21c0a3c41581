"""Encoders in Python with torch: modules, tensors, data loaders, caches and devices. What networks compute is compared with the original
implementations in test_image_encoders.py and test_text_encoders.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import networks
import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from places import FASHION

import modelmix as mm


@pytest.fixture(scope="module")
def dino(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as transformers saves it."""
    folder = tmp_path_factory.mktemp("networks") / "dino"
    networks.transformers_dinov2("dinov2-vits14").save_pretrained(folder)
    return folder


def test_folders_of_transformers_run_in_torch(dino: Path, pictures: list[Image.Image], assert_equal_rows: Any) -> None:
    """`auto` runs a folder without ONNX in torch, and states so; the preprocessing is part of the fingerprint."""
    encoder = mm.encoders.open("dinov2-vits14", weights=dino)
    other = mm.encoders.open("dinov2-vits14", weights=dino, preset="huggingface")
    assert encoder.encoding is not None and other.encoding is not None
    assert str(encoder.encoding.runtime).startswith(f"torch {torch.__version__}")
    assert (encoder.encoding.preset, other.encoding.preset) == ("dgm-eval", "huggingface")
    assert encoder.encoding.fingerprint != other.encoding.fingerprint
    with torch.inference_mode():
        pixels = torch.from_numpy(mm.encoders.preprocess(pictures, "dinov2-vits14"))
        wanted = transformers.Dinov2Model.from_pretrained(dino).eval()(pixels).last_hidden_state[:, 0]
    assert_equal_rows(encoder(pictures), wanted, "dinov2-vits14, a folder of transformers", 1e-5)


def test_a_module_of_ones_own(dino: Path, pictures: list[Image.Image]) -> None:
    module = transformers.Dinov2Model.from_pretrained(dino).eval()

    class Tokens(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = module

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            return self.inner(pixels).last_hidden_state[:, 0]  # type: ignore[no-any-return]

    wanted = mm.encoders.open("dinov2-vits14", weights=dino)(pictures)
    np.testing.assert_array_equal(mm.encoders.open("dinov2-vits14", weights=module)(pictures), wanted)
    np.testing.assert_array_equal(mm.encoders.open("dinov2-vits14", weights=Tokens())(pictures), wanted)
    with pytest.raises(ValueError, match=r"returned 384 features per sample, but dinov2-vitb14 has 768"):
        mm.encoders.open("dinov2-vitb14", weights=module)(pictures)


def test_files_a_cache_and_skipped_samples_in_torch(dino: Path, pictures: list[Image.Image], tmp_path: Path) -> None:
    folder = tmp_path / "png"
    folder.mkdir()
    for at, image in enumerate(pictures):
        image.save(folder / f"{at}.png")
    encoder = mm.encoders.open("dinov2-vits14", weights=dino)
    first = mm.encode(folder, encoder)
    np.testing.assert_allclose(first.features, encoder(pictures), rtol=0, atol=1e-6 * np.abs(first.features).max())
    second = mm.encode(folder, encoder)
    assert (first.cached, second.cached) == (0, len(pictures))
    np.testing.assert_array_equal(first.features, second.features)
    pictures[3].save(folder / "3b.png")
    (folder / "3c.png").write_bytes(b"no")
    with pytest.warns(UserWarning, match=r"1 of 9 samples of png were skipped \(3c.png: "):
        more = mm.encode(folder, encoder, on_error="skip")
    assert more.ids == ("0.png", "1.png", "2.png", "3.png", "3b.png", "4.png", "5.png", "6.png") and more.cached == 8
    np.testing.assert_array_equal(np.delete(more.features, 4, axis=0), first.features)
    with pytest.raises(ValueError, match=f"^{folder / '3c.png'}: "):
        mm.encode(folder, encoder)


def forms(pixels: np.ndarray[Any, Any]) -> Iterator[tuple[str, Any]]:
    tensor = torch.from_numpy(pixels)
    planes = tensor.permute(0, 3, 1, 2)
    labels = torch.arange(len(pixels))
    data = torch.utils.data.TensorDataset(planes, labels)
    yield "a tensor", tensor
    yield "planes", planes
    yield "contiguous planes", planes.contiguous()
    yield "grey", tensor[..., 0]
    yield "a list of tensors", list(planes)
    yield "a dataset with labels", data
    yield "a data loader", torch.utils.data.DataLoader(data, batch_size=7)
    yield "a data loader of images", torch.utils.data.DataLoader(planes, batch_size=7)
    if torch.cuda.is_available():
        yield "on a GPU", planes.cuda()


def test_every_form_of_tensors() -> None:
    with np.load(FASHION / "images" / "reference.npz") as arrays:
        grey = arrays["reference"][:20]
    encoder = mm.encoders.open(FASHION / "models" / "encoder.onnx")
    wanted = encoder(grey)
    for form, given in forms(np.stack([grey] * 3, axis=-1)):
        np.testing.assert_array_equal(encoder(given), wanted, err_msg=form)
    with pytest.raises(TypeError, match=r"array of float32.*multiply by 255"):
        encoder(torch.rand(2, 3, 28, 28))


def test_a_data_loader_of_texts() -> None:
    data = [(f"text {'x' * at}", at) for at in range(17)]
    loader: Any = torch.utils.data.DataLoader(data, batch_size=5)  # type: ignore[arg-type]
    encoded = mm.encode(loader, lambda texts: [[float(len(text))] for text in texts])
    assert encoded.features[:, 0].tolist() == [len(text) for text, _ in data]


def test_networks_in_the_caches_are_found(
    dino: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, pictures: list[Image.Image]
) -> None:
    """Without a path and without ONNX, `auto` uses what transformers has cached, and downloads nothing."""
    monkeypatch.setenv("HOME", str(tmp_path))
    cache = tmp_path / "hub" / "models--facebook--dinov2-small"
    (cache / "refs").mkdir(parents=True)
    (cache / "refs" / "main").write_text("abc")
    (cache / "snapshots").mkdir()
    (cache / "snapshots" / "abc").symlink_to(dino)
    monkeypatch.setenv("HF_HUB_CACHE", str(cache.parent))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache.parent))
    monkeypatch.setattr("torch.hub.get_dir", lambda: str(tmp_path / "torch"))
    encoder = mm.encoders.open("dinov2-vits14")
    assert encoder.encoding is not None and "transformers" in str(encoder.encoding.runtime)
    np.testing.assert_array_equal(encoder(pictures), mm.encoders.open("dinov2-vits14", weights=dino)(pictures))
    with pytest.raises(ValueError, match=r"encoder dinov2-vitb14: its weights are not on this machine"):
        mm.encoders.open("dinov2-vitb14")


def test_devices_that_are_not_there_are_refused(dino: Path) -> None:
    with pytest.raises(ValueError, match=r"device is 'graphics', but torch knows no such device"):
        mm.encoders.open("dinov2-vits14", weights=dino, device="graphics")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match=r"device is 'cuda', but torch finds 0 GPUs"):
            mm.encoders.open("dinov2-vits14", weights=dino, device="cuda")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gives_the_same_features(dino: Path, pictures: list[Image.Image], assert_equal_rows: Any) -> None:
    wanted = mm.encoders.open("dinov2-vits14", weights=dino)(pictures)
    encoder = mm.encoders.open("dinov2-vits14", weights=dino, device="cuda")
    assert_equal_rows(encoder(pictures), wanted, "dinov2-vits14, a GPU")
