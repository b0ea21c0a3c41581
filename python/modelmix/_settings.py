"""Settings of calls, as the extension takes them: objects with these attributes."""

from __future__ import annotations

from dataclasses import dataclass

from ._numbers import real


@dataclass(frozen=True)
class Questions:
    """What is asked of ``solve`` beside the best mixture."""

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
    """Which metrics, and how they are defined."""

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
class Stop:
    """When a session may stop."""

    gap: str
    confidence: float
    of: str


def stop(until: str | float | None, confidence: float, certify: str) -> Stop | None:
    """``"5%"`` of the gain, or a loss."""
    return None if until is None else Stop(str(until), real("confidence", confidence), str(certify))


@dataclass(frozen=True)
class SimulationSettings:
    """What to simulate."""

    policies: list[str] | None
    rounds: int | None
    seeds: int | None
    replacement: bool
    batch: int | None
    in_flight: int | None
    select: str
    checkpoints: int | None
    memory: int | None
    until: Stop | None
    hold: int | None
    feature_error: float | None
    forget: str | None


@dataclass(frozen=True)
class SessionSettings:
    """How a session is run."""

    policy: str | None
    seed: int
    batch: int
    rounds: int | None
    storage: str
    select: str
    until: Stop | None = None
    hold: int | None = None
    feature_error: float | None = None
    forget: str | None = None
    alarm: float | None = None


@dataclass(frozen=True)
class CurateSettings:
    """How rows are chosen."""

    count: int
    proportions: str
    sweeps: int
    pool: int
    floor: dict[str, float]
    cap: dict[str, float]
