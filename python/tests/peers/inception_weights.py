"""The real weights of FID's Inception, and the same weights under the names of pytorch-fid and torch-fidelity."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import torch
from pytorch_fid import inception

# The names of the convolutions in the TorchScript, in the order in which torchvision's module has them.
BLOCKS = {
    "mixed mixed_1 mixed_2": "conv tower.conv tower.conv_1 tower_1.conv tower_1.conv_1 tower_1.conv_2 tower_2.conv",
    "mixed_3": "conv tower.conv tower.conv_1 tower.conv_2",
    "mixed_4 mixed_5 mixed_6 mixed_7": "conv tower.conv tower.conv_1 tower.conv_2 tower_1.conv tower_1.conv_1 tower_1.conv_2 "
    "tower_1.conv_3 tower_1.conv_4 tower_2.conv",
    "mixed_8": "tower.conv tower.conv_1 tower_1.conv tower_1.conv_1 tower_1.conv_2 tower_1.conv_3",
    "mixed_9 mixed_10": "conv tower_conv tower_mixed_conv tower_mixed_conv_1 tower_1_conv tower_1_conv_1 tower_1_mixed_conv "
    "tower_1_mixed_conv_1 tower_2_conv",
}
SCRIPT = ["conv", "conv_1", "conv_2", "conv_3", "conv_4"] + [
    f"{block}.{tower}" for blocks, towers in BLOCKS.items() for block in blocks.split() for tower in towers.split()
]


def pytorch_fid_network() -> torch.nn.Module:
    """Return pytorch-fid's network without weights; nothing is downloaded."""
    with (
        mock.patch.object(inception, "load_state_dict_from_url", lambda *_, **__: {}),
        mock.patch.object(torch.nn.Module, "load_state_dict", lambda *_, **__: None),
    ):
        return inception.fid_inception_v3()


def pytorch_fid_state(script: Path) -> dict[str, torch.Tensor]:
    """Return the weights of a TorchScript file under the names of pytorch-fid."""
    given = torch.jit.load(script).state_dict()
    state = pytorch_fid_network().state_dict()
    names = [name.removesuffix(".conv.weight") for name in state if name.endswith(".conv.weight")]
    for name, there in zip(names, SCRIPT, strict=True):
        layer = f"net.layers.{there}"
        state[f"{name}.conv.weight"] = given[f"{layer}.weight"]
        state[f"{name}.bn.weight"] = torch.ones_like(given[f"{layer}.beta"])
        state[f"{name}.bn.bias"] = given[f"{layer}.beta"]
        state[f"{name}.bn.running_mean"] = given[f"{layer}.mean"]
        state[f"{name}.bn.running_var"] = given[f"{layer}.var"]
    return state
