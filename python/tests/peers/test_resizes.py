"""Resizing against torch and the tools on it, bit for bit, over hundreds of random sizes. Pillow is in ../test_pillow.py."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from cleanfid.resize import build_resizer
from torch.nn.functional import interpolate
from torch_fidelity.interpolate_compat_tensorflow import interpolate_bilinear_2d_like_tensorflow1x

import modelmix as mm
from modelmix import _modelmix

pytestmark = pytest.mark.skipif(
    torch.backends.cpu.get_cpu_capability() != "AVX2", reason="torch rounds differently without AVX2"
)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """On several threads, torch takes another way for bilinear resizes, which rounds differently (0.002 of 255 levels)."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


#: Random cases per method.
CASES = 400

Pixels = np.ndarray[Any, np.dtype[np.uint8]]


def picture(random: np.random.Generator, height: int, width: int) -> Pixels:
    """Noise, or black and white, which overshoots."""
    noise = random.integers(0, 256, size=(height, width, 3), dtype=np.uint8)
    return noise if random.integers(2) else np.where(noise < 128, 0, 255).astype(np.uint8)


def sizes(random: np.random.Generator, largest: int = 300) -> list[int]:
    """Height and width before and after: often small, sometimes equal."""
    drawn = [int(size) for size in np.exp(random.uniform(0, np.log(largest), size=4))]
    if random.integers(8) == 0:
        drawn[2] = drawn[0]
    if random.integers(8) == 0:
        drawn[3] = drawn[1]
    return drawn


def torchs(mode: str, antialias: bool, dtype: torch.dtype) -> Callable[[torch.Tensor, tuple[int, int]], torch.Tensor]:
    return lambda x, size: interpolate(x.to(dtype), size=size, mode=mode, align_corners=False, antialias=antialias)


def tensorflow1(x: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
    resized: torch.Tensor = interpolate_bilinear_2d_like_tensorflow1x(x.float(), size=size, align_corners=False)
    return resized


METHODS: dict[str, tuple[dict[str, Any], Any]] = {
    "TensorFlow 1 of torch-fidelity": ({"library": "tensorflow-1"}, tensorflow1),
    **{
        f"torch {mode}{', antialiased' if antialias else ''}": (
            {"library": "torch", "filter": mode, "antialias": antialias},
            torchs(mode, antialias, torch.float32),
        )
        for mode in ("bilinear", "bicubic")
        for antialias in (False, True)
    },
    **{
        f"torch {mode}, 8-bit": ({"library": "torch-8bit", "filter": mode}, torchs(mode, True, torch.uint8))
        for mode in ("bilinear", "bicubic")
    },
}


@pytest.mark.parametrize("name", METHODS)
def test_resizing_equals_torch(name: str) -> None:
    method, resize = METHODS[name]
    random = np.random.default_rng(list(METHODS).index(name))
    for case in range(CASES):
        height, width, high, wide = sizes(random)
        # One pixel wide, torch 2.15 returns wrong values with antialiasing (tens of levels from Pillow's), or fails.
        if wide == 1 and (method.get("antialias") or method["library"] == "torch-8bit"):
            continue
        image = picture(random, height, width)
        planes = torch.from_numpy(image.transpose(2, 0, 1).copy())[None]
        wanted = resize(planes, (high, wide))[0].numpy()
        found = _modelmix.resize_image(image, high, wide, json.dumps(method))
        difference = np.abs(found - wanted).max()
        assert difference == 0, f"case {case}: {width}×{height} to {wide}×{high} differs by {difference}"


@pytest.mark.parametrize(
    ("mode", "preset", "method"),
    [
        ("clean", "clean-fid", {"library": "pillow-float", "filter": "bicubic", "passes": "pillow-13"}),
        ("legacy_pytorch", None, {"library": "torch", "filter": "bilinear", "antialias": False}),
    ],
)
def test_resizing_equals_clean_fid(mode: str, preset: str | None, method: dict[str, Any]) -> None:
    random = np.random.default_rng(50)
    resize = build_resizer(mode)
    for case in range(100):
        height, width, _, _ = sizes(random, 700)
        image = picture(random, height, width)
        wanted = resize(image).transpose(2, 0, 1)
        found = _modelmix.resize_image(image, 299, 299, json.dumps(method)).clip(0, 255)
        assert np.array_equal(found, wanted), f"case {case}: {width}×{height}"
        if preset is not None:
            tensor = mm.encoders.preprocess(image[None], "inception-v3-fid", preset=preset)[0]
            assert np.array_equal(tensor, (wanted - np.float32(128)) / np.float32(128)), f"case {case}"
