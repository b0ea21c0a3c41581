"""Named encoders: what they are, where their weights are, and how they are opened."""

from __future__ import annotations

import builtins
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from .. import _check, _modelmix
from .._arguments import checked
from .._lazy import Lazy
from .._progress import Bar
from .._samples import Kind, Samples, chunks
from .._settings import EncoderSettings
from ._encoder import Encoder
from ._networks import FunctionNetwork, Network, OnnxNetwork, refuse_or_skip
from ._sources import NotLoaded

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
else:
    np, npt = Lazy("numpy"), Lazy("numpy.typing")

#: What evaluates ONNX networks.
RuntimeName: TypeAlias = Literal["rten", "onnxruntime"]

#: Where networks come from.
BackendName: TypeAlias = Literal["auto", "onnx", "torch"]

#: An encoder: a name, an ``.onnx`` file, one that is open, or a function from a list of samples to one row per sample.
EncoderGiven: TypeAlias = str | PathLike[str] | Encoder | Callable[[builtins.list[Any]], Any]


@dataclass(frozen=True)
class Preset:
    """A use of an encoder, as one tool defines it.

    Attributes
    ----------
    tool
        The tool's name, for ``preset``.
    width
        The number of features per sample.
    pooling
        How vectors of tokens or patches become one: ``"tensor"`` (there is one already), ``"cls"`` or ``"mean"``.
    normalise
        Whether features are divided by their Euclidean norm.

    Examples
    --------
    >>> import modelmix as mm
    >>> dino = next(one for one in mm.encoders.list() if one.name == "dinov2-vitl14")
    >>> [preset.tool for preset in dino.presets][:2]
    ['dgm-eval', 'mixture-ucb']
    """

    tool: str
    width: int
    pooling: str
    normalise: bool


@dataclass(frozen=True)
class NamedEncoder:
    """An encoder that is known by name.

    Attributes
    ----------
    name
        The name, for :func:`open`.
    kind
        What it takes: ``"images"`` or ``"texts"``.
    width
        The number of features per sample of its first preset.
    size
        The side of its images in pixels; ``None`` for texts.
    prefix
        The text put before every sample; ``None`` for images.
    max_length
        The maximum number of tokens of a text; ``None`` for images.
    presets
        Its uses, named after the tools that define them; the first is the default.
    sources
        Where ONNX files or weights are published.
    found
        The weights on this machine; ``None`` if there are none that are read directly.
    origin
        Where they were found: ``"modelmix"``, ``"huggingface"`` or ``"torch-hub"`` for the caches; ``None`` if they were not.
    how_to_get
        What to do to get the weights; ``None`` if they are found.

    Examples
    --------
    >>> import modelmix as mm
    >>> mini = next(one for one in mm.encoders.list() if one.name == "all-minilm-l6-v2")
    >>> mini.kind, mini.width, mini.max_length, mini.presets[0].pooling
    ('texts', 384, 256, 'mean')
    """

    name: str
    kind: str
    width: int
    size: int | None
    prefix: str | None
    max_length: int | None
    presets: tuple[Preset, ...]
    sources: tuple[str, ...]
    found: str | None
    origin: str | None
    how_to_get: str | None

    @classmethod
    def _read(cls, document: dict[str, Any]) -> NamedEncoder:
        presets = tuple(Preset(**preset) for preset in document["presets"])
        return cls(**{**document, "presets": presets, "sources": tuple(document["sources"])})


@checked
def list(kind: Kind | None = None) -> builtins.list[NamedEncoder]:
    """List the encoders that are known by name, with the weights that are on this machine.

    Parameters
    ----------
    kind
        Only encoders of ``"images"`` or of ``"texts"``; all if ``None``.

    Returns
    -------
    list of NamedEncoder
        Encoders of images first.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If there is no such kind.

    Examples
    --------
    >>> import modelmix as mm
    >>> [one.name for one in mm.encoders.list("images") if one.name.startswith("dinov2")]
    ['dinov2-vits14', 'dinov2-vitb14', 'dinov2-vitl14', 'dinov2-vitg14']
    """
    if kind is not None:
        _check.choice("kind", kind, "images", "texts")
    return [NamedEncoder._read(one) for one in _modelmix.encoders() if kind in (None, one["kind"])]


@checked
def open(
    name: str | PathLike[str],
    *,
    preset: str | None = None,
    weights: Any = None,
    device: str = "cpu",
    backend: BackendName = "auto",
    runtime: RuntimeName = "rten",
) -> Encoder:
    """Open an encoder: find its weights, and prepare its network.

    Parameters
    ----------
    name
        The name of an encoder, as in :func:`list`, or the path of an ``.onnx`` file with a settings file beside it.
    preset
        The tool whose preprocessing and output are used, such as ``"dgm-eval"``, or ``"dgm-eval+pillow-12"`` for the resizing of Pillow
        up to version 12; the encoder's first if ``None``. For an ``.onnx`` file, the preprocessing of a named encoder and a tool, such
        as ``"clip-vit-b32/clean-fid"``.
    weights
        The weights: a file, or a folder. If ``None``, they are looked for in the caches of modelmix, Hugging Face and torch. With
        ``backend="torch"``, also a folder or a repository of ``transformers``, or a ``torch.nn.Module`` that returns the features.
        Such a module is moved to ``device``, set to evaluation mode and converted to single precision, in place. Nothing states
        what its code computes, so its features have a fingerprint of their own and are not cached.
    device
        Where the network runs: ``"cpu"``, ``"cuda"`` or ``"cuda:1"``; with torch, also its other devices.
    backend
        ``"onnx"`` runs an ONNX file (or the ``.pt`` file of FID's Inception) in ``runtime``. ``"torch"`` runs the original network in
        torch, from ``transformers``, ``open_clip``, ``timm`` or torch.hub, behind the same preprocessing; it downloads what is missing as
        these libraries do. ``"auto"`` uses ONNX if its weights are on this machine and can run on the device, otherwise torch if its
        weights are on this machine; it downloads nothing. Features of the two have different fingerprints, and functions such as
        :func:`modelmix.solve` refuse them together, so use one backend for all arms and the reference.
    runtime
        What evaluates ONNX networks: ``"rten"`` is built in and runs on the processor; ``"onnxruntime"`` is used from its package, which is
        faster, and supports CUDA in its GPU package.

    Returns
    -------
    Encoder
        The encoder, which is a function from samples to features.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If there is no such encoder or preset, or its weights are not on this machine; the message says how to get them.
    ImportError
        If ``backend="torch"`` and torch is not installed.
    OSError
        If a file cannot be read.

    Examples
    --------
    >>> import modelmix as mm
    >>> mm.encoders.open("data/fashion/models/encoder.onnx").width
    64
    >>> mm.encoders.open("dinov2-vitl")
    Traceback (most recent call last):
    ValueError: encoder dinov2-vitl: there is no encoder named "dinov2-vitl" (did you mean dinov2-vitl14?); `modelmix encoders` lists them, and the path of an .onnx file is one too
    """
    text = _check.file("name", name)
    chosen = _check.choice("backend", backend, "auto", "onnx", "torch")
    _check.choice("runtime", runtime, "rten", "onnxruntime")
    preset, device = _check.text_or_none("preset", preset), _check.text("device", device)
    if chosen == "auto":
        network = _automatic(text, preset, weights, device, runtime)
    elif chosen == "torch":
        network = _torch(text, preset, weights, device)
    else:
        network = _onnx(text, preset, weights, device, runtime)
    return Encoder._around(os.path.basename(text), network)


def opened(
    given: Any, preset: Any = None, weights: Any = None, runtime: Any = "rten", device: Any = "cpu", like: Any = None
) -> Encoder:
    """Return the encoder of an argument. ``like`` is a preset that is used if the encoder has it and none is given."""
    if isinstance(given, (str, PathLike)):
        if preset is None and like is not None and not _is_onnx_file(given):
            tools = [one["tool"] for one in _modelmix.encoder(_check.file("encoder", given))["presets"]]
            preset = like if like in tools else None
        return open(given, preset=preset, weights=weights, runtime=runtime, device=device)
    if (preset, weights, runtime, device) != (None, None, "rten", "cpu"):
        raise ValueError(
            "encoder is open already, so preset, weights, runtime and device have no effect; give them to mm.encoders.open"
        )
    if isinstance(given, Encoder):
        return given
    if not callable(given):
        raise _check.wrong_type("encoder", given, 'a name such as "dinov2-vitl14", an .onnx file, or a function')
    return Encoder._around(getattr(given, "__name__", type(given).__name__), FunctionNetwork(given))


def _is_onnx_file(given: str | PathLike[str]) -> bool:
    """Whether an encoder is given as the path of a file."""
    return _check.file("encoder", given).lower().endswith(".onnx")


def _automatic(name: str, preset: str | None, weights: Any, device: str, runtime: str) -> Network:
    """Open an encoder with what is on this machine: ONNX if it can run on the device, otherwise torch."""
    is_file = name.lower().endswith(".onnx")
    known = None if is_file else NamedEncoder._read(_modelmix.encoder(name))
    if known is not None and weights is not None:
        is_path = isinstance(weights, (str, PathLike))
        if not is_path or _is_transformers(name, fspath(weights)):
            return _torch(name, preset, weights, device)
    elif known is not None and (known.found is None or (device != "cpu" and runtime == "rten")):
        if find_spec("torch") is not None:
            with suppress(NotLoaded):
                return _torch(name, preset, None, device, local=True)
        if known.found is None:
            raise ValueError(
                f"encoder {name}: its weights are not on this machine; {known.how_to_get}; or, with torch, "
                f'mm.encoders.open("{name}", backend="torch") loads the original network'
            )
    return _onnx(name, preset, weights, device, runtime)


def _torch(name: str, preset: str | None, weights: Any, device: str, local: bool = False) -> Network:
    from ._torch import TorchNetwork

    return TorchNetwork.open(name, preset, weights, device, local)


def _is_transformers(name: str, path: str) -> bool:
    """Whether a path is a folder of transformers, without a model that is read directly."""
    return os.path.isfile(os.path.join(path, "config.json")) and _modelmix.located_weights(name, path) is None


def _onnx(name: str, preset: str | None, weights: Any, device: str, runtime: str) -> OnnxNetwork:
    file = None if weights is None else _check.file("weights", weights)
    library = None
    if runtime == "onnxruntime" and not os.environ.get("ORT_DYLIB_PATH"):
        spec = find_spec("onnxruntime")
        if spec is not None and spec.submodule_search_locations:
            library = os.path.join(next(iter(spec.submodule_search_locations)), "capi")
    settings = EncoderSettings(name, file, preset, runtime, device, library)
    return OnnxNetwork(_modelmix.Encoder.open(settings))


@checked
def pull(name: str, *, progress: bool = False) -> builtins.list[str]:
    """Download the weights of an encoder into modelmix's cache; an interrupted download is resumed.

    ``HF_ENDPOINT``, ``HF_TOKEN``, ``HF_HUB_OFFLINE`` and ``MODELMIX_CACHE`` are respected.

    Parameters
    ----------
    name
        The name of an encoder, as in :func:`list`.
    progress
        Whether to show a progress bar (needs tqdm).

    Returns
    -------
    list of str
        The files.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If there is no such encoder, nothing is published that can be used as it is, or the download fails.

    Examples
    --------
    >>> import modelmix as mm
    >>> mm.encoders.pull("dinov2-vitg14")
    Traceback (most recent call last):
    ValueError: encoder dinov2-vitg14: no ONNX file of dinov2-vitg14 is published; export it with ...
    """
    with Bar(progress, f"downloading {name}", "B", scaled=True) as bar:
        bar.started(None)
        return _modelmix.pull_encoder(_check.text("name", name), bar.done if progress else None)


@checked
def preprocess(
    images: Samples, name: str, *, preset: str | None = None, threads: int | None = None
) -> npt.NDArray[np.float32]:
    """Preprocess images as a tool does for an encoder, for a network of your own; no weights are needed.

    Parameters
    ----------
    images
        Images in memory or files, as in :func:`modelmix.encode`. They are returned together, so pass a batch.
    name
        The name of an encoder of images, as in :func:`list`.
    preset
        The tool whose preprocessing is applied; the encoder's first if ``None``.
    threads
        The number of threads; all cores if ``None``.

    Returns
    -------
    numpy.ndarray
        One tensor per image: n × channels × height × width, in single precision.

    Raises
    ------
    TypeError
        If an argument or an image has the wrong type.
    ValueError
        If there is no such encoder or preset, an image cannot be decoded, or tensors have different sizes.
    OSError
        If a file cannot be read.

    Examples
    --------
    >>> import modelmix as mm
    >>> import numpy as np
    >>> images = np.zeros((2, 32, 48, 3), dtype=np.uint8)
    >>> mm.encoders.preprocess(images, "dinov2-vitl14", preset="huggingface").shape
    (2, 3, 224, 224)
    """
    import numpy

    steps, _ = _modelmix.preprocessing(_check.text("name", name), _check.text_or_none("preset", preset))
    tensors: builtins.list[npt.NDArray[np.float32]] = []
    for samples in _sets(images):
        found, _, _, _, failed = samples.prepared(0, len(samples), steps, threads=_check.threads(threads))
        refuse_or_skip(samples, failed, skip=False)
        tensors += found
    shapes = {tensor.shape[1:] for tensor in tensors}
    if len(shapes) > 1:
        raise ValueError(
            f"{name} takes tensors whose size depends on the image ({len(shapes)} sizes); pass images of one size"
        )
    return tensors[0] if len(tensors) == 1 else numpy.concatenate(tensors)


def _sets(images: Any) -> builtins.list[_modelmix.Samples]:
    if isinstance(images, (str, PathLike)):
        return [samples for _, samples in _modelmix.Samples.open(_check.file("images", images))]
    found = []
    for chunk in chunks(images, "images"):
        if chunk.failed:
            name, problem = chunk.failed[0]
            raise ValueError(f"{name}: {problem}")
        if chunk.samples is not None:
            found.append(chunk.samples)
    return found
