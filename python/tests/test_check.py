"""Invalid arguments raise a TypeError for a wrong type and a ValueError for a wrong value, with a clear message."""

from __future__ import annotations

import array
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import modelmix as mm

ROWS = {"a": np.arange(12, dtype=np.float32)[:, None], "b": np.arange(30, 42, dtype=np.float32)[:, None]}
RKE = mm.Rke(bandwidth=2)
SCORED = RKE - mm.SampleScore("taste")
HUGE = 10**400


def generator(count: int) -> Any:
    return ROWS["a"][:count]


def told(**given: Any) -> None:
    session = mm.Session(["a"], SCORED)
    session.tell(**{"pull": session.ask(), "features": [1.0], "scores": {"taste": 1.0}, **given})


def told_values(**given: Any) -> None:
    session = mm.Session.on_values(["a"])
    session.tell_values(**{"pull": session.ask(), "kappa": [], "own": 1.0, **given})


def ran(**given: Any) -> Any:
    start = {"generators": {"a": generator}, "embed": lambda rows: rows, "objective": RKE, "budget": 9, "retries": 0}
    return mm.run(**{**start, **given})


CALLS: dict[str, Callable[..., Any]] = {
    "solve": lambda **given: mm.solve(**{"arms": ROWS, "objective": RKE, **given}),
    "simulate": lambda **given: mm.simulate(**{"arms": ROWS, "objective": RKE, **given}),
    "curate": lambda **given: mm.curate(ROWS, RKE, **{"count": 3, **given}),
    "session": lambda **given: mm.Session(**{"arms": ["a", "b"], "objective": RKE, **given}),
    "on_values": lambda **given: mm.Session.on_values(["a", "b"], **given),
    "score": lambda **given: mm.score(ROWS, **given),
    "run": ran,
    "tell": told,
    "tell_values": told_values,
    "abandon": lambda **given: mm.Session(["a"], RKE).abandon(**given),
    "known": lambda **given: mm.Session(["a"], RKE).known("a", [1.0], **given),
    "report": lambda **given: mm.Session(["a"], RKE).report(**given),
    "restore": lambda **given: mm.Session.restore(**{"objective": RKE, **given}),
    "Rke": mm.Rke,
    "Mmd": mm.Mmd,
    "SampleScore": lambda **given: mm.SampleScore(**{"name": "taste", **given}),
    "Cab": mm.Cab,
    "Until": mm.Until,
    "Window": mm.Window,
    "Capped": mm.Capped,
    "HalfLife": mm.HalfLife,
    "SessionSettings": mm.SessionSettings,
    "rke": lambda **given: mm.metrics.rke(**{"samples": ROWS["a"], **given}),
    "kid": lambda **given: mm.metrics.kid(ROWS["a"], ROWS["b"], **given),
    "load": lambda source: mm.load(source),
}

#: Wrong types: the call, the argument, its value and a part of the message.
TYPES: list[tuple[str, str, Any, str]] = [
    ("solve", "arms", 5, 'arms is 5, but it must be features or files by name, such as {"flux": flux, "sdxl": sdxl}'),
    ("solve", "arms", None, "arms is None, but it must be features or files by name"),
    ("solve", "arms", {"a": 5}, "arm a is 5, but it must be rows of numbers, such as a NumPy array or a torch tensor"),
    ("solve", "arms", {None: [[1.0]]}, "the name of an arm is None, but it must be a single line of text"),
    ("solve", "arms", {1: [[1.0]]}, "the name of an arm is 1, but it must be a single line of text"),
    ("solve", "objective", 3, "objective is 3, but it must be an objective: text, or terms such as mm.Rke()"),
    ("solve", "front", 3, "front is 3, but it must be an objective"),
    ("solve", "subsets", "yes", "subsets is 'yes', but it must be True or False"),
    ("solve", "floor", 5, 'floor is 5, but it must be numbers by arm, such as {"flux": 0.5}'),
    ("solve", "floor", {"a": "half"}, "the floor of a is 'half', but it must be a number"),
    ("solve", "fees", 5, "fees is 5, but it must be numbers by arm"),
    ("solve", "fees", {"a": None}, "the fee of a is None, but it must be a number"),
    ("solve", "costs", 5, "costs is 5, but it must be numbers by arm"),
    ("solve", "costs", [1], "costs is [1], but it must be numbers by arm"),
    ("solve", "costs", {"a": "dear"}, "the cost of a is 'dear', but it must be a number"),
    ("solve", "scores", 5, "scores is 5, but it must be numbers by score and arm"),
    ("solve", "scores", {"taste": {"a": 5}}, "score taste of arm a is 5, but it must be a list of numbers"),
    ("solve", "within", [1], "within is [1], but it must be a share of the gain"),
    ("solve", "bandwidths", 7, "bandwidths is 7, but it must be auto, or a list of positive numbers"),
    ("solve", "progress", "yes", "progress is 'yes', but it must be True or False"),
    ("solve", "arm", 5, "arm is 5, but it must be text"),
    ("score", "weights", {"a": "all"}, "the weight of a is 'all', but it must be a number"),
    ("score", "metrics", "fid", "metrics is 'fid', but it must be a list of names; write metrics=[\"fid\"]"),
    ("score", "preset", 5, "preset is 5, but it must be text"),
    ("simulate", "known", "much", "known is 'much', but it must be a whole number"),
    ("simulate", "policies", "cab", "policies is 'cab', but it must be a list of policies; write policies=[\"cab\"]"),
    ("simulate", "policies", 5, "policies is 5, but it must be a list of policies"),
    ("curate", "proportions", 3, "proportions is 3, but it must be best, mixture or free"),
    ("session", "arms", 5, 'arms is 5, but it must be a list of names; write arms=["flux", "sdxl"]'),
    ("session", "arms", None, "arms is None, but it must be a list of names"),
    ("session", "arms", ["a", None], "the name of an arm is None, but it must be a single line of text"),
    ("session", "arms", ["a", 1], "the name of an arm is 1, but it must be a single line of text"),
    ("session", "batch", [5], "batch is [5], but it must be a whole number, at least 1"),
    ("session", "width", "5", "width is '5', but it must be a whole number, at least 1"),
    ("session", "kappa_range", 5, "kappa_range is 5, but it must be two numbers, the smallest and the largest"),
    ("session", "kappa_range", "5", "kappa_range is '5', but it must be two numbers"),
    ("session", "score_ranges", 5, "score_ranges is 5, but it must be two numbers by score"),
    ("session", "policy", 5, "policy is 5, but it must be a policy: text, or an object such as mm.Adaptive()"),
    ("session", "until", [5], "until is [5], but it must be a share of the gain"),
    ("session", "settings", {"alarm": 0.1}, "settings is {'alarm': 0.1}, but it must be an mm.SessionSettings"),
    ("session", "reference", 5, "the reference is 5, but it must be rows of numbers"),
    ("on_values", "ranges", 5, "ranges is 5, but it must be two pairs"),
    ("on_values", "ranges", [[0, 1], 3], "ranges[1] is 3, but it must be two numbers"),
    ("run", "generators", 5, "generators is 5, but it must be functions by arm"),
    ("run", "generators", {"a": 5}, "the generator of arm a is 5, but it must be a function"),
    ("run", "embed", 5, "embed is 5, but it must be a function"),
    ("run", "rate", lambda rows: 5, "what rate returned is 5, but it must be numbers by score"),
    ("run", "known", 5, "known is 5, but it must be features or files by arm"),
    ("run", "checkpoint", b"bb.ck", "checkpoint is b'bb.ck', but it must be a path: text or a pathlib.Path"),
    ("tell", "pull", "x", "pull is 'x', but it must be a pull that ask returned, or its id"),
    ("tell", "pull", mm.Pull("x", "a", 0, 1), "pull is Pull(id='x'"),  # type: ignore[arg-type]
    ("tell", "features", 5, "pull 0 is 5, but it must be rows of numbers"),
    ("tell", "scores", [1.0], "scores is [1.0], but it must be numbers by score"),
    ("tell", "scores", {"taste": "x"}, "score taste is 'x', but it must be a list of numbers"),
    ("tell_values", "kappa", 5, "kappa is 5, but it must be a list of numbers"),
    ("tell_values", "own", None, "own is None, but it must be a number, or a list of numbers for a batch"),
    ("tell_values", "linear", None, "linear is None, but it must be one number"),
    ("known", "collected", "yes", "collected is 'yes', but it must be True or False"),
    ("report", "bounds", "all", "bounds is 'all', but it must be True or False"),
    ("restore", "path", 5, "path is 5, but it must be a path: text or a pathlib.Path"),
    ("Rke", "bandwidth", [5], "bandwidth is [5], but it must be a positive number, or auto"),
    ("Rke", "kernel", 5, "kernel is 5, but it must be text"),
    ("SampleScore", "name", 5, "name is 5, but it must be text"),
    ("SampleScore", "range", 5, "range is 5, but it must be two numbers"),
    ("Cab", "beta", "x", "the beta of Cab is 'x', but it must be a number"),
    ("HalfLife", "samples", "x", "the samples of HalfLife is 'x', but it must be a number"),
    ("rke", "samples", 5, "samples is 5, but it must be rows of numbers"),
    ("rke", "bandwidth", "wide", "bandwidth is 'wide', but it must be a positive number, or auto"),
    ("load", "source", 5, "source is 5, but it must be a path: text or a pathlib.Path"),
]

#: Wrong values, in the same form.
VALUES: list[tuple[str, str, Any, str]] = [
    ("solve", "seed", -1, "seed is -1, but it must be a whole number, at least 0"),
    ("solve", "seed", 2**64, "seed is 18446744073709551616, but it must be a whole number, at most"),
    ("solve", "threads", 1.5, "threads is 1.5, but it must be a whole number"),
    ("solve", "threads", 0, "threads is 0, but it must be a whole number, at least 1"),
    ("solve", "threads", 2**64, "threads is 18446744073709551616, but it must be a whole number, at most"),
    ("solve", "subsets", 5, "subsets is 5, but it must be True or False"),
    ("solve", "bandwidths", [-1], "a bandwidth in bandwidths is -1, but it must be a finite number above 0"),
    ("solve", "arms", {"": [[1.0]]}, "the name of an arm is '', but it must be a single line of text"),
    ("solve", "arms", {"a\n": [[1.0]]}, "the name of an arm is 'a\\n', but it must be a single line of text"),
    ("solve", "arms", {"a": [[1j]]}, "arm a: its values are complex numbers, but they must be real numbers"),
    ("score", "neighbours", 0, "neighbours is 0, but it must be a whole number, at least 1"),
    ("score", "subset_seed", 2**32, "subset_seed is 4294967296, but it must be a whole number, at most"),
    ("kid", "subset_seed", -1, "subset_seed is -1, but it must be a whole number, at least 0"),
    ("simulate", "rounds", -1, "rounds is -1, but it must be a whole number"),
    ("simulate", "known", 2**64, "known is 18446744073709551616, but it must be a whole number, at most"),
    ("curate", "count", -1, "count is -1, but it must be a whole number"),
    ("curate", "count", 2.5, "count is 2.5, but it must be a whole number"),
    (
        "curate",
        "proportions",
        "mixtur",
        "proportions is 'mixtur' (did you mean mixture?), but it must be best, mixture or free",
    ),
    ("session", "arms", ["a", ""], "the name of an arm is '', but it must be a single line of text"),
    ("session", "arms", ["a\n"], "the name of an arm is 'a\\n', but it must be a single line of text"),
    ("session", "batch", -1, "batch is -1, but it must be a whole number"),
    ("session", "batch", 2**64, "batch is 18446744073709551616, but it must be a whole number, at most"),
    ("session", "rounds", 0, "rounds is 0, but it must be a whole number, at least 1"),
    ("session", "rounds", 2**64, "rounds is 18446744073709551616, but it must be a whole number, at most"),
    ("session", "width", -1, "width is -1, but it must be a whole number, at least 1"),
    ("session", "width", 0, "width is 0, but it must be a whole number, at least 1"),
    ("session", "width", 1.5, "width is 1.5, but it must be a whole number, at least 1"),
    ("session", "width", 2**64, "width is 18446744073709551616, but it must be a whole number, at most"),
    ("session", "kappa_range", [5], "kappa_range is [5], but it must be two numbers"),
    ("session", "kappa_range", (2, 1), "kappa_range is (2, 1), but it must be two numbers"),
    ("on_values", "ranges", [[0, 1]], "ranges is [[0, 1]], but it must be two pairs"),
    ("run", "budget", 10**30, "budget is 1000000000000000000000000000000, but it must be a whole number, at most"),
    ("run", "workers", 10**30, "workers is 1000000000000000000000000000000, but it must be a whole number, at most"),
    ("run", "checkpoint", "a\0b", "checkpoint is 'a\\x00b', but it must be a path"),
    ("tell", "pull", 2**70, "pull is 1180591620717411303424, but it must be a pull that ask returned, or its id"),
    ("tell", "pull", mm.Pull(-1, "a", 0, 1), "pull is Pull(id=-1"),
    ("abandon", "pull", 2**64, "pull is 18446744073709551616, but it must be a pull that ask returned"),
    ("tell", "features", [HUGE, 1], "pull 0: a number is too large for a float"),
    ("tell", "scores", {"taste": HUGE}, "score taste: a number is too large for a float"),
    ("tell", "scores", {"taste": [HUGE]}, "score taste: a number is too large for a float"),
    ("tell", "scores", {"taste": [1j]}, "score taste: its values are complex numbers"),
    ("tell_values", "own", -5.0, "κ of sample 0 with itself is -5, but it must be at least 0"),
    ("tell_values", "linear", [1.0, 2.0], "linear is [1.0, 2.0], but it must be one number"),
    ("Mmd", "degree", 1.5, "degree is 1.5, but it must be a whole number, at least 1"),
    ("Until", "gain", HUGE, "but it must be a number of magnitude at most 1.8e+308"),
    ("Until", "gain", -1, "the gain of Until is -1, but it must be a finite number above 0"),
    ("Window", "samples", 10**30, "the samples of Window is 1000000000000000000000000000000, but it must be"),
    ("Capped", "hold", 2**64, "the hold of Capped is 18446744073709551616, but it must be a whole number, at most"),
    ("HalfLife", "samples", HUGE, "but it must be a number of magnitude at most 1.8e+308"),
    ("SessionSettings", "alarm", HUGE, "but it must be a number of magnitude at most 1.8e+308"),
]


@pytest.mark.parametrize(("call", "argument", "value", "sentence"), TYPES)
def test_wrong_types(call: str, argument: str, value: Any, sentence: str) -> None:
    with pytest.raises(TypeError) as raised:
        CALLS[call](**{argument: value})
    assert sentence in str(raised.value)


@pytest.mark.parametrize(("call", "argument", "value", "sentence"), VALUES)
def test_wrong_values(call: str, argument: str, value: Any, sentence: str) -> None:
    with pytest.raises(ValueError) as raised:
        CALLS[call](**{argument: value})
    assert sentence in str(raised.value)


def test_huge_numbers_have_short_messages() -> None:
    for value in (10**300, 10**5000, "x" * 9999, list(range(9999))):
        with pytest.raises((TypeError, ValueError)) as raised:
            mm.Window(value)  # type: ignore[arg-type]
        assert len(str(raised.value)) < 200


def test_numpy_numbers_are_accepted() -> None:
    chosen = mm.curate(ROWS, mm.Rke(bandwidth=np.float32(2)), count=np.int64(3), seed=np.uint8(1))  # type: ignore[arg-type]
    assert len(chosen.ids) == 3
    assert mm.solve(ROWS, RKE, subsets=np.bool_(True), intervals=0).subsets is not None  # type: ignore[arg-type]
    session = mm.Session.on_values(["a"], ranges=[[0, 1], [0, 1]])  # type: ignore[arg-type]
    pull = session.ask()
    session.tell_values(np.int64(pull.id), [], np.float32(1), np.float32(0))  # type: ignore[arg-type]
    session.tell_values(session.ask(), np.array([0.5]), np.array(1.0), 0)  # type: ignore[arg-type]
    assert session.report().samples == 2


def test_arrays_of_the_standard_library_are_accepted() -> None:
    told(features=array.array("f", [1.0, 2.0]), scores={"taste": array.array("d", [0.5])})


def test_columns_of_a_frame_are_named() -> None:
    pandas = pytest.importorskip("pandas")
    with pytest.raises(TypeError, match=r'arms is a DataFrame, whose columns are not arms; .*arm="model"'):
        mm.solve(pandas.DataFrame({"x": [1.0]}), RKE)


@pytest.mark.skipif(sys.platform == "win32", reason="memory is limited by setrlimit")
@pytest.mark.parametrize("given", ["known=99999999999", "seeds=10**11"])
def test_a_simulation_that_exceeds_memory_is_rejected(given: str, tmp_path: Path) -> None:
    program = f"""
import resource
import numpy as np
import modelmix as mm
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
arms = {{name: np.random.default_rng(0).normal(size=(20, 3)) for name in "abc"}}
try:
    mm.simulate(arms, mm.Rke(bandwidth=1.0), **{{"rounds": 10, "seeds": 1, **dict({given})}})
except ValueError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    if done.returncode < 0 or not done.stdout:
        pytest.skip("the library has no limit for it yet")
    assert done.stdout.startswith(f"{given.split('=')[0]} is "), done.stdout
