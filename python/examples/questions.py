# %% [markdown]
# # Further questions about a mixture
#
# Is the mixture significantly better? When are there enough samples? Which models can be dropped, and what does that save? How much
# diversity does quality cost? Does the bandwidth matter? Which samples should be published?
#
# `python questions.py FOLDER` saves the figures and a manifest in the folder.

# %%
import csv
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import modelmix as mm

DATA = Path(__file__).parents[2] / "data" / "fashion"
OUT = Path(sys.argv[1]) if len(sys.argv) > 1 else None

arms = mm.load(DATA / "truncated.npz")  # eight models, each of which generates a few kinds of clothes
reference = mm.load_array(DATA / "reference.npy")  # features of real images from the same encoder
rke = mm.Rke(bandwidth=20)  # diversity: RKE is the effective number of modes


def save(result: Any, name: str) -> None:
    """Save a figure if a folder is given."""
    if OUT is not None:
        OUT.mkdir(parents=True, exist_ok=True)
        result.plot().figure.savefig(OUT / f"{name}.png", dpi=150)


# %% [markdown]
# ## Is it significant?
# The weights minimise the loss of these samples. Confidence intervals and the p-value are about the models behind them.

# %%
best = mm.solve(arms, rke)
print(best)
assert best.gain_interval is not None and best.p_value is not None
low, high = best.gain_interval
print(
    f"\ngain {low:.3f} to {high:.3f} (95% confidence interval); p = {best.p_value:.1g} (H₀: some single model is as good)"
)
save(best, "mixture")

# %% [markdown]
# ## When to stop?
# Early stopping, if every sample costs money: the session ends once its weights are within 20% of the achievable gain, at 95%
# confidence. Recorded rows stand in for the models.

# %%
session = mm.Session(list(arms), rke, until="20%", seed=0)
random = np.random.default_rng(0)
while not session.is_done:
    pull = session.ask()
    session.tell(pull, arms[pull.arm][random.integers(len(arms[pull.arm]))])
report = session.report(bounds=True)
print(f"\n{report}")
assert report.mixture_loss is not None and report.bound_on_weights is not None
print(
    f"\nstopped after {report.samples} samples; the weights lose at most {report.bound_on_weights:.4f} of a gain of {best.gain:.4f}"
)

# %% [markdown]
# `simulate` measures on recorded arms when sessions stop, and how often the tolerance is then not met. With `select="better-half"`
# it also reports the loss if samples may be discarded.

# %%
policies = mm.simulate(
    arms,
    rke,
    policies=["adaptive", "uniform"],
    rounds=400,
    seeds=5,
    until="20%",
    settings=mm.SessionSettings(select="better-half"),
)
print(f"\n{policies}")
save(policies, "policies")

# %% [markdown]
# ## What is the value of each model?
# The best small subsets; and, with prices, the cheapest mixture that keeps 95% of the gain.

# %%
worth = mm.solve(
    arms,
    rke,
    subsets=True,
    fees=dict.fromkeys(arms, 20.0),  # fixed cost per month and model
    costs={name: 0.02 * place for place, name in enumerate(arms, 1)},  # price per sample
    samples=1000,  # per month
    within="5%",
)
assert worth.subsets is not None and worth.cheapest is not None
print(f"\n{worth.subsets}\n\n{worth.cheapest}")
print(f"\n{', '.join(worth.subsets[4].arms)} keep {worth.subsets[4].gain_kept:.0%} of the gain")
save(worth.subsets, "subsets")
save(worth.cheapest, "cheapest")

# %% [markdown]
# ## How much diversity for how much quality?
# The Pareto front: all mixtures that cannot become more diverse without losing precision, instead of one guess at a factor.

# %%
traded = mm.solve(arms, rke, front=mm.Precision(reference)).front
assert traded is not None
print(f"\n{traded}")
save(traded, "front")

# %% [markdown]
# ## Does the bandwidth matter?

# %%
tried = mm.solve(arms, rke, bandwidths="auto").sensitivity
assert tried is not None
print(f"\n{tried}")
save(tried, "bandwidths")

# %% [markdown]
# ## Which samples should be published?
# A coreset of 100 rows. It is selected with one half of the reference, so the other half evaluates it.

# %%
generators = mm.load(DATA / "specialists.npz")
seen, unseen = reference[::2], reference[1::2]
chosen = mm.curate(generators, mm.Mmd(seen, bandwidth=20), count=100)
print(f"\n{chosen}")
save(chosen, "curated")


def distance(rows: dict[str, list[int]]) -> float:
    """MMD² between these rows and the held-out half of the reference."""
    features = np.concatenate([generators[arm][indices] for arm, indices in rows.items()])
    return mm.solve({"set": features}, mm.Mmd(unseen, bandwidth=20)).loss


drawn = {
    arm: random.choice(len(generators[arm]), len(rows), replace=False).tolist() for arm, rows in chosen.indices.items()
}
print(f"\nMMD² to held-out images: coreset {distance(chosen.indices):.4f}, random rows {distance(drawn):.4f}")

# %% [markdown]
# The manifest lists the selected rows. The JSON file next to it describes the set for readers of the manifest.

# %%
if OUT is not None:
    with open(OUT / "manifest.csv", "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["arm", "row"])
        table.writerows(chosen.ids)
    about = {"note": chosen.note, "objective": chosen.objective, "seed": chosen.seed}
    (OUT / "manifest.csv.json").write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    print(f"\nfigures and manifest.csv are in {OUT}")
