"""solve, score, simulate, metrics and load compared with NumPy in double precision, and invalid inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import modelmix as mm
from modelmix import results

Array = npt.NDArray[Any]


def gaussian(x: Array, y: Array, bandwidth: float) -> Array:
    x, y = x.astype(np.float64), y.astype(np.float64)
    squared = ((x[:, None, :] - y[None, :, :]) ** 2).sum(axis=-1)
    result: Array = np.exp(-squared / (2 * bandwidth**2))
    return result


def brute_force(quadratic: Array, linear: Array) -> tuple[Array, float]:
    """The best weights, by enumeration of all supports."""
    from itertools import combinations

    arms, best = len(linear), (np.zeros(0), np.inf)
    for size in range(1, arms + 1):
        for support in combinations(range(arms), size):
            at = np.ix_(support, support)
            kkt = np.zeros((size + 1, size + 1))
            kkt[:size, :size], kkt[:size, size], kkt[size, :size] = 2 * quadratic[at], 1, 1
            right = np.append(-linear[list(support)], 1.0)
            inner = np.linalg.lstsq(kkt, right, rcond=None)[0][:size]
            if (inner < -1e-12).any():
                continue
            weights = np.zeros(arms)
            weights[list(support)] = inner
            value = float(weights @ quadratic @ weights + linear @ weights)
            if value < best[1] - 1e-15:
                best = (weights, value)
    return best


def test_rke_against_numpy(blobs: dict[str, Array]) -> None:
    best = mm.solve(blobs, mm.Rke(bandwidth=2.0))
    names = list(blobs)
    expected = np.array([[(gaussian(blobs[a], blobs[b], 2.0) ** 2).mean() for b in names] for a in names])
    assert np.allclose(best.quadratic, expected, rtol=1e-6, atol=0)
    weights, value = brute_force(expected, np.zeros(3))
    assert list(best.weights.values()) == pytest.approx(weights, abs=1e-5)
    assert best.loss == pytest.approx(value, rel=1e-6)
    assert best.score == pytest.approx(1 / value, rel=1e-6)
    single = np.diag(expected)
    assert best.best_single == names[int(single.argmin())]
    assert best.gain == pytest.approx(single.min() - value, rel=1e-5)
    assert best["left"].adds == pytest.approx(brute_force(expected[1:, 1:], np.zeros(2))[1] - value, rel=1e-4)
    assert 0 <= best.gap < 1e-12
    assert best.kernels == ({"name": "gaussian", "bandwidth": 2.0},)


def test_certainty(blobs: dict[str, Array]) -> None:
    best = mm.solve(blobs, mm.Rke(bandwidth=2.0))
    assert best.gain_interval is not None and best.p_value is not None and best.certainty is not None
    low, high = best.gain_interval
    assert 0 <= low < high and 0 <= best.p_value <= 1
    assert best.certainty in str(best)
    for objective in (mm.Vendi(), None):
        one = mm.solve(blobs, objective) if objective else mm.solve({"left": blobs["left"]}, mm.Rke(bandwidth=2.0))
        assert one.gain_interval is None and one.p_value is None and one.certainty is None


def cubic(left: Array, right: Array) -> Array:
    """KID's kernel (x·y/d + 1)³ of all pairs, in double precision."""
    return (left.astype(np.float64) @ right.astype(np.float64).T / left.shape[1] + 1) ** 3


def test_kid_is_the_metric_and_that_of_numpy(specialists: dict[str, Array], reference: Array) -> None:
    def within(rows: Array) -> float:
        values = cubic(rows, rows)
        return float((values.sum() - np.trace(values)) / (len(rows) * (len(rows) - 1)))

    best = mm.solve(specialists, mm.Kid(reference))
    table = mm.score(specialists, reference, metrics=["kid_full"], weights=best.weights)
    for name, rows in specialists.items():
        expected = within(rows) + within(reference) - 2 * float(cubic(rows, reference).mean())
        assert best[name].score == pytest.approx(expected, rel=1e-9)
        assert table[name]["kid_full"] == pytest.approx(best[name].score, rel=1e-9)
    assert table.mixture is not None
    assert table.mixture["kid_full"] == pytest.approx(best.score, rel=1e-9)
    assert best.score_name == "KID" and str(best).count("KID") >= 2


def test_a_bandwidth_is_not_for_kid(specialists: dict[str, Array], reference: Array) -> None:
    with pytest.raises(ValueError, match=r"the bandwidth of kid is 20, .*; write mmd\(bandwidth=20\)"):
        mm.solve(specialists, mm.Kid(reference), bandwidth=20)
    with pytest.raises(ValueError, match=r"write mmd\(bandwidth=20\)"):
        mm.Session(list(specialists), mm.Kid(reference), bandwidth=20)
    assert str(mm.solve(specialists, mm.Rke() + 1e-6 * mm.Kid(reference), bandwidth=20).objective).startswith(
        "rke(bandwidth=20)"
    )
    # The metric rke has it, and the front is of other terms.
    assert mm.score(specialists, reference, objective=mm.Kid(), metrics=["rke"], bandwidth=20).mixture is not None
    assert mm.solve(specialists, mm.Rke(), bandwidth=20, front=mm.Kid(reference)).front is not None


def test_mmd_against_numpy(blobs: dict[str, Array]) -> None:
    reference = np.concatenate([blobs["left"], blobs["right"]])
    best = mm.solve(blobs, mm.Mmd(reference, bandwidth=2.0))
    cross = [-2 * gaussian(rows, reference, 2.0).mean() for rows in blobs.values()]
    assert best.linear == pytest.approx(cross, rel=1e-6)
    own = gaussian(reference, reference, 2.0)
    assert best.constant == pytest.approx(own.mean(), rel=1e-6)
    u = gaussian(blobs["left"], blobs["left"], 2.0)
    count, many = len(u), len(own)
    unbiased = (u.sum() - count) / (count * (count - 1)) + (own.sum() - many) / (many * (many - 1)) + cross[0]
    assert best["left"].score == pytest.approx(100 * unbiased, rel=1e-4)


def test_floor_and_cap(blobs: dict[str, Array]) -> None:
    best = mm.solve(blobs, mm.Rke(bandwidth=2.0), floor={"middle": 0.3}, cap={"left": 0.2})
    assert best.weights["middle"] >= 0.3 - 1e-12 and best.weights["left"] <= 0.2 + 1e-12
    assert best.loss >= mm.solve(blobs, mm.Rke(bandwidth=2.0)).loss
    with pytest.raises(ValueError, match="the floor of left is 0.5 and its cap 0.2"):
        mm.solve(blobs, mm.Rke(bandwidth=2.0), floor={"left": 0.5}, cap={"left": 0.2})
    with pytest.raises(ValueError, match=r"there is no arm lefft \(did you mean left\?\)"):
        mm.solve(blobs, mm.Rke(bandwidth=2.0), floor={"lefft": 0.5})


@pytest.mark.parametrize(
    ("objective", "sentence"),
    [
        ("kid", "kid needs a reference"),
        ("rke - precision", "precision needs a reference"),
        ("rke + cost", "cost needs"),
        ("rke - taste", "score taste needs a value for every sample"),
        ("-1*rke", "positive, or the loss is not convex"),
        ("rke(bandwidth=0)", "bandwidth must be a positive number"),
    ],
)
def test_missing_inputs_are_named(objective: Any, sentence: str, blobs: dict[str, Array]) -> None:
    with pytest.raises(ValueError) as raised:
        mm.solve(blobs, objective)
    assert sentence in str(raised.value)


def test_widths_must_agree(blobs: dict[str, Array]) -> None:
    with pytest.raises(ValueError, match="arm wide has 5 columns, but arm left has 4"):
        mm.solve({**blobs, "wide": np.zeros((3, 5), np.float32)})
    with pytest.raises(ValueError, match="columns"):
        mm.solve(blobs, mm.Mmd(np.zeros((3, 5), np.float32), bandwidth=1))


def test_results_do_not_depend_on_threads(specialists: dict[str, Array], reference: Array) -> None:
    one, two = (mm.solve(specialists, mm.Kid(reference), threads=threads) for threads in (1, 2))
    assert one == two


def test_scores_against_numpy(blobs: dict[str, Array]) -> None:
    reference = np.concatenate([blobs["left"], blobs["right"]])
    weights = {"left": 0.25, "middle": 0.0, "right": 0.75}
    table = mm.score(blobs, reference, metrics=["fid", "precision", "rke"], weights=weights, bandwidth=2.0)
    assert table.metrics == ("fid", "precision", "rke")
    assert table.mixture is not None
    assert table.mixture.weights == {"left": 0.25, "middle": 0.0, "right": 0.75}
    # moments of the weighted pool, computed here
    pool = np.concatenate([blobs["left"], blobs["right"]]).astype(np.float64)
    share = np.repeat([0.25 / 60, 0.75 / 60], 60)
    rke = 1 / (share @ gaussian(pool, pool, 2.0) ** 2 @ share)
    # RKE is summed in the precision of the engine, since its error is far below the standard error.
    assert table.mixture["rke"] == pytest.approx(rke, rel=1e-6)
    radii = np.sort(np.linalg.norm(reference[:, None] - reference[None], axis=-1), axis=1)[:, 5]
    near = np.linalg.norm(blobs["middle"][:, None] - reference[None], axis=-1) < radii
    assert table["middle"]["precision"] == pytest.approx(near.any(axis=1).mean(), abs=1e-12)
    assert mm.metrics.fid(blobs, reference, weights=weights).value == table.mixture["fid"]
    assert float(mm.metrics.rke(blobs["left"], bandwidth=2.0)) == table["left"]["rke"]


def test_scores_without_a_reference_and_without_a_mixture(blobs: dict[str, Array]) -> None:
    assert mm.score(blobs).metrics == ("rke", "vendi")
    assert mm.score(blobs, mixture=False).mixture is None
    assert mm.score({"left": blobs["left"]}).mixture is None
    with pytest.raises(ValueError, match="remove one of them"):
        mm.score(blobs, mixture=False, weights={"left": 1})
    with pytest.raises(ValueError, match="fid needs a reference set"):
        mm.score(blobs, metrics=["fid"])
    with pytest.raises(ValueError, match="did you mean fid"):
        mm.score(blobs, metrics=["fidd"])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="did you mean torch-fidelity"):
        mm.score(blobs, blobs["left"], preset="torchfidelity")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="positive weight"):
        mm.score(blobs, weights={"left": 0.0})
    with pytest.raises(ValueError, match=r"the sum of the weights is 4, but it must be 1"):
        mm.score(blobs, weights={"left": 1.0, "right": 3.0})


def test_single_metrics(blobs: dict[str, Array]) -> None:
    reference = blobs["middle"]
    left = blobs["left"]
    all_four = mm.metrics.prdc(left, reference, neighbours=3)
    table = mm.score({"left": left}, reference, metrics=["precision", "recall", "density", "coverage"], neighbours=3)
    assert [float(value) for value in (all_four.precision, all_four.recall, all_four.density, all_four.coverage)] == [
        table["left"][name] for name in table.metrics
    ]
    kernel = gaussian(left, reference, 1.5)
    own, other = gaussian(left, left, 1.5), gaussian(reference, reference, 1.5)
    n = len(left)
    expected = (own.sum() - n) / (n * (n - 1)) + (other.sum() - n) / (n * (n - 1)) - 2 * kernel.mean()
    assert mm.metrics.mmd(left, reference, bandwidth=1.5).value == pytest.approx(expected, rel=1e-9)
    cubic = mm.metrics.kid(left, reference, subset_size=60, subsets=1)
    assert cubic.value == pytest.approx(mm.metrics.mmd(left, reference, kernel="kid").value, rel=1e-5)
    eigenvalues = np.linalg.eigvalsh(_cosine(left) / n)
    entropy = -(eigenvalues[eigenvalues > 1e-15] * np.log(eigenvalues[eigenvalues > 1e-15])).sum()
    assert mm.metrics.vendi(left).value == pytest.approx(np.exp(entropy), rel=1e-8)
    assert mm.metrics.vendi(left, order=float("inf")).value == pytest.approx(1 / eigenvalues.max(), rel=1e-8)
    assert mm.metrics.cmmd(left, reference).value > 0
    assert mm.metrics.fid_infinity(left, reference).by == "regression"
    with pytest.raises(ValueError, match="there is only one set of samples"):
        mm.metrics.fid(left, reference, weights={"left": 1})


def _cosine(rows: Array) -> Array:
    rows = rows.astype(np.float64)
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    product: Array = rows @ rows.T
    return product


def test_simulated_sessions_stop(specialists: dict[str, Array], reference: Array) -> None:
    def stopped(until: str, rounds: int) -> results.Stopped:
        given: dict[str, Any] = {"policies": ["adaptive"], "rounds": rounds, "seeds": 5, "until": until}
        report = mm.simulate(specialists, mm.Mmd(reference, bandwidth=20), **given)
        assert report.until == {"gap": until, "confidence": 0.95, "of": "weights"}
        assert "stopped at" in str(report)
        found = report["adaptive"].stopped
        assert found is not None
        return found

    near, nearer = stopped("80%", 3000), stopped("5%", 3000)
    assert near.share == nearer.share == 1.0 and near.wrong == nearer.wrong == 0.0
    # a smaller tolerance takes longer
    assert near.round is not None and nearer.round is not None and 50 < near.round < nearer.round < 3000
    # a session that does not reach the tolerance in time does not stop
    assert stopped("1%", 200) == results.Stopped(None, 0.0, 0.0)


def test_simulate(blobs: dict[str, Array]) -> None:
    report = mm.simulate(blobs, mm.Rke(bandwidth=2.0), policies=[mm.Adaptive(), "uniform"], rounds=50, seeds=3, seed=5)
    assert list(report.policies) == ["adaptive", "uniform"]
    assert report["uniform"].weights == pytest.approx([1 / 3] * 3, abs=0.2)
    assert report[mm.Adaptive()].rounds[-1] == 50
    assert report.optimal_loss == pytest.approx(mm.solve(blobs, mm.Rke(bandwidth=2.0)).loss, rel=1e-12)
    again = mm.simulate(
        blobs, mm.Rke(bandwidth=2.0), policies=["adaptive", "uniform"], rounds=50, seeds=3, seed=5, threads=1
    )
    assert again == report
    usual = mm.simulate(blobs, mm.Rke(bandwidth=2.0), rounds=10, seeds=1)
    assert list(usual.policies) == ["adaptive", "greedy", "one-arm-oracle", "mixture-oracle"]
    with pytest.raises(ValueError, match="arm .* has no samples left"):
        mm.simulate(blobs, mm.Rke(bandwidth=2.0), rounds=500, replacement=False, seeds=1)
    with pytest.raises(ValueError, match="rounds is 0, but it must be at least 1"):
        mm.simulate(blobs, mm.Rke(bandwidth=2.0), rounds=0)
    with pytest.raises(ValueError, match="fid is not a mean over pairs"):
        mm.simulate(blobs, mm.Fid(blobs["left"]))


def test_load(tmp_path: Path) -> None:
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.save(tmp_path / "one.npy", rows)
    np.savez(tmp_path / "two.npz", left=rows, right=rows + 1)
    arms = mm.load(tmp_path / "one.npy", f"other={tmp_path / 'two.npz'}:right")
    assert list(arms) == ["one", "other"]
    assert np.array_equal(arms["other"], rows + 1)
    assert np.array_equal(mm.load_array(f"{tmp_path / 'two.npz'}:left"), rows)
    with pytest.raises(FileNotFoundError, match=r"cannot read .*nothing\.npy"):
        mm.load(tmp_path / "nothing.npy")
    with pytest.raises(ValueError, match="there is no array named"):
        mm.load_array(f"{tmp_path / 'two.npz'}:up")
    (tmp_path / "bad.npy").write_bytes(b"no array")
    with pytest.raises(ValueError, match=r"bad\.npy"):
        mm.load(tmp_path / "bad.npy")


def test_parquet_is_read(tmp_path: Path) -> None:
    import polars as pl

    rows = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    pl.DataFrame(rows, schema=["a", "b", "c"]).write_parquet(tmp_path / "rows.parquet")
    assert np.array_equal(mm.load_array(tmp_path / "rows.parquet"), rows)
