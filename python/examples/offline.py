# %% [markdown]
# # Offline: from features to weights
#
# Five generators of clothes, with features of 1,500 samples each. Three of them cover only a part of the data. Which one should
# we use?

# %%
from pathlib import Path

import modelmix as mm

DATA = Path(__file__).parents[2] / "data" / "fashion"

arms = mm.load(DATA / "specialists.npz")  # {"tops_gan": array, …}; any dict of arrays or tensors works
reference = mm.load_array(DATA / "reference.npy")  # features of real images from the same encoder

# %% [markdown]
# ## The best mixture
# Not a single one: a mixture. The duality gap bounds how much better any mixture of these samples could be.

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
# Objectives are weighted sums of terms. Subtract scores of which more is better; add costs.

# %%
prices = {"tops_gan": 1.0, "shoes_gan": 1.0, "legs_bags_gan": 1.0, "vae": 0.2, "flow": 5.0}
objective = mm.Mmd(reference, bandwidth=20) - 0.02 * mm.Precision(reference) + 0.002 * mm.Cost(prices)
print(mm.solve(arms, objective, cap={"tops_gan": 0.35}))

# %% [markdown]
# ## What if every sample costs money?
# Simulated policies on the recorded samples: after how many pulls do the shares reach 95% of the gain?

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
    print("Figures need matplotlib; install it with pip install matplotlib.")
else:
    best.plot().figure.savefig("offline-mixture.png", dpi=150, bbox_inches="tight")
    report.plot().figure.savefig("offline-policies.png", dpi=150, bbox_inches="tight")
    print("offline-mixture.png and offline-policies.png are written")
