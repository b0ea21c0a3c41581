"""Sessions and threads: any thread can use a session, and a waiting thread does not block others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import modelmix as mm

Array = npt.NDArray[Any]


def test_any_thread_may_use_a_session(blobs: dict[str, Array]) -> None:
    session = mm.Session(blobs, mm.Rke(bandwidth=2.0))
    problems: list[BaseException] = []

    def work() -> None:
        try:
            for number in range(50):
                pull = session.ask()
                session.tell(pull, blobs[pull.arm][number % 60])
                session.report()
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    assert session.report().samples == 200 and not session.in_flight


WAITING: dict[str, Callable[[mm.Session], object]] = {
    "is_done": lambda session: session.is_done,
    "kept": lambda session: session.kept,
    "fingerprint": lambda session: session._inner.fingerprint(),
    "repr": repr,
    "in_flight": lambda session: session.in_flight,
    "samples": lambda session: session.samples,
}


#: The number of steps of a millisecond that a thread must take while another one waits. A blocked thread takes only one step.
STEPS = 5


def continues(call: Callable[[mm.Session], object], step: Callable[[mm.Session], object]) -> bool:
    """Whether this thread continues while another one is in ``call`` and waits for a session that is told samples.

    The result does not depend on the speed of the machine: if no call had to wait, the check is repeated with more samples.
    """
    rows = np.random.default_rng(0).normal(size=(60_000, 64)).astype(np.float32)
    for count in (8_000, 16_000, 30_000, 60_000):
        session = mm.Session(["only"], mm.Rke(bandwidth=8), batch=count, threads=1)
        pull, told, taken = session.ask(), threading.Event(), [0]
        waits: list[tuple[float, int]] = []

        def tell(session: mm.Session = session, pull: mm.Pull = pull, told: threading.Event = told) -> None:
            session.tell(pull, rows[: pull.count])
            told.set()

        def wait(
            session: mm.Session = session,
            told: threading.Event = told,
            taken: list[int] = taken,
            waits: list[tuple[float, int]] = waits,
        ) -> None:
            while not told.is_set():
                started, before = time.perf_counter(), taken[0]
                call(session)
                waits.append((time.perf_counter() - started, taken[0] - before))

        threads = [threading.Thread(target=work) for work in (tell, wait)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            time.sleep(0.001)
            step(session)
            taken[0] += 1
        if max(steps for _, steps in waits) >= STEPS:
            return True
        if max(seconds for seconds, _ in waits) > 0.5:
            return False
    pytest.skip("no call had to wait")


@pytest.mark.parametrize("call", WAITING)
def test_waiting_for_a_session_does_not_stop_the_interpreter(call: str) -> None:
    assert continues(WAITING[call], lambda session: None)


def test_names_are_returned_without_waiting() -> None:
    assert continues(lambda session: session.is_done, lambda session: session.arms)


def test_the_check_that_threads_continue_can_fail() -> None:
    assert not continues(lambda session: session.is_done, lambda session: session.is_done)


def test_a_session_is_printed_without_a_report(blobs: dict[str, Array], monkeypatch: pytest.MonkeyPatch) -> None:
    session = mm.Session(blobs, mm.Rke(bandwidth=2.0), batch=2)
    session.tell(session.ask(), blobs["left"][:2])
    session.known("right", blobs["right"][:3])

    def never(self: mm.Session) -> None:
        raise AssertionError

    monkeypatch.setattr(mm.Session, "report", never)
    assert repr(session) == "<modelmix.Session of 3 arms (left, middle, right), rke(bandwidth=2), 5 samples>"


def test_a_reference_is_hashed_once() -> None:
    reference = np.random.default_rng(0).normal(size=(60_000, 256)).astype(np.float32)
    session = mm.Session(["only"], mm.Rke(bandwidth=16), reference=reference)

    def seconds() -> float:
        started = time.perf_counter()
        session._inner.snapshot()
        return time.perf_counter() - started

    first, later = seconds(), min(seconds() for _ in range(5))
    assert later < 0.2 * first


def test_reports_have_bounds_on_request(blobs: dict[str, Array]) -> None:
    session = mm.Session(blobs, mm.Rke(bandwidth=2.0))
    for arm in blobs:
        session.known(arm, blobs[arm][:20])
    whole, brief = session.report(bounds=True), session.report()
    assert whole.bound_on_weights is not None and "the weights are at most" in str(whole)
    assert brief.bound_on_weights is None and brief.bound_on_shares is None
    assert brief.weights == whole.weights


def test_the_report_of_a_run_has_bounds(blobs: dict[str, Array]) -> None:
    generators = {arm: lambda count, arm=arm: blobs[arm][:count] for arm in blobs}
    done = mm.run(generators, lambda rows: rows, mm.Rke(bandwidth=2.0), budget=6, known=blobs)
    assert done.report.bound_on_weights is not None and done.report.bound_on_shares is not None


def test_a_bandwidth_found_with_one_seed_is_restored(
    specialists: dict[str, Array], reference: Array, tmp_path: Path
) -> None:
    session = mm.Session(specialists, mm.Mmd(reference), seed=7)
    session.tell(session.ask(), specialists["flow"][0])
    session.save(tmp_path / "session.json")
    again = mm.Session.restore(tmp_path / "session.json", mm.Mmd(reference))
    assert again.report() == session.report()
    assert [again.ask() for _ in range(9)] == [session.ask() for _ in range(9)]
    # it equals that of `solve`, for any seed
    best = mm.solve({arm: rows[:50] for arm, rows in specialists.items()}, mm.Mmd(reference))
    for seed in range(3):
        assert mm.Session(specialists, mm.Mmd(reference), seed=seed).report().kernels == best.kernels
