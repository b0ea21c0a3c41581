"""Accumulators: the answers of mm.solve and of NumPy, the same bits for any split, bytes, files, pickles, copies and errors."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from places import FASHION

import modelmix as mm
from modelmix import _modelmix

Arms = dict[str, npt.NDArray[np.float32]]


def surveyed(arms: Arms, reference: Any = None, **settings: Any) -> mm.Accumulator:
    survey = mm.Accumulator.survey(**settings)
    for name, rows in arms.items():
        survey.update(name, rows)
    if reference is not None:
        survey.update_reference(reference)
    return survey


def summed(plan: mm.AccumulatorPlan, arms: Arms, reference: Any = None) -> mm.Accumulator:
    sums = mm.Accumulator(plan)
    for name, rows in arms.items():
        sums.update(name, rows)
    if reference is not None:
        sums.update_reference(reference)
    return sums


def test_all_rows_give_the_mixture_of_solve(blobs: Arms) -> None:
    survey = surveyed(blobs)
    plan = survey.plan(mm.Rke(bandwidth=2.0))
    best, expected = survey.with_plan(plan).solve(), mm.solve(blobs, mm.Rke(bandwidth=2.0))
    assert (plan.method, plan.needs_second_pass, plan.rows) == ("rows", False, 180)
    for name in blobs:
        assert best.weights[name] == pytest.approx(expected.weights[name], abs=1e-6)
    assert best.loss == pytest.approx(expected.loss, rel=1e-6)
    assert best.p_value == pytest.approx(expected.p_value, abs=0.02)
    assert best.approximation is None
    assert [one.arguments for one in best.provenance.inputs] == [("left",), ("middle",), ("right",)]  # type: ignore[union-attr]


def test_random_features_have_the_loss_of_numpy(blobs: Arms) -> None:
    """MMD² by a double loop of NumPy, at the weights that were found."""
    reference = np.concatenate(list(blobs.values()))[::3] * np.float32(0.9)
    survey = surveyed(blobs, reference)
    plan = survey.plan(mm.Mmd(bandwidth=2.0), method="features", random_features=16384)
    best = summed(plan, blobs, reference).solve()
    assert best.approximation is not None and best.approximation["random_features"] == 16384

    def kernel(x: Any, y: Any) -> Any:
        squares = ((x[:, None, :].astype(float) - y[None, :, :].astype(float)) ** 2).sum(-1)
        return np.exp(-squares / 8.0).mean()

    names = list(best.weights)
    weights = np.array([best.weights[name] for name in names])
    pairs = np.array([[kernel(blobs[a], blobs[b]) for b in names] for a in names])
    cross = np.array([kernel(blobs[a], reference) for a in names])
    loss = weights @ pairs @ weights - 2 * weights @ cross + kernel(reference, reference)
    assert best.loss == pytest.approx(loss, abs=6 * best.approximation["loss_error"] + 1e-6)
    assert abs(best.loss - 2 * loss) > 6 * best.approximation["loss_error"], "the comparison can fail"


def test_any_split_has_the_same_bytes(blobs: Arms) -> None:
    random = np.random.default_rng(5)
    survey = surveyed(blobs)
    for start in (mm.Accumulator.survey(), mm.Accumulator(survey.plan("rke(bandwidth=2)", method="features"))):
        whole = start.empty()
        for name, rows in blobs.items():
            whole.update(name, rows)
        parts = [(name, part) for name, rows in blobs.items() for part in np.array_split(rows, random.integers(2, 9))]
        random.shuffle(parts)  # type: ignore[arg-type]
        merged = start.empty()
        for name, part in parts:
            one = start.empty()
            one.update(name, part)
            merged.merge(pickle.loads(pickle.dumps(one)))
        assert merged.to_bytes() == whole.to_bytes()
        parts.pop()
        assert start.empty().to_bytes() != whole.to_bytes()


def paired(plan: mm.AccumulatorPlan, blocks: list[mm.Block], arms: Arms, reference: Any) -> mm.Accumulator:
    """The sums of all pairs of blocks, each by an accumulator of its own."""
    whole = summed(plan, arms, reference)
    for at, first in enumerate(blocks):
        for second in blocks[at:]:
            one = mm.Accumulator(plan)
            one.update_pairs(second, first)
            assert one.has_pair(first.name, second.name) and one.has_pair(second.name, first.name)
            whole.merge(pickle.loads(pickle.dumps(one)))
    return whole


@pytest.mark.parametrize("objective", ["rke(bandwidth=2)", "mmd(bandwidth=2)", "kid"])
def test_all_pairs_give_the_mixture_of_solve(blobs: Arms, objective: str) -> None:
    reference = np.concatenate(list(blobs.values()))[::3] * np.float32(0.9)
    survey = surveyed(blobs, reference, sample=20)
    plan = survey.plan(objective, method="pairs")
    assert (plan.method, plan.needs_second_pass, plan.gain_error) == ("pairs", True, None)
    before = _modelmix.copied_bytes()
    blocks = [
        mm.Block("first", {name: rows[:25] for name, rows in blobs.items()}),
        mm.Block("second", {name: rows[25:] for name, rows in blobs.items()}, reference[:10]),
        mm.Block("third", reference=reference[10:]),
    ]
    assert repr(blocks[1]) == "Block('second': left 35, middle 35, right 35, the reference 10)"
    sums = paired(plan, blocks, blobs, reference)
    assert _modelmix.copied_bytes() == before
    again = paired(plan, pickle.loads(pickle.dumps(blocks)), blobs, reference)
    assert again.to_bytes() == sums.to_bytes()
    best, expected = sums.solve(), mm.solve(blobs, objective, reference=None if "rke" in objective else reference)
    assert best.approximation is None and best.loss == pytest.approx(expected.loss, rel=1e-6)
    for name in blobs:
        assert best.weights[name] == pytest.approx(expected.weights[name], abs=1e-5)
    with pytest.raises(ValueError, match="the pair of blocks is first × second, which is already included"):
        sums.update_pairs(blocks[0], blocks[1])
    few = paired(plan, blocks[:2], blobs, reference[:10])
    few.update_pairs(blocks[2], blocks[2])
    few.update_reference(reference[10:])
    with pytest.raises(ValueError, match="2 of 6 are missing, such as first × third"):
        few.solve()


def test_scores_count(blobs: Arms) -> None:
    random = np.random.default_rng(2)
    taste = {name: random.normal(size=len(rows)) for name, rows in blobs.items()}
    survey = mm.Accumulator.survey(scores=["taste"])
    for name, rows in blobs.items():
        survey.update(name, rows, {"taste": taste[name]})
    plan = survey.plan("rke(bandwidth=2) - 0.1*taste", method="features")
    sums = mm.Accumulator(plan)
    for name, rows in blobs.items():
        sums.update(name, rows, {"taste": taste[name]})
    scores = sums.scores()
    for name in blobs:
        assert scores[name]["taste"] == pytest.approx(taste[name].mean(), rel=1e-12)


def test_precision_needs_the_whole_reference(blobs: Arms) -> None:
    reference = np.concatenate(list(blobs.values()))[::2]
    objective = mm.Mmd(reference, bandwidth=2.0) - 0.2 * mm.Precision(reference)
    survey = surveyed(blobs, reference)
    plan = survey.plan(objective, method="features", random_features=8192)
    with pytest.raises(ValueError, match="needs the whole reference"):
        mm.Accumulator(plan)
    with pytest.raises(ValueError, match="the reference is another one"):
        mm.Accumulator(plan, reference[::-1])
    sums = mm.Accumulator(plan, reference)
    for name, rows in blobs.items():
        sums.update(name, rows)
    sums.update_reference(reference)
    for name, terms in sums.scores().items():
        expected = mm.metrics.precision(blobs[name], reference).value
        assert terms["precision"] == pytest.approx(expected, rel=1e-12)


def test_costs_and_bounds(blobs: Arms) -> None:
    survey = surveyed(blobs)
    costs = {"left": 0.0, "middle": 5.0, "right": 0.0}
    plan = survey.plan(mm.Rke(bandwidth=2.0) + mm.Cost(costs), arms=["right", "middle", "left"])
    best = survey.with_plan(plan).solve(floor={"middle": 0.25}, cap={"right": 0.3}, intervals=False)
    assert list(best.weights) == ["right", "middle", "left"] and best.intervals == "left_out"
    assert best.weights["middle"] == pytest.approx(0.25) and best.weights["right"] == pytest.approx(0.3)


def test_rows_are_not_copied() -> None:
    rows = np.random.default_rng(0).normal(size=(1000, 8)).astype(np.float32)
    survey = mm.Accumulator.survey(sample=10)
    before = _modelmix.copied_bytes()
    survey.update("one", rows)
    survey.update("one", rows[100:900])
    survey.update_reference(rows)
    assert _modelmix.copied_bytes() == before
    survey.update("one", rows.astype(np.float64))
    assert _modelmix.copied_bytes() == before + rows.nbytes


def test_files_bytes_and_pickles(blobs: Arms, tmp_path: Path) -> None:
    survey = surveyed(blobs, blobs["left"], seed=7, sample=20)
    survey.finish_shard("part-0", 60)
    survey.save(tmp_path / "part.acc")
    for again in (mm.Accumulator.load(tmp_path / "part.acc"), pickle.loads(pickle.dumps(survey))):
        assert again.to_bytes() == survey.to_bytes() and again.width == 4
        assert (again.counts, again.reference_count, again.shards) == (survey.counts, 60, {"part-0": 60})
    plan = survey.plan("mmd(bandwidth=1)", error=0.05)
    assert pickle.loads(pickle.dumps(plan)) == plan == mm.AccumulatorPlan.from_bytes(plan.to_bytes())
    assert plan.gain_error is not None and plan.gain_error <= 0.05 and str(plan) == plan.text
    assert repr(survey) == "Accumulator(survey: left 60, middle 60, right 60)"
    damaged = bytearray(survey.to_bytes())
    damaged[len(damaged) // 2] ^= 1
    with pytest.raises(ValueError, match="checksum"):
        mm.Accumulator.from_bytes(bytes(damaged))


def test_shards_of_files_are_summed_once(blobs: Arms, tmp_path: Path) -> None:
    np.save(tmp_path / "flux.npy", blobs["left"])
    shards = _modelmix.Shards.find([str(tmp_path / "flux.npy")], None, None, [])
    assert shards.parts() == [(tmp_path / "flux.npy", None, "flux", 60)]
    sums = mm.Accumulator.survey()
    sums._inner.update_shard(shards, 0)
    assert sums.counts == {"flux": 60} and sums.shards == {f"{tmp_path / 'flux.npy'}, rows 0 to 59": 60}
    with pytest.raises(ValueError, match="already included"):
        sums._inner.update_shard(shards, 0)


def test_a_reader_of_the_readme_gets_the_same_arms() -> None:
    arms = mm.load(FASHION / "specialists.npz")
    survey = surveyed(arms, FASHION / "reference.npy")
    best = survey.with_plan(survey.plan(mm.Mmd(bandwidth=20))).solve()
    assert {name for name, weight in best.weights.items() if weight > 0.01} == {
        "tops_gan",
        "shoes_gan",
        "legs_bags_gan",
    }


def planned() -> mm.AccumulatorPlan:
    return surveyed({"one": np.eye(3, dtype=np.float32)}).plan("rke")


def pairs() -> mm.AccumulatorPlan:
    return surveyed({"one": np.eye(3, dtype=np.float32)}).plan("rke", method="pairs")


def block(rows: Any = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0))) -> mm.Block:
    return mm.Block("part-0", {"one": rows})


REFUSED: dict[str, Callable[[], object]] = {
    "arm one: row 1, column 0 is NaN": lambda: mm.Accumulator.survey().update("one", [[0.0], [float("nan")]]),
    "arm one has 2 columns": lambda: surveyed({"one": np.eye(3, dtype=np.float32)}).update("one", np.eye(2)),
    "score taste needs a value for every row": lambda: mm.Accumulator.survey(scores=["taste"]).update("one", [[0.0]]),
    "other is 5, but it must be an accumulator": lambda: mm.Accumulator.survey().merge(5),  # type: ignore[arg-type]
    "data is 5, but it must be bytes": lambda: mm.Accumulator.from_bytes(5),  # type: ignore[arg-type]
    "plan is 'rke', but it must be a plan": lambda: mm.Accumulator("rke"),  # type: ignore[arg-type]
    "sample is 1, but": lambda: mm.Accumulator.survey(sample=1),
    "method is 'pears'": lambda: mm.Accumulator.survey().plan("rke", method="pears"),  # type: ignore[arg-type]
    "the survey has no rows of the reference": lambda: mm.Accumulator.survey().plan(mm.Mmd(np.eye(2))),
    "mmd needs a reference set": lambda: surveyed({"one": np.eye(3, dtype=np.float32)}).plan("mmd"),
    "the plan of an accumulator is another one": lambda: mm.Accumulator(planned()).merge(mm.Accumulator.survey()),
    "the method of the plan is rows, but": lambda: mm.Accumulator(planned()).update_pairs(one := block(), one),
    "second is 5, but it must be a block": lambda: mm.Accumulator(planned()).update_pairs(block(), 5),  # type: ignore[arg-type]
    "block part-0, arm one: its shape is (1, 2, 3), but": lambda: mm.Accumulator(pairs()).update_pairs(
        *[block(np.ones((1, 2, 3)))] * 2
    ),
    "block part-0, arm one: row 0, column 1 is NaN": lambda: mm.Accumulator(pairs()).update_pairs(
        *[block(np.array([[0.0, np.nan, 0.0]]))] * 2
    ),
    "name is 5, but it must be": lambda: mm.Block(5),  # type: ignore[arg-type]
    "the memory is 10 bytes": lambda: surveyed({"one": np.eye(3, dtype=np.float32)}).plan("rke", memory=10),
    "a survey needs a plan": lambda: surveyed({"one": np.eye(3, dtype=np.float32)}).solve(),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_what_is_refused(sentence: str) -> None:
    with pytest.raises((ValueError, TypeError)) as raised:
        REFUSED[sentence]()
    assert str(raised.value).startswith(sentence)


def test_missing_rows_and_rows_that_count_twice_are_told(blobs: Arms) -> None:
    plan = surveyed(blobs).plan("rke(bandwidth=2)", method="features", random_features=64)
    with pytest.warns(
        UserWarning, match="the sums have 120 rows, fewer than the 180 that their plan was made from"
    ) as told:
        best = summed(plan, {name: rows for name, rows in blobs.items() if name != "left"}).solve()
    assert told[0].filename == __file__ and "fewer" in best.to_dict()["warnings"][0]
    twice = summed(plan, blobs)
    twice.merge(mm.Accumulator.from_bytes(summed(plan, {"left": blobs["left"]}).to_bytes()))
    with pytest.warns(UserWarning, match="the sums have 240 rows, more than the 180"):
        twice.solve()


@pytest.mark.parametrize("engine", ["ray", "dask", "spark"])
def test_an_absent_engine_says_how_to_get_it(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    package = {"ray": "ray", "dask": "dask", "spark": "pyspark"}[engine]
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=f"{package} is not installed; install it with pip install '"):
        getattr(mm, engine).solve([])


@pytest.mark.parametrize("engine", ["dask", "spark"])
def test_only_ray_sums_over_pairs_of_blocks(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    from types import ModuleType

    package = {"dask": "dask", "spark": "pyspark"}[engine]
    monkeypatch.setitem(sys.modules, package, ModuleType(package))
    with pytest.raises(ValueError, match=r"^method is 'pairs', which (Dask|Spark) does not do; use mm.ray.solve, or"):
        getattr(mm, engine).solve([], method="pairs")


def test_unaligned_blocks_are_copied(blobs: Arms) -> None:
    """Buffers that engines receive may begin anywhere; reading 32-bit numbers there in place would end the process."""
    from modelmix._blocks import Columns
    from modelmix._cluster import Job

    rows = blobs["left"]
    moved = np.frombuffer(b"\0" + rows.tobytes(), dtype=np.uint8)[1:].view(np.float32).reshape(rows.shape)
    assert not moved.flags.aligned
    job = Job(Columns(None, None), (0, 2000, None, []))
    assert job.array(moved, "left")[0] == surveyed({"left": rows}).to_bytes()
