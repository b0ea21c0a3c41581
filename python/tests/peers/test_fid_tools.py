"""FID, KID, precision and recall of two folders of real images against torch-fidelity, pytorch-fid and clean-fid with the same weights.

Real images are those of Fashion-MNIST in the repository; the others are made by a generator of the repository.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
import torch_fidelity
from cleanfid import fid as clean_fid
from PIL import Image
from pytorch_fid import fid_score, inception
from test_inception import ROOT

GENERATED = 200
TOLERANCE = 1e-4


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Real and generated images, as PNG files."""
    data = ROOT / "data" / "fashion"
    generator = onnxruntime.InferenceSession(data / "models" / "tops_gan.onnx")
    noise = np.random.default_rng(0).standard_normal((GENERATED, 64)).astype(np.float32)
    (made,) = generator.run(None, {"z": noise})
    sets = {
        "real": np.load(data / "images" / "reference.npz")["reference"],
        "made": np.rint(255 * made[:, 0]).astype(np.uint8),
    }
    root = tmp_path_factory.mktemp("folders")
    for name, pixels in sets.items():
        (root / name).mkdir()
        for at, image in enumerate(pixels):
            Image.fromarray(image).convert("RGB").save(root / name / f"{at:04}.png")
    return root / "real", root / "made"


def scores(folders: tuple[Path, Path], weights: Path, *words: str) -> dict[str, Any]:
    """What the command line computes."""
    real, made = folders
    subprocess.run(["cargo", "build", "--quiet", "--release", "--package", "modelmix-cli"], cwd=ROOT, check=True)
    program = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "modelmix"
    command = [
        program,
        "score",
        made,
        "--reference",
        real,
        "--encoder",
        "inception-v3-fid",
        "--encoder-weights",
        weights,
    ]
    environment = os.environ | {"VIRTUAL_ENV": sys.prefix}
    done = subprocess.run([*command, "--no-cache", "--json", *words], check=True, env=environment, capture_output=True)
    found: dict[str, Any] = json.loads(done.stdout)["arms"][0]["scores"]
    return found


def near(found: float, expected: float) -> None:
    assert found == pytest.approx(expected, rel=TOLERANCE)


def test_torch_fidelity(folders: tuple[Path, Path], state: Path) -> None:
    real, made = folders
    subset = ["--subset-size", "50"]
    found = scores(folders, state, "--preset", "torch-fidelity", "--metrics", "fid,kid,precision,recall", *subset)
    expected = torch_fidelity.calculate_metrics(
        input1=str(made),
        input2=str(real),
        cuda=False,
        fid=True,
        kid=True,
        kid_subset_size=50,
        prc=True,
        # Its own choice for precision and recall is another network.
        feature_extractor="inception-v3-compat",
        feature_layer_prc="2048",
        feature_extractor_weights_path=str(state),
        cache=False,
        verbose=False,
    )
    near(found["fid"], expected["frechet_inception_distance"])
    near(found["kid"], expected["kernel_inception_distance_mean"])
    near(found["precision"], expected["precision"])
    near(found["recall"], expected["recall"])


def test_pytorch_fid(folders: tuple[Path, Path], state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, made = folders
    loaded = torch.load(state, weights_only=True)
    monkeypatch.setattr(inception, "load_state_dict_from_url", lambda *_, **__: loaded)
    found = scores(folders, state, "--preprocessing", "pytorch-fid", "--metrics", "fid")
    expected = fid_score.calculate_fid_given_paths([str(made), str(real)], 50, "cpu", 2048, num_workers=0)
    near(found["fid"], float(expected))


def test_clean_fid(folders: tuple[Path, Path], weights: Path) -> None:
    real, made = folders
    network = torch.jit.load(weights).eval()

    def features(batch: torch.Tensor) -> torch.Tensor:
        with torch.inference_mode():
            made: torch.Tensor = network((batch - 128) / 128)
        return made

    settings = {"mode": "clean", "custom_feat_extractor": features, "device": torch.device("cpu"), "num_workers": 0}
    found = scores(folders, weights, "--preset", "clean-fid", "--metrics", "fid")
    near(found["fid"], clean_fid.compute_fid(str(made), str(real), verbose=False, **settings))
