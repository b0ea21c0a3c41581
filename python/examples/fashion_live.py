"""Online: sample real generators one at a time to find their best mixture.

Run it as a script (``python python/examples/fashion_live.py``), or cell by cell in an editor that
supports ``# %%``. It needs onnxruntime; with matplotlib it also draws a gallery. The output is in
the folder ``fashion-live``. If you stop the script and start it again, it resumes.
"""

# %% [markdown]
# Three GANs were each trained on a part of Fashion-MNIST: tops, shoes, or trousers, dresses and
# bags. A VAE was trained on all of it, and its images are blurred. The last model generates
# handwritten digits and is useless here. Which models should generate the images, and with which
# weights?

# %%
from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import modelmix as mm
from modelmix.live import Generator

try:
    import onnxruntime
except ImportError:
    raise SystemExit(
        "This example runs its models with onnxruntime; install it with pip install onnxruntime."
    ) from None

Images = npt.NDArray[np.float32]

DATA = Path(__file__).resolve().parents[2] / "data" / "fashion"
OUT = Path(os.environ.get("MODELMIX_OUT", "fashion-live"))
BUDGET = int(os.environ.get("MODELMIX_BUDGET", "300"))
ARMS = ("tops_gan", "shoes_gan", "legs_bags_gan", "vae", "digits_vae")


# %% [markdown]
# **Generators and encoder.** A generator takes the number of samples. These also take a `seed`:
# every call gets a new one, so the run is reproducible.


# %%
def model(name: str) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # small models are faster on one thread
    return onnxruntime.InferenceSession(DATA / "models" / f"{name}.onnx", options, providers=["CPUExecutionProvider"])


def generator(name: str) -> Generator:
    network = model(name)
    width = network.get_inputs()[0].shape[1]

    def make(count: int, seed: int) -> Images:
        noise = np.random.default_rng(seed).standard_normal((count, width), dtype=np.float32)
        images: Images = network.run(None, {"z": noise})[0]
        return (np.rint(images * 255) / 255).astype(np.float32)  # rounded to 8 bits, as in image files

    return make


encoder = model("encoder")


def embed(images: Images) -> Images:
    features: Images = encoder.run(None, {"image": images})[0]
    return features


def save(pull: mm.Pull, images: Images) -> None:
    for number, image in enumerate(images):
        np.save(OUT / f"{pull.id:04}-{number}-{pull.arm}.npy", np.rint(image[0] * 255).astype("u1"))


# %% [markdown]
# **The run.** The objective is the distance (MMD² with a Gaussian kernel) between all samples so far
# and real images. No arm has a small distance alone.

# %%
OUT.mkdir(parents=True, exist_ok=True)
reference = mm.load_array(DATA / "reference.npy")
objective = mm.Mmd(reference, bandwidth=20)
done = mm.run(
    generators={name: generator(name) for name in ARMS},
    embed=embed,
    objective=objective,
    budget=BUDGET,
    save=save,
    checkpoint=OUT / "checkpoint.jsonl",
)
print(done)

# %% [markdown]
# **Comparison with the offline optimum.** The best mixture is computed from 1,000 or more recorded
# samples of every model. The run estimated it from a few hundred samples in all, and their shares
# are already close to it.

# %%
recorded = dict(mm.load(DATA / "specialists.npz"))
recorded["digits_vae"] = mm.load(DATA / "quality.npz")["digits"]
best = mm.solve({name: recorded[name] for name in ARMS}, objective)
print()
print(f"{'weights':<15}{'live':>8}{'offline':>9}")
for name in ARMS:
    print(f"{name:<15}{done.weights[name]:>8.1%}{best.weights[name]:>9.1%}")

collected = done.session.samples
assert collected is not None
distance = {
    name: 100 * mm.metrics.mmd(features, reference, bandwidth=20).value
    for name, features in {
        **{name: recorded[name] for name in ARMS},
        "collected": collected,
    }.items()
}
best_arm = min(ARMS, key=lambda name: distance[name])
print()
print(
    f"MMD² ×100 of the {len(collected)} samples collected is {distance['collected']:.2f}; "
    f"the best single model, {best_arm}, has {distance[best_arm]:.2f}."
)

# %% [markdown]
# **Gallery**: the images in the order in which they were generated.

# %%
try:
    from matplotlib.figure import Figure
except ImportError:
    print("The gallery needs matplotlib; install it with pip install matplotlib.")
else:
    columns, rows = 20, 3
    files = sorted(OUT.glob("*.npy"))
    parts = {"the first 60": files[: columns * rows], "the last 60": files[-columns * rows :]}
    figure = Figure(figsize=(10, 4), layout="constrained")
    for axes, (title, shown) in zip(figure.subplots(2, 1), parts.items(), strict=True):
        sheet = np.full((rows * 28, columns * 28), 255, dtype=np.uint8)
        for place, file in enumerate(shown):
            row, column = divmod(place, columns)
            sheet[row * 28 : row * 28 + 28, column * 28 : column * 28 + 28] = 255 - np.load(file)
        axes.imshow(sheet, cmap="gray", vmin=0, vmax=255)
        axes.set_title(title, loc="left")
        axes.set_axis_off()
    figure.savefig(OUT / "gallery.png", dpi=120)
    print(f"{OUT / 'gallery.png'} shows the first and the last 60 images.")
