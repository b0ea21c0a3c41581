"""Tensors of torch, and agreement with other tools. Run by `make test-peers`, because the packages take gigabytes."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from places import ROOT

import modelmix as mm
from modelmix import _modelmix


@pytest.fixture
def rows() -> torch.Tensor:
    """Multiples of one half, which are exact in every float type."""
    return torch.randint(-8, 8, (30, 6), generator=torch.Generator().manual_seed(3)).float() / 2


def solved(rows: Any, other: Any) -> mm.Mixture:
    return mm.solve({"one": rows, "two": other}, mm.Rke(bandwidth=2.0))


KINDS = {
    "float32": lambda rows: rows,
    "float64": lambda rows: rows.double(),
    "float16": lambda rows: rows.half(),
    "bfloat16": lambda rows: rows.bfloat16(),
    "with gradients": lambda rows: rows.clone().requires_grad_(),
    "part of a graph": lambda rows: rows.clone().requires_grad_() * 1.0,
    "transposed": lambda rows: rows.T.contiguous().T,
    "strided": lambda rows: rows.repeat_interleave(2, dim=1)[:, ::2],
    "parameter": lambda rows: torch.nn.Parameter(rows.clone()),
    "inference": lambda rows: _inferred(rows),
    "list of rows": lambda rows: list(rows),
    "negated when read": lambda rows: torch._neg_view(-rows),
}


def _inferred(rows: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        return rows * 1.0


@pytest.mark.parametrize("kind", KINDS)
def test_every_tensor_is_read(kind: str, rows: torch.Tensor) -> None:
    expected = solved(rows.numpy(), (rows + 1).numpy())
    made = solved(KINDS[kind](rows), KINDS[kind](rows + 1))
    assert made.quadratic == expected.quadratic


@pytest.mark.parametrize("kind", ["float32", "with gradients", "parameter", "inference"])
def test_contiguous_tensors_are_not_copied(kind: str, rows: torch.Tensor) -> None:
    given = KINDS[kind](rows)
    before = _modelmix.copied_bytes()
    solved(given, given)
    assert _modelmix.copied_bytes() == before


def test_integers_are_read_and_bools_rejected(rows: torch.Tensor) -> None:
    assert solved(rows.long(), rows).quadratic == solved(rows.long().float(), rows).quadratic
    with pytest.raises(ValueError, match="its values are bool"):
        solved(rows > 0, rows)


def test_a_session_of_tensors(rows: torch.Tensor) -> None:
    session = mm.Session(["a", "b"], mm.Mmd(rows, bandwidth=2.0) - 0.1 * mm.SampleScore("taste"), batch=2)
    for at in range(0, 20, 2):
        pull = session.ask()
        session.tell(pull, rows[at : at + 2].requires_grad_(), scores={"taste": torch.tensor([0.5, 1.0])})
    assert session.samples is not None
    assert np.array_equal(session.samples, rows[:20].detach().numpy())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_tensors_on_a_gpu_are_copied_to_the_cpu(rows: torch.Tensor) -> None:
    assert solved(rows.cuda(), rows.cuda() + 1).quadratic == solved(rows, rows + 1).quadratic


def test_parity_with_other_tools() -> None:
    script = ROOT / "python/examples/torch_fidelity_parity.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "vendi" in done.stdout
    print(done.stdout)
