"""Results: conversion to documents and frames, copies, and messages if an optional package is missing."""

from __future__ import annotations

import copy
import json
import math
import pickle
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from by_hand import (
    HANDS,
    curate_document,
    hand_asked,
    hand_curated,
    hand_kept,
    hand_mixture,
    hand_run,
    hand_scores,
    hand_session,
    hand_simulation,
    hand_stopped,
    score_document,
    session_document,
    simulate_document,
    solve_document,
    worth_document,
)
from places import ROOT
from real_results import Real

import modelmix as mm
from modelmix import results


def test_documents_round_trip(real: Real) -> None:
    assert hand_mixture().to_dict() == solve_document()
    assert hand_scores().to_dict() == score_document()
    assert hand_simulation().to_dict() == simulate_document()
    assert hand_asked().to_dict() == {**solve_document(), **worth_document()}
    assert hand_curated().to_dict() == curate_document()
    for best in (real.mixture, real.fid, real.single, real.asked):
        assert mm.Mixture._read(_through_json(best), best.sentence, best.certainty) == best
    for table in (real.scores, real.alone):
        assert mm.Scores._read(_through_json(table)) == table
    for report in (real.simulation, real.stopped, hand_stopped()):
        assert mm.Simulation._read(_through_json(report)) == report
    curated = real.curated
    assert mm.Curated._read(_through_json(curated), curated.sentence, curated.how) == curated
    assert list(mm.Simulation._read(_through_json(hand_simulation())).policies) == [
        "uniform",
        "adaptive",
    ]


def _through_json(result: Any) -> Any:
    return json.loads(json.dumps(result.to_dict(), allow_nan=False))


def test_documents_are_plain_data(real: Real) -> None:
    for result in [*real.all(), hand_run()]:
        assert _through_json(result) == result.to_dict()
    plainly = hand_session().to_dict()
    assert plainly["arms"][2] == session_document()["arms"][2]
    assert hand_kept().to_dict()["arms"][1] == {**session_document()["arms"][1], "kept": 8, "changed": 31}
    assert not {"kept", "kept_loss", "note", "feature_error"} & set(plainly)
    assert plainly["best_single"] == 0
    assert plainly["form"]["quadratic"] == [[1.0, 2.0, 0.0], [3.0, 4.0, 0.0], [0.0, 0.0, 0.0]]
    done = hand_run().to_dict()
    assert done["report"] == plainly
    assert done["failures"]["pixart"] == [
        {
            "pull": 7,
            "arm": "pixart",
            "attempt": 1,
            "error": "TimeoutError: late",
            "trace": "Traceback …",
        }
    ]
    assert "samples" not in done


def _schema(name: str) -> Any:
    import jsonschema

    path = ROOT / "crates" / "modelmix-cli" / "schema" / f"{name}.schema.json"
    schema = json.loads(path.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_documents_follow_the_schemas(real: Real) -> None:
    for best in (real.mixture, real.fid, real.single, real.asked, hand_asked()):
        _schema("solve").validate(_through_json(best))
    for table in (real.scores, real.alone):
        _schema("score").validate(_through_json(table))
    for report in (real.simulation, real.stopped, hand_stopped()):
        _schema("simulate").validate(_through_json(report))
    for chosen in (real.curated, hand_curated()):
        _schema("curate").validate(_through_json(chosen))


@pytest.mark.parametrize("name", ["solve", "score", "simulate", "curate"])
def test_the_schemas_reject_incomplete_documents(real: Real, name: str) -> None:
    results = {"solve": real.mixture, "score": real.scores, "simulate": real.simulation, "curate": real.curated}
    result = results[name]
    for part in ("arms", "version", "command"):
        document = _through_json(result)
        del document[part]
        assert not _schema(name).is_valid(document)


def test_frames_of_mixtures() -> None:
    frame = hand_mixture().to_pandas()
    assert list(frame.index) == ["flux", "sdxl", "pixart"]
    assert frame["weight"].tolist() == [0.625, 0.3748, 0.0002]
    assert frame["weight_low"].tolist() == [0.55, 0.3, 0.0]
    assert frame["weight_high"].tolist() == [0.7, 0.45, 0.0]
    assert frame["score"].tolist() == [2.5, 11.25, 120.0]
    assert frame["loss"].tolist() == [0.025, 0.1125, 1.2]
    assert frame["adds"].tolist()[:2] == [0.0125, 0.00025] and math.isnan(frame["adds"].iloc[2])
    assert frame["samples"].tolist() == [1500, 1500, 1500]
    floats = ("weight", "weight_low", "weight_high", "loss", "score", "adds")
    assert _kinds(frame) == {**dict.fromkeys(floats, "f"), "samples": "i"}
    bare = hand_mixture(arms=tuple(replace(arm, interval=None, adds=None) for arm in hand_mixture().arms)).to_pandas()
    assert bare[["weight_low", "weight_high", "adds"]].isna().all(axis=None)
    assert _kinds(bare) == _kinds(frame)


def _kinds(frame: Any) -> dict[str, str]:
    return {name: kind.kind for name, kind in frame.dtypes.items()}


def test_frames_of_scores() -> None:
    frame = hand_scores().to_pandas()
    assert list(frame.index) == ["flux", "sdxl", "mixture"]
    assert frame["fid"].tolist() == [30.0, 10.0, 10.0]
    assert frame["kid_std"].tolist() == [0.25, 0.5, 0.125]
    assert frame["rke_error"].tolist() == [0.125, 0.25, 0.5]
    assert math.isnan(frame.loc["flux", "fid_error"]) and frame.loc["mixture", "fid_error"] == 0.75
    assert set(_kinds(frame).values()) == {"f"}


def test_an_arm_may_be_called_mixture() -> None:
    arms = (replace(hand_scores().arms[0], name="mixture"), hand_scores().arms[1])
    table = hand_scores(arms=arms)
    frame = table.to_pandas()
    assert list(frame.index) == ["mixture", "sdxl", "mixture"]
    assert frame["rke"].tolist() == [4.0, 6.0, 8.0]
    assert str(table).count("\n  mixture ") == 2


def test_frames_of_simulations() -> None:
    frame = hand_simulation().to_pandas()
    assert list(frame.columns) == ["policy", "round", "loss", "loss_std", "regret", "regret_std"]
    assert frame["policy"].tolist() == ["uniform"] * 4 + ["adaptive"] * 4
    assert frame["round"].tolist() == [10, 100, 1000, 2000] * 2
    assert frame["loss"].tolist() == [80.0, 0.6, 0.35, 0.3, 90.0, 0.5, 0.3, 0.26]
    assert frame["loss_std"].tolist() == [4.0, 0.1, 0.04, 0.01, 5.0, 0.1, 0.05, 0.02]
    assert frame["regret"].tolist() == pytest.approx([8.0, 0.06, 0.035, 0.03, 9.0, 0.05, 0.03, 0.026])
    kinds = _kinds(frame)
    assert kinds["round"] == "i" and {kinds[name] for name in list(frame.columns)[2:]} == {"f"}


def test_frames_of_analyses() -> None:
    best = hand_asked()
    assert best.subsets and best.cheapest and best.front and best.sensitivity
    few = best.subsets.to_pandas()
    assert list(few.index) == [1, 2, 3] and few["gain_kept"].tolist() == [0.0, 0.95, 1.0]
    assert few["sdxl"].tolist() == [0.0, 0.375, 0.3748] and few["proved"].tolist() == [True, False, True]
    bought = best.cheapest.to_pandas()
    assert bought["samples"].to_dict() == {"flux": 250.0, "sdxl": 750.0}
    front = best.front.to_pandas()
    assert front["multiplier"].tolist() == [0.0, 0.25, math.inf] and front["flux"].tolist() == [0.625, 0.8, 1.0]
    tried = best.sensitivity.to_pandas()
    assert list(tried.index) == [10.0, 20.0, 40.0] and tried["flux"].tolist() == [0.75, 0.625, 0.5]
    rows = hand_curated().to_pandas()
    assert rows.values.tolist() == [["flux", 7], ["sdxl", 1499], ["flux", 0], ["flux", 12]]


def test_frames_of_sessions_and_runs(real: Real) -> None:
    frame = hand_session().to_pandas()
    assert list(frame.index) == ["flux", "sdxl", "pixart"]
    assert frame["weight"].tolist() == [0.7, 0.3, 0.0]
    assert frame["share"].tolist() == [0.75, 0.25, 0.0]
    assert frame["samples"].tolist() == [30, 10, 0]
    assert frame["abandoned"].tolist() == [0, 0, 3]
    assert frame["loss"].tolist()[:2] == [0.5, 0.75] and math.isnan(frame["loss"].iloc[2])
    whole = hand_run().to_pandas()
    assert whole[list(frame.columns)].equals(frame)
    assert whole["calls"].tolist() == [30, 10, 3] and whole["failures"].tolist() == [0, 0, 1]
    kinds = {
        "weight": "f",
        "share": "f",
        "samples": "i",
        "pending": "i",
        "abandoned": "i",
        "loss": "f",
    }
    assert _kinds(whole) == {**kinds, "calls": "i", "failures": "i"}
    kept = hand_kept().to_pandas()
    assert kept["kept"].tolist() == [12, 8, 0]
    assert kept["changed"].iloc[1] == 31 and kept["changed"].isna().sum() == 2
    # no arm has a loss, and the column is still numeric
    assert _kinds(real.empty.to_pandas()) == kinds


ESTIMATE = mm.Estimate(1.5, 0.25, "jackknife")

HALF_WIDTHS = results.HalfWidths(0.01, 0.02)
PLANNED = results.PlannedArm("flux", 100, 300, 200)
ALLOCATION = results.Allocation((PLANNED,), 300, 200, None, HALF_WIDTHS)

COPIED: list[Any] = [
    ESTIMATE,
    mm.Prdc(ESTIMATE, ESTIMATE, ESTIMATE, mm.Estimate(0.5, 0.125, "terms")),
    mm.Pull(3, "flux", 0, 4),
    hand_mixture().arms[0],
    hand_mixture().terms[0],
    hand_scores().arms[0],
    hand_scores().mixture,
    hand_simulation()["adaptive"],
    hand_simulation()["adaptive"].loss,
    hand_session().arms[2],
    results.Verdict(640, {"flux": 0.75, "sdxl": 0.25}, 0.001),
    results.FeatureError(2500, 0.02, 1000, 0.9, -0.002, 0.001, 0.0003, 0.0002, None, None),
    results.SimulatedFeatures(2500, 0.9, 0.002, 0.0003),
    results.ChosenBandwidth(12.5, 40, 10, 30),
    results.InputFile("arms", ("flux.npy",), "flux.npy", 128, "0" * 64),
    results.UsedBandwidth("rke", 12.5, "median", 40, 0),
    results.Provenance("0.2.0", engine="cpu", seed=0),
    HALF_WIDTHS,
    PLANNED,
    ALLOCATION,
    mm.SamplePlan(
        "0.2.0",
        "rke",
        ({"name": "gaussian", "bandwidth": 2.0},),
        0.1,
        (0.05, 0.15),
        0.001,
        0.005,
        0.05,
        None,
        HALF_WIDTHS,
        False,
        HALF_WIDTHS,
        ALLOCATION,
        None,
        ("A note.",),
        "Record 300 samples per arm.",
    ),
    *[make() for make in HANDS.values()],
    hand_asked(),
    hand_asked().subsets[2],  # type: ignore[index]
    hand_asked().front[0],  # type: ignore[index]
    hand_asked().sensitivity[0],  # type: ignore[index]
    hand_curated().arms[0],
    hand_curated().random,
    hand_curated().tried[0],
    hand_stopped()["adaptive"].stopped,
    hand_run().failures["pixart"][0],
    mm.results.Encoding("dinov2-vitl14", "0123abcd", "dgm-eval"),
    mm.results.Skipped("a.png", "it is broken"),
    mm.Encoded(
        np.eye(2, dtype=np.float32), ("a.png", "b.png"), (None, "b.png"), encoding=mm.results.Encoding("e", "01")
    ),
    mm.AccumulatorPlan("exact", "rows", "rke", 5, 0, None, 100, 0.5, False, b"{}"),
    mm.SessionSettings(retention=mm.HalfLife(50, cap=mm.Capped(20)), alarm=0.01),
    mm.Window(500),
    mm.HalfLife(50),
    mm.Capped(100, error=0.05),
    mm.Until(gain=0.05, of="shares"),
    mm.Adaptive(),
    mm.Cab(beta=2.0, sensitivity=0.03),
    mm.Ogd(sensitivity=0.03),
    mm.Vanilla(kappa=1.0),
    mm.Sparse(keep=2),
    mm.Greedy(),
    mm.Halving(rounds=100),
    mm.Uniform(),
    mm.Fixed([0.5, 0.5], tracked=True),
    mm.MixtureOracle(),
    mm.OneArmOracle(),
    mm.Rke(bandwidth=30),
    mm.Kid(),
    mm.Mmd(kernel="kid"),
    mm.Mmd(kernel="laplacian", bandwidth=5),
    mm.Fid(),
    mm.Vendi(order=2),
    mm.Precision(neighbours=3),
    mm.Density(),
    mm.Cost(),
    mm.SampleScore("aesthetic", range=(0.0, 10.0)),
    mm.Objective("mmd - 0.2*precision"),
    mm.Rke(bandwidth=30) - 0.2 * mm.Precision(),
]


def _copies(thing: Any) -> Iterator[Any]:
    yield copy.copy(thing)
    yield copy.deepcopy(thing)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        yield pickle.loads(pickle.dumps(thing, protocol))


@pytest.mark.parametrize("thing", COPIED, ids=lambda thing: type(thing).__name__)
def test_copies_are_equal(thing: Any) -> None:
    for copied in _copies(thing):
        assert copied == thing
        assert str(copied) == str(thing)
        assert isinstance(copied, mm.Objective) or type(copied) is type(thing)


def test_all_public_classes_are_copied() -> None:
    made = {type(thing) for thing in COPIED}
    # no own values, or tested with sessions and accumulators
    others = {mm.Policy, mm.Session, mm.Objective, mm.Accumulator, mm.Block}
    public = {getattr(mm, name) for name in mm.__all__} | {getattr(results, name) for name in results.__all__}
    assert {thing for thing in public if isinstance(thing, type)} <= made | others


def test_real_results_are_copied(real: Real) -> None:
    for result in [*real.all(), real.asked, real.pull]:
        for copied in _copies(result):
            assert copied == result and str(copied) == str(result)


def test_pickled_objectives_contain_their_data(real: Real) -> None:
    objective = mm.Mmd(real.reference, bandwidth=20) + 0.5 * mm.Cost({"tops_gan": 0.0, "shoes_gan": 0.1, "flow": 0.2})
    expected = mm.solve(real.arms, objective).weights
    assert 0.0 < expected["tops_gan"] < 1.0
    for copied in _copies(objective):
        assert mm.solve(real.arms, copied).weights == expected


def test_a_pickled_failure_keeps_its_text_without_the_exception() -> None:
    failure = mm.Failure(1, "flux", 2, "OSError: gone", "Traceback …", OSError("gone", lambda: None))
    copied = pickle.loads(pickle.dumps(failure))
    assert copied == failure
    assert (copied.exception, copied.trace, copied.attempt) == (None, "Traceback …", 2)
    assert failure.exception is not None


@pytest.mark.parametrize("make", HANDS.values(), ids=HANDS)
def test_without_matplotlib(make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError) as failed:
        make().plot()
    assert str(failed.value) == "plot() needs matplotlib; install it with pip install matplotlib"


@pytest.mark.parametrize("make", HANDS.values(), ids=HANDS)
def test_without_pandas(make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError) as failed:
        make().to_pandas()
    assert str(failed.value) == "to_pandas() needs pandas; install it with pip install pandas, or use to_dict()"
    make().to_dict()


def test_without_tqdm(real: Real, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(ImportError) as failed:
        mm.solve(real.arms, "rke", progress=True)
    assert str(failed.value) == "progress=True needs tqdm; install it with pip install tqdm"
    mm.solve(real.arms, "rke")
