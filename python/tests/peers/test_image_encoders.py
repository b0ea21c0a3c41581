"""Every named encoder of images: the original network, with random weights and few layers, behind the tool's own preprocessing,
against its export behind modelmix's. FID's Inception, whose real weights can be had, is in test_inception.py."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import networks
import numpy as np
import onnx
import open_clip
import pytest
import torch
from image_tools import Calls, extractor
from PIL import Image

import modelmix as mm

ENCODERS = {one.name: one for one in mm.encoders.list("images") if one.name != "inception-v3-fid"}


class Original(NamedTuple):
    """A network of a library, and how its output becomes a vector."""

    network: Any
    #: What is exported.
    exported: torch.nn.Module
    #: The name of the output.
    output: str
    vector: Callable[[Any], Any]


def same(output: Any) -> Any:
    return output


def original(name: str, library: str) -> Original:
    if name == "swav":
        resnet = networks.swav_resnet()
        resnet.fc = torch.nn.Identity()
        return Original(resnet, resnet, "features", same)
    if library == "authors":
        dino = networks.authors_dinov2(name)
        exported = torch.nn.Sequential(networks.with_positions_of(copy.deepcopy(dino), 224))
        return Original(dino, exported, "features", same)
    if library == "timm":
        dino = networks.timm_dinov2(name)
        return Original(dino, dino, "features", same)
    if library == "open_clip":
        visual = networks.openclip_clip(name)
        return Original(visual, visual, "features", same)
    if name.startswith("clip-"):
        clip = networks.transformers_clip(name)
        return Original(clip, torch.nn.Sequential(clip, networks.Embeds()), "features", lambda out: out.image_embeds)
    dino = networks.transformers_dinov2(name)
    return Original(dino, networks.First(dino), "last_hidden_state", lambda out: out.last_hidden_state[:, 0])


LIBRARIES = {
    **{name: ("authors", "transformers", "timm") for name in networks.DINOV2},
    **{name: ("transformers", "open_clip") for name in networks.CLIP},
    "clip-vit-l14-datacomp": ("open_clip",),
    "swav": ("torchvision",),
}
#: Every preset of every encoder; DINOv2 of other widths has the same presets as the smallest.
CASES = [
    (library, name, preset.tool)
    for name, libraries in LIBRARIES.items()
    for library in libraries
    for preset in (ENCODERS[name].presets[:1] if name in list(networks.DINOV2)[1:] else ENCODERS[name].presets)
]


def test_every_named_encoder_is_compared() -> None:
    assert set(LIBRARIES) == set(ENCODERS)


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], tuple[Original, Path]]:
    """Networks with their ONNX files; each is made once."""
    folder, made = tmp_path_factory.mktemp("onnx"), {}

    def get(name: str, library: str) -> tuple[Original, Path]:
        if (name, library) not in made:
            this = original(name, library)
            path = folder / f"{library}-{name}.onnx"
            # SwAV takes images of any size, and so do the published files of DINOv2, which interpolate positions when they run.
            any_size = name == "swav" or (library == "transformers" and name.startswith("dinov2"))
            axes = {"pixel_values": [0, 2, 3] if any_size else [0]}
            size = ENCODERS[name].size or 0
            networks.export_images(this.exported, path, size, this.output, dynamic_axes=axes)
            made[name, library] = this, path
        return made[name, library]

    return get


def features(name: str, preset: str, network: Original, pictures: list[Image.Image]) -> Any:
    """The features of the tool."""
    tool = extractor(name, preset, lambda pixels: network.vector(network.network(pixels)), ENCODERS[name].size or 0)
    with torch.inference_mode():
        return np.concatenate([np.asarray(tool(image)) for image in pictures])


@pytest.mark.parametrize(("library", "name", "preset"), CASES)
def test_exports_have_the_features_of_the_tool(
    library: str, name: str, preset: str, originals: Any, pictures: list[Image.Image], assert_equal_rows: Any
) -> None:
    network, path = originals(name, library)
    wanted = features(name, preset, network, pictures)
    for runtime in ("rten", "onnxruntime"):
        encoder = mm.encoders.open(name, preset=preset, weights=path, runtime=runtime)  # type: ignore[arg-type]
        assert encoder.encoding is not None and encoder.encoding.preset == preset
        assert_equal_rows(encoder(pictures), wanted, f"{name} of {library}, {preset}, {runtime}")


@pytest.mark.parametrize(("library", "name", "preset"), CASES)
def test_torch_has_the_features_of_the_tool(
    library: str, name: str, preset: str, originals: Any, pictures: list[Image.Image], assert_equal_rows: Any
) -> None:
    """The network itself, which is given as a module, behind modelmix's preprocessing."""
    network, _ = originals(name, library)
    wanted = features(name, preset, network, pictures)
    encoder = mm.encoders.open(name, preset=preset, weights=network.network)
    assert_equal_rows(encoder(pictures), wanted, f"{name} of {library}, {preset}, torch", 1e-5)


@pytest.mark.parametrize(
    ("library", "name"),
    [("authors", "dinov2-vits14"), ("transformers", "clip-vit-b32"), ("torchvision", "swav")],
)
@pytest.mark.parametrize("runtime", ["rten", "onnxruntime"])
def test_the_new_exporter_gives_the_same(
    library: str,
    name: str,
    runtime: Any,
    originals: Any,
    pictures: list[Image.Image],
    assert_equal_rows: Any,
    tmp_path: Path,
) -> None:
    """torch's exporter without tracing, which writes newer operators and the weights into a file of their own."""
    network, _ = originals(name, library)
    size = ENCODERS[name].size or 0
    axes = (0, 2, 3) if name == "swav" else (0,)
    path = tmp_path / "model.onnx"
    torch.onnx.export(
        Calls(network.exported),
        # Sizes of 1 would be taken as fixed.
        (torch.zeros(2, 3, size, size),),
        str(path),
        input_names=["pixel_values"],
        output_names=["features"],
        dynamic_shapes=({axis: torch.export.Dim.DYNAMIC for axis in axes},),
        dynamo=True,
    )
    assert path.with_suffix(".onnx.data").is_file(), "weights are in a file of their own"
    assert onnx.load(path, load_external_data=False).graph.output[0].name == "features"
    encoder = mm.encoders.open(name, weights=path, runtime=runtime)
    wanted = features(name, ENCODERS[name].presets[0].tool, network, pictures)
    assert_equal_rows(encoder(pictures), wanted, f"{name} of {library}, new exporter, {runtime}")


@pytest.mark.parametrize("name", ["dinov2-vitg14", "clip-vit-l14-datacomp", "swav"])
def test_the_command_that_is_shown_exports_the_network(
    name: str, pictures: list[Image.Image], assert_equal_rows: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Users without the weights are told a command; only its download is replaced here."""
    with pytest.raises(ValueError, match="no ONNX file is published") as raised:
        mm.encoders.open(name, backend="onnx")
    command = re.search(r"`python -c '([^']+)'`", str(raised.value))
    assert command is not None
    this = original(name, LIBRARIES[name][0])
    wanted = features(name, ENCODERS[name].presets[0].tool, this, pictures)
    if name == "swav":
        this.network.fc = torch.nn.Linear(2048, 1000)  # what the hub returns has one
    loaded: list[Any] = []

    def load(*arguments: Any) -> Any:
        loaded.append(arguments)
        return this.network

    def create(*arguments: Any) -> Any:
        model = torch.nn.Module()
        model.visual = load(*arguments)
        return model

    monkeypatch.setattr(torch.hub, "load", load)
    monkeypatch.setattr(open_clip, "create_model", create)
    monkeypatch.chdir(tmp_path)
    exec(command.group(1), {})
    assert len(loaded) == 1
    encoder = mm.encoders.open(name, weights=tmp_path / f"{name}.onnx")
    assert_equal_rows(encoder(pictures), wanted, f"{name}, command of `modelmix encoders`")
