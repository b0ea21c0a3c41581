"""Parts of the measurements of scale that decide what they say: which arm is compared, and what fails."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
from places import ROOT


def accuracy() -> Any:
    spec = importlib.util.spec_from_file_location("scale_accuracy", ROOT / "benches/scale_accuracy.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_an_arm_with_all_weight_is_compared_with_the_next_best() -> None:
    """Its own gain is 0 without error, which would count as covered, also by the control."""
    random = np.random.default_rng(1)
    wide, narrow = random.normal(size=(2, 400, 4)).astype(np.float32)
    arms = {"wide": 5 * wide, "narrow": np.float32(0.1) * narrow, "narrower": np.float32(0.05) * narrow}
    result = accuracy().measure(arms, None, "rke(bandwidth=2)", "features", 256, 30)
    assert 0 < result["stated error of the gain / gain"] < 1
    assert result["gain"] > 0.8 > result["control gain"]


def test_a_control_that_covers_and_a_result_that_does_not_fail() -> None:
    good = {"loss": 0.95, "gain": 0.92, "intervals": 1.0, "control loss": 0.5, "control gain": 0.4}
    good["stated error of the gain / gain"] = 0.1
    failures = accuracy().failures
    assert failures(good, 200) == []
    assert failures({**good, "gain": 0.91}, 200) == ["gain: 0.910 is below 0.915"]
    assert failures({**good, "control loss": 0.93}, 200) == ["control loss: 0.930 is not below 0.915"]
    assert failures({**good, "control loss": 1.0, "stated error of the gain / gain": 0.0}, 200) == []
