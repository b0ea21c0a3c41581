"""Settings in the form that the extension accepts: objects with these attributes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .settings import Until


@dataclass(frozen=True)
class Analyses:
    """Analyses of ``solve`` besides the best mixture."""

    subsets: bool = False
    fees: dict[str, float] | None = None
    samples: float | None = None
    within: str | None = None
    front: str | None = None
    bandwidths: list[float] | None = None
    bandwidths_text: str | None = None
    intervals: bool = True


@dataclass(frozen=True)
class ScoreSettings:
    """The metrics of ``score`` and their definitions."""

    metrics: list[str] | None = None
    preset: str | None = None
    kernel: str | None = None
    vendi_kernel: str | None = None
    order: float | None = None
    neighbours: int | None = None
    closed: bool | None = None
    subsets: int | None = None
    subset_size: int | None = None
    subset_seed: int | None = None
    seed: int = 0


@dataclass(frozen=True)
class SimulationArguments:
    """Settings of ``simulate``."""

    policies: list[str] | None
    rounds: int
    seeds: int
    replacement: bool
    batch: int
    in_flight: int
    select: str
    checkpoints: int
    memory: int | None
    until: Until | None
    retention: str | None
    known: int


@dataclass(frozen=True)
class SessionArguments:
    """Settings of a session."""

    policy: str
    seed: int
    batch: int
    rounds: int | None
    until: Until | None
    retention: str | None
    alarm: float | None
    select: str
    storage: str


@dataclass(frozen=True)
class CurateSettings:
    """Settings of ``curate``."""

    count: int
    proportions: str
    sweeps: int
    pool: int
    floor: dict[str, float]
    cap: dict[str, float]


@dataclass(frozen=True)
class EncoderSettings:
    """Which encoder to open, and how."""

    encoder: str
    weights: str | None
    preset: str | None
    runtime: str
    device: str
    library: str | None
