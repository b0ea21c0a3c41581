"""What the tests with peers share: a cache of their own, real weights, images, and a table of the differences that were found."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# torch rounds differently with AVX-512; the tools' values that are reproduced bit for bit are those of AVX2.
os.environ.setdefault("ATEN_CPU_CAPABILITY", "avx2")

import numpy as np
import pytest
import torch
from downloads import inception_file
from inception_weights import pytorch_fid_network
from PIL import Image

#: The largest difference per comparison, for the table at the end.
DIFFERENCES: dict[str, float] = {}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Libraries warn in many ways, none of which is ours."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.filterwarnings("ignore"))


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODELMIX_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def weights() -> Path:
    """The real weights of FID's Inception as TorchScript."""
    return inception_file()


@pytest.fixture(scope="session")
def state(weights: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same weights under the names of pytorch-fid and torch-fidelity."""
    saved = tmp_path_factory.mktemp("weights") / "pt_inception-2015-12-05-6726825d.pth"
    torch.save(pytorch_fid_network(weights).state_dict(), saved)
    return saved


@pytest.fixture(scope="session")
def pictures() -> list[Image.Image]:
    """Photographs would do; noise on gradients shows every wrong pixel."""
    random = np.random.default_rng(11)
    made = []
    for height, width in ((64, 64), (300, 200), (97, 411), (224, 224), (256, 256), (30, 31), (500, 260)):
        y, x = np.mgrid[0:height, 0:width]
        ramp = np.stack([255 * y / height, 255 * x / width, 127 + 100 * np.sin(x / 9.0)], axis=-1)
        noisy = np.clip(ramp + random.normal(scale=25, size=ramp.shape), 0, 255)
        made.append(Image.fromarray(noisy.astype(np.uint8)))
    return made


@pytest.fixture
def assert_equal_rows(request: pytest.FixtureRequest) -> Iterator[Callable[..., None]]:
    """Compare rows of features, relative to their norms, and keep the largest difference for the table at the end."""

    def check(found: Any, wanted: Any, label: str, tolerance: float = 1e-4) -> None:
        found, wanted = np.asarray(found, dtype=np.float64), np.asarray(wanted, dtype=np.float64)
        assert found.shape == wanted.shape
        distances = np.linalg.norm(found - wanted, axis=1) / np.linalg.norm(wanted, axis=1)
        DIFFERENCES[label] = max(DIFFERENCES.get(label, 0.0), float(distances.max()))
        assert distances.max() <= tolerance, f"{label}: {distances}"
        # Control: the features of other samples would not pass.
        others = np.linalg.norm(found[::-1] - wanted, axis=1) / np.linalg.norm(wanted, axis=1)
        assert np.median(others) > 100 * tolerance, f"{label}: all rows are alike"

    yield check


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if DIFFERENCES:
        terminalreporter.section("largest relative difference of a row of features")
        for label, difference in DIFFERENCES.items():
            terminalreporter.write_line(f"{difference:9.1e}  {label}")
