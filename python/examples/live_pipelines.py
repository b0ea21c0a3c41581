"""Online, with Hugging Face pipelines: which text-to-image models should illustrate your prompts?

This is a realistic run: three diffusers pipelines as generators, a DINOv2 encoder, images written
as they are generated, and a checkpoint from which the run resumes after a crash. Replace the
models, the prompts and the objective with your own. The first run downloads several large models,
and a GPU is recommended; ``fashion_live.py`` runs anywhere.
"""

# %%
from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import modelmix as mm
from modelmix.live import Embed, Generator


class Model(NamedTuple):
    path: str
    steps: int
    guidance: float


MODELS = {
    "sdxl-turbo": Model("stabilityai/sdxl-turbo", steps=2, guidance=0.0),
    "sd-turbo": Model("stabilityai/sd-turbo", steps=2, guidance=0.0),
    "kandinsky": Model("kandinsky-community/kandinsky-2-2-decoder", steps=25, guidance=4.0),
}
ENCODER = "facebook/dinov2-base"
PROMPTS = (
    "a red bird on a branch, photograph",
    "a street in the rain at night, oil painting",
    "a teapot, studio light",
    "a dog that is late for work, drawing",
)


# %% [markdown]
# **Generators.** Each call gets a `seed`, which determines the noise and the prompt, so a resumed
# run generates new images instead of repeating earlier ones.


# %%
def generator(torch: Any, diffusers: Any, model: Model, device: str) -> Generator:
    dtype = torch.float16 if device == "cuda" else torch.float32
    pipeline = diffusers.AutoPipelineForText2Image.from_pretrained(model.path, torch_dtype=dtype)
    pipeline.set_progress_bar_config(disable=True)
    # Only one of the three pipelines needs to be on the device at a time.
    if device == "cuda":
        pipeline.enable_model_cpu_offload()
    else:
        pipeline.to(device)

    def make(count: int, seed: int) -> list[Any]:
        start = seed % len(PROMPTS)
        prompts = list(itertools.islice(itertools.cycle(PROMPTS), start, start + count))
        noise = torch.Generator("cpu").manual_seed(seed)
        images: list[Any] = pipeline(
            prompt=prompts,
            num_inference_steps=model.steps,
            guidance_scale=model.guidance,
            generator=noise,
        ).images
        return images

    return make


# %% [markdown]
# **Encoder.** Any function from images to vectors works. DINOv2 represents visual content, CLIP
# content as described in text. The features of an image are those of its class token.


# %%
def encoder(torch: Any, transformers: Any, device: str) -> Embed:
    processor = transformers.AutoImageProcessor.from_pretrained(ENCODER)
    network = transformers.AutoModel.from_pretrained(ENCODER).to(device).eval()

    def embed(images: Sequence[Any]) -> Any:
        with torch.inference_mode():
            inputs = processor(images=list(images), return_tensors="pt").to(device)
            return network(**inputs).last_hidden_state[:, 0].float()

    return embed


# %% [markdown]
# **The run.** Without a reference, the objective is diversity (RKE), with a bandwidth of the size
# of the distances between features. With features of images that you like, `mm.Mmd(reference)`
# makes the mixture similar to them, and the bandwidth is found automatically. To add a score of
# your own, use `- 0.1 * mm.SampleScore("looks")` and `rate=`.


# %%
def main(folder: Path = Path("pictures"), budget: int = 200, batch: int = 4) -> mm.Run | None:
    try:
        import diffusers
        import torch
        import transformers
    except ImportError as missing:
        print(
            f"This example needs {missing.name}; install what it uses with "
            "pip install torch diffusers transformers accelerate pillow."
        )
        return None
    device = "cuda" if torch.cuda.is_available() else "cpu"
    folder.mkdir(parents=True, exist_ok=True)

    def save(pull: mm.Pull, images: Sequence[Any]) -> None:
        for number, image in enumerate(images):
            image.save(folder / f"{pull.id:05}-{number}-{pull.arm}.png")

    done = mm.run(
        generators={name: generator(torch, diffusers, model, device) for name, model in MODELS.items()},
        embed=encoder(torch, transformers, device),
        objective=mm.Rke(bandwidth=30.0),
        budget=budget,
        batch=batch,
        retries=1,  # memory of the device may be free again
        save=save,
        keep=False,  # the images are in the folder
        checkpoint=folder / "checkpoint.jsonl",
        progress=True,
    )
    print(done)
    for arm, failed in done.failures.items():
        for failure in failed[-1:]:
            print(f"{arm} failed {len(failed)} times, last with {failure.error}")
    return done


# %%
if __name__ == "__main__":
    main()
