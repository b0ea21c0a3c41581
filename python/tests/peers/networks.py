"""Original networks with random weights and few layers, and their export as users do it."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import open_clip
import timm
import torch
import torchvision
import transformers
from downloads import unpacked

#: The width and the number of heads of each DINOv2.
DINOV2 = {
    "dinov2-vits14": ("small", 384, 6),
    "dinov2-vitb14": ("base", 768, 12),
    "dinov2-vitl14": ("large", 1024, 16),
    "dinov2-vitg14": ("giant", 1536, 24),
}
#: The size of images, the side of patches and the width of the projection of each CLIP.
CLIP = {
    "clip-vit-b32": (224, 32, 512),
    "clip-vit-l14": (224, 14, 768),
    "clip-vit-l14-336": (336, 14, 768),
}
#: Images of this size were used to train DINOv2; positions of patches are interpolated for others.
DINOV2_SIDE = 518


def redraw(network: torch.nn.Module, seed: int = 0) -> Any:
    """Draw all weights so that every layer counts: matrices keep the size of vectors, scales are near 1, biases near 0."""
    generator = torch.Generator().manual_seed(seed)
    statistics = {name: value for name, value in network.named_buffers() if "running_" in name}
    with torch.no_grad():
        for name, value in [*network.named_parameters(), *statistics.items()]:
            noise = torch.randn(value.shape, generator=generator)
            if name.endswith("running_var"):
                value.copy_(0.5 + noise.abs())
            elif value.ndim < 2:
                value.add_(noise, alpha=0.1)
            else:
                # Tokens and positions, which have a batch axis, are as large as the vectors of patches.
                value.copy_(noise * (0.5 if value.shape[0] == 1 else value[0].numel() ** -0.5))
    return network.eval()


class First(torch.nn.Module):
    """The first output of a network of transformers."""

    def __init__(self, network: torch.nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.network(*inputs, return_dict=False)[0]


class Embeds(torch.nn.Module):
    """The projected vectors of transformers' CLIP, as in the export command of the table."""

    def forward(self, output: Any) -> Any:
        return output.image_embeds


def authors_dinov2(name: str, **settings: Any) -> Any:
    """DINOv2 in the code of its authors."""
    folder = str(unpacked("dinov2"))
    if folder not in sys.path:
        sys.path.insert(0, folder)
    models = importlib.import_module("dinov2.models.vision_transformer")
    _, width, heads = DINOV2[name]
    ffn = "swiglufused" if name == "dinov2-vitg14" else "mlp"
    settings = {"depth": 1 if width > 1000 else 2, **settings}

    class Traceable(models.DinoVisionTransformer):
        """Sizes are numbers in a trace, as in the later code of the authors."""

        def interpolate_pos_encoding(self, x: Any, w: Any, h: Any) -> Any:
            return super().interpolate_pos_encoding(x, int(w), int(h))

    return redraw(
        Traceable(
            img_size=DINOV2_SIDE,
            patch_size=14,
            embed_dim=width,
            num_heads=heads,
            init_values=1.0,
            ffn_layer=ffn,
            block_chunks=0,
            **settings,
        )
    )


def with_positions_of(network: Any, side: int) -> Any:
    """Interpolate the positions of patches before the export, as the commands of the table do."""
    patches = (side // 14) ** 2
    positions = network.interpolate_pos_encoding(torch.zeros(1, 1 + patches, network.embed_dim), side, side)
    network.pos_embed = torch.nn.Parameter(positions)
    return network


def transformers_dinov2(name: str) -> Any:
    """DINOv2 of transformers, as ``facebook/dinov2-*`` configure it."""
    _, width, heads = DINOV2[name]
    config = transformers.Dinov2Config(
        hidden_size=width,
        num_hidden_layers=1 if width > 1000 else 2,
        num_attention_heads=heads,
        image_size=DINOV2_SIDE,
        patch_size=14,
        use_swiglu_ffn=name == "dinov2-vitg14",
    )
    return redraw(transformers.Dinov2Model(config))


def timm_dinov2(name: str) -> Any:
    """DINOv2 of timm at the size of the tools."""
    size, width, _ = DINOV2[name]
    settings = {"pretrained": False, "num_classes": 0, "img_size": 224, "depth": 1 if width > 1000 else 2}
    return redraw(timm.create_model(f"vit_{size}_patch14_dinov2", **settings))


def transformers_clip(name: str) -> Any:
    """The vision tower of transformers' CLIP, with OpenAI's activation."""
    side, patch, width = CLIP[name]
    config = transformers.CLIPVisionConfig(
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        image_size=side,
        patch_size=patch,
        projection_dim=width,
        hidden_act="quick_gelu",
    )
    return redraw(transformers.CLIPVisionModelWithProjection(config))


def openclip_sizes(side: int, patch: int, width: int) -> dict[str, Any]:
    """Settings of open_clip that make a network small."""
    return {
        "vision_cfg": {"image_size": side, "layers": 2, "width": width, "head_width": 64, "patch_size": patch},
        "text_cfg": {"context_length": 8, "vocab_size": 50, "width": 64, "heads": 1, "layers": 1},
    }


def openclip_clip(name: str) -> Any:
    """The vision tower of open_clip with OpenAI's activation, or before the projection as dgm-eval uses it."""
    if name == "clip-vit-l14-datacomp":
        visual = open_clip.create_model("ViT-L-14", **openclip_sizes(224, 14, 1024)).visual
        visual.proj = None
    else:
        side, patch, width = CLIP[name]
        model = {"clip-vit-b32": "ViT-B-32", "clip-vit-l14": "ViT-L-14", "clip-vit-l14-336": "ViT-L-14-336"}[name]
        sizes = openclip_sizes(side, patch, 192)
        visual = open_clip.create_model(f"{model}-quickgelu", embed_dim=width, **sizes).visual
    return redraw(visual)


def swav_resnet() -> Any:
    """torchvision's ResNet-50, which the hub entry of SwAV returns, with its classifier.

    SwAV's own code pads by 1 and then by 2 before the first convolution; torchvision pads by 3, which is the same.
    """
    return redraw(torchvision.models.resnet50(weights=None))


def export_images(network: torch.nn.Module, path: Path, size: int, output: str = "features", **settings: Any) -> Path:
    """Export a network as the commands of the table do."""
    settings = {"dynamic_axes": {"pixel_values": [0]}, "dynamo": False, **settings}
    torch.onnx.export(
        network,
        torch.zeros(1, 3, size, size),
        str(path),
        input_names=["pixel_values"],
        output_names=[output],
        **settings,
    )
    return path


def export_texts(network: torch.nn.Module, path: Path, names: list[str], **settings: Any) -> Path:
    """Export a network with the names of inputs and outputs that optimum gives them."""
    tokens = tuple(torch.ones(2, 7, dtype=torch.int64) for _ in names)
    both = {0: "batch_size", 1: "sequence_length"}

    class Named(First):
        def forward(self, *inputs: torch.Tensor) -> Any:
            return self.network(**dict(zip(names, inputs)), return_dict=False)[0]

    path.parent.mkdir(parents=True, exist_ok=True)
    settings = settings or {"dynamic_axes": {name: both for name in [*names, "last_hidden_state"]}, "dynamo": False}
    torch.onnx.export(
        Named(network).eval(), tokens, str(path), input_names=names, output_names=["last_hidden_state"], **settings
    )
    return path
