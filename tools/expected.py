#!/usr/bin/env python3
"""Compute the expected offline values of the experiments with NumPy in double precision, without code of the library.

Usage: python tools/expected.py [--write] [FOLDER …]

Reads ``experiments/fashion`` and ``experiments/text`` (or the given folders). For every quantity under ``[expected]`` that has a value
and needs no simulation, it computes the value from the features: weights by enumeration of all supports (``golden.py``), RKE as
V-statistic, MMD² as U-statistic times 100, KID as U-statistic, FID by an eigendecomposition, the Vendi score from the spectrum of the
weighted second
moment. It prints the value of the file and the computed one. It exits with code 1 if they differ by more than a tenth of the
tolerance, or if a name or a comparison does not hold. ``--write`` writes the computed values into the files.

For sparse experiments it also prints the minimal loss with at most 1, 2, … arms, which their comments state.
"""

from __future__ import annotations

import argparse
import itertools
import math
import re
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from golden import Kappa, Optimum, Statistics, gaussian, polynomial, quality_of, solve_by_enumeration

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = [ROOT / "experiments" / "fashion", ROOT / "experiments" / "text"]
TERM = re.compile(r"\s*([+-])?\s*(?:([0-9.]+)\s*\*\s*)?([a-z]+)")

Array = np.ndarray


# Reading --------------------------------------------------------------------------------------------------------------


def read_arms(folder: Path, sources: list[str]) -> dict[str, Array]:
    """Read ``path.npz`` (all arrays) or ``path.npz:key``; the included experiments use no other form."""
    arms: dict[str, Array] = {}
    for source in sources:
        path, _, key = source.partition(":")
        with np.load(folder / path, allow_pickle=False) as archive:
            for name in [key] if key else archive.files:
                arms[name] = archive[name].astype(np.float64)
    return arms


def read_terms(objective: str) -> list[tuple[float, str]]:
    terms: list[tuple[float, str]] = []
    at = 0
    while at < len(objective):
        found = TERM.match(objective, at)
        if found is None:
            raise ValueError(f"cannot read {objective!r} from {at}")
        sign, factor, word = found.groups()
        terms.append(((-1.0 if sign == "-" else 1.0) * float(factor or 1.0), word))
        at = found.end()
    return terms


# Metrics --------------------------------------------------------------------------------------------------------------


def moments(arms: dict[str, Array], weights: dict[str, float]) -> tuple[Array, Array]:
    """Return mean and covariance of a mixture from those of its arms; the covariance of an arm divides by n - 1."""
    mean = sum(share * arms[name].mean(axis=0) for name, share in weights.items())
    second = sum(
        share * (np.cov(arms[name], rowvar=False) + np.outer(arms[name].mean(axis=0), arms[name].mean(axis=0)))
        for name, share in weights.items()
    )
    return mean, second - np.outer(mean, mean)


def root(matrix: Array) -> Array:
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def fid(first: tuple[Array, Array], second: tuple[Array, Array]) -> float:
    half = root(first[1])
    cross = np.linalg.eigvalsh(half @ second[1] @ half)
    distance = float(np.sum((first[0] - second[0]) ** 2))
    return distance + float(np.trace(first[1]) + np.trace(second[1]) - 2.0 * np.sum(np.sqrt(np.maximum(cross, 0.0))))


def vendi(arms: dict[str, Array], weights: dict[str, float]) -> float:
    """Return exp of the entropy of the eigenvalues of sum w x x' with normalised rows, which are those of the weighted cosine matrix."""
    second = 0.0
    for name, share in weights.items():
        rows = arms[name] / np.linalg.norm(arms[name], axis=1, keepdims=True)
        second = second + share * (rows.T @ rows) / len(rows)
    values = np.linalg.eigvalsh(second)
    values = values[values > 1e-15]
    return math.exp(-float(np.sum(values * np.log(values))))


# An experiment --------------------------------------------------------------------------------------------------------


class Experiment:
    """All offline quantities of one file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.spec: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        folder = path.parent / self.spec.get("features", "")
        self.arms = read_arms(folder, self.spec["arms"])
        self.names = list(self.arms)
        self.reference = np.empty((0, 0))
        if "reference" in self.spec:
            self.reference = np.load(folder / self.spec["reference"], allow_pickle=False).astype(np.float64)
        self.terms = read_terms(self.spec["objective"])
        kappas = {word: self.kappa(word) for _, word in self.terms if word in ("rke", "mmd", "kid")}
        # golden.py requires a reference; if there is none, rows of an arm are used in its place.
        reference = self.reference if len(self.reference) else self.arms[self.names[0]][:2]
        statistics = Statistics(self.arms, reference, list(dict.fromkeys(kappas.values())))
        quality = None
        if any(word in ("precision", "density") for _, word in self.terms):
            quality = quality_of(self.arms, self.reference)

        count = len(self.names)
        self.quadratic, self.linear, self.constant = np.zeros((count, count)), np.zeros(count), 0.0
        for weight, word in self.terms:
            if word in kappas:
                self.quadratic += weight * statistics.quadratic(kappas[word], unbiased=False)
            if word in ("mmd", "kid"):
                self.linear += weight * -2.0 * statistics.cross(kappas[word])
                self.constant += weight * statistics.reference(kappas[word], unbiased=False)
            if quality is not None and word in ("precision", "density"):
                self.linear += weight * getattr(quality, word)
        self.optimum = solve_by_enumeration(self.quadratic, self.linear)
        self.single = np.diag(self.quadratic) + self.linear + self.constant
        self.best = int(np.argmin(self.single))

        first = self.terms[0][1]
        kappa = kappas[first]
        if first == "rke":
            form = statistics.quadratic(kappa, unbiased=False)
            self._score = lambda alpha: 1.0 / float(alpha @ form @ alpha)
        else:
            form, cross = statistics.quadratic(kappa, unbiased=True), statistics.cross(kappa)
            constant = statistics.reference(kappa, unbiased=True)
            scale = 100.0 if first == "mmd" else 1.0
            self._score = lambda alpha: scale * (float(alpha @ form @ alpha - 2.0 * cross @ alpha) + constant)

    def kappa(self, word: str) -> Kappa:
        """The kernel of a term, squared for rke; kid's is (x.y/d + 1)^3 and has no bandwidth."""
        if word == "kid":
            return Kappa(polynomial(1.0 / self.reference.shape[1], 1.0, 3), False)
        return Kappa(gaussian(float(self.spec["bandwidth"])), word == "rke")

    def weights_of(self, subject: str) -> Array:
        if subject == "mixture":
            return self.optimum.weights
        alone = np.zeros(len(self.names))
        alone[self.best if subject == "best single" else self.names.index(subject)] = 1.0
        return alone

    def quantity(self, what: str) -> float | str | None:
        """Return its value; ``None`` if it needs a simulation or is not computed here."""
        if what == "best single":
            return self.names[self.best]
        if what == "gain":
            return float(self.single[self.best] - self.optimum.value - self.constant)
        word, _, subject = what.partition(" of ")
        if word in ("regret", "rounds", "share", "arms", "final loss"):
            return None
        if word == "weight":
            return float(self.optimum.weights[self.names.index(subject)])
        alpha = self.weights_of(subject)
        shares = {name: float(share) for name, share in zip(self.names, alpha, strict=True) if share > 0.0}
        match word:
            case "loss":
                return float(alpha @ self.quadratic @ alpha + self.linear @ alpha) + self.constant
            case "score":
                return self._score(alpha)
            case "fid":
                return fid(moments(self.arms, shares), moments({"reference": self.reference}, {"reference": 1.0}))
            case "vendi":
                return vendi(self.arms, shares)
        return None

    def sparse_optima(self) -> list[tuple[float, Array]]:
        """Return the minimal loss with at most 1, 2, … arms, and its weights."""
        count = len(self.names)
        best: list[tuple[float, Array]] = []
        for size in range(1, count + 1):
            options: list[tuple[float, Array]] = []
            for chosen in itertools.combinations(range(count), size):
                support = list(chosen)
                found: Optimum = solve_by_enumeration(self.quadratic[np.ix_(support, support)], self.linear[support])
                weights = np.zeros(count)
                weights[support] = found.weights
                options.append((found.value + self.constant, weights))
            best.append(min(options, key=lambda option: option[0]))
        return best


# Comparing and writing ------------------------------------------------------------------------------------------------


@dataclass
class Line:
    what: str
    stated: str
    computed: str
    agrees: bool


def compare(experiment: Experiment) -> list[Line]:
    lines: list[Line] = []
    for what, required in experiment.spec.get("expected", {}).items():
        computed = experiment.quantity(what)
        if computed is None:
            continue
        if isinstance(computed, str):
            lines.append(Line(what, required, computed, required == computed))
            continue
        if "value" in required:
            agrees = abs(required["value"] - computed) <= max(required["tolerance"] / 10.0, 1e-12)
            lines.append(Line(what, f"{required['value']} ± {required['tolerance']}", f"{computed:.7g}", agrees))
        for word, holds in [("at_most", lambda bound: computed <= bound), ("at_least", lambda bound: computed >= bound)]:
            if word in required:
                lines.append(Line(what, f"{word} {required[word]}", f"{computed:.7g}", holds(required[word])))
        for word, sign in [("below", 1.0), ("above", -1.0)]:
            others = required.get(word, [])
            for name in [others] if isinstance(others, str) else others:
                other = experiment.quantity(name)
                if isinstance(other, float):
                    agrees = sign * (other - computed) > 0.0
                    lines.append(Line(what, f"{word} {name} ({other:.6g})", f"{computed:.7g}", agrees))
    return lines


def write(experiment: Experiment) -> None:
    """Write computed values with five significant digits into the file; everything else is unchanged."""

    def replaced(found: re.Match[str]) -> str:
        computed = experiment.quantity(found[1])
        return found[0] if not isinstance(computed, float) else f'"{found[1]}" = {{ value = {rounded(computed)},'

    text = experiment.path.read_text(encoding="utf-8")
    text = re.sub(r'^"best single" = ".*"', f'"best single" = "{experiment.names[experiment.best]}"', text, flags=re.MULTILINE)
    text = re.sub(r'^"([^"]+)" = \{ value = [^,]*,', replaced, text, flags=re.MULTILINE)
    experiment.path.write_text(text, encoding="utf-8")


def rounded(value: float) -> str:
    """Return a number with five significant digits."""
    if value == 0.0:
        return "0.0"
    return np.format_float_positional(value, precision=5, fractional=False, trim="0")


def main() -> None:
    parser = argparse.ArgumentParser(description="Compute the expected offline values of the experiments.")
    parser.add_argument("--write", action="store_true", help="write the computed values into the files")
    parser.add_argument("folders", nargs="*", type=Path, default=FOLDERS)
    arguments = parser.parse_args()
    failed = False
    for path in sorted(path for folder in arguments.folders for path in folder.glob("*.toml")):
        experiment = Experiment(path)
        if arguments.write:
            write(experiment)
            experiment.spec = tomllib.loads(path.read_text(encoding="utf-8"))
        print(f"{experiment.spec['name']}: gain {experiment.quantity('gain'):.6g}")
        for line in compare(experiment):
            failed |= not line.agrees
            print(f"  {'agrees' if line.agrees else 'DIFFERS':<8}{line.what:<30}{line.stated:<34}{line.computed}")
        if "sparse" in experiment.spec["name"]:
            for size, (loss, weights) in enumerate(experiment.sparse_optima(), start=1):
                shares = " ".join(f"{weight:.3f}" for weight in weights)
                print(f"  at most {size} arms: loss {loss:.6f}, {loss - experiment.optimum.value:.6f} above the best, ({shares})")
        sys.stdout.flush()
    if failed:
        raise SystemExit("some expected values differ from the computed ones")


if __name__ == "__main__":
    main()
