"""The engine on an NVIDIA GPU, and arrays that are there. Skipped in one line without a GPU or without torch."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import modelmix as mm

torch = pytest.importorskip("torch", reason="torch is not installed, so there are no arrays on a GPU to test")
try:
    mm.metrics.rke(np.eye(3, dtype=np.float32), bandwidth=1.0, engine="cuda")
except RuntimeError as reason:
    pytest.skip(f"no GPU: {reason}", allow_module_level=True)

RANDOM = np.random.default_rng(7)
REFERENCE = RANDOM.normal(0.0, 1.0, (3000, 256)).astype(np.float32)
ARMS = {
    name: (RANDOM.normal(0.05 * at, 1.0 + 0.1 * at, (2500, 256))).astype(np.float32) for at, name in enumerate("abc")
}
#: What the engine promises for sums over many pairs, relative; the loss adds a few of them.
TOLERANCE = 5e-6


def on_gpu(rows: np.ndarray) -> Any:
    return torch.from_numpy(rows).cuda()


def solved(arms: Any, reference: Any, **more: Any) -> mm.Mixture:
    return mm.solve(arms, mm.Mmd(reference, bandwidth=20.0), seed=1, **more)


def test_results_are_those_of_the_processor() -> None:
    gpu, cpu = (solved(ARMS, REFERENCE, engine=engine) for engine in ("cuda", "cpu"))
    assert gpu.provenance.engine is not None and gpu.provenance.engine.startswith("cuda, ")
    np.testing.assert_allclose(gpu.loss, cpu.loss, rtol=1e-4)
    np.testing.assert_allclose(list(gpu.weights.values()), list(cpu.weights.values()), atol=1e-3)
    scores = [
        mm.score(ARMS, reference=REFERENCE, metrics=["rke", "mmd", "precision", "recall"], engine=engine)
        for engine in ("cuda", "cpu")
    ]
    for arm in ARMS:
        for metric in ("rke", "mmd", "precision", "recall"):
            one, other = (found[arm][metric] for found in scores)
            np.testing.assert_allclose(one, other, rtol=TOLERANCE, atol=1e-9)


def test_sums_are_within_the_accuracy() -> None:
    """Against float64 on the GPU of torch, which shares no code with the engine."""
    x = torch.from_numpy(ARMS["b"]).double().cuda()
    squared = torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist") ** 2
    truth = float(torch.exp(-squared / (2 * 20.0**2)).pow(2).mean())
    found = 1.0 / float(mm.metrics.rke(on_gpu(ARMS["b"]), bandwidth=20.0, engine="cuda"))
    np.testing.assert_allclose(found, truth, rtol=1e-7)


def test_arrays_on_the_gpu_are_those_on_the_host_to_the_bit() -> None:
    host = solved(ARMS, REFERENCE, engine="cuda")
    there = solved({name: on_gpu(rows) for name, rows in ARMS.items()}, on_gpu(REFERENCE))
    assert there.weights == host.weights and there.loss == host.loss
    assert there.provenance.engine == host.provenance.engine


class Interface:
    """An array that has nothing but ``__cuda_array_interface__``."""

    def __init__(self, tensor: Any, **more: Any) -> None:
        self._tensor, self._more = tensor, more
        self.shape, self.dtype = tuple(tensor.shape), np.dtype("float32")

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self._tensor.__cuda_array_interface__, **self._more}


def rke(rows: Any, **more: Any) -> float:
    return float(mm.metrics.rke(rows, bandwidth=20.0, engine="cuda", **more))


def test_both_protocols_and_all_layouts_give_the_same() -> None:
    rows = ARMS["a"]
    expected, tensor = rke(rows), on_gpu(rows)
    assert rke(tensor) == expected
    assert rke(tensor.requires_grad_(True)) == expected
    assert rke(Interface(tensor.detach())) == expected
    assert rke(Interface(tensor.detach(), version=3, stream=1)) == expected
    wide = torch.zeros(rows.shape[0], 2 * rows.shape[1], device="cuda")
    wide[:, ::2] = tensor.detach()
    assert rke(wide[:, ::2]) == expected, "other strides are copied"
    shifted = torch.zeros(rows.size + 1, device="cuda")
    shifted[1:] = tensor.detach().flatten()
    assert rke(shifted[1:].view(rows.shape)) == expected, "rows that are not aligned are copied"
    assert rke(tensor.detach().double()) == expected
    half = rows.astype(np.float16)
    assert rke(on_gpu(half)) == rke(half)
    assert rke(on_gpu(rows).bfloat16()) == rke(on_gpu(rows).bfloat16().float().cpu().numpy())
    assert float(mm.metrics.rke(tensor, bandwidth=20.0, engine="cpu")) == float(
        mm.metrics.rke(rows, bandwidth=20.0, engine="cpu")
    )


def test_work_of_the_callers_stream_is_awaited() -> None:
    """Rows that another stream is still computing when they are passed."""
    rows = ARMS["a"]
    expected = rke(rows)
    slow = torch.randn(8192, 8192, device="cuda")
    torch.cuda.synchronize()
    for by_interface in (False, True):
        stream = torch.cuda.Stream()
        given = torch.from_numpy(rows).pin_memory()
        with torch.cuda.stream(stream):
            target = torch.full(rows.shape, 3.0, device="cuda")
            for _ in range(20):
                slow = slow @ slow
                slow = slow / slow.norm()
            target.copy_(given, non_blocking=True)
            assert not stream.query(), "the stream must still have work"
            passed = Interface(target, version=3, stream=stream.cuda_stream) if by_interface else target
            assert rke(passed) == expected


def test_nothing_is_copied() -> None:
    tensor = torch.randn(200_000, 512, device="cuda")
    torch.cuda.synchronize()
    before = mm._modelmix.copied_bytes()
    free = torch.cuda.mem_get_info()[0]
    mm.metrics.rke(tensor[:2000], bandwidth=20.0, engine="cuda")
    with pytest.raises(ValueError, match="row 199999, column 3 is"):
        tensor[-1, 3] = torch.inf
        mm.metrics.rke(tensor, bandwidth=20.0, engine="cuda")
    assert mm._modelmix.copied_bytes() == before
    assert torch.cuda.mem_get_info()[0] > free - 2**30, "the rows were not copied on the GPU"


def test_arrays_are_released() -> None:
    torch.cuda.synchronize()
    gc.collect()
    before = torch.cuda.memory_allocated()
    for _ in range(3):
        rke(torch.randn(2000, 64, device="cuda"))
    gc.collect()
    assert torch.cuda.memory_allocated() == before


def test_bad_values_are_refused() -> None:
    tensor = on_gpu(ARMS["a"]).clone()
    tensor[17, 5] = float("nan")
    with pytest.raises(ValueError, match="the samples: row 17, column 5 is NaN"):
        mm.metrics.rke(tensor, bandwidth=20.0, engine="cuda")


def test_memory_is_limited() -> None:
    with pytest.raises(MemoryError, match="NVIDIA"):
        mm.metrics.rke(np.zeros((50_000, 512), np.float32), bandwidth=20.0, engine="cuda", gpu_memory="10MB")


def test_sessions_compute_on_the_gpu() -> None:
    reports = []
    for engine in ("cuda", "cpu"):
        session = mm.Session(list(ARMS), mm.Mmd(on_gpu(REFERENCE), bandwidth=20.0), seed=3, engine=engine)
        for at in range(120):
            pull = session.ask()
            row = ARMS[pull.arm][at]
            session.tell(pull, on_gpu(row) if engine == "cuda" else row)
        reports.append(session.report())
    gpu, cpu = reports
    assert gpu.provenance is not None and gpu.provenance.engine.startswith("cuda, ")
    np.testing.assert_allclose(list(gpu.weights.values()), list(cpu.weights.values()), atol=1e-3)


@pytest.mark.parametrize("call", ["simulate", "curate", "plan"])
def test_other_functions(call: str) -> None:
    arguments: dict[str, Any] = {
        "simulate": {"rounds": 60, "seeds": 2},
        "curate": {"count": 50},
        "plan": {"weight_error": 0.05},
    }[call]
    arms = {name: on_gpu(rows[:800]) for name, rows in ARMS.items()}
    found = getattr(mm, call)(arms, mm.Rke(bandwidth=20.0), engine="cuda", **arguments)
    assert found.provenance.engine.startswith("cuda, ")
