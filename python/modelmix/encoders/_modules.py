"""What networks of torch need before and while they run: a device, full single precision, and a checksum of their weights."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from itertools import chain
from typing import Any

#: The operations of a backend of torch whose precision can be set.
_OPERATIONS = ("matmul", "conv", "rnn")


def device_of(name: str) -> Any:
    """Return a device of torch that is there."""
    torch: Any = import_module("torch")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f'device is {name!r}, but torch knows no such device; use "cpu", "cuda" or "cuda:1"') from None
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ValueError(f'device is {name!r}, but torch finds {torch.cuda.device_count()} GPUs; use "cpu"')
    return device


def convert_to_single(module: Any) -> None:
    """Convert weights that are stored in half or double precision."""
    torch: Any = import_module("torch")
    tensors = chain(module.parameters(), module.buffers())
    if any(one.is_floating_point() and one.dtype != torch.float32 for one in tensors):
        module.float()


@contextmanager
def full_precision(device: Any) -> Iterator[None]:
    """Compute in single precision: without autocast, TF32 and bfloat16, whatever is set outside, which is restored.

    torch has two APIs for this. The settings of the old one change those of the new one, and cannot be read if the new one was used,
    so they come first, and what is then still lowered is set with the new one.
    """
    torch: Any = import_module("torch")
    with ExitStack() as stack:
        if torch.amp.is_autocast_available(device.type):
            stack.enter_context(torch.autocast(device.type, enabled=False))
        operations = _operations(torch)
        for operation in operations:
            stack.callback(_set_precision, operation, operation.fp32_precision)
        with suppress(RuntimeError):
            stack.callback(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision())
            torch.set_float32_matmul_precision("highest")
        with suppress(RuntimeError):
            stack.callback(setattr, torch.backends.cudnn, "allow_tf32", torch.backends.cudnn.allow_tf32)
            torch.backends.cudnn.allow_tf32 = False
        for operation in operations:
            if operation.fp32_precision != "none":
                _set_precision(operation, "ieee")
        yield


def _operations(torch: Any) -> list[Any]:
    """Return the operations whose precision is set with torch's new API; none before torch 2.9."""
    backends = torch.backends
    found = [getattr(backends.cuda, "matmul", None)]
    found += [getattr(backend, name, None) for backend in (backends.cudnn, backends.mkldnn) for name in _OPERATIONS]
    return [one for one in found if one is not None and hasattr(one, "fp32_precision")]


def _set_precision(operation: Any, precision: str) -> None:
    if operation.fp32_precision != precision:
        operation.fp32_precision = precision


def weights_checksum(module: Any, unused: frozenset[str]) -> str:
    """Return the SHA-256 checksum of all weights, with their names and types, except unused ones."""
    torch: Any = import_module("torch")
    digest = hashlib.sha256()
    for name, value in sorted(module.state_dict().items()):
        if name in unused:
            continue
        tensor = value.detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(memoryview(tensor.flatten().view(torch.uint8).numpy()) if tensor.numel() else b"")
    return digest.hexdigest()


def put_into_lower_case(tokenizer: Any) -> None:
    """Let a tokenizer put texts into lower case before everything else, as sentence-transformers does."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:  # one that is written in Python
        tokenizer.do_lower_case = True
        return
    normalizers: Any = import_module("tokenizers.normalizers")
    following = [] if backend.normalizer is None else [backend.normalizer]
    backend.normalizer = normalizers.Sequence([normalizers.Lowercase(), *following])


def tokenizer_checksum(tokenizer: Any) -> str:
    """Return the SHA-256 checksum of a tokenizer, without the settings that change from call to call."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:  # one that is written in Python
        content: dict[str, Any] = {"class": type(tokenizer).__qualname__, "vocabulary": tokenizer.get_vocab()}
    else:
        content = {**json.loads(backend.to_str()), "truncation": None, "padding": None}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
