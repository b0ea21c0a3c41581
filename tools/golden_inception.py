#!/usr/bin/env python3
"""Write the features that torch-fidelity computes of two images with the real weights of FID's Inception.

Usage: python tools/golden_inception.py  (needs the packages of requirements-peers.txt)

Downloads the weights once, by pip. Writes ``python/tests/golden/inception.npz``: images and features, for a test that needs no torch.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch_fidelity.utils import create_feature_extractor

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "python" / "tests" / "golden" / "inception.npz"
sys.path[:0] = [str(ROOT / "python" / "tests" / "peers"), str(ROOT / "python" / "tests")]

from downloads import inception_file  # noqa: E402
from inception_weights import pytorch_fid_network  # noqa: E402


def main() -> None:
    """Write two images and their features."""
    small = np.load(ROOT / "data" / "fashion" / "images" / "reference.npz")["reference"][0]
    y, x, colour = np.mgrid[0:97, 0:141, 0:3]
    large = ((7 * y + 13 * x + 61 * colour + x * y // 5) % 256).astype(np.uint8)
    images = {"small": np.repeat(small[:, :, None], 3, axis=2), "large": large}
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder, "state.pth")
        torch.save(pytorch_fid_network(inception_file()).state_dict(), state)
        network = create_feature_extractor(
            "inception-v3-compat", ["2048"], cuda=False, feature_extractor_weights_path=str(state), verbose=False
        )
    with torch.inference_mode():
        found = [network(torch.from_numpy(image).permute(2, 0, 1)[None])[0] for image in images.values()]
    TARGET.parent.mkdir(exist_ok=True)
    np.savez_compressed(TARGET, features=torch.cat(found).numpy(), **images)


if __name__ == "__main__":
    main()
