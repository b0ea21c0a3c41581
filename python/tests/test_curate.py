"""Coresets: their loss agrees with NumPy, and they state that they are not i.i.d. mixtures."""

from __future__ import annotations

import pickle
from typing import Any

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest
from matplotlib import pyplot

import modelmix as mm


def rke_loss(rows: np.ndarray[Any, Any], bandwidth: float) -> float:
    """The mean of k² over all pairs, including self-pairs, in double precision."""
    rows = rows.astype(np.float64)
    squares = ((rows[:, None] - rows[None]) ** 2).sum(-1)
    return float(np.exp(-squares / bandwidth**2).mean())


@pytest.fixture(scope="module")
def chosen() -> mm.Curated:
    return mm.curate(mm.load("data/fashion/truncated.npz"), mm.Rke(bandwidth=20), count=40)


def test_the_loss_is_that_of_the_rows(chosen: mm.Curated) -> None:
    arms = mm.load("data/fashion/truncated.npz")
    rows = np.concatenate([arms[arm][indices] for arm, indices in chosen.indices.items()])
    assert rows.shape[0] == len(chosen.ids) == len(set(chosen.ids)) == 40
    assert rke_loss(rows, 20.0) == pytest.approx(chosen.loss, rel=1e-6)
    assert chosen.score == pytest.approx(1 / chosen.loss)
    # random sets with the same proportions, drawn by NumPy
    generator = np.random.default_rng(1)
    for _ in range(20):
        drawn = [
            generator.choice(len(arms[arm]), len(indices), replace=False) for arm, indices in chosen.indices.items()
        ]
        rows = np.concatenate([features[indices] for features, indices in zip(arms.values(), drawn)])
        assert rke_loss(rows, 20.0) > chosen.loss
    assert chosen.loss < chosen.random.loss[0] - 3 * chosen.random.loss[1]


def test_it_states_that_it_is_not_iid(chosen: mm.Curated) -> None:
    warning = "no longer an i.i.d. mixture"
    assert warning in chosen.note and warning in str(chosen) and warning in chosen._repr_html_()
    assert warning in chosen.to_dict()["note"]
    ax = chosen.plot()
    assert warning in ax.get_xlabel()
    bars = [patch.get_width() for patch in ax.containers[0]]
    assert bars == pytest.approx(list(chosen.shares.values()))
    pyplot.close("all")


def test_it_converts(chosen: mm.Curated) -> None:
    frame = chosen.to_pandas()
    assert list(zip(frame["arm"], frame["row"])) == chosen.ids
    assert sum(arm.chosen for arm in chosen.arms) == 40 and sum(chosen.shares.values()) == pytest.approx(1.0)
    assert pickle.loads(pickle.dumps(chosen)) == chosen
    again = mm.Curated._read(chosen.to_dict(), chosen.sentence, chosen.how)
    assert again == chosen


def test_settings_take_effect() -> None:
    arms = {"few": np.arange(6, dtype=np.float32)[:, None], "many": 100 + np.arange(30, dtype=np.float32)[:, None]}
    given = {"bandwidth": 1.0, "count": 10}
    capped = mm.curate(arms, "rke", cap={"many": 0.4}, **given)
    assert capped.shares["many"] == pytest.approx(0.4) and sorted(capped.indices["few"]) == list(range(6))
    assert mm.curate(arms, "rke", proportions="mixture", **given).proportions == "mixture"
    assert mm.curate(arms, "rke", proportions="free", **given).proportions == "free"
    assert mm.curate(arms, "rke", threads=1, **given) == mm.curate(arms, "rke", threads=3, **given)
    pooled = mm.curate(arms, "rke", pool=20, seed=4, **given)
    assert pooled.candidates <= 21
    with pytest.raises(ValueError, match="count is 37"):
        mm.curate(arms, "rke", bandwidth=1.0, count=37)
    with pytest.raises(ValueError, match="did you mean free"):
        mm.curate(arms, "rke", proportions="fre", **given)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="fid is not a mean over pairs"):
        mm.curate(arms, mm.Fid(arms["many"]), count=3)
