# %% [markdown]
# # The same numbers as torch-fidelity, prdc and vendi-score
#
# A preset uses the definitions of another tool, with subsets drawn in its order by its generator. Here both compute the same
# scores from the same features.

# %%
from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path

import numpy as np

import modelmix as mm

try:
    import torch
    from prdc import compute_prdc
    from torch_fidelity.metric_fid import fid_features_to_statistics, fid_statistics_to_metric
    from torch_fidelity.metric_kid import kid_features_to_metric
    from vendi_score import vendi
except ImportError as missing:
    print(
        f"{missing.name} is not installed; pip install torch-fidelity prdc vendi-score scikit-learn, and run this again"
    )
    sys.exit(0)

DATA = Path(__file__).parents[2] / "data" / "fashion"
samples = mm.load_array(f"{DATA / 'specialists.npz'}:flow")
reference = mm.load_array(DATA / "reference.npy")

# %% [markdown]
# ## The other tools

# %%
# In double precision: with single precision, torch-fidelity sums in single precision, and its last digits are rounding errors.
x, y = (torch.from_numpy(np.array(rows, dtype=np.float64)) for rows in (samples, reference))
with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
    kid = kid_features_to_metric(x, y, kid_subsets=100, kid_subset_size=1000, rng_seed=2020, verbose=False)
    fid = fid_statistics_to_metric(fid_features_to_statistics(x), fid_features_to_statistics(y), verbose=False)
    prdc = compute_prdc(real_features=np.array(reference), fake_features=np.array(samples), nearest_k=5)
theirs = {
    "kid": kid["kernel_inception_distance_mean"],
    "kid_std": kid["kernel_inception_distance_std"],
    "fid": fid["frechet_inception_distance"],
    **prdc,
    "vendi": vendi.score_dual(np.array(samples, dtype=np.float64), normalize=True),
}

# %% [markdown]
# ## modelmix

# %%
one = {"flow": samples}
ours = {
    **mm.score(one, reference, preset="torch-fidelity", metrics=["kid", "fid"])["flow"].scores,
    **mm.score(one, reference, preset="prdc")["flow"].scores,
    **mm.score(one, preset="vendi-score")["flow"].scores,
}

# %%
worst = 0.0
print(f"{'metric':<10} {'theirs':>18} {'ours':>18} {'relative':>10}")
for name, value in theirs.items():
    error = abs(ours[name] - float(value)) / abs(float(value))
    worst = max(worst, error)
    print(f"{name:<10} {float(value):>18.10f} {ours[name]:>18.10f} {error:>10.1e}")
assert worst < 1e-6, "a metric differs; please report it"
