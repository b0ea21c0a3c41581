"""The preprocessing of images in the tools themselves, from their own code where a package has it."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import open_clip
import torch
import torchvision.transforms as T
import transformers
from PIL import Image
from torch_fidelity import feature_extractor_clip, feature_extractor_dinov2
from transformers.models.bit.image_processing_pil_bit import BitImageProcessorPil
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

#: One image → the vector of a network.
Extractor = Callable[[Image.Image], Any]

IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
CLIP_CONSTANTS = T.Normalize((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))
IMAGENET_CONSTANTS = T.Normalize(IMAGENET["image_mean"], IMAGENET["image_std"])


def extractor(name: str, preset: str, network: Callable[[Any], Any], side: int) -> Extractor:
    """Return what a tool does with an image, around a network that it loads from somewhere else."""
    family = name.split("-")[0]
    if preset == "torch-fidelity":
        return torch_fidelity(family, network, side)
    if preset == "clean-fid":
        return clean_fid(network)
    if preset in ("huggingface", "huggingface-pil"):
        return huggingface(family, network, side, preset.endswith("-pil"))
    if preset == "open-clip":
        transform = open_clip.image_transform(side, is_train=False)
        return lambda image: network(transform(image)[None])
    if preset == "cmmd":
        return cmmd(network, side)
    # dgm-eval and the code of Mixture-UCB are in no package; these are the transforms in their sources.
    if preset == "dgm-eval-clean":
        constants = CLIP_CONSTANTS if family == "clip" else IMAGENET_CONSTANTS
        return lambda image: network(constants(clean(image, side))[None])
    if family == "swav":
        transform = T.Compose([T.Resize(224), T.ToTensor(), IMAGENET_CONSTANTS])
    else:
        constants = CLIP_CONSTANTS if (family, preset) == ("clip", "dgm-eval") else IMAGENET_CONSTANTS
        squash = T.Resize((side, side), T.InterpolationMode.BICUBIC)
        transform = T.Compose([squash, T.ToTensor(), constants])
    return lambda image: network(transform(image)[None])


def bare(cls: Any, **attributes: Any) -> Any:
    """Return an object of a tool's class that loaded nothing."""
    instance = cls.__new__(cls)
    if issubclass(cls, torch.nn.Module):
        torch.nn.Module.__init__(instance)
    for name, value in attributes.items():
        setattr(instance, name, value)
    return instance


class Calls(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, pixels: torch.Tensor) -> Any:
        return self.function(pixels)


def torch_fidelity(family: str, network: Callable[[Any], Any], side: int) -> Extractor:
    single = {"feature_extractor_internal_dtype": torch.float32}
    if family == "dinov2":
        dino = feature_extractor_dinov2.FeatureExtractorDinoV2
        made = bare(dino, features_list=["dinov2"], model=Calls(network), **single)
    else:
        model = torch.nn.Module()
        model.visual = Calls(network)
        clip = feature_extractor_clip.FeatureExtractorCLIP
        made = bare(clip, features_list=["clip"], model=model, resolution=side, **single)
    return lambda image: made(torch.from_numpy(np.asarray(image).transpose(2, 0, 1).copy())[None])[0]


def clean_fid(network: Callable[[Any], Any]) -> Extractor:
    sys.modules.setdefault("clip", types.ModuleType("clip"))  # clean-fid imports it only to load weights
    from cleanfid import clip_features

    made = bare(clip_features.CLIP_fx, model=types.SimpleNamespace(encode_image=network))

    def run(image: Image.Image) -> Any:
        # As ResizeDataset does: `ToTensor` gives values in 0..1, which become 0..255 again.
        resized = clip_features.img_preprocess_clip(np.asarray(image))
        return made(T.ToTensor()(resized) * 255)

    return run


def clean(image: Image.Image, side: int) -> Any:
    """dgm-eval's clean resize: every channel as a float image, clipped."""
    pixels = np.asarray(image).astype(np.float32)
    planes = [Image.fromarray(np.ascontiguousarray(pixels[:, :, channel])) for channel in range(3)]
    resized = [np.asarray(plane.resize((side, side), Image.Resampling.BICUBIC)).clip(0, 255) for plane in planes]
    return T.ToTensor()(np.stack(resized, axis=2).astype(np.float32)) / 255


def huggingface(family: str, network: Callable[[Any], Any], side: int, is_pil: bool) -> Extractor:
    crop = {"height": side, "width": side}
    if family == "dinov2":
        bit = BitImageProcessorPil if is_pil else transformers.BitImageProcessor
        processor: Any = bit(size={"shortest_edge": 256}, crop_size=crop, resample=3, **IMAGENET)
    else:
        clip = CLIPImageProcessorPil if is_pil else transformers.CLIPImageProcessor
        processor = clip(size={"shortest_edge": side}, crop_size=crop)
    return lambda image: network(processor(image, return_tensors="pt")["pixel_values"])


def cmmd(network: Callable[[Any], Any], side: int) -> Extractor:
    """cmmd-pytorch is in no package; these are the steps of its `CMMDDataset` and `ClipEmbeddingModel`."""
    processor = transformers.CLIPImageProcessor()
    settings = {"do_center_crop": False, "do_resize": False, "do_rescale": False, "return_tensors": "pt"}

    def run(image: Image.Image) -> Any:
        width, height = image.size
        short = min(width, height)
        left, top = (width - short) // 2, (height - short) // 2
        square = image.crop((left, top, left + short, top + short)).resize((side, side), Image.Resampling.BICUBIC)
        pixels = torch.from_numpy(np.asarray(square).astype(np.float32)[None].transpose(0, 3, 1, 2) / 255.0)
        pixels = torch.nn.functional.interpolate(pixels, size=(side, side), mode="bicubic")
        vectors = network(processor(images=pixels.permute(0, 2, 3, 1).numpy(), **settings)["pixel_values"])
        return vectors / torch.linalg.norm(vectors, axis=-1, keepdims=True)

    return run
