"""The examples of the READMEs and of the page on encoders run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from places import ROOT

import modelmix as mm


def blocks(path: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.mark.parametrize("name", ["python/README.md", "README.md"])
def test_the_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import matplotlib

    matplotlib.use("Agg")
    random = np.random.default_rng(0)

    def made(centre: float, count: int = 40) -> Any:
        return (random.normal(size=(count, 6)) * 10 + centre).astype(np.float32)

    names: dict[str, Any] = {
        "flux": made(0), "kandinsky": made(5), "sdxl": made(-5), "reference": made(0, 80),
        "generate": lambda arm: arm, "embed": lambda samples: made(len(samples), 1),
        "ask_flux": lambda count: ["picture"] * count, "ask_sdxl": lambda count: ["drawing!"] * count,
    }  # fmt: skip
    found = blocks(ROOT / name)
    assert found
    monkeypatch.chdir(tmp_path)
    np.savez("features.npz", flux=names["flux"], sdxl=names["sdxl"])
    np.save("reference.npy", names["reference"])
    names["frame"] = pd.DataFrame({"model": ["flux", "sdxl"] * 20, "embedding": list(names["flux"])})
    namespace: dict[str, Any] = dict(names)
    for block in found:
        exec(compile(block, name, "exec"), namespace)
    assert isinstance(namespace["best"], mm.Mixture)
    import matplotlib.pyplot as plt

    plt.close("all")


def test_the_examples_of_encoders_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODELMIX_CACHE", str(tmp_path))
    [block] = blocks(ROOT / "docs" / "encoders.md")
    namespace: dict[str, Any] = {}
    exec(compile(block, "docs/encoders.md", "exec"), namespace)
    assert list(namespace["best"]) == ["vae", "flow"] and namespace["vae"].features.shape[1] == 64
