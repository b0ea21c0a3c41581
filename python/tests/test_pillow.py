"""Decoded pixels and resized images against the installed Pillow, bit for bit: thousands of random sizes, filters and files."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import PIL
import pytest
from PIL import Image, features

from modelmix import _modelmix

#: Pillow 13 runs the vertical pass first if the height shrinks much more than the width.
PASSES = "pillow-13" if int(PIL.__version__.split(".")[0]) >= 13 else "pillow-12"
FILTERS = {
    "box": Image.Resampling.BOX,
    "bilinear": Image.Resampling.BILINEAR,
    "hamming": Image.Resampling.HAMMING,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}
#: Random cases per filter; 2,500 in all.
CASES = 500


def picture(random: np.random.Generator, height: int, width: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Noise, a smooth gradient, or black and white, which overshoots."""
    kind = random.integers(3)
    if kind == 0:
        return random.integers(0, 256, size=(height, width, 3), dtype=np.uint8)
    if kind == 1:
        ramp = np.linspace(0, 255, height * width * 3).reshape(height, width, 3)
        return np.asarray(ramp, dtype=np.uint8)
    return (random.integers(0, 2, size=(height, width, 3)) * 255).astype(np.uint8)


@pytest.mark.parametrize("name", FILTERS)
def test_resizing_equals_pillow(name: str) -> None:
    random = np.random.default_rng(list(FILTERS).index(name))
    method = json.dumps({"library": "pillow", "filter": name, "passes": PASSES})
    for case in range(CASES):
        height, width, high, wide = (int(size) for size in np.exp(random.uniform(0, np.log(180), size=4)))
        image = picture(random, height, width)
        wanted = np.asarray(Image.fromarray(image).resize((wide, high), FILTERS[name]))
        found = np.moveaxis(_modelmix.resize_image(image, high, wide, method), 0, -1)
        assert np.array_equal(found, wanted), f"case {case}: {width}×{height} to {wide}×{high}"


@pytest.mark.parametrize("name", FILTERS)
def test_float_resizing_equals_pillow(name: str) -> None:
    random = np.random.default_rng(100 + list(FILTERS).index(name))
    method = json.dumps({"library": "pillow-float", "filter": name, "passes": PASSES})
    for case in range(100):
        height, width, high, wide = (int(size) for size in np.exp(random.uniform(0, np.log(90), size=4)))
        image = picture(random, height, width)
        found = _modelmix.resize_image(image, high, wide, method)
        for channel in range(3):
            plane = Image.fromarray(image[:, :, channel].astype(np.float32))
            wanted = np.asarray(plane.resize((wide, high), FILTERS[name]))
            assert np.array_equal(found[channel], wanted), f"case {case}: {width}×{height} to {wide}×{high}"


KINDS: dict[str, list[tuple[tuple[str, ...], dict[str, Any]]]] = {
    "PNG": [(("1", "L", "LA", "P", "RGB", "RGBA", "I;16"), {}), (("L", "RGB", "P"), {"optimize": True})],
    "JPEG": [
        (("L", "RGB", "CMYK"), {"quality": 91}),
        (("RGB",), {"quality": 60, "subsampling": 0}),
        (("RGB",), {"quality": 75, "subsampling": 1}),
        (("RGB",), {"quality": 75, "subsampling": 2, "progressive": True}),
        (("L", "RGB"), {"quality": 30, "optimize": True, "restart_marker_blocks": 3}),
    ],
    "BMP": [(("1", "L", "P", "RGB", "RGBA"), {})],
    "GIF": [(("1", "L", "P"), {}), (("L", "P"), {"transparency": 3, "interlace": 0})],
    "WEBP": [(("RGB", "RGBA"), {"lossless": True}), (("RGB", "RGBA"), {"quality": 70})],
}


def encoded(random: np.random.Generator, mode: str, kind: str, options: dict[str, Any]) -> bytes:
    height, width = (int(size) for size in np.exp(random.uniform(0, np.log(70), size=2)))
    image = picture(random, height, width)
    if mode == "I;16":
        made = Image.fromarray(random.integers(0, 65536, size=(height, width), dtype=np.uint16))
    elif mode == "RGBA":
        made = Image.fromarray(np.concatenate([image, image[:, :, :1]], axis=-1))
    else:
        made = Image.fromarray(image).convert(mode)
    file = io.BytesIO()
    made.save(file, kind, **options)
    return file.getvalue()


CASES_OF_KINDS = [
    pytest.param(kind, mode, options, id=f"{kind} {mode} {options}")
    for kind, groups in KINDS.items()
    for modes, options in groups
    for mode in modes
]


@pytest.mark.parametrize(("kind", "mode", "options"), CASES_OF_KINDS)
def test_decoding_equals_pillow(kind: str, mode: str, options: dict[str, Any]) -> None:
    if kind == "WEBP" and not features.check("webp"):
        pytest.skip("this Pillow has no WebP")
    random = np.random.default_rng(list(f"{kind} {mode} {options}".encode()))
    for _ in range(12):
        file = encoded(random, mode, kind, options)
        wanted = np.asarray(Image.open(io.BytesIO(file)).convert("RGB"))
        assert np.array_equal(_modelmix.decode_image(file), wanted)


def test_an_orientation_is_left_as_it_is() -> None:
    """Pillow's convert("RGB") does not rotate images, so neither do the tools."""
    image = picture(np.random.default_rng(1), 20, 30)
    exif = Image.Exif()
    exif[0x0112] = 6
    file = io.BytesIO()
    Image.fromarray(image).save(file, "JPEG", exif=exif, quality=95)
    wanted = np.asarray(Image.open(io.BytesIO(file.getvalue())).convert("RGB"))
    assert np.array_equal(_modelmix.decode_image(file.getvalue()), wanted) and wanted.shape == (20, 30, 3)


def test_a_bomb_is_refused_by_its_size() -> None:
    file = io.BytesIO()
    Image.new("1", (30_000, 30_000)).save(file, "PNG")
    with pytest.raises(ValueError, match="30000"):
        _modelmix.decode_image(file.getvalue())
