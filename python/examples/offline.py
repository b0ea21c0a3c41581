# %% [markdown]
# # Offline: from features to weights
#
# Five generators of clothes, a thousand and a half samples of each, already encoded. Three of them know a part of the world
# only. Which one should we use?

# %%
from pathlib import Path

import modelmix as mm

DATA = Path(__file__).parents[2] / "data" / "fashion"

arms = mm.load(DATA / "specialists.npz")  # {"tops_gan": array, …}; any dict of arrays or tensors will do
reference = mm.load_array(DATA / "reference.npy")  # real images through the same encoder

# %% [markdown]
# ## The best mixture
# None of them alone. The gap is a proof: no mixture of these samples is better by more than that.

# %%
best = mm.solve(arms, mm.Mmd(reference, bandwidth=20))
print(best)
print(f"gap {best.gap:.1e}; without shoes_gan the loss grows by {best['shoes_gan'].adds:.4f}")

# %% [markdown]
# ## Scores, with their standard errors
# The mixture was chosen by one metric. Do the others agree?

# %%
scores = mm.score(arms, reference, weights=best.weights, metrics=["fid", "kid", "rke", "precision", "recall"])
print(scores)

# %% [markdown]
# ## Other objectives
# Terms add and scale. What is better when there is more of it is subtracted; costs are added.

# %%
prices = {"tops_gan": 1.0, "shoes_gan": 1.0, "legs_bags_gan": 1.0, "vae": 0.2, "flow": 5.0}
objective = mm.Mmd(reference, bandwidth=20) - 0.02 * mm.Precision(reference) + 0.002 * mm.Cost(prices)
print(mm.solve(arms, objective, cap={"tops_gan": 0.35}))

# %% [markdown]
# ## What if every sample had to be paid for?
# Policies on the recorded samples: how many pulls until the proportions keep 95% of the gain?

# %%
report = mm.simulate(
    arms,
    mm.Mmd(reference, bandwidth=20),
    policies=[mm.Adaptive(), mm.Ogd(sensitivity=0.03), mm.Vanilla(sensitivity=0.03), mm.MixtureOracle()],
    rounds=600,
    seeds=5,
)
print(report)

# %%
try:
    import matplotlib

    matplotlib.use("Agg")
except ImportError:
    print("pip install matplotlib for figures")
else:
    best.plot().figure.savefig("offline-mixture.png", dpi=150, bbox_inches="tight")
    report.plot().figure.savefig("offline-policies.png", dpi=150, bbox_inches="tight")
    print("offline-mixture.png and offline-policies.png are written")
