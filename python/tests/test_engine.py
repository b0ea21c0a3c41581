"""The choice of an engine, on machines with and without a GPU."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import modelmix as mm

ARMS = {name: np.random.default_rng(at).normal(at, 1.0, (60, 4)).astype(np.float32) for at, name in enumerate("ab")}


class OnGpu:
    """Rows that a library keeps on a GPU which this process cannot reach, with a copy on the host."""

    def __init__(self, rows: np.ndarray) -> None:
        self._rows, self.shape, self.dtype = rows, rows.shape, rows.dtype
        self.copies = 0

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": self.shape, "typestr": "<f4", "data": (0, True), "strides": None, "version": 3}

    def get(self) -> np.ndarray:
        """Copy the rows to the host, as CuPy does."""
        self.copies += 1
        return self._rows


def test_the_processor_is_used_for_little_work() -> None:
    automatic, chosen = (mm.solve(ARMS, "rke(bandwidth=2)", engine=engine) for engine in ("auto", "cpu"))
    assert automatic == chosen
    assert automatic.provenance.engine is not None and automatic.provenance.engine.startswith("cpu, ")


def test_integers_can_be_turned_off() -> None:
    random = np.random.default_rng(3)
    arms = {name: random.standard_normal((400, 64)).astype(np.float32) for name in "ab"}
    automatic, exact = (mm.solve(arms, "rke(bandwidth=12)", precision=precision) for precision in ("auto", "exact"))
    assert exact.provenance.engine is not None and exact.provenance.engine.startswith("cpu, single precision")
    # Processors without AVX2 have no fast products of integers.
    assert automatic.provenance.engine is not None
    integers = "16-bit products" in automatic.provenance.engine
    assert (automatic.loss != exact.loss) == integers
    assert automatic.loss == pytest.approx(exact.loss, rel=3e-7)


@pytest.mark.parametrize("call", [mm.solve, mm.score, mm.simulate, mm.plan, mm.metrics.rke])
def test_a_missing_gpu_is_an_error_that_says_why(call: Any) -> None:
    more = {mm.simulate: {"rounds": 5}, mm.plan: {"gain_error": "5%"}}.get(call, {})
    with pytest.raises(RuntimeError, match=r'^engine="cuda:99": there is no ') as raised:
        call(ARMS, engine="cuda:99", gpu_memory="1GB", **more)
    assert len(str(raised.value)) > 40


def test_sessions_take_an_engine() -> None:
    with pytest.raises(RuntimeError, match='engine="cuda:99"'):
        mm.Session(["a"], mm.Rke(bandwidth=1.0), engine="cuda:99")
    session = mm.Session(["a"], mm.Rke(bandwidth=1.0), engine="cpu", gpu_memory=10**9)
    session.tell(session.ask(), [1.0])
    assert pickle.loads(pickle.dumps(session)).report().samples == 1


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"engine": "gpu"}, ValueError, "engine is gpu, but it must be auto, cpu, cuda, or a device such as cuda:1"),
        ({"engine": None}, TypeError, "engine is None"),
        ({"gpu_memory": "much"}, ValueError, "much is no amount of memory"),
        ({"gpu_memory": 0}, ValueError, "gpu_memory is 0"),
        ({"gpu_memory": 1.5}, ValueError, "gpu_memory is 1.5"),
        ({"precision": "half"}, ValueError, "precision is 'half'"),
        ({"precision": None}, TypeError, "precision is None"),
    ],
)
def test_arguments_are_checked(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        mm.solve(ARMS, "rke(bandwidth=2)", **arguments)


@pytest.mark.parametrize("engine", ["cpu", "auto"])
def test_arrays_on_a_gpu_are_copied_for_the_processor(engine: str) -> None:
    if engine == "auto" and _has_gpu():
        pytest.skip("the array has no memory on this GPU")
    there = {name: OnGpu(rows) for name, rows in ARMS.items()}
    found = mm.solve(there, "rke(bandwidth=2)", engine=engine)  # type: ignore[arg-type]
    assert found.weights == mm.solve(ARMS, "rke(bandwidth=2)", engine="cpu").weights
    assert [rows.copies for rows in there.values()] == [1, 1]
    assert mm.median_bandwidth(there) == mm.median_bandwidth(ARMS)  # type: ignore[arg-type]


def _has_gpu() -> bool:
    try:
        mm.metrics.rke(ARMS["a"], bandwidth=1.0, engine="cuda")
    except RuntimeError:
        return False
    return True
