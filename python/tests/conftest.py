from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from places import FASHION, ROOT
from real_results import Real

import modelmix as mm


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.fixture(scope="session")
def specialists() -> dict[str, npt.NDArray[np.float32]]:
    return mm.load(FASHION / "specialists.npz")


@pytest.fixture(scope="session")
def reference() -> npt.NDArray[np.float32]:
    return mm.load_array(FASHION / "reference.npy")


@pytest.fixture(scope="session")
def real() -> Real:
    return Real()


@pytest.fixture
def blobs() -> dict[str, npt.NDArray[np.float32]]:
    """Three small models, each of which covers a part of the data."""
    random = np.random.default_rng(7)
    centres = {"left": -3.0, "middle": 0.0, "right": 3.0}
    return {
        name: (random.normal(size=(60, 4)) + [centre, 0, 0, 0]).astype(np.float32) for name, centre in centres.items()
    }
