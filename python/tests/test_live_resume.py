"""mm.run with a checkpoint: a resumed run equals an uninterrupted one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from live_arms import RKE, SEED, Stop, arms, around, faulty, lines, same, state

import modelmix as mm
from modelmix import _journal, live


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("storage", ["single", "half"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_resumed_run_equals_an_uninterrupted_one(workers: int, storage: Any, dtype: str, tmp_path: Path) -> None:
    def embed(rows: Any) -> Any:
        return (rows * np.pi).astype(dtype)

    def rate(rows: Any) -> Any:
        return {"looks": np.sin(rows[:, 0]).astype(dtype)}

    def go(budget: int, path: Path | None) -> mm.Run:
        return mm.run(
            arms(),
            embed,
            "rke(bandwidth=1) - 0.01*looks",
            budget=budget,
            batch=2,
            settings=mm.SessionSettings(storage=storage),
            rate=rate,
            workers=workers,
            checkpoint=path,
        )

    whole = go(30, tmp_path / "whole")
    assert state(go(30, None)) == state(whole)
    read = go(30, tmp_path / "whole")
    assert read.resumed == read.pulls == 30 and read.samples == {arm: [] for arm in arms()}
    assert state(read) == state(whole) and read.report == whole.report
    # later pulls are the same too
    assert [read.session.ask() for _ in range(5)] == [whole.session.ask() for _ in range(5)]
    if workers == 1:
        path = tmp_path / "parts"
        for budget in (1, 7, 8, 30):
            part = go(budget, path)
            assert part.pulls == budget
        assert part.resumed == 8 and state(part) == state(go(30, None))
        assert path.read_bytes() == (tmp_path / "whole").read_bytes()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_file_truncated_anywhere_is_resumed(workers: int, tmp_path: Path) -> None:
    def go(path: Path) -> mm.Run:
        return mm.run(faulty(), same, RKE, budget=5, retries=1, seed=SEED, workers=workers, checkpoint=path)

    path = tmp_path / "run"
    whole = go(path)
    assert any(whole.failures.values())
    data = path.read_bytes()
    ends = {at + 1 for at, byte in enumerate(data) if byte == ord("\n")}
    # every byte of the header and of the first lines, then bytes around line ends, and some others
    cuts = {
        *range(0, len(data), 37),
        *ends,
        *(end - 1 for end in ends),
        *(end + 1 for end in ends),
        *range(0, 600, 11),
    }
    for cut in sorted(cut for cut in cuts if cut <= len(data)):
        path.write_bytes(data[:cut])
        done = go(path)
        assert path.read_bytes() == data, cut
        assert state(done) == state(whole) and done.report == whole.report
        assert done.calls == whole.calls and done.failures == whole.failures


@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_stopped_at_any_step_resumes_exactly(
    workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stops after each step with a side effect (a call, a save, a write) in turn."""
    steps = 0
    last = 10**9

    def step() -> None:
        nonlocal steps
        steps += 1
        if steps > last:
            raise Stop

    class Stepping(_journal.Journal):
        def replay(self, loop: Any, verify: bool) -> set[int]:
            step()
            known = super().replay(loop, verify)  # the first line of a new file is written here
            step()
            return known

        def known(self, *given: Any) -> None:
            step()
            super().known(*given)
            step()

        def ask(self) -> mm.Pull:
            step()
            pull = super().ask()
            step()
            return pull

        def settle(self, flight: Any) -> None:
            step()
            super().settle(flight)
            step()

    monkeypatch.setattr(live, "Journal", Stepping)
    recorded = {"left": around(-3)(3, 1), "right": around(3)(2, 2)}

    def go(path: Path, saved: dict[int, Any]) -> mm.Run:
        def save(pull: mm.Pull, rows: Any) -> None:
            step()
            saved[pull.id] = rows.tolist()
            step()

        def embed(rows: Any) -> Any:
            if workers == 1:
                step()
            return rows

        return mm.run(
            faulty(),
            embed,
            RKE,
            budget=4,
            retries=1,
            seed=SEED,
            workers=workers,
            save=save,
            known=recorded,
            checkpoint=path,
        )

    kept: dict[int, Any] = {}
    whole = go(tmp_path / "whole", kept)
    total = steps
    assert total > 20
    for stop in range(total):
        path, saved = tmp_path / f"run{stop}", dict[int, Any]()
        steps, last = 0, stop
        with pytest.raises(Stop):
            go(path, saved)
        steps, last = 0, 10**9
        done = go(path, saved)
        assert path.read_bytes() == (tmp_path / "whole").read_bytes()
        assert state(done) == state(whole) and done.failures == whole.failures
        assert saved == kept


@pytest.mark.parametrize("workers", [1, 3])
def test_an_exception_of_save_ends_the_run_and_its_pull_is_repeated(workers: int, tmp_path: Path) -> None:
    full = OSError(28, "No space left on device")
    calls: list[int] = []

    def save(pull: mm.Pull, rows: Any) -> None:
        calls.append(pull.id)
        if calls.count(4) == 1 and pull.id == 4:
            raise full

    path = tmp_path / "run"
    with pytest.raises(OSError) as caught:
        mm.run(arms(), same, RKE, budget=9, workers=workers, save=save, checkpoint=path)
    assert caught.value is full
    assert [line["event"]["told"]["pull"] for line in lines(path)[1:] if "told" in line["event"]] == [0, 1, 2, 3]
    done = mm.run(arms(), same, RKE, budget=9, workers=workers, save=save, checkpoint=path)
    assert calls == [0, 1, 2, 3, 4, 4, 5, 6, 7, 8]
    assert done.resumed == 4 and not any(done.failures.values())
    assert state(done) == state(mm.run(arms(), same, RKE, budget=9, workers=workers))


def test_failures_are_read_back(tmp_path: Path) -> None:
    path = tmp_path / "run"
    first = mm.run(faulty(), same, RKE, budget=12, seed=1, checkpoint=path)
    second = mm.run(faulty(), same, RKE, budget=12, seed=1, checkpoint=path)
    assert first.failures == second.failures and any(first.failures.values())
    assert all(kept.exception is None for failed in second.failures.values() for kept in failed)
    assert first.to_dict() == {**second.to_dict(), "resumed": 0}
    json.dumps(first.to_dict())


def test_a_spent_budget_makes_no_calls(tmp_path: Path) -> None:
    def never(count: int) -> Any:
        raise AssertionError

    path = tmp_path / "run"
    done = mm.run(arms(), same, RKE, budget=10, checkpoint=path)
    data = path.read_bytes()
    for budget in (10, 3):
        again = mm.run(dict.fromkeys(arms(), never), same, RKE, budget=budget, checkpoint=path)
        assert again.pulls == again.resumed == 10 and state(again) == state(done)
    assert path.read_bytes() == data


def test_the_number_of_workers_may_change(tmp_path: Path) -> None:
    path = tmp_path / "run"

    def save(pull: mm.Pull, rows: Any) -> None:
        if pull.id == 3:
            raise Stop

    with pytest.raises(Stop):
        mm.run(arms(), same, RKE, budget=20, workers=5, save=save, checkpoint=path)
    done = mm.run(arms(), same, RKE, budget=20, workers=1, checkpoint=path)
    assert done.resumed == 3 and done.pulls == done.report.samples == 20
    assert not done.session.in_flight
