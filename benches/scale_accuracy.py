"""Compare answers from random features, and from samples, with exact ones: how often the error is within what was stated.

Usage: `python benches/scale_accuracy.py [--draws 200]`, with the package modelmix and numpy. Every draw has another seed, which draws the
frequencies and the sampled rows. The exact answer is `mm.solve` of all rows in memory, whose K̂ is that of NumPy on the smallest data.
An answer is right if the loss of its weights, and its gain over the best single arm, are within 1.96 stated standard errors of the exact
ones; its intervals of weights are right for the share of the arms whose exact weight they cover. If the best arm has all weight, the gain is 0 without error: then the next
best one is compared, as the library does. A control divides stated errors by three, and must fail for samples; those of
random features are upper bounds, which orthogonal frequencies stay below. The exit status is 1 if a share of the result is too small, or if one
of the control is not.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from pathlib import Path

import modelmix as mm
import numpy as np

ROOT = Path(__file__).resolve().parent.parent

#: The share of draws that must be right, and how many of its standard deviations fewer are let pass. If 95% of answers are right, 182 or
#: fewer of 200 have a probability of 1%.
SHARE, DEVIATIONS = 0.95, 2.27


def synthetic(rows: int, width: int = 16, arms: int = 4) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Arms that each cover some of eight clusters, and a reference that covers all."""
    random = np.random.default_rng(rows)
    centres = 1.5 * np.random.default_rng(3).standard_normal((8, width))

    def draw(count: int, shares: np.ndarray) -> np.ndarray:
        noise = random.standard_normal((count, width))
        return (centres[random.choice(8, count, p=shares)] + noise).astype(np.float32)

    base = np.array([0.4, 0.3, 0.2, 0.1, 0, 0, 0, 0])
    each = rows // (arms + 1)
    return {f"arm{at}": draw(each, np.roll(base, 2 * at)) for at in range(arms)}, draw(each, np.full(8, 0.125))


def problems() -> dict[str, tuple[dict[str, np.ndarray], np.ndarray | None, list[str]]]:
    """Name → arms, reference, objectives."""
    fashion = dict(np.load(ROOT / "data/fashion/specialists.npz"))
    text = dict(np.load(ROOT / "data/text/features.npz"))
    found = {
        "fashion specialists": (fashion, np.load(ROOT / "data/fashion/reference.npy"), ["mmd(bandwidth=20)", "rke(bandwidth=20)"]),
        "text": (text, np.load(ROOT / "data/text/reference.npy"), ["mmd", "rke"]),
    }
    for rows in (10_000, 100_000):
        arms, reference = synthetic(rows)
        found[f"synthetic, {rows:,} rows"] = (arms, reference, ["mmd", "rke"])
    return found


def fill(sums: mm.Accumulator, arms: dict[str, np.ndarray], reference: np.ndarray | None) -> mm.Accumulator:
    """Add all rows."""
    for name, rows in arms.items():
        sums.update(name, rows)
    if reference is not None:
        sums.update_reference(reference)
    return sums


def form(mixture: mm.Mixture) -> tuple[np.ndarray, np.ndarray, float]:
    """K̂, f̂ and the constant, all V-statistics."""
    document = mixture.to_dict()
    return np.array(document["quadratic"]), np.array(document["linear"]), document["constant"]


def compared(found: mm.Mixture, names: list[str]) -> int:
    """The arm that the mixture is compared with: the best one, or the next best if that is the mixture."""
    best = names.index(found.best_single)
    if found.weights[found.best_single] <= 1 - 1e-9:
        return best
    losses = {arm.name: arm.loss for arm in found.arms}
    return min((at for at in range(len(names)) if at != best), key=lambda at: losses[names[at]])


def failures(result: dict[str, float], draws: int, has_control: bool = True) -> list[str]:
    """What is wrong with the shares of a result. A method without error covers everything, and so does its control."""
    least = SHARE - DEVIATIONS * (SHARE * (1 - SHARE) / draws) ** 0.5
    found = [f"{key}: {result[key]:.3f} is below {least:.3f}" for key in ("loss", "gain", "intervals") if result[key] < least]
    if has_control and result["stated error of the gain / gain"] > 0:
        controls = [f"control {key}" for key in ("loss", "gain")]
        found += [f"{key}: {result[key]:.3f} is not below {least:.3f}" for key in controls if result[key] >= least]
    return found


def measure(arms, reference, objective, method, size, draws) -> dict[str, object]:
    """Shares of draws that are right, and the median of what was stated."""
    names = list(arms)
    exact = None
    within = {"loss": 0, "gain": 0, "intervals": 0, "control loss": 0, "control gain": 0}
    stated, errors = [], []
    for seed in range(draws):
        survey = fill(mm.Accumulator.survey(seed=seed, sample=size if method == "sample" else 1000), arms, reference)
        options = {"random_features": size} if method == "features" else {}
        plan = survey.plan(exact["objective"] if exact else objective, method=method, arms=names, **options)
        if exact is None:
            # The bandwidth of the first draw, so that all draws have one truth.
            terms = plan.objective
            kwargs = {} if reference is None else {"reference": reference}
            truth = mm.solve(arms, terms, **kwargs)
            exact = {"objective": terms, "form": form(truth), "weights": np.array([truth.weights[name] for name in names])}
        sums = fill(mm.Accumulator(plan), arms, reference) if plan.needs_second_pass else survey.with_plan(plan)
        found = sums.solve()
        weights = np.array([found.weights[name] for name in names])
        best = compared(found, names)

        def value(of, at):
            k, f, constant = of
            return at @ k @ at + f @ at + constant

        own, true = form(found), exact["form"]
        single = np.eye(len(names))[best]
        loss_off = abs(value(own, weights) - value(true, weights))
        gain_off = abs((value(own, single) - value(own, weights)) - (value(true, single) - value(true, weights)))
        loss, gain = found.approximation["loss_error"], found.approximation["gain_error"]
        within["loss"] += loss_off <= 1.96 * loss
        within["gain"] += gain_off <= 1.96 * gain
        within["control loss"] += loss_off <= 1.96 / 3 * loss
        within["control gain"] += gain_off <= 1.96 / 3 * gain
        limits = {arm.name: arm.interval for arm in found.arms}
        within["intervals"] += np.mean(
            [limits[name][0] - 1e-9 <= w <= limits[name][1] + 1e-9 for name, w in zip(names, exact["weights"])]
        )
        difference = value(true, single) - value(true, weights)
        stated.append(gain / difference)
        errors.append(gain_off / difference)
    shares = {key: count / draws for key, count in within.items()}
    return {**shares, "stated error of the gain / gain": float(np.median(stated)), "true error / gain": float(np.sqrt(np.mean(np.square(errors))))}


def main() -> None:
    """Run all problems and store the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--methods", nargs="+", choices=["features", "sample"], default=["features", "sample"])
    parser.add_argument("--out", type=Path, default=ROOT / f"benches/runs/{datetime.date.today()}-scale")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    wrong = []
    with (given.out / "accuracy.jsonl").open("w") as file:
        for name, (arms, reference, objectives) in problems().items():
            for objective in objectives:
                reference_of = reference if objective.startswith("mmd") else None
                for method, size in (("features", 256), ("features", 4096), ("sample", 200)):
                    if method not in given.methods:
                        continue
                    if size == 4096 and name.endswith("100,000 rows"):
                        size = 1024
                    result = measure(arms, reference_of, objective, method, size, given.draws)
                    line = {"data": name, "objective": objective, "method": method, "size": size, "draws": given.draws, **result}
                    print(json.dumps(line), flush=True)
                    file.write(json.dumps(line) + "\n")
                    found = failures(result, given.draws, has_control=method == "sample")
                    wrong += [f"{name}, {objective}, {method} {size}: {failure}" for failure in found]
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
