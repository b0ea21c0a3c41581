"""Where torch gets the original network of a named encoder: torch.hub, transformers, open_clip, timm, or a file.

Each source is asked in turn; the first that has the weights on this machine is used. Only if none has them and downloads are
allowed, the first that is installed downloads them, in its own way and into its own cache.
"""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol
from weakref import WeakKeyDictionary

#: The files that sentence-transformers stores next to weights, and those of transformers that limit the length of texts.
_SETTINGS_FILES = ("modules.json", "*/config.json", "sentence_bert_config.json", "tokenizer_config.json", "config.json")

#: What tells the modules of the user apart.
_identities: WeakKeyDictionary[Any, str] = WeakKeyDictionary()

#: The side of the images that tools give to DINOv2, in pixels.
_DINOV2_SIDE = 224


@dataclass(frozen=True)
class Loaded:
    """A network, how to run it, and what loaded it."""

    module: Any
    #: Images: a tensor → one vector per image. Texts: tokens → one vector per token.
    run: Callable[[Any], Any]
    library: str
    tokenizer: Any = None
    #: The folder with the settings of a model of texts.
    folder: str | None = None
    #: Names of weights that are random, because they are not in the checkpoint; the features do not depend on them.
    unused: frozenset[str] = frozenset()
    #: What tells a module of the user from others: two with the same weights may compute different features.
    identity: str | None = None


class Missing(Exception):
    """A source that cannot be used, and why."""


class NotLoaded(ValueError):
    """No source has the network."""


class Source(Protocol):
    """A library that has the network."""

    def load(self, local: bool) -> Loaded:
        """Load the network; without a download if ``local``. Raise :class:`Missing` if that is impossible."""
        ...


def load(described: dict[str, Any], weights: Any, local: bool = False) -> Loaded:
    """Load the network of a named encoder; from ``weights`` if they are given.

    ``weights`` are a module, or a folder or a repository of transformers. With ``local``, nothing is downloaded.
    """
    _library("torch")
    if weights is not None and not isinstance(weights, str):
        if described["kind"] == "texts" or not (callable(weights) and hasattr(weights, "state_dict")):
            raise TypeError(
                f"weights is {type(weights).__name__}, but it must be a path"
                + ("" if described["kind"] == "texts" else ", or a torch.nn.Module that returns the features")
            )
        library = type(weights).__module__.split(".")[0]
        identity = _identities.setdefault(weights, secrets.token_hex(16))
        return Loaded(weights, lambda tensor: _vector(weights(tensor)), library, identity=identity)
    sources = _sources(described) if weights is None else [_at(described, weights)]
    problems: list[str] = []
    for without_download in (True, False) if not local else (True,):
        for source in sources:
            try:
                return source.load(without_download)
            except Missing as problem:
                problems.append(str(problem))
    reasons = "; ".join(dict.fromkeys(problems))
    raise NotLoaded(f"encoder {described['name']}: torch cannot load it ({reasons})")


def _sources(described: dict[str, Any]) -> list[Source]:
    """Return the sources of a named encoder, the original first."""
    name: str = described["name"]
    if described["kind"] == "texts":
        repository = {"roberta-base": "FacebookAI/roberta-base"}.get(name) or described["sources"][0]
        return [TransformersText(repository)]
    if name.startswith("dinov2-"):
        letter = name[len("dinov2-vit")]
        size = {"s": "small", "b": "base", "l": "large", "g": "giant"}[letter]
        entry = f"dinov2_vit{letter}14"
        return [
            TorchHub("facebookresearch/dinov2", entry, f"{entry}_pretrain.pth"),
            TransformersImage("Dinov2Model", f"facebook/dinov2-{size}"),
            Timm(f"vit_{size}_patch14_dinov2.lvd142m"),
        ]
    clip = {
        "clip-vit-b32": ("openai/clip-vit-base-patch32", "ViT-B-32-quickgelu"),
        "clip-vit-l14": ("openai/clip-vit-large-patch14", "ViT-L-14-quickgelu"),
        "clip-vit-l14-336": ("openai/clip-vit-large-patch14-336", "ViT-L-14-336-quickgelu"),
    }.get(name)
    if clip is not None:
        return [TransformersImage("CLIPVisionModelWithProjection", clip[0]), OpenClip(clip[1], "openai", True)]
    if name == "clip-vit-l14-datacomp":
        return [OpenClip("ViT-L-14", "datacomp_xl_s13b_b90k", False)]
    if name == "swav":
        return [TorchHub("facebookresearch/swav", "resnet50", "swav_800ep_pretrain.pth.tar")]
    if name == "inception-v3-fid":
        return [TorchScript(described["found"]), PytorchFid()]
    return []


def _at(described: dict[str, Any], weights: str) -> Source:
    """Return the source of weights that are given: a file of FID's Inception, or a folder or a repository of transformers."""
    name: str = described["name"]
    if name == "inception-v3-fid":
        return TorchScript(weights)
    if described["kind"] == "texts":
        return TransformersText(weights)
    return TransformersImage("CLIPVisionModelWithProjection" if name.startswith("clip-") else "AutoModel", weights)


@dataclass(frozen=True)
class TorchHub:
    """An entry of a repository of torch.hub."""

    repository: str
    entry: str
    checkpoint: str

    def load(self, local: bool) -> Loaded:
        """Load from the cached repository, or download it."""
        hub = _library("torch").hub
        folder = os.path.join(hub.get_dir(), self.repository.replace("/", "_") + "_main")
        checkpoint = os.path.join(hub.get_dir(), "checkpoints", self.checkpoint)
        if os.path.isdir(folder) and os.path.isfile(checkpoint):
            module = hub.load(folder, self.entry, source="local")
        elif local:
            raise Missing(f"torch.hub has not cached {self.repository}")
        else:
            module = hub.load(self.repository, self.entry)
        if hasattr(module, "fc"):
            module.fc = _library("torch").nn.Identity()
        return Loaded(module, lambda tensor: _vector(module(tensor)), "torch.hub")


@dataclass(frozen=True)
class TransformersImage:
    """A vision model of transformers."""

    model: str
    repository: str

    def load(self, local: bool) -> Loaded:
        """Load a folder, or a repository."""
        module, unused = _transformers_model(self.model, self.repository, local)
        return Loaded(
            module, lambda tensor: _vector(module(pixel_values=tensor)), _transformers_version(), unused=unused
        )


@dataclass(frozen=True)
class TransformersText:
    """A text model of transformers, with its tokenizer."""

    repository: str

    def load(self, local: bool) -> Loaded:
        """Load a folder, or a repository."""
        module, unused = _transformers_model("AutoModel", self.repository, local)
        return Loaded(
            module,
            lambda tokens: module(**tokens).last_hidden_state,
            _transformers_version(),
            tokenizer=_pretrained("AutoTokenizer", self.repository, local),
            folder=_settings_folder(self.repository, local),
            unused=unused,
        )


@dataclass(frozen=True)
class OpenClip:
    """The vision tower of a model of open_clip, with or without its projection."""

    model: str
    tag: str
    is_projected: bool

    def load(self, local: bool) -> Loaded:
        """Load from the caches that open_clip uses, or download."""
        library = _library("open_clip")
        known: dict[str, str] = library.get_pretrained_cfg(self.model, self.tag) or {}
        url = known.get("url", "")
        file = os.path.expanduser(f"~/.cache/clip/{os.path.basename(url)}")
        if _is_in_hub_cache(known.get("hf_hub", "")):
            module = library.create_model(self.model, self.tag).visual
        elif url and os.path.isfile(file):
            # The file of OpenAI's own package; by the tag, open_clip would download from the hub.
            module = library.load_openai_model(file, precision="fp32", device="cpu").visual
        elif local:
            raise Missing(f"open_clip has not cached {self.model} {self.tag}")
        else:
            module = library.create_model(self.model, self.tag).visual
        if not self.is_projected:
            module.proj = None
        return Loaded(module, lambda tensor: _vector(module(tensor)), _version("open_clip", library))


@dataclass(frozen=True)
class Timm:
    """DINOv2 of timm at 224 × 224 pixels, with positions of patches as its authors interpolate them."""

    model: str

    def load(self, local: bool) -> Loaded:
        """Load from the cache of the hub, or download."""
        library = _library("timm")
        if not hasattr(library.models.VisionTransformer, "set_input_size"):
            raise Missing(f"{_version('timm', library)} is too old; install timm 1.0.11 or later")
        if local and not _is_in_hub_cache(f"timm/{self.model}", ["model.safetensors"]):
            raise Missing(f"timm has not cached {self.model}")
        module = library.create_model(self.model, pretrained=True, num_classes=0)
        positions = module.pos_embed.detach()
        module.set_input_size(img_size=(_DINOV2_SIDE, _DINOV2_SIDE))
        module.pos_embed.data = _resized_positions(positions, module.patch_embed.grid_size)
        return Loaded(module, lambda tensor: _vector(module(tensor)), _version("timm", library))


@dataclass(frozen=True)
class TorchScript:
    """FID's Inception as TorchScript, without its own preprocessing."""

    path: str | None

    def load(self, local: bool) -> Loaded:
        """Load the file."""
        if self.path is None or not self.path.endswith(".pt"):
            raise Missing("there is no inception-2015-12-05.pt")
        module = _library("torch").jit.load(self.path, map_location="cpu")
        if not hasattr(module, "layers"):
            raise Missing(f"{self.path} has no layers, unlike inception-2015-12-05.pt")
        return Loaded(module, lambda tensor: module.layers(tensor).flatten(1), "TorchScript")


@dataclass(frozen=True)
class PytorchFid:
    """FID's Inception of pytorch-fid."""

    def load(self, local: bool) -> Loaded:
        """Load with the weights that pytorch-fid cached, or let it download them."""
        library = _library("pytorch_fid.inception")
        file = os.path.basename(library.FID_WEIGHTS_URL)
        if local and not os.path.isfile(os.path.join(_library("torch").hub.get_dir(), "checkpoints", file)):
            raise Missing(f"torch.hub has not cached {file}")
        module = library.InceptionV3([3], resize_input=False, normalize_input=False)
        return Loaded(module, lambda tensor: module(tensor)[0].flatten(1), "pytorch-fid")


def _library(name: str) -> Any:
    """Import a library; raise :class:`Missing` if it is not installed, or ``ImportError`` for torch itself."""
    try:
        return import_module(name)
    except ImportError:
        if name == "torch":
            raise ImportError('backend="torch" needs torch; install it with pip install torch') from None
        raise Missing(f"{name.split('.')[0]} is not installed") from None


def _resized_positions(positions: Any, grid: tuple[int, int]) -> Any:
    """Interpolate the positions of patches as the authors of DINOv2 do; timm widens the filter, which changes features visibly."""
    torch = _library("torch")
    count, width = positions.shape[1] - 1, positions.shape[2]
    side = math.isqrt(count)
    patches = positions[:, 1:].reshape(1, side, side, width).permute(0, 3, 1, 2)
    # They add a tenth to the number of patches, and keep the scale that results.
    scale = tuple((patches_per_side + 0.1) / side for patches_per_side in grid)
    patches = torch.nn.functional.interpolate(patches, scale_factor=scale, mode="bicubic")
    return torch.cat([positions[:, :1], patches.permute(0, 2, 3, 1).reshape(1, -1, width)], dim=1)


def _version(name: str, library: Any) -> str:
    return f"{name} {getattr(library, '__version__', '')}".strip()


def _pretrained(name: str, repository: str, local: bool, **settings: Any) -> Any:
    """Load a model or a tokenizer of transformers."""
    library = _library("transformers")
    try:
        # Without the last word, transformers asks on the terminal whether it may run code of the repository.
        return getattr(library, name).from_pretrained(
            repository, local_files_only=local, trust_remote_code=False, **settings
        )
    except (OSError, ValueError) as problem:  # files are missing, or the network is code of the repository
        first = str(problem).strip().split("\n")[0]
        raise Missing(f"transformers cannot load {repository} ({first[:200]})") from None


def _transformers_model(name: str, repository: str, local: bool) -> tuple[Any, frozenset[str]]:
    """Load a model of transformers, with the names of weights that it lacks and that the features do not depend on."""
    module, report = _pretrained(name, repository, local, output_loading_info=True)
    missing = frozenset(report["missing_keys"])
    # Many checkpoints have no pooler, which is random then; vectors of tokens do not pass through it.
    needed = sorted(key for key in missing.intersection(dict(module.named_parameters())) if "pooler" not in key)
    if needed:
        raise ValueError(
            f"{repository} lacks {len(needed)} weights of {type(module).__name__}, such as {needed[0]}, so its features would be "
            "random; give the weights of the whole network"
        )
    return module, missing


def _transformers_version() -> str:
    return _version("transformers", _library("transformers"))


def _settings_folder(repository: str, local: bool) -> str:
    """Return the folder with the settings of a model of texts; those of a repository are downloaded unless ``local``."""
    if os.path.isdir(repository):
        return repository
    try:
        folder: str = _library("huggingface_hub").snapshot_download(
            repository, allow_patterns=list(_SETTINGS_FILES), local_files_only=local
        )
    except OSError as problem:
        first = str(problem).strip().split("\n")[0]
        raise Missing(f"the settings of {repository} cannot be read ({first[:200]})") from None
    return folder


#: The files of weights in repositories of open_clip.
_OPEN_CLIP_FILES = ("open_clip_model.safetensors", "open_clip_pytorch_model.bin")


def _is_in_hub_cache(repository: str, files: Sequence[str] = _OPEN_CLIP_FILES) -> bool:
    """Whether the cache of the hub has one of the files of a repository."""
    find = _library("huggingface_hub").try_to_load_from_cache
    name = repository.rstrip("/")
    return bool(name) and any(isinstance(find(name, file), str) for file in files)


def _vector(output: Any) -> Any:
    """Return one vector per image: the projected or pooled one, the class token, or the tensor itself."""
    for name in ("image_embeds", "last_hidden_state"):
        found = getattr(output, name, None)
        if found is not None:
            output = found
            break
    if isinstance(output, (tuple, list)):
        output = output[0]
    return output[:, 0] if output.ndim == 3 else output
