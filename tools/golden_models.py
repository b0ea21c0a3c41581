#!/usr/bin/env python3
"""Make the fixtures and golden values of the tests of PyTorch files, of Inception and of the runtimes.

Usage: python tools/golden_models.py

Needs torch, torchvision, pytorch-fid, onnx and onnxruntime. Writes to ``crates/modelmix-encode/tests/fixtures/models``. Expected values come
from torch, NumPy and onnxruntime, never from the Rust code. Run again, it makes the same values; archives may differ in a few bytes.
"""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper
from pytorch_fid import inception

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "crates" / "modelmix-encode" / "tests" / "fixtures" / "models"
ENCODER = ROOT / "data" / "fashion" / "models" / "encoder.onnx"

SIDE = 299
OPSET = 17


def main() -> None:
    """Write every fixture and its golden values."""
    OUTPUT.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    tensors()
    thin_inception()
    models()


# PyTorch files


def state_dict() -> dict[str, Any]:
    """Every element type, views of all kinds, nested containers, and values that are no tensors."""
    base = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4) / 8
    return {
        "state_dict": OrderedDict(
            [
                ("float", base),
                ("transposed", base.permute(2, 0, 1)),
                ("slice", base[1, 1:, ::2]),
                ("expanded", torch.tensor([1.5, -2.0]).expand(3, 2)),
                ("parameter", torch.nn.Parameter(torch.tensor([0.25, -0.5]))),
                ("scalar", torch.tensor(7.0)),
                ("empty", torch.zeros(0, 3)),
            ]
        ),
        "types": {
            "double": torch.tensor([0.1, -1e300], dtype=torch.float64),
            "half": torch.tensor([0.5, 65504.0, -6e-8], dtype=torch.float16),
            "bfloat16": torch.tensor([1.0, -3.140625], dtype=torch.bfloat16),
            "long": torch.tensor([2**62, -1]),
            "int": torch.tensor([2**31 - 1, -(2**31)], dtype=torch.int32),
            "short": torch.tensor([-32768, 5], dtype=torch.int16),
            "char": torch.tensor([-128, 127], dtype=torch.int8),
            "byte": torch.tensor([255, 0], dtype=torch.uint8),
            "bool": torch.tensor([True, False]),
        },
        "list": [torch.tensor([1.0]), (torch.tensor([2.0]),)],
        "epoch": 3,
        "loss": 0.125,
        "large": 2**80,
        "name": "žluťoučký",
        "none": None,
        "flag": True,
        "size": torch.Size([1, 2]),
        "type": torch.float16,
        "device": torch.device("cpu"),
    }


def expected(value: Any, name: str = "") -> dict[str, Any]:
    """Tensors by dotted name, with their elements as written by torch."""
    below = lambda key: f"{name}.{key}" if name else str(key)  # noqa: E731
    if isinstance(value, torch.Tensor):
        return {name: {"shape": list(value.shape), "values": value.detach().flatten().tolist()}}
    children: dict[str, Any] = {}
    if isinstance(value, dict):
        for key, child in value.items():
            children |= expected(child, below(key))
    elif isinstance(value, list | tuple) and not isinstance(value, torch.Size):
        for index, child in enumerate(value):
            children |= expected(child, below(index))
    return children


class Inner(torch.nn.Module):
    """A module with a parameter and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([[1.0, -2.0]]))
        self.register_buffer("mean", torch.tensor([0.5], dtype=torch.float64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scale and shift."""
        return x * self.weight + self.mean


class Outer(torch.nn.Module):
    """A module of modules, with a constant in its code."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(OrderedDict([("first", Inner()), ("second", Inner())]))
        self.scales = [2, 3]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply both layers."""
        return self.layers(x) * self.scales[0] + torch.tensor([[4.0, 5.0]])


class Runs:
    """Runs a command if it is loaded by Python's own reader of pickles."""

    def __reduce__(self) -> tuple[Any, ...]:
        import os

        return os.system, ("echo this must never be printed",)


class Constants(pickle.Unpickler):
    """Python's own reader of pickles, for the constants of TorchScript."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        super().__init__(io.BytesIO(archive.read("traced/constants.pkl")))
        self.archive = archive

    def persistent_load(self, storage: tuple[Any, ...]) -> Any:
        """Read a storage that the pickle names."""
        _, kind, key, _, count = storage
        content = self.archive.read(f"traced/constants/{key}")
        untyped = torch.frombuffer(bytearray(content), dtype=kind.dtype)
        assert len(untyped) == count
        return untyped._typed_storage()


def tensors() -> None:
    """Write files of torch in every format that is read, and some that must be refused."""
    state = state_dict()
    values = expected(state)
    torch.save(state, OUTPUT / "state.pth")
    torch.save(state, OUTPUT / "protocol4.pth", pickle_protocol=4)
    torch.save(state, OUTPUT / "legacy.pth", _use_new_zipfile_serialization=False)
    golden = {name: values for name in ("state.pth", "protocol4.pth", "legacy.pth")}

    floats = {"a": torch.tensor([1.0, -2.5]), "b": torch.tensor([[3.25]])}
    buffer = io.BytesIO()
    torch.save(floats, buffer)
    golden["big_endian.pth"] = expected(floats)
    with zipfile.ZipFile(buffer) as source, zipfile.ZipFile(OUTPUT / "big_endian.pth", "w") as target:
        for entry in source.namelist():
            content = source.read(entry)
            if entry.endswith("/byteorder"):
                content = b"big"
            elif "/data/" in entry:
                content = np.frombuffer(content, "<f4").astype(">f4").tobytes()
            target.writestr(entry, content)

    module = torch.jit.script(Outer().eval())
    torch.jit.save(module, OUTPUT / "script.pt")
    golden["script.pt"] = expected(dict(module.state_dict()))
    traced = torch.jit.trace(Outer().eval(), torch.ones(1, 2))
    torch.jit.save(traced, OUTPUT / "traced.pt")
    with zipfile.ZipFile(OUTPUT / "traced.pt") as archive:
        constants = {f"CONSTANTS.c{index}": value for index, value in enumerate(Constants(archive).load())}
    golden["traced.pt"] = expected(dict(traced.state_dict()) | constants)

    torch.save(torch.nn.Linear(1, 1), OUTPUT / "module.pth")
    torch.save({"a": floats["a"], "b": Runs()}, OUTPUT / "runs.pth")
    (OUTPUT / "tensors.json").write_text(json.dumps(golden, ensure_ascii=False, indent=0) + "\n")


# Inception with few channels


# The names of the convolutions in the TorchScript of StyleGAN, in the order in which torchvision has them.
STEM = ["conv", "conv_1", "conv_2", "conv_3", "conv_4"]
TOWERS = {
    "mixed mixed_1 mixed_2": "conv tower.conv tower.conv_1 tower_1.conv tower_1.conv_1 tower_1.conv_2 tower_2.conv",
    "mixed_3": "conv tower.conv tower.conv_1 tower.conv_2",
    "mixed_4 mixed_5 mixed_6 mixed_7": "conv tower.conv tower.conv_1 tower.conv_2 tower_1.conv tower_1.conv_1 tower_1.conv_2 "
    "tower_1.conv_3 tower_1.conv_4 tower_2.conv",
    "mixed_8": "tower.conv tower.conv_1 tower_1.conv tower_1.conv_1 tower_1.conv_2 tower_1.conv_3",
    "mixed_9 mixed_10": "conv tower_conv tower_mixed_conv tower_mixed_conv_1 tower_1_conv tower_1_conv_1 tower_1_mixed_conv "
    "tower_1_mixed_conv_1 tower_2_conv",
}
SCRIPT_NAMES = STEM + [
    f"{block}.{tower}" for blocks, towers in TOWERS.items() for block in blocks.split() for tower in towers.split()
]
SCRIPT_PARTS = {"conv.weight": "weight", "bn.bias": "beta", "bn.running_mean": "mean", "bn.running_var": "var"}


def thin_inception() -> None:
    """FID's Inception of pytorch-fid with a fraction of its channels; golden features in double precision."""
    network = thin_network(24)
    state = drawn_state(network)
    torch.save(shared(state), OUTPUT / "thin_inception.pth")
    features = {"thin_inception.pth": golden_features(network, state)}

    # The same layers under the names of StyleGAN's TorchScript, which has no scale in its normalisation.
    network = thin_network(64)
    state = drawn_state(network)
    state |= {name: torch.ones_like(tensor) for name, tensor in state.items() if name.endswith("bn.weight")}
    convolutions = list(dict.fromkeys(name.rsplit(".", 2)[0] for name in state))
    assert len(convolutions) == len(SCRIPT_NAMES) == 94
    renamed = {
        f"net.layers.{script}.{there}": state[f"{ours}.{here}"]
        for ours, script in zip(convolutions, SCRIPT_NAMES, strict=True)
        for here, there in SCRIPT_PARTS.items()
    }
    torch.save(shared(renamed), OUTPUT / "thin_script.pth")
    features["thin_script.pth"] = golden_features(network, state)
    save("thin_inception", features)


def thin_network(divisor: int) -> torch.nn.Module:
    """pytorch-fid's network with widths that are divided and at least 2."""
    inception.load_state_dict_from_url = lambda *_, **__: {}
    kept = torch.nn.Module.load_state_dict
    torch.nn.Module.load_state_dict = lambda *_, **__: None
    try:
        network = inception.fid_inception_v3()
    finally:
        torch.nn.Module.load_state_dict = kept
    network.fc = torch.nn.Identity()
    for module in list(network.modules()):
        if type(module).__name__ == "BasicConv2d":
            old = module.conv
            width = max(2, old.out_channels // divisor)
            module.conv = torch.nn.LazyConv2d(
                width, old.kernel_size, stride=old.stride, padding=old.padding, bias=False
            )
            module.bn = torch.nn.LazyBatchNorm2d(eps=module.bn.eps)
    network.eval()
    with torch.inference_mode():
        network(torch.zeros(1, 3, SIDE, SIDE))
    return network


def drawn_state(network: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Random weights in half precision, of a size that keeps values of order one through all layers."""
    state = {}
    for name, tensor in network.state_dict().items():
        kind = ".".join(name.rsplit(".", 2)[1:])
        if kind == "bn.num_batches_tracked":
            continue
        if kind == "conv.weight":
            drawn = torch.randn(tensor.shape) * (2 / tensor[0].numel()) ** 0.5
        elif kind == "bn.running_var":
            drawn = 0.5 + torch.rand(tensor.shape)
        elif kind == "bn.weight":
            drawn = 0.75 + torch.rand(tensor.shape) / 2
        elif kind == "bn.bias":
            drawn = 0.25 + torch.randn(tensor.shape) / 4
        else:
            drawn = torch.randn(tensor.shape) / 4
        state[name] = drawn.half()
    return state


def golden_features(network: torch.nn.Module, state: dict[str, torch.Tensor]) -> np.ndarray:
    """Compute the features of two patterns with these weights, in double precision."""
    network.load_state_dict({name: tensor.float() for name, tensor in state.items()}, strict=False)
    with torch.inference_mode():
        features = network.double()(torch.from_numpy(pattern(2, (3, SIDE, SIDE))).double()).numpy()
    assert features.std(axis=0).max() > 1e-3, "the features of the two images must differ"
    return features


def shared(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The same tensors as views of one storage, since every entry of an archive takes some 200 bytes."""
    flat = torch.cat([tensor.flatten() for tensor in state.values()])
    views, start = {}, 0
    for name, tensor in state.items():
        views[name] = flat[start : start + tensor.numel()].view(tensor.shape)
        start += tensor.numel()
    return views


def pattern(samples: int, shape: tuple[int, ...]) -> np.ndarray:
    """Values in [-1, 1) that the Rust tests compute by the same formula: (index² + 7 index) mod 251, scaled."""
    index = np.arange(samples * int(np.prod(shape)), dtype=np.int64)
    return (((index * index + 7 * index) % 251) / 125.5 - 1).astype(np.float32).reshape(samples, *shape)


def save(name: str, arrays: dict[str, np.ndarray]) -> None:
    """Write arrays as JSON."""
    values = {key: {"shape": list(array.shape), "values": array.flatten().tolist()} for key, array in arrays.items()}
    (OUTPUT / f"{name}.json").write_text(json.dumps(values) + "\n")


# Small ONNX models


def write(
    name: str, nodes: list[Any], inputs: list[Any], outputs: list[Any], weights: dict[str, np.ndarray]
) -> onnx.ModelProto:
    """Write a model after ONNX has checked it."""
    initializers = [numpy_helper.from_array(array, key) for key, array in weights.items()]
    graph = helper.make_graph(nodes, name, inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, OUTPUT / f"{name}.onnx")
    return model


def info(name: str, element: int, shape: list[Any]) -> Any:
    """Describe an input or output."""
    return helper.make_tensor_value_info(name, element, shape)


def cubic() -> None:
    """Write models that resize with a cubic filter, which rten lacks: every way to say the sizes, and a graph within a graph."""
    image = [info("x", TensorProto.FLOAT, [1, 2, "height", "width"])]
    weights = {
        "scales": np.array([1, 1, 2, 0.7], dtype=np.float32),
        "none": np.array([], dtype=np.float32),
        "sizes": np.array([1, 2, 5, 1]),
        "larger": np.array([1, 2, 12, 9]),
        "start": np.array([0]),
        "middle": np.array([2]),
        "end": np.array([4]),
        "two": np.array([2]),
    }

    def resize(output: str, inputs: list[str], mode: str, **attributes: Any) -> Any:
        attributes |= {"mode": "cubic", "coordinate_transformation_mode": mode}
        return helper.make_node("Resize", ["x", *inputs], [output], **attributes)

    resizes = {
        "scaled": resize("scaled", ["", "scales"], "half_pixel"),
        "torch": resize("torch", ["", "", "sizes"], "pytorch_half_pixel", cubic_coeff_a=-0.75),
        "aligned": resize("aligned", ["none", "", "larger"], "align_corners"),
        "asymmetric": resize("asymmetric", ["none", "none", "larger"], "asymmetric", cubic_coeff_a=-0.5),
        "halved": resize("halved", ["", "", "half"], "half_pixel"),
    }
    half = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Slice", ["shape", "start", "middle"], ["first"]),
        helper.make_node("Slice", ["shape", "middle", "end"], ["last"]),
        helper.make_node("Div", ["last", "two"], ["halves"]),
        helper.make_node("Concat", ["first", "halves"], ["half"], axis=0),
    ]
    outputs = [info(name, TensorProto.FLOAT, [1, 2, None, None]) for name in resizes]
    model = write("cubic", [*half, *resizes.values()], image, outputs, weights)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    pixels = pattern(1, (2, 7, 10))
    golden = dict(zip(resizes, session.run(None, {"x": pixels}), strict=True))
    same = torch.nn.functional.interpolate(torch.from_numpy(pixels), size=(3, 5), mode="bicubic").numpy()
    assert np.abs(golden["halved"] - same).max() < 1e-6

    scaled = [info("scaled", TensorProto.FLOAT, [1, 2, None, None])]
    branch = helper.make_graph([resizes["scaled"]], "branch", [], scaled)
    choice = helper.make_node("If", ["always"], ["z"], then_branch=branch, else_branch=branch)
    chosen = [info("z", TensorProto.FLOAT, [1, 2, None, None])]
    write("cubic_branch", [choice], image, chosen, {"scales": weights["scales"], "always": np.array(True)})
    save("cubic", golden)

    # Another size than that of rows and columns cannot change.
    channels = resize("y", ["", "channels"], "half_pixel")
    doubled = {"channels": np.array([1, 2, 1, 1], dtype=np.float32)}
    write("cubic_channels", [channels], image, [info("y", TensorProto.FLOAT, [1, 4, None, None])], doubled)

    excluding = resize("y", ["", "scales"], "half_pixel", exclude_outside=1)
    write("cubic_excluding", [excluding], image, [info("y", TensorProto.FLOAT, [1, 2, None, None])], weights)


def models() -> None:
    """Write small models, and the golden outputs of the shipped encoder."""
    weights = (np.arange(6, dtype=np.float32).reshape(3, 2) - 2) / 4
    double = {"w": weights.astype(np.float64)}
    half = {"w": weights.astype(np.float16)}
    matmul = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    kinds = {"half": (TensorProto.FLOAT16, half), "double": (TensorProto.DOUBLE, double)}
    for kind, (element, initializers) in kinds.items():
        write(kind, matmul, [info("x", element, ["n", 3])], [info("y", element, ["n", 2])], initializers)
    write(
        "fixed_batch",
        matmul,
        [info("x", TensorProto.FLOAT, [4, 3])],
        [info("y", TensorProto.FLOAT, [4, 2])],
        {"w": weights},
    )
    # A mean over the batch, whose rows cannot be told apart.
    write(
        "fixed_mean",
        [helper.make_node("ReduceMean", ["x"], ["y"], axes=[0], keepdims=1)],
        [info("x", TensorProto.FLOAT, [4, 3])],
        [info("y", TensorProto.FLOAT, [1, 3])],
        {},
    )
    tokens = [
        helper.make_node("Gather", ["table", "ids"], ["embedded"]),
        helper.make_node("Cast", ["mask"], ["float_mask"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["float_mask", "axes"], ["column"]),
        helper.make_node("Mul", ["embedded", "column"], ["hidden"]),
        helper.make_node("ReduceSum", ["hidden", "one"], ["sum"], keepdims=0),
    ]
    write(
        "tokens",
        tokens,
        [info("ids", TensorProto.INT64, ["n", "t"]), info("mask", TensorProto.INT64, ["n", "t"])],
        [info("hidden", TensorProto.FLOAT, ["n", "t", 2]), info("sum", TensorProto.FLOAT, ["n", 2])],
        {"table": np.arange(20, dtype=np.float32).reshape(10, 2), "axes": np.array([2]), "one": np.array([1])},
    )
    # The mean of each channel of images of any size.
    write(
        "any_size",
        [
            helper.make_node("GlobalAveragePool", ["x"], ["pooled"]),
            helper.make_node("Flatten", ["pooled"], ["features"]),
        ],
        [info("x", TensorProto.FLOAT, ["n", 3, "height", "width"])],
        [info("features", TensorProto.FLOAT, ["n", 3])],
        {},
    )
    cubic()
    # An operator of ONNX that rten lacks.
    write(
        "determinant",
        [helper.make_node("Det", ["x"], ["y"])],
        [info("x", TensorProto.FLOAT, ["n", 2, 2])],
        [info("y", TensorProto.FLOAT, ["n"])],
        {},
    )
    # Data would be appended to an old file.
    (OUTPUT / "external.onnx_data").unlink(missing_ok=True)
    model = write(
        "external",
        matmul,
        [info("x", TensorProto.FLOAT, ["n", 3])],
        [info("y", TensorProto.FLOAT, ["n", 2])],
        {"w": weights},
    )
    onnx.save_model(
        model,
        OUTPUT / "external.onnx",
        save_as_external_data=True,
        all_tensors_to_one_file=True,
        location="external.onnx_data",
        size_threshold=0,
    )
    session = onnxruntime.InferenceSession(ENCODER, providers=["CPUExecutionProvider"])
    given = session.get_inputs()[0]
    rows = pattern(3, tuple(given.shape[1:]))
    outputs = session.run(None, {given.name: rows})
    save("encoder", {output.name: values for output, values in zip(session.get_outputs(), outputs, strict=True)})


if __name__ == "__main__":
    main()
