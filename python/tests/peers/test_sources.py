"""Where torch gets original networks: every loader with random weights in the caches that the libraries use, and no download.

Caches are folders of the test, and the networks are smaller; the libraries' own code finds and loads them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import image_tools
import networks
import numpy as np
import open_clip
import pytest
import safetensors.torch
import timm
import torch
import torchvision
from downloads import unpacked
from PIL import Image

import modelmix as mm
from modelmix import _modelmix
from modelmix.encoders._sources import load


class Caches:
    """The caches of the hub, of torch and of OpenAI's CLIP, all empty at first."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.hub, self.torch, self.clip = folder / "hub", folder / "torch", folder / ".cache" / "clip"
        monkeypatch.setenv("HOME", str(folder))
        monkeypatch.setenv("HF_HUB_CACHE", str(self.hub))
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(self.hub))
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        monkeypatch.setenv("TORCH_HOME", str(self.torch))

    def repository(self, name: str) -> Path:
        """Return the folder of a repository of the hub."""
        root = self.hub / f"models--{name.replace('/', '--')}"
        (root / "refs").mkdir(parents=True)
        (root / "refs" / "main").write_text("abc")
        (root / "snapshots" / "abc").mkdir(parents=True)
        return root / "snapshots" / "abc"

    def torch_hub(self, repository: str, code: str, checkpoint: str, weights: Any) -> None:
        """Write a repository of torch.hub and its weights."""
        folder = self.torch / "hub" / f"{repository.replace('/', '_')}_main"
        folder.mkdir(parents=True)
        (folder / "hubconf.py").write_text(code)
        (self.torch / "hub" / "checkpoints").mkdir(exist_ok=True)
        torch.save(weights, self.torch / "hub" / "checkpoints" / checkpoint)


@pytest.fixture
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Caches:
    return Caches(tmp_path, monkeypatch)


def wanted(name: str, network: Callable[[Any], Any], pictures: list[Image.Image], side: int = 224) -> Any:
    """The features of the original network behind the tool of the encoder's first preset."""
    (encoder,) = (one for one in mm.encoders.list("images") if one.name == name)
    tool = image_tools.extractor(name, encoder.presets[0].tool, network, side)
    with torch.inference_mode():
        return np.concatenate([np.asarray(tool(image)) for image in pictures])


def opened(name: str, library: str) -> mm.encoders.Encoder:
    """An encoder from the caches, with the library that must have loaded it."""
    encoder = mm.encoders.open(name)
    assert encoder.encoding is not None and library in str(encoder.encoding.runtime)
    return encoder


DINOV2_HUB = """
import sys

import torch

dependencies = ["torch"]


def dinov2_vits14():
    sys.path.insert(0, {folder!r})
    from dinov2.models.vision_transformer import vit_small

    network = vit_small(14, img_size=518, init_values=1.0, ffn_layer="mlp", block_chunks=0)
    network.load_state_dict(torch.hub.load_state_dict_from_url("https://example.invalid/dinov2_vits14_pretrain.pth"))
    return network
"""


def test_dinov2_of_torch_hub(caches: Caches, pictures: list[Image.Image], assert_equal_rows: Any) -> None:
    network = networks.authors_dinov2("dinov2-vits14", depth=12)
    code = DINOV2_HUB.format(folder=str(unpacked("dinov2")))
    caches.torch_hub("facebookresearch/dinov2", code, "dinov2_vits14_pretrain.pth", network.state_dict())
    found = opened("dinov2-vits14", "torch.hub")(pictures)
    assert_equal_rows(found, wanted("dinov2-vits14", network, pictures), "dinov2-vits14, torch.hub", 1e-5)


@pytest.mark.parametrize("name", ["dinov2-vits14", "dinov2-vitg14"])
def test_dinov2_of_timm(
    name: str, caches: Caches, pictures: list[Image.Image], assert_equal_rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The authors' weights, which timm converts, give the authors' features: positions are interpolated as they do it."""
    network = networks.authors_dinov2(name)
    size = networks.DINOV2[name][0]
    folder = caches.repository(f"timm/vit_{size}_patch14_dinov2.lvd142m")
    safetensors.torch.save_file(network.state_dict(), folder / "model.safetensors")
    depth, create = len(network.blocks), timm.create_model
    monkeypatch.setattr(
        timm, "create_model", lambda *given, **more: create(*given, **more, depth=depth, init_values=1.0)
    )
    found = opened(name, "timm")(pictures)
    assert_equal_rows(found, wanted(name, network, pictures), f"{name}, timm", 1e-5)


def small_clip(model: str, side: int, width: int, vision_width: int, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make an architecture of open_clip smaller, and return a network of it."""
    config = open_clip.get_model_config(model)
    assert config["vision_cfg"]["image_size"] == side and config["embed_dim"] == width
    patch = config["vision_cfg"]["patch_size"]
    small = {**config, **networks.openclip_sizes(side, patch, vision_width)}
    monkeypatch.setitem(open_clip.factory._MODEL_CONFIGS, model, small)
    return networks.redraw(open_clip.create_model(model))


@pytest.mark.parametrize(
    ("name", "model", "repository"),
    [
        ("clip-vit-b32", "ViT-B-32-quickgelu", "timm/vit_base_patch32_clip_224.openai"),
        ("clip-vit-l14", "ViT-L-14-quickgelu", "timm/vit_large_patch14_clip_224.openai"),
        ("clip-vit-l14-336", "ViT-L-14-336-quickgelu", "timm/vit_large_patch14_clip_336.openai"),
        ("clip-vit-l14-datacomp", "ViT-L-14", "laion/CLIP-ViT-L-14-DataComp.XL-s13B-b90K"),
    ],
)
def test_clip_of_open_clip(
    name: str,
    model: str,
    repository: str,
    caches: Caches,
    pictures: list[Image.Image],
    assert_equal_rows: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    side, _, width = networks.CLIP.get(name, (224, 14, 768))
    network = small_clip(model, side, width, 1024 if name.endswith("datacomp") else 192, monkeypatch)
    safetensors.torch.save_file(network.state_dict(), caches.repository(repository) / "open_clip_model.safetensors")
    if name.endswith("datacomp"):
        network.visual.proj = None
    found = opened(name, "open_clip")(pictures)
    assert_equal_rows(found, wanted(name, network.visual, pictures, side), f"{name}, open_clip", 1e-5)


def test_clip_of_openais_package(
    caches: Caches, pictures: list[Image.Image], assert_equal_rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The TorchScript file that OpenAI's package and older versions of open_clip cache, in half precision."""
    network = small_clip("ViT-B-32-quickgelu", 224, 512, 192, monkeypatch)
    text = {"context_length": 77, "vocab_size": 50, "width": 64, "heads": 1, "layers": 1}
    monkeypatch.setitem(open_clip.factory._MODEL_CONFIGS["ViT-B-32-quickgelu"], "text_cfg", text)
    network = networks.redraw(open_clip.create_model("ViT-B-32-quickgelu"))
    network.load_state_dict({name: value.half().float() for name, value in network.state_dict().items()})

    class Weights(torch.nn.Module):
        """All tensors under their names, as in the file of OpenAI."""

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            return pixels

    holder = Weights()
    for name, value in network.state_dict().items():
        *path, last = name.split(".")
        owner: torch.nn.Module = holder
        for part in path:
            if not hasattr(owner, part):
                owner.add_module(part, torch.nn.Module())
            owner = getattr(owner, part)
        owner.register_buffer(last, value.half())
    caches.clip.mkdir(parents=True)
    torch.jit.save(torch.jit.trace(holder, torch.zeros(1)), caches.clip / "ViT-B-32.pt")
    found = opened("clip-vit-b32", "open_clip")(pictures)
    assert_equal_rows(found, wanted("clip-vit-b32", network.visual, pictures), "clip-vit-b32, OpenAI's file", 1e-5)


SWAV_HUB = """
import torch
import torchvision

dependencies = ["torch", "torchvision"]


def resnet50():
    network = torchvision.models.resnet50(weights=None)
    found = torch.hub.load_state_dict_from_url("https://example.invalid/swav_800ep_pretrain.pth.tar")
    network.load_state_dict({name.replace("module.", ""): value for name, value in found.items()}, strict=False)
    return network
"""


def test_swav_of_torch_hub(caches: Caches, pictures: list[Image.Image], assert_equal_rows: Any) -> None:
    """Images of several shapes in one batch; the head that the hub adds is left out."""
    network = networks.swav_resnet()
    published = {f"module.{name}": value for name, value in network.state_dict().items() if not name.startswith("fc.")}
    published["module.prototypes.weight"] = torch.zeros(3000, 128)
    caches.torch_hub("facebookresearch/swav", SWAV_HUB, "swav_800ep_pretrain.pth.tar", published)
    body = torchvision.models.feature_extraction.create_feature_extractor(network, ["flatten"])
    expected = wanted("swav", lambda pixels: body(pixels)["flatten"], pictures)
    assert_equal_rows(opened("swav", "torch.hub")(pictures), expected, "swav, torch.hub", 1e-5)


def test_inception_of_pytorch_fid_and_stylegan(
    caches: Caches, weights: Path, state: Path, pictures: list[Image.Image], assert_equal_rows: Any
) -> None:
    """Real weights: pytorch-fid's file and the TorchScript of StyleGAN in torch, and pytorch-fid's file as it is read here."""
    checkpoints = caches.torch / "hub" / "checkpoints"
    checkpoints.mkdir(parents=True)
    (checkpoints / state.name).symlink_to(state)
    script = checkpoints / "inception-2015-12-05.pt"
    torch.jit.save(torch.jit.load(weights).net, script)
    pixels = torch.from_numpy(mm.encoders.preprocess(pictures, "inception-v3-fid"))
    with torch.inference_mode():
        expected = torch.jit.load(weights).eval()(pixels)
    of_torch = mm.encoders.open("inception-v3-fid", backend="torch")
    assert of_torch.encoding is not None and "pytorch-fid" in str(of_torch.encoding.runtime)
    assert_equal_rows(of_torch(pictures), expected, "inception-v3-fid, pytorch-fid in torch", 1e-5)
    of_script = mm.encoders.open("inception-v3-fid", backend="torch", weights=script)
    assert of_script.encoding is not None and "TorchScript" in str(of_script.encoding.runtime)
    assert_equal_rows(of_script(pictures), expected, "inception-v3-fid, TorchScript in torch", 1e-5)
    assert_equal_rows(opened("inception-v3-fid", "rten")(pictures), expected, "inception-v3-fid, rten", 1e-5)
    read = mm.encoders.open("inception-v3-fid", weights=script)
    assert_equal_rows(read(pictures), expected, "inception-v3-fid, StyleGAN's file, rten", 1e-5)


def test_code_of_repositories_is_never_run(caches: Caches, tmp_path: Path) -> None:
    """gte-*-en-v1.5 name code of their repository. The terminal is not asked whether it may run."""
    folder = caches.repository("Alibaba-NLP/gte-base-en-v1.5")
    auto = {"AutoConfig": "configuration.NewConfig", "AutoModel": "modeling.NewModel"}
    (folder / "config.json").write_text(json.dumps({"model_type": "new", "auto_map": auto}))
    ran = tmp_path / "ran"
    (folder / "configuration.py").write_text(f"open({str(ran)!r}, 'w')")
    with pytest.raises(ValueError, match=r"encoder gte-base-en-v1\.5: its weights are not on this machine; "):
        mm.encoders.open("gte-base-en-v1.5")
    with pytest.raises(
        ValueError, match=r"torch cannot load it \(transformers cannot load Alibaba-NLP/gte-base-en-v1\.5"
    ):
        mm.encoders.open("gte-base-en-v1.5", backend="torch")
    assert not ran.exists()


def test_what_is_missing_is_named(caches: Caches) -> None:
    for name, sources in {
        "dinov2-vitl14": ["torch.hub has not cached facebookresearch/dinov2", "timm has not cached vit_large"],
        "clip-vit-b32": ["openai/clip-vit-base-patch32", "open_clip has not cached ViT-B-32-quickgelu openai"],
    }.items():
        with pytest.raises(ValueError) as raised:
            load(_modelmix.encoder(name), None, local=True)
        for source in sources:
            assert source in str(raised.value)
