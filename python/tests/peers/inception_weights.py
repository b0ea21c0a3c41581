"""The real weights of FID's Inception: as TorchScript, and under the names of pytorch-fid and torch-fidelity."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from pytorch_fid import inception

#: The names of the convolutions in the TorchScript, in the order in which torchvision's module has them.
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


def pytorch_fid_network(script: Path) -> Any:
    """Return the network of pytorch-fid with these weights; its state is what pytorch-fid and torch-fidelity publish."""
    tensors = torch.jit.load(script).state_dict()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(inception, "load_state_dict_from_url", lambda *_, **__: {})
        patched.setattr(torch.nn.Module, "load_state_dict", lambda *_, **__: None)
        network = inception.fid_inception_v3().eval()
    state = network.state_dict()
    names = [name.removesuffix(".conv.weight") for name in state if name.endswith(".conv.weight")]
    for name, there in zip(names, SCRIPT, strict=True):
        layer = f"net.layers.{there}"
        state[f"{name}.conv.weight"] = tensors[f"{layer}.weight"]
        state[f"{name}.bn.weight"] = torch.ones_like(tensors[f"{layer}.beta"])
        state[f"{name}.bn.bias"] = tensors[f"{layer}.beta"]
        state[f"{name}.bn.running_mean"] = tensors[f"{layer}.mean"]
        state[f"{name}.bn.running_var"] = tensors[f"{layer}.var"]
    network.load_state_dict(state)
    return network
