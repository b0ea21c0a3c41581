"""Sessions that choose their bandwidth: the value is NumPy's median, and files, journals and pickles keep it."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import modelmix as mm

NAMES = ["left", "middle", "right"]


def draws(seed: int = 0) -> Any:
    """Consecutive samples of an arm."""
    generator = np.random.default_rng(seed)

    def draw(index: int, count: int = 1) -> npt.NDArray[np.float32]:
        rows: npt.NDArray[np.float32] = (generator.normal(size=(count, 3)) + 4 * index).astype(np.float32)
        return rows

    return draw


def median(rows: npt.NDArray[np.float32]) -> float:
    """The median distance of all pairs of rows, by NumPy in double precision."""
    wide = rows.astype(np.float64)
    distances = np.sqrt(((wide[:, None] - wide[None]) ** 2).sum(-1))[np.triu_indices(len(wide), 1)]
    return float(np.median(distances))


def spend(session: mm.Session, draw: Any, rounds: int) -> None:
    for _ in range(rounds):
        pull = session.ask()
        session.tell(pull, draw(pull.index))


def test_the_bandwidth_is_the_median_of_the_first_samples() -> None:
    session, draw = mm.Session(NAMES, mm.Rke(), seed=3), draws()
    spend(session, draw, 29)
    report = session.report(bounds=True)
    assert report.is_bandwidth_open and report.bandwidth is None and report.kernels == ()
    assert report.samples == 29 and report.mixture_loss is None and report.bound_on_weights is None
    assert "the bandwidth is not chosen yet" in str(report)
    spend(session, draw, 1)
    first = session.samples
    assert first is not None
    report = session.report()
    assert report.bandwidth is not None and not report.is_bandwidth_open
    assert report.bandwidth.bandwidth == pytest.approx(median(first), rel=1e-14)
    by_arm = {name: first[index::3] for index, name in enumerate(NAMES)}
    assert report.bandwidth.bandwidth == mm.median_bandwidth(by_arm)
    assert (report.bandwidth.samples, report.bandwidth.known, report.bandwidth.round) == (30, 0, 30)
    assert report.kernels[0]["bandwidth"] == report.bandwidth.bandwidth
    assert "median rule over 30 samples, fixed at round 30" in str(report)
    spend(session, draw, 20)
    assert session.report().bandwidth == report.bandwidth


def test_known_samples_choose_it_as_solve_does() -> None:
    draw = draws(1)
    known = {name: draw(index, 300) for index, name in enumerate(NAMES)}
    session = mm.Session(NAMES, mm.Rke(), until="50%")
    for name, rows in known.items():
        session.known(name, rows)
    chosen = session.report().bandwidth
    assert chosen is not None and (chosen.samples, chosen.known, chosen.round) == (900, 900, 0)
    assert chosen.bandwidth == mm.median_bandwidth(known) == mm.solve(known, mm.Rke()).kernels[0]["bandwidth"]


@pytest.mark.parametrize("rounds", [0, 7, 30, 41])
def test_files_and_pickles_keep_it(rounds: int, tmp_path: Path) -> None:
    session, draw = mm.Session(NAMES, mm.Rke(), seed=1), draws(2)
    spend(session, draw, rounds)
    session.save(tmp_path / "session.json")
    again = mm.Session.restore(tmp_path / "session.json", mm.Rke())
    copied = pickle.loads(pickle.dumps(session))
    for number in range(40):
        pulls = [one.ask() for one in (session, again, copied)]
        assert pulls[0] == pulls[1] == pulls[2]
        rows = draws(100 + number)(pulls[0].index)
        for one, pull in zip((session, again, copied), pulls, strict=True):
            one.tell(pull, rows)
    assert session.report() == again.report() == copied.report()
    with pytest.raises(ValueError, match="another objective"):
        mm.Session.restore(tmp_path / "session.json", mm.Rke(bandwidth=2.0))


def test_a_run_resumes_with_the_bandwidth_of_its_checkpoint(tmp_path: Path) -> None:
    def arms(fails: int) -> dict[str, Any]:
        calls = {"number": 0}

        def arm(index: int) -> Any:
            def make(count: int, seed: int) -> list[list[float]]:
                calls["number"] += 1
                if calls["number"] == fails:
                    raise KeyboardInterrupt
                if index == 1 and seed % 4 == 0:
                    raise RuntimeError("no sample")
                rows = np.random.default_rng(seed).normal(size=(count, 2)) + 3 * index
                return [list(map(float, row)) for row in rows]

            return make

        return {name: arm(index) for index, name in enumerate(NAMES)}

    def run(file: str, fails: int = 0) -> mm.Run:
        return mm.run(
            arms(fails), lambda rows: rows, mm.Rke(), budget=60, retries=0, seed=4, batch=2, checkpoint=tmp_path / file
        )

    whole = run("whole.jsonl")
    assert whole.report.bandwidth is not None
    for fails in (4, 15, 25, 50):
        file = f"cut{fails}.jsonl"
        with pytest.raises(KeyboardInterrupt):
            run(file, fails)
        assert run(file).report == whole.report
    lines = [json.loads(line) for line in (tmp_path / "whole.jsonl").read_text(encoding="utf-8").splitlines()]
    text = json.dumps(lines)
    assert text.count('"bandwidth":') == 1, "it is in one event of the journal"
    assert repr(whole.report.bandwidth.bandwidth) in text


def test_what_needs_a_bandwidth_at_once_says_how_to_choose_one() -> None:
    for settings in (
        mm.SessionSettings(select="better-half"),
        mm.SessionSettings(alarm=0.05),
        mm.SessionSettings(retention=mm.Window(100)),
    ):
        with pytest.raises(ValueError, match="median_bandwidth"):
            mm.Session(NAMES, mm.Rke(), settings=settings)


def test_the_report_has_its_provenance() -> None:
    session = mm.Session(["a", "b"], mm.Rke() + mm.Rke(bandwidth=3.0))
    known = session.report().provenance
    assert known is not None and known.version == mm.__version__ and known.engine is not None
    assert [(one.bandwidth, one.rule) for one in known.bandwidths] == [(3.0, "given")]  # the other is not chosen yet
    for _ in range(20):
        pull = session.ask()
        session.tell(pull, np.random.default_rng(pull.id).normal(size=(1, 2)))
    report = session.report()
    assert report.provenance is not None and report.bandwidth is not None
    found = [(one.bandwidth, one.rule) for one in report.provenance.bandwidths]
    assert found == [(report.bandwidth.bandwidth, "median"), (3.0, "given")]
    assert report.to_dict()["provenance"]["engine"] == known.engine
