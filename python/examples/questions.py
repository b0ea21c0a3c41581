# %% [markdown]
# # What people ask after the first answer
#
# Is the mixture really better? When have we sampled enough? Which models could we do without, and what would that save? How much
# diversity does quality cost? Does the bandwidth matter? And which samples do we publish?
#
# `python questions.py FOLDER` saves the figures and a manifest there.

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

arms = mm.load(DATA / "truncated.npz")  # eight models, each of which makes a few kinds of clothes
reference = mm.load_array(DATA / "reference.npy")  # real images through the same encoder
rke = mm.Rke(bandwidth=20)  # diversity: RKE counts the kinds in a pool


def save(result: Any, name: str) -> None:
    """Save a figure, where a folder was given."""
    if OUT is not None:
        OUT.mkdir(parents=True, exist_ok=True)
        result.plot().figure.savefig(OUT / f"{name}.png", dpi=150)


# %% [markdown]
# ## Is it significant?
# The weights minimise the loss of these samples. Intervals and the p-value are about the models that they came from.

# %%
best = mm.solve(arms, rke)
print(best)
assert best.gain_interval is not None and best.p_value is not None
low, high = best.gain_interval
print(
    f"\nmixing gains {low:.3f} to {high:.3f}; the test that one model alone would do as well has p = {best.p_value:.1g}"
)
save(best, "mixture")

# %% [markdown]
# ## When to stop?
# The same question while every sample is paid for: the session ends as soon as its weights are surely near the optimum. Here rows
# that were recorded stand in for models.

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
    f"\nsure after {report.samples} samples; the weights lose at most {report.bound_on_weights:.4f}, of a gain of {best.gain:.4f}"
)

# %% [markdown]
# On recorded arms `simulate` says how long that takes, and whether it would have been wrong. With `select="better-half"` it also shows what
# becomes of those who may throw samples away.

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
# ## What is each model worth?
# The best few of them; and, with what they cost, the cheapest mixture that keeps 95% of the gain.

# %%
worth = mm.solve(
    arms,
    rke,
    subsets=True,
    fees=dict.fromkeys(arms, 20.0),  # a month, for being able to use a model at all
    costs={name: 0.02 * place for place, name in enumerate(arms, 1)},  # a sample
    samples=1000,  # a month
    within="5%",
)
assert worth.subsets is not None and worth.cheapest is not None
print(f"\n{worth.subsets}\n\n{worth.cheapest}")
print(f"\n{', '.join(worth.subsets[4].arms)} keep {worth.subsets[4].gain_kept:.0%} of the gain")
save(worth.subsets, "subsets")
save(worth.cheapest, "cheapest")

# %% [markdown]
# ## How much diversity for how much quality?
# All mixtures that cannot be made more diverse without being made less precise, instead of one guess at a factor.

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
# ## Which samples do we publish?
# A hundred rows, by name. They were chosen to fit one half of the reference, so the other half is asked how good they are.

# %%
generators = mm.load(DATA / "specialists.npz")
seen, unseen = reference[::2], reference[1::2]
chosen = mm.curate(generators, mm.Mmd(seen, bandwidth=20), count=100)
print(f"\n{chosen}")
save(chosen, "curated")


def distance(rows: dict[str, list[int]]) -> float:
    """MMD² between these rows, as they are, and the half of the reference that did not choose them."""
    features = np.concatenate([generators[arm][indices] for arm, indices in rows.items()])
    return mm.solve({"set": features}, mm.Mmd(unseen, bandwidth=20)).loss


drawn = {
    arm: random.choice(len(generators[arm]), len(rows), replace=False).tolist() for arm, rows in chosen.indices.items()
}
print(
    f"\nfrom images that it has not seen: {distance(chosen.indices):.4f}; as many rows drawn at random: {distance(drawn):.4f}"
)

# %% [markdown]
# The manifest says which rows they are, and the file beside it, to everyone who is handed it, what kind of set this is.

# %%
if OUT is not None:
    with open(OUT / "manifest.csv", "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["arm", "row"])
        table.writerows(chosen.ids)
    about = {"note": chosen.note, "objective": chosen.objective, "seed": chosen.seed}
    (OUT / "manifest.csv.json").write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    print(f"\nfigures and manifest.csv are in {OUT}")
