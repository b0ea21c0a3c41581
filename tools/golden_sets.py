"""Sets of rows of ``data/fashion``, described so that a reader of ``metrics.json`` can rebuild them, and the format of that file.

A set has the first ``rows`` rows and the first ``columns`` columns of each of its ``arms`` in ``data/fashion/<file>.npz``, or of
``reference.npy`` if it has no arms. With ``weights`` it is a mixture of its arms. ``constant_column`` is overwritten by ones;
``repeat`` repeats every row that number of times, consecutively.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from typing import Any

import numpy as np

import golden_brute as brute
from golden import DATA, Array, load_arms

WIDTH = 64
LINE = 128

BEST_SPECIALISTS = (0.38, 0.31, 0.31, 0.0, 0.0)
SPECIALISTS = ("tops_gan", "shoes_gan", "legs_bags_gan", "vae", "flow")
CENTERS = tuple(f"center{i}" for i in range(8))

Case = dict[str, Any]


@functools.cache
def file_of_features(file: str) -> dict[str, Array]:
    if file == "reference":
        return {"": np.load(DATA / "reference.npy", allow_pickle=False).astype(np.float64)}
    return load_arms(file)


@dataclass(frozen=True)
class Set:
    """A selection of rows of the data that a reader of the JSON can repeat."""

    file: str
    arms: tuple[str, ...]
    rows: int
    columns: int = WIDTH
    weights: tuple[float, ...] | None = None
    constant_column: int | None = None
    repeat: int | None = None

    def parts(self) -> list[Array]:
        """Return the features of each arm with a nonzero weight."""
        return [self._features(arm) for arm, weight in zip(self.arms or ("",), self._weights(), strict=True) if weight > 0.0]

    def shares(self) -> list[float]:
        """Return the nonzero weights."""
        return [weight for weight in self._weights() if weight > 0.0]

    def features(self) -> Array:
        """Return all rows, by arm."""
        return np.vstack(self.parts())

    def row_weights(self) -> Array:
        """Return the weight of each row: the weight of its arm divided by the number of rows."""
        pairs = zip(self.parts(), self.shares(), strict=True)
        return np.concatenate([np.full(len(part), share / len(part)) for part, share in pairs])

    def moments(self) -> brute.Moments:
        return brute.moments(self.parts(), self.shares())

    def describe(self) -> Case:
        optional = {"weights": self.weights, "constant_column": self.constant_column, "repeat": self.repeat}
        chosen = {key: value for key, value in optional.items() if value is not None}
        return {"file": self.file, "arms": self.arms, "rows": self.rows, "columns": self.columns, **chosen}

    def _weights(self) -> tuple[float, ...]:
        return self.weights if self.weights is not None else (1.0,)

    def _features(self, arm: str) -> Array:
        stored = file_of_features(self.file)[arm]
        if self.rows > len(stored):
            raise ValueError(f"{self.file} has {len(stored)} rows, not {self.rows}")
        features = stored[: self.rows, : self.columns].copy()
        if self.constant_column is not None:
            features[:, self.constant_column] = 1.0
        return features if self.repeat is None else np.repeat(features, self.repeat, axis=0)

    def __str__(self) -> str:
        return f"{self.file}/{'+'.join(self.arms)}[{self.rows}, {self.columns}]"


def arm(file: str, name: str, rows: int | None = None, **options: Any) -> Set:
    return Set(file, (name,), len(file_of_features(file)[name]) if rows is None else rows, **options)


def reference(rows: int = 2000, **options: Any) -> Set:
    return Set("reference", (), rows, **options)


def specialists(weights: tuple[float, ...], rows: int = 1500, **options: Any) -> Set:
    return Set("specialists", SPECIALISTS, rows, weights=weights, **options)


def truncated(rows: int = 1500) -> Set:
    return Set("truncated", CENTERS, rows, weights=(1.0 / len(CENTERS),) * len(CENTERS))


def agree(first: float, second: float, tolerance: float, what: str) -> None:
    """Raise unless two sources give the same number, relative to its size if that exceeds one millionth."""
    if not abs(first - second) <= tolerance * max(abs(first), abs(second), 1e-6):
        raise ArithmeticError(f"{what}: {first!r} against {second!r}")


def to_text(value: object, indent: int = 0) -> str:
    """Return JSON in which values that fit are on one line."""
    line = json.dumps(value, allow_nan=False, ensure_ascii=False)
    if 2 * indent + len(line) <= LINE or not isinstance(value, (dict, list, tuple)):
        return line
    inner, outer = "  " * (indent + 1), "  " * indent
    if isinstance(value, dict):
        items = [f"{inner}{json.dumps(key)}: {to_text(item, indent + 1)}" for key, item in value.items()]
        return "{\n" + ",\n".join(items) + f"\n{outer}}}"
    return "[\n" + ",\n".join(inner + to_text(item, indent + 1) for item in value) + f"\n{outer}]"
