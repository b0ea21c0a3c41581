"""The real weights of FID's Inception: the features that torch-fidelity computes of two images, from ``tools/golden_inception.py``.

``make test-peers`` compares many more, and FID itself.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from downloads import inception_file
from places import ROOT

import modelmix as mm

GOLDEN = ROOT / "python" / "tests" / "golden" / "inception.npz"


@pytest.fixture(scope="module")
def weights() -> Path:
    try:
        return inception_file()
    except subprocess.CalledProcessError:
        pytest.skip("pip cannot download the weights, 81 MB; MODELMIX_INCEPTION names a file of them")


@pytest.mark.parametrize("runtime", ["rten", "onnxruntime"])
def test_features_are_those_of_torch_fidelity(runtime: Literal["rten", "onnxruntime"], weights: Path) -> None:
    with np.load(GOLDEN) as golden:
        images, wanted = [golden["small"], golden["large"]], golden["features"].astype(np.float64)
    encoder = mm.encoders.open("inception-v3-fid", weights=weights, preset="torch-fidelity", runtime=runtime)
    found = encoder(images)
    assert found.shape == wanted.shape == (2, 2048)
    distances = np.linalg.norm(found - wanted, axis=1) / np.linalg.norm(wanted, axis=1)
    assert distances.max() < 1e-5
    # Control: the features of the other image are far.
    assert np.linalg.norm(found[::-1] - wanted, axis=1).min() > 0.1 * np.linalg.norm(wanted, axis=1).max()
