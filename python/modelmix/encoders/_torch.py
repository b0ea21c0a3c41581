"""Original networks in torch, behind modelmix's preprocessing: batches, pooling, and the fingerprint of their weights.

Which library loads a network is in ``_sources``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from .. import _modelmix
from .._lazy import Lazy
from ..results import Encoding
from ._networks import Job, Network, Rows, checked_rows, joined, refuse_or_skip
from ._sources import Loaded, load

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
else:
    np, npt = Lazy("numpy"), Lazy("numpy.typing")

#: Samples per batch, on a processor and on other devices.
_BATCH, _DEVICE_BATCH = 16, 64

#: The smallest norm that vectors are divided by, as in torch's ``normalize``.
_SMALLEST_NORM = 1e-12


class TorchNetwork(Network):
    """A network of torch."""

    def __init__(self, described: dict[str, Any], preset: dict[str, Any], loaded: Loaded, device: str) -> None:
        """Move the network to the device, and state its fingerprint."""
        torch: Any = import_module("torch")
        self._torch, self._device = torch, _device(torch, device)
        self._loaded, self._described, self._preset = loaded, described, preset
        self.kind = described["kind"]
        self.width = preset["width"]
        definition: dict[str, Any] = {
            "weights": _checksum(loaded.module),
            "output": [preset["pooling"], preset["normalise"]],
        }
        if self.kind == "images":
            self.preprocessing, _ = _modelmix.preprocessing(described["name"], preset["tool"])
            definition["preprocessing"] = json.loads(self.preprocessing)
        else:
            definition["tokens"] = [described["prefix"], described["max_length"]]
        fingerprint = hashlib.sha256(json.dumps(definition, sort_keys=True).encode()).hexdigest()
        runtime = f"torch {torch.__version__} on {self._device.type}, {loaded.library}"
        version = _modelmix.__version__
        self.encoding = Encoding(described["name"], fingerprint, preset["tool"], runtime, version)
        self.cache_name = f"{fingerprint}-{''.join(c if c.isalnum() else '-' for c in runtime)}"
        loaded.module.to(self._device).eval()

    @classmethod
    def open(cls, name: str, preset: str | None, weights: Any, device: str, local: bool = False) -> TorchNetwork:
        """Load the network of a named encoder; without a download if ``local``."""
        described = _modelmix.encoder(name)
        if isinstance(weights, (str, PathLike)):
            weights = fspath(weights)
        presets = {one["tool"]: one for one in described["presets"]}
        if preset is not None and preset not in presets:
            raise ValueError(f'encoder {name}: {name} has no preset "{preset}"; use one of {", ".join(presets)}')
        chosen = presets[preset] if preset is not None else described["presets"][0]
        return cls(described, chosen, load(described, weights, local), device)

    def run(self, samples: _modelmix.Samples, job: Job) -> Rows:
        """Return the features of samples."""
        prepare = self._images if self.kind == "images" else self._texts
        parts: list[npt.NDArray[np.float32]] = []
        rows: list[int] = []
        skipped: list[tuple[str, str]] = []
        cached = done = 0
        for batch in prepare(samples, job):
            skipped += refuse_or_skip(samples, batch.failed, job.skip)
            for row, features in batch.cached:
                parts.append(features[None, :])
                rows.append(row)
            cached += len(batch.cached)
            if batch.rows:
                found = self._features(batch)
                parts.append(found)
                rows += batch.rows
                if job.cache is not None:
                    job.cache.add(batch.digests, found)
            done += len(batch.rows) + len(batch.cached) + len(batch.failed)
            if job.done is not None:
                job.done(done)
        return _in_order(joined(samples, parts, skipped), rows, skipped, cached)

    def _images(self, samples: _modelmix.Samples, job: Job) -> Iterator[_Batch]:
        """Yield batches of images; the next is decoded and preprocessed while the network runs."""
        size = _BATCH if self._device.type == "cpu" else _DEVICE_BATCH

        def prepared(start: int) -> _Batch:
            stop = min(start + size, len(samples))
            assert self.preprocessing is not None
            tensors, rows, digests, cached, failed = samples.prepared(
                start, stop, self.preprocessing, job.cache, job.threads
            )
            return _Batch(tensors, rows, digests, cached, failed)

        yield from _ahead(prepared, range(0, len(samples), size))

    def _texts(self, samples: _modelmix.Samples, job: Job) -> Iterator[_Batch]:
        """Yield batches of texts of similar length."""
        texts = samples.texts(0, len(samples))
        size = _BATCH if self._device.type == "cpu" else _DEVICE_BATCH
        order = sorted(range(len(texts)), key=lambda row: len(texts[row]))

        def prepared(start: int) -> _Batch:
            batch = _Batch([], [], b"", [], [])
            for row in order[start : start + size]:
                digest = hashlib.sha256(texts[row].encode("utf-8", "surrogatepass")).digest()
                found = None if job.cache is None else job.cache.read(digest)
                if found is not None:
                    batch.cached.append((row, found))
                    continue
                batch.rows.append(row)
                batch.digests += digest
                batch.texts.append((self._described["prefix"] or "") + texts[row])
            return batch

        yield from _ahead(prepared, range(0, len(texts), size))

    def _features(self, batch: _Batch) -> npt.NDArray[np.float32]:
        """Run the network on a batch, in full single precision."""
        torch = self._torch
        with torch.inference_mode(), torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            if self.kind == "images":
                outputs = [self._loaded.run(torch.from_numpy(one).to(self._device)) for one in batch.tensors]
            else:
                tokens = self._loaded.tokenizer(
                    batch.texts,
                    padding=True,
                    truncation=True,
                    max_length=self._described["max_length"],
                    return_tensors="pt",
                ).to(self._device)
                outputs = [self._pooled(self._loaded.run(tokens), tokens["attention_mask"])]
            features = torch.cat([one.float().flatten(1) for one in outputs])
            if self._preset["normalise"]:
                norms = torch.linalg.vector_norm(features.double(), dim=1, keepdim=True).float()
                features = features / norms.clamp_min(_SMALLEST_NORM)
            found = checked_rows(features.cpu(), len(batch.rows))
        if found.shape[1] != self.width:
            raise ValueError(
                f"the network returned {found.shape[1]} features per sample, but {self._described['name']} has {self.width}; "
                "it has other weights or another output"
            )
        return found

    def _pooled(self, vectors: Any, mask: Any) -> Any:
        """Return one vector per text, of those of its tokens."""
        if self._preset["pooling"] == "cls":
            return vectors[:, 0]
        counted = mask.double().unsqueeze(2)
        return ((vectors.double() * counted).sum(1) / counted.sum(1)).float()


class _Batch:
    """Samples on their way to the network."""

    def __init__(
        self,
        tensors: list[npt.NDArray[np.float32]],
        rows: list[int],
        digests: bytes,
        cached: list[tuple[int, npt.NDArray[np.float32]]],
        failed: list[tuple[int, str]],
    ) -> None:
        self.tensors, self.rows, self.digests, self.cached, self.failed = tensors, rows, digests, cached, failed
        self.texts: list[str] = []


def _ahead(prepared: Callable[[int], _Batch], starts: range) -> Iterator[_Batch]:
    """Yield batches; the next one is prepared on another thread meanwhile."""
    with ThreadPoolExecutor(1) as pool:
        waiting = None
        for start in starts:
            following = pool.submit(prepared, start)
            if waiting is not None:
                yield waiting.result()
            waiting = following
        if waiting is not None:
            yield waiting.result()


def _in_order(features: npt.NDArray[np.float32], rows: list[int], skipped: list[tuple[str, str]], cached: int) -> Rows:
    """Return the features in the order of the samples."""
    import numpy

    if rows == sorted(rows):
        return Rows(features, rows, skipped, cached)
    order = numpy.argsort(numpy.asarray(rows), kind="stable")
    return Rows(features[order], [rows[at] for at in order], skipped, cached)


def _device(torch: Any, name: str) -> Any:
    """Return a device of torch that is there."""
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f'device is {name!r}, but torch knows no such device; use "cpu", "cuda" or "cuda:1"') from None
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ValueError(f'device is {name!r}, but torch finds {torch.cuda.device_count()} GPUs; use "cpu"')
    return device


def _checksum(module: Any) -> str:
    """Return the SHA-256 checksum of all weights, with their names and types."""
    torch: Any = import_module("torch")
    digest = hashlib.sha256()
    for name, value in sorted(module.state_dict().items()):
        tensor = value.detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(memoryview(tensor.flatten().view(torch.uint8).numpy()) if tensor.numel() else b"")
    return digest.hexdigest()
