"""FID, KID, precision and recall of two folders of real images against torch-fidelity, pytorch-fid and clean-fid with the same weights.

Real images are those of Fashion-MNIST in the repository and their mirror images; the others are made by a generator of the repository.
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
from PIL import Image, ImageOps
from places import FASHION, PROGRAMS
from pytorch_fid import fid_score, inception

IMAGES = 120
TOLERANCE = 1e-4


def collage(tiles: list[Image.Image]) -> Image.Image:
    """Two rows of three images in colours of their own, larger than the network takes and not square."""
    made = Image.new("RGB", (420, 310))
    for at, tile in enumerate(tiles):
        tinted = ImageOps.colorize(tile, black=f"hsl({53 * at}, 60%, 15%)", white=f"hsl({97 * at}, 80%, 90%)")
        made.paste(tinted.resize((140, 155), Image.Resampling.BICUBIC), (140 * (at % 3), 155 * (at // 3)))
    return made


@pytest.fixture(scope="session", params=["fashion", "collages"])
def folders(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Real and generated images: small PNG files, or collages of them as JPEG files."""
    generator = onnxruntime.InferenceSession(FASHION / "models" / "tops_gan.onnx")
    noise = np.random.default_rng(0).standard_normal((IMAGES, 64)).astype(np.float32)
    (made,) = generator.run(None, {"z": noise})
    real = np.load(FASHION / "images" / "reference.npz")["reference"]
    sets = {
        "real": np.concatenate([real, real[:, :, ::-1]]),
        "made": np.rint(255 * made[:, 0]).astype(np.uint8),
    }
    root = tmp_path_factory.mktemp(request.param)
    for name, pixels in sets.items():
        (root / name).mkdir()
        images = [Image.fromarray(image) for image in pixels]
        assert len(images) == IMAGES
        for at, image in enumerate(images):
            if request.param == "fashion":
                image.convert("RGB").save(root / name / f"{at:04}.png")
            else:
                tiles = [images[(at + 31 * other) % IMAGES] for other in range(6)]
                collage(tiles).save(root / name / f"{at:04}.jpg", quality=92)
    return root / "real", root / "made"


def scores(folders: tuple[Path, Path], weights: Path, *words: str) -> dict[str, Any]:
    """What the command line computes."""
    real, made = folders
    encoder = ["--encoder", "inception-v3-fid", "--encoder-weights", weights, "--no-cache"]
    command = [PROGRAMS / "modelmix", "score", made, "--reference", real, *encoder, "--json", *words]
    environment = os.environ | {"VIRTUAL_ENV": sys.prefix}
    done = subprocess.run(command, env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
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

    settings = {"model": features, "device": torch.device("cpu"), "num_workers": 0, "verbose": False}
    rows = [clean_fid.get_folder_features(str(folder), mode="clean", **settings) for folder in (made, real)]
    # With subsets of all images, clean-fid's choice of subsets does not matter.
    subset = ["--subset-size", str(IMAGES)]
    found = scores(folders, weights, "--preset", "clean-fid", "--metrics", "fid,kid", *subset)
    near(found["fid"], clean_fid.fid_from_feats(*rows))
    near(found["kid"], clean_fid.kernel_distance(*rows))
