"""A user's script, checked by mypy --strict and pyright, and run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl

import modelmix as mm

arms: dict[str, npt.NDArray[np.float32]] = mm.load("data/fashion/categories.npz")
reference = mm.load_array("data/fashion/reference.npy")

objective: mm.Objective = (
    mm.Mmd(reference, bandwidth=20) - 0.2 * mm.Precision(reference) + 0.01 * mm.Cost({name: 1.0 for name in arms})
)
best: mm.Mixture = mm.solve(arms, objective, cap={"bag": 0.9}, threads=2)
weights: dict[str, float] = best.weights
gap: float = best.gap
interval: tuple[float, float] | None = best.arms[0].interval
gain: tuple[float, float] | None = best.gain_interval
p_value: float | None = best.p_value
print(best, weights, gap, gain, p_value, interval, best.to_dict()["gain"])

names: list[str] = list(best)
arm: mm.results.MixtureArm = best["bag"]
by_arm: dict[str, mm.results.MixtureArm] = dict(best)
latex, markdown, csv = best.to_latex(caption="Weights"), best.to_markdown(), best.to_csv()
text: str = latex + markdown + csv
sigma: float = mm.median_bandwidth(arms)
from_file: mm.Mixture = mm.solve(
    "data/fashion/categories.npz", mm.Mmd(Path("data/fashion/reference.npy"), bandwidth=20)
)
several: mm.Mixture = mm.solve(["bag=data/fashion/categories.npz:bag", "a=data/fashion/reference.npy"], "rke")
frame = pd.DataFrame({"model": ["a", "b"] * 9, "x": range(18), "y": [0.5] * 18})
long: mm.Mixture = mm.solve(frame, mm.Rke(bandwidth=2), arm="model", features=["x", "y"])
polar: mm.Mixture = mm.solve(pl.DataFrame(frame.to_dict("list")), mm.Rke(bandwidth=2), arm="model")
near: mm.Estimate = mm.metrics.precision(arms["bag"], "data/fashion/reference.npy")
print(names, arm, by_arm, text, sigma, from_file, several, long, polar, near)

asked: mm.Mixture = mm.solve(
    arms,
    mm.Rke(bandwidth=20),
    subsets=True,
    fees={"bag": 2, "coat": 0, "sneaker": 0},
    within="10%",
    front=mm.Precision(reference),
    bandwidths=[10, 20.0],
)
assert asked.subsets is not None and asked.cheapest is not None and asked.front is not None
two: dict[str, float] = asked.subsets[2].weights
total: float = asked.cheapest.total
precision: list[float] = [point.second_score for point in asked.front.points]
tried: mm.Sensitivity | None = asked.sensitivity
chosen: mm.Curated = mm.curate(arms, "rke", bandwidth=20, count=10)
rows: dict[str, list[int]] = chosen.indices
print(asked.subsets, asked.cheapest, asked.front, two, total, precision, tried, chosen, rows)

encoder: mm.encoders.Encoder = mm.encoders.open(Path("data/fashion/models/encoder.onnx"))
encoded: mm.Encoded = mm.encode("data/fashion/images/reference.npz", encoder, on_error="skip", cache=False)
matrix: npt.NDArray[np.float32] = encoded.features
paths: tuple[str | None, ...] = encoded.files
by_name: mm.encoders.NamedEncoder = mm.encoders.list()[0]
tensors: npt.NDArray[np.float32] = mm.encoders.preprocess([np.zeros((8, 8, 3), np.uint8)], "dinov2-vits14")
of_images: mm.Mixture = mm.solve("data/fashion/images/specialists.npz", mm.Mmd(encoded, bandwidth=5), encoder=encoder)
of_texts: mm.Encoded = mm.encode(["a", "bc"], lambda texts: [[float(len(text))] for text in texts])
picked: mm.Curated = mm.curate({"a": encoded, "b": encoded}, "rke", bandwidth=5, count=3)
files: list[str | None] = picked.files
print(
    encoder(np.zeros((2, 28, 28), np.uint8)).shape,
    matrix.shape,
    paths,
    by_name,
    tensors.shape,
    of_images,
    of_texts,
    files,
)

table: mm.Scores = mm.score(arms, reference, metrics=["fid", "recall"], weights=weights)
fid: float = table["bag"]["fid"]
mixed: float | None = None if table.mixture is None else table.mixture["fid"]
estimate: mm.Estimate = mm.metrics.fid(arms["bag"], reference)
also: float = float(estimate)

report: mm.Simulation = mm.simulate(
    arms, mm.Rke(bandwidth=20), policies=[mm.Adaptive(), mm.Cab(sensitivity=0.03), "greedy"], rounds=20, seeds=2
)
rounds: float | None = report[mm.Adaptive()].reached["95"]

stopping: mm.Until = mm.Until(gain=0.05, confidence=0.9, of="shares")
sure: mm.Simulation = mm.simulate(arms, "rke(bandwidth=20)", policies=["adaptive"], rounds=20, seeds=1, until=stopping)
settings = mm.SessionSettings(retention=mm.HalfLife(500, cap=mm.Capped(200)), alarm=0.01, storage="half")
session = mm.Session(list(arms), mm.Rke(bandwidth=20), policy=mm.Ogd(sensitivity=0.1), seed=1, settings=settings)
session.known("bag", arms["bag"][:5])
for number in range(10):
    pull: mm.Pull = session.ask()
    session.tell(pull, arms[pull.arm][number])
state: mm.SessionReport = session.report()
bound: float | None = state.bound_on_weights
is_done: bool = session.is_done
loss: float | None = state.loss


def noise(count: int) -> npt.NDArray[np.float64]:
    return np.random.default_rng(count).normal(size=(count, 2))


kept: list[bool] = session.kept
changed: int | None = state["bag"].changed
done: mm.Run = mm.run(
    {"a": noise, "b": noise},
    embed=lambda rows: np.asarray(rows, dtype=np.float64),
    objective=mm.Rke(bandwidth=1),
    budget=5,
    known={"a": noise(3)},
    settings=mm.SessionSettings(retention=mm.Window(50)),
    until=None,
    verify=True,
)
known: int = done.report.known
failures: list[mm.Failure] = done.failures["a"]
print(done.weights, failures, sure.known, known, bound, is_done, kept, changed, fid, mixed, also, rounds, loss)

survey: mm.Accumulator = mm.Accumulator.survey(seed=1, sample=50)
survey.update("bag", arms["bag"])
plan: mm.AccumulatorPlan = survey.plan(mm.Rke(bandwidth=20), method="features", random_features=64, memory="1GB")
sums = mm.Accumulator(plan)
sums.update("bag", arms["bag"])
block: mm.Block = mm.Block("part-0", {"flux": [[0.0, 1.0]]}, reference=None)
if plan.method == "pairs":
    sums.update_pairs(block, block)
sums.merge(mm.Accumulator.from_bytes(sums.to_bytes()))
summed: mm.Mixture = sums.solve(cap={"bag": 1.0})
counted: dict[str, int] = sums.counts
print(plan.text, summed.weights, counted, mm.ray.solve.__name__, mm.dask.solve.__name__, mm.spark.solve.__name__)
