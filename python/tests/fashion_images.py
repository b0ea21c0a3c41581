"""The shipped images in every form that users have them, and their features by onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
from PIL import Image
from places import FASHION

Pixels = npt.NDArray[np.uint8]
Rows = npt.NDArray[np.float32]

ENCODER = FASHION / "models" / "encoder.onnx"
IMAGES = FASHION / "images"


def pixels(arm: str = "vae") -> Pixels:
    """Grey images of 28 × 28 pixels."""
    with np.load(IMAGES / "specialists.npz") as arrays:
        found: Pixels = arrays[arm]
        return found


def write_folder(folder: Path, images: Pixels, suffix: str = "png") -> Path:
    """Write each image to a file, in the order of the array."""
    folder.mkdir(parents=True, exist_ok=True)
    for at, image in enumerate(images):
        Image.fromarray(image).save(folder / f"{at}.{suffix}")
    return folder


def expected(images: Pixels) -> Rows:
    """The features by onnxruntime, of images in 0–1 as its own preprocessing would have them."""
    session = onnxruntime.InferenceSession(str(ENCODER), providers=["CPUExecutionProvider"])
    found: Any = session.run(["features"], {"image": (images / np.float32(255.0))[:, None].astype(np.float32)})[0]
    return np.asarray(found)


def close(found: Any, wanted: Rows) -> None:
    """Two runtimes agree to the last digits of the largest feature."""
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=0, atol=2e-6 * float(np.abs(wanted).max()))
