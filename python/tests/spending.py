"""Runs rounds of a session on recorded arms."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

import modelmix as mm


def spend(session: mm.Session, arms: dict[str, npt.NDArray[Any]], rounds: int) -> list[str]:
    """Ask and tell for a number of rounds; return the arms that were pulled."""
    pulled = []
    for _ in range(rounds):
        pull = session.ask()
        pulled.append(pull.arm)
        row = session.report().samples % len(arms[pull.arm])
        session.tell(pull, arms[pull.arm][row])
    return pulled
