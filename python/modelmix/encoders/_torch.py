"""Original networks in torch, behind modelmix's preprocessing: batches, pooling, and the fingerprint of their definition.

Which library loads a network is in ``_sources``, what a module of torch needs to run in ``_modules``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib import import_module
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from .. import _modelmix
from .._lazy import Lazy
from ..results import Encoding
from ._buffer import keep_rows
from ._modules import (
    convert_to_single,
    device_of,
    full_precision,
    put_into_lower_case,
    tokenizer_checksum,
    weights_checksum,
)
from ._networks import Job, Network, Rows, checked_rows, nothing_read, refuse_or_skip, text_digest
from ._sources import Loaded, load

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
else:
    np, npt = Lazy("numpy"), Lazy("numpy.typing")

#: Samples per batch, on a processor and on other devices.
_BATCH, _DEVICE_BATCH = 16, 64

#: The length of a SHA-256 checksum in bytes.
_DIGEST = 32

#: The smallest norm that vectors are divided by, as in torch's ``normalize``.
_SMALLEST_NORM = 1e-12


class TorchNetwork(Network):
    """A network of torch."""

    def __init__(
        self, described: dict[str, Any], preset: dict[str, Any], stated: str, loaded: Loaded, device: str
    ) -> None:
        """Convert the network to single precision, move it to the device, and state its fingerprint."""
        torch: Any = import_module("torch")
        self._torch, self._device = torch, device_of(device)
        self._loaded, self._name = loaded, described["name"]
        self.kind, self.width = described["kind"], preset["width"]
        self._batch = _BATCH if self._device.type == "cpu" else _DEVICE_BATCH
        self._pooling, self._normalise = preset["pooling"], preset["normalise"]
        convert_to_single(loaded.module)
        definition: dict[str, Any] = {"weights": weights_checksum(loaded.module, loaded.unused)}
        if self.kind == "images":
            self.preprocessing, _ = _modelmix.preprocessing(self._name, stated)
            definition["preprocessing"] = json.loads(self.preprocessing)
        else:
            self._follow_settings(described, preset)
            definition["tokens"] = [tokenizer_checksum(loaded.tokenizer), self._prefix, self._max_length]
        definition["output"] = [self._pooling, self._normalise]
        if loaded.identity is not None:
            definition["module"] = loaded.identity
        fingerprint = hashlib.sha256(json.dumps(definition, sort_keys=True).encode()).hexdigest()
        runtime = f"torch {torch.__version__} on {self._device.type}, {loaded.library}"
        self.encoding = Encoding(self._name, fingerprint, stated, runtime, _modelmix.__version__)
        if loaded.identity is None:
            plain = "".join(c if c.isalnum() else "-" for c in runtime)
            self.cache_name = f"{fingerprint}-{plain}-{_modelmix.PIPELINE_REVISION}"
        loaded.module.to(self._device).eval()

    def _follow_settings(self, described: dict[str, Any], preset: dict[str, Any]) -> None:
        """Take the settings of texts from the encoder's table and from the files of sentence-transformers, which win."""
        assert self._loaded.folder is not None
        settings = _modelmix.sentence_settings(self._loaded.folder, described["max_length"])
        self._prefix: str = described["prefix"] or ""
        self._max_length: int = settings["max_length"]
        if settings["lower_case"]:
            put_into_lower_case(self._loaded.tokenizer)
        if preset["tool"] == "sentence-transformers" and settings["pooling"] is not None:
            self._pooling = settings["pooling"]
            if settings["normalise"] is not None:
                self._normalise = settings["normalise"]

    @classmethod
    def open(cls, name: str, preset: str | None, weights: Any, device: str, local: bool = False) -> TorchNetwork:
        """Load the network of a named encoder; without a download if ``local``."""
        described = _modelmix.encoder(name)
        if isinstance(weights, (str, PathLike)):
            weights = fspath(weights)
        presets = {one["tool"]: one for one in described["presets"]}
        stated = next(iter(presets)) if preset is None else preset
        # A version of Pillow may follow, as in dgm-eval+pillow-12.
        tool = stated.partition("+")[0] if described["kind"] == "images" else stated
        if tool not in presets:
            raise ValueError(f'encoder {name}: {name} has no preset "{preset}"; use one of {", ".join(presets)}')
        if described["kind"] == "images":
            _modelmix.preprocessing(name, stated)  # refuses a version that it does not know
        return cls(described, presets[tool], stated, load(described, weights, local), device)

    def run(self, samples: _modelmix.Samples, job: Job) -> Rows:
        """Return the features of samples."""
        import numpy

        features = numpy.empty((len(samples), self.width or 0), dtype=numpy.float32)
        digests = numpy.zeros((len(samples), _DIGEST), dtype=numpy.uint8)
        skipped: list[tuple[str, str]] = []
        failed: set[int] = set()
        cached = done = 0
        prepare = self._images if self.kind == "images" else self._texts
        for batch in prepare(samples, job, features):
            digests[batch.samples] = numpy.frombuffer(batch.digests, dtype=numpy.uint8).reshape(-1, _DIGEST)
            skipped += refuse_or_skip(samples, batch.failed, job.skip)
            failed.update(row for row, _ in batch.failed)
            cached += batch.cached
            if batch.rows:
                found = self._features(batch)
                features[batch.rows] = found
                if job.cache is not None:
                    job.cache.add(digests[batch.rows].tobytes(), found)
            done += len(batch.samples)
            if job.done is not None:
                job.done(done)
        rows = [row for row in range(len(samples)) if row not in failed]
        if not rows:
            raise nothing_read(skipped)
        return Rows(keep_rows(features, rows), rows, skipped, cached, samples.checksum(rows, digests.tobytes()))

    def _images(self, samples: _modelmix.Samples, job: Job, features: npt.NDArray[np.float32]) -> Iterator[_Batch]:
        """Yield batches of images; the next is decoded and preprocessed while the network runs."""

        def prepared(start: int) -> _Batch:
            stop = min(start + self._batch, len(samples))
            assert self.preprocessing is not None
            tensors, rows, cached, digests, failed = samples.prepared(
                start, stop, self.preprocessing, job.cache, features, job.threads
            )
            return _Batch(range(start, stop), digests, rows, len(cached), tensors=tensors, failed=failed)

        yield from _ahead(prepared, range(0, len(samples), self._batch))

    def _texts(self, samples: _modelmix.Samples, job: Job, features: npt.NDArray[np.float32]) -> Iterator[_Batch]:
        """Yield batches of texts of similar length."""
        texts = samples.texts(0, len(samples))
        order = sorted(range(len(texts)), key=lambda row: len(texts[row]))

        def prepared(start: int) -> _Batch:
            all_rows = order[start : start + self._batch]
            digests = b"".join(text_digest(texts[row]) for row in all_rows)
            cached = set() if job.cache is None else set(job.cache.fill(digests, all_rows, features))
            rows = [row for row in all_rows if row not in cached]
            whole = [self._prefix + texts[row] for row in rows]
            return _Batch(all_rows, digests, rows, len(cached), texts=whole)

        yield from _ahead(prepared, range(0, len(texts), self._batch))

    def _features(self, batch: _Batch) -> npt.NDArray[np.float32]:
        """Run the network on a batch, in full single precision."""
        torch = self._torch
        with torch.inference_mode(), full_precision(self._device):
            if self.kind == "images":
                outputs = [self._loaded.run(torch.from_numpy(one).to(self._device)) for one in batch.tensors]
            else:
                tokens = self._loaded.tokenizer(
                    batch.texts,
                    padding=True,
                    truncation=True,
                    max_length=self._max_length,
                    return_tensors="pt",
                ).to(self._device)
                outputs = [self._pooled(self._loaded.run(tokens), tokens["attention_mask"])]
            features = torch.cat([one.float().flatten(1) for one in outputs])
            if self._normalise:
                norms = torch.linalg.vector_norm(features.double(), dim=1, keepdim=True).float()
                features = features / norms.clamp_min(_SMALLEST_NORM)
            found = checked_rows(features.cpu(), len(batch.rows))
        if found.shape[1] != self.width:
            raise ValueError(
                f"the network returned {found.shape[1]} features per sample, but {self._name} has {self.width}; "
                "it has other weights or another output"
            )
        return found

    def _pooled(self, vectors: Any, mask: Any) -> Any:
        """Return one vector per text, of those of its tokens."""
        if self._pooling == "cls":
            return vectors[:, 0]
        counted = mask.double().unsqueeze(2)
        return ((vectors.double() * counted).sum(1) / counted.sum(1)).float()


@dataclass
class _Batch:
    """Samples on their way to the network."""

    #: The indices of all samples, with their checksums.
    samples: Sequence[int]
    digests: bytes
    #: The indices of samples that the network must encode.
    rows: list[int]
    #: The number of samples whose features were in the cache, which are written already.
    cached: int
    tensors: list[npt.NDArray[np.float32]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    failed: list[tuple[int, str]] = field(default_factory=list)


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
