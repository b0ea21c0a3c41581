"""Long calls: other threads continue, Ctrl-C stops the call, progress is shown, and exceptions of the progress function stop it."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

import modelmix as mm
from modelmix import _modelmix

#: Each would run for more than a minute.
LONG = {
    "solve": "mm.solve({'a': rows, 'b': rows + 1}, mm.Rke(bandwidth=9))",
    "solve, automatic reference sums": "mm.solve({'a': rows[:9], 'b': rows[:9]}, mm.Mmd(rows, bandwidth=9))",
    "score": "mm.score({'a': rows}, rows, metrics=['precision'])",
    "metrics": "mm.metrics.rke(rows, bandwidth=9)",
    "simulate": "mm.simulate({'a': rows[:500], 'b': rows[:500] + 1}, mm.Rke(bandwidth=9), rounds=200_000, seeds=50)",
    "an eigenvalue problem": "mm.metrics.vendi(rows[:12000], kernel='gaussian', bandwidth=9)",
}


@pytest.mark.parametrize("call", LONG)
def test_ctrl_c(call: str) -> None:
    script = f"""
import sys, numpy as np, modelmix as mm
rows = np.random.default_rng(0).normal(size=(120_000, 512)).astype(np.float32)
print("ready", flush=True)
try:
    {LONG[call]}
except KeyboardInterrupt:
    print("stopped", flush=True)
    best = mm.solve({{"a": rows[:50], "b": rows[50:100]}}, mm.Rke(bandwidth=30.0))   # later calls work
    assert abs(sum(best.weights.values()) - 1) < 1e-9
    print("well", flush=True)
    import os; os._exit(0)   # work that cannot be stopped may still be running
"""
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        started = time.monotonic()
        assert process.stdout.readline() == "stopped\n"
        assert time.monotonic() - started < 10  # at most a second on an idle machine
        assert process.stdout.readline() == "well\n"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_other_threads_continue() -> None:
    rows = np.random.default_rng(0).normal(size=(6_000, 256)).astype(np.float32)
    ticks: list[float] = []
    done = threading.Event()

    def tick() -> None:
        while not done.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.002)

    thread = threading.Thread(target=tick)
    thread.start()
    started = time.monotonic()
    mm.solve({"a": rows, "b": rows}, mm.Rke(bandwidth=9))
    ended = time.monotonic()
    done.set()
    thread.join()
    within = [moment for moment in ticks if started < moment < ended]
    assert len(within) >= 5, f"{len(within)} ticks in {ended - started:.2f} s"


def test_progress_is_shown(capsys: pytest.CaptureFixture[str], specialists: Any, reference: Any) -> None:
    mm.solve(specialists, mm.Mmd(reference), progress=True)
    assert "solving" in capsys.readouterr().err
    mm.score(specialists, reference, metrics=["fid"], progress=True)
    assert "scoring" in capsys.readouterr().err
    mm.simulate(specialists, mm.Mmd(reference, bandwidth=20), rounds=50, seeds=2, progress=True)
    assert "simulating" in capsys.readouterr().err
    mm.solve(specialists, mm.Mmd(reference))
    assert capsys.readouterr().err == ""


def test_progress_reaches_the_total(specialists: Any, reference: Any) -> None:
    from modelmix._arms import named
    from modelmix._problem import problem
    from modelmix._settings import Analyses

    totals: list[int] = []
    counts: list[int] = []
    given = problem(mm.Mmd(reference))
    _modelmix.solve(named(specialists), given, {}, {}, Analyses(), totals.append, counts.append)
    assert counts == sorted(counts)
    assert totals[0] * 0.9 <= counts[-1] <= totals[0] * 1.15  # tiles on the diagonal are counted in full


def test_an_exception_of_the_progress_function_stops_the_work() -> None:
    from modelmix._arms import named
    from modelmix._problem import problem
    from modelmix._settings import Analyses

    rows = np.random.default_rng(0).normal(size=(30_000, 512)).astype(np.float32)
    error = LookupError("the bar is gone")

    def fail(count: int) -> None:
        raise error

    started = time.monotonic()
    with pytest.raises(LookupError) as raised:
        _modelmix.solve(named({"a": rows, "b": rows}), problem(mm.Rke(bandwidth=9)), {}, {}, Analyses(), None, fail)
    assert raised.value is error
    assert time.monotonic() - started < 10
