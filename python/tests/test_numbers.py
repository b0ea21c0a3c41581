"""Numbers that make no sense are a sentence, not an error of the extension's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import modelmix as mm

ROWS = {"a": np.arange(12, dtype=np.float32)[:, None], "b": np.arange(30, 42, dtype=np.float32)[:, None]}

CALLS: dict[str, Callable[..., Any]] = {
    "solve": lambda **given: mm.solve(ROWS, mm.Rke(bandwidth=2), **given),
    "simulate": lambda **given: mm.simulate(ROWS, mm.Rke(bandwidth=2), **given),
    "curate": lambda **given: mm.curate(ROWS, mm.Rke(bandwidth=2), **{"count": 3, **given}),
    "session": lambda **given: mm.Session(ROWS, mm.Rke(bandwidth=2), **given),
    "score": lambda **given: mm.score(ROWS, **given),
}


@pytest.mark.parametrize(
    ("call", "argument", "value", "sentence"),
    [
        ("solve", "seed", -1, "seed is -1, but it must be a whole number, at least 0"),
        ("solve", "threads", 1.5, "threads is 1.5, but it must be a whole number"),
        ("solve", "floor", {"a": "half"}, "the floor of a is 'half', but it must be a number"),
        ("solve", "fees", {"a": None}, "the fee of a is None, but it must be a number"),
        ("solve", "bandwidths", 7, "bandwidths is 7, but it must be auto, or a list of positive numbers"),
        ("solve", "front", 3, "an objective is text or made of terms"),
        ("solve", "costs", {"a": "dear"}, "the cost of a is 'dear', but it must be a number"),
        ("score", "weights", {"a": "all"}, "the weight of a is 'all', but it must be a number"),
        ("simulate", "rounds", -1, "rounds is -1, but it must be a whole number"),
        ("simulate", "known", "much", "known is 'much', but it must be a whole number"),
        ("curate", "count", -1, "count is -1, but it must be a whole number"),
        ("curate", "count", 2.5, "count is 2.5, but it must be a whole number"),
        ("curate", "proportions", 3, 'proportions is "3", but it must be best, mixture or free'),
        ("session", "batch", -1, "batch is -1, but it must be a whole number"),
        ("session", "settings", {"alarm": 0.1}, "settings are an mm.SessionSettings, and a dict is none"),
    ],
)
def test_it_is_refused_in_a_sentence(call: str, argument: str, value: Any, sentence: str) -> None:
    with pytest.raises(ValueError) as raised:
        CALLS[call](**{argument: value})
    assert sentence in str(raised.value)


def test_numbers_of_numpy_are_numbers() -> None:
    chosen = mm.curate(ROWS, mm.Rke(bandwidth=np.float32(2)), count=np.int64(3), seed=np.uint8(1))  # type: ignore[arg-type]
    assert len(chosen.ids) == 3
