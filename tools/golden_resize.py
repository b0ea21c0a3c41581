"""Golden hashes for the resizing and the preprocessing of modelmix-encode, made by the libraries that they reproduce.

    python tools/golden_resize.py pillow   # with Pillow 12, and again with Pillow 13
    python tools/golden_resize.py torch    # with the packages that `versions` lists in `tools_file`

Writes to crates/modelmix-encode/tests/golden. Images and sizes come from a generator that the Rust tests implement, too
(tests/it/generator.rs), so that files hold hashes only: the first 16 digits of SHA-256 of the values, channel by channel.
"""

from __future__ import annotations

import hashlib
import json
import sys
import types
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np
from PIL import Image

warnings.filterwarnings("ignore")
FOLDER = Path(__file__).parents[1] / "crates/modelmix-encode/tests/golden"
MASK = (1 << 64) - 1
FILTERS = [
    Image.Resampling.BOX,
    Image.Resampling.BILINEAR,
    Image.Resampling.HAMMING,
    Image.Resampling.BICUBIC,
    Image.Resampling.LANCZOS,
]
PRESET_SIZES = [
    (299, 299),
    (224, 224),
    (336, 336),
    (64, 64),
    (512, 512),
    (37, 53),
    (1, 1),
    (1, 40),
    (40, 1),
    (500, 20),
    (20, 500),
    (333, 500),
    (640, 427),
    (225, 224),
    (227, 300),
    (300, 1024),
]


def mix(x):
    """SplitMix64's output function of a counter; for arrays of uint64 and for integers."""
    if isinstance(x, int):
        x = (x * 0x9E3779B97F4A7C15) & MASK
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
        return x ^ (x >> 31)
    u = np.uint64
    x = x * u(0x9E3779B97F4A7C15)
    x = (x ^ (x >> u(30))) * u(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> u(27))) * u(0x94D049BB133111EB)
    return x ^ (x >> u(31))


def pixels(seed: int, width: int, height: int) -> np.ndarray:
    """An image of noise; every third one has only black and white, so that filters overshoot."""
    count = 3 * width * height
    noise = (mix(np.arange(count, dtype=np.uint64) + np.uint64((seed + 1) << 32)) >> np.uint64(56)).astype(np.uint8)
    if seed % 3 == 0:
        noise = np.where(noise < 128, 0, 255).astype(np.uint8)
    return noise.reshape(height, width, 3)


def sizes_of(index: int) -> tuple[int, int, int, int]:
    """Width and height before and after, for a case of this number."""
    limits = [96, 96, 96, 96]
    kind = mix(8 * index) % 8
    if kind == 0:  # long sides before
        limits[0] = 700
    elif kind == 1:
        limits[1] = 700
    elif kind == 2:  # long sides after
        limits[2] = 400
    elif kind == 3:
        limits[3] = 400
    sizes = [1 + mix(8 * index + 1 + k) % limit for k, limit in enumerate(limits)]
    if kind == 4:  # only one side changes
        sizes[2] = sizes[0]
    elif kind == 5:
        sizes[3] = sizes[1]
    return tuple(sizes)


def digest(values: np.ndarray) -> str:
    """The hash of values in the order channel, row, column."""
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()[:16]


def write(name: str, versions: dict, sections: dict) -> None:
    """Write a file of hashes with the versions that made them."""
    document = {"made_by": versions, **sections}
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / name).write_text(json.dumps(document, indent=0) + "\n")
    print(name, versions, {key: len(values) for key, values in sections.items()})


def pillow() -> None:
    """2,000 cases of 8-bit images and 300 of float images."""
    bytes_, floats = [], []
    for index in range(2000):
        width, height, new_width, new_height = sizes_of(index)
        image = Image.fromarray(pixels(index, width, height))
        resized = image.resize((new_width, new_height), FILTERS[index % 5])
        bytes_.append(digest(np.asarray(resized).transpose(2, 0, 1)))
    for index in range(300):
        width, height, new_width, new_height = sizes_of(index)
        planes = pixels(index, width, height).astype(np.float32).transpose(2, 0, 1)
        images = [Image.fromarray(np.ascontiguousarray(plane)) for plane in planes]
        resized = [np.asarray(image.resize((new_width, new_height), FILTERS[index % 5])) for image in images]
        floats.append(digest(np.stack(resized)))
    grey = [digest(np.asarray(Image.fromarray(pixels(seed, 37, 53)).convert("L"))) for seed in range(10)]
    major = version("pillow").split(".")[0]
    write(
        f"pillow-{major}.json",
        {"pillow": version("pillow")},
        {"pillow": bytes_, "pillow_float": floats, "grey": grey},
    )


def torch_cases() -> dict:
    """200 cases per method of torch, and of torch-fidelity's TensorFlow 1 rule."""
    import torch
    import torch.nn.functional as F
    from torch_fidelity.interpolate_compat_tensorflow import interpolate_bilinear_2d_like_tensorflow1x

    def run(resize, before=lambda x: x, count=200):
        hashes = []
        for index in range(count):
            width, height, new_width, new_height = sizes_of(index)
            x = torch.from_numpy(pixels(index, width, height).transpose(2, 0, 1).copy())[None]
            hashes.append(digest(resize(before(x), (new_height, new_width))[0].numpy()))
        return hashes

    def interpolate(mode, antialias):
        return lambda x, size: F.interpolate(x, size=size, mode=mode, align_corners=False, antialias=antialias)

    single = lambda x: x.float()  # noqa: E731
    return {
        "tensorflow1": run(
            lambda x, size: interpolate_bilinear_2d_like_tensorflow1x(x, size=size, align_corners=False), single
        ),
        "bilinear": run(interpolate("bilinear", False), single),
        "bicubic": run(interpolate("bicubic", False), single),
        "bilinear_antialias": run(interpolate("bilinear", True), single),
        "bicubic_antialias": run(interpolate("bicubic", True), single),
        "bilinear_8bit": run(interpolate("bilinear", True)),
        "bicubic_8bit": run(interpolate("bicubic", True)),
    }


class Captured(Exception):
    """Carries the tensor that a tool gives to the first layer of its network."""


def capture(call, *arguments):
    """Return the tensor that a tool gives to the first layer of its network."""
    try:
        call(*arguments)
    except Captured as captured:
        return captured.args[0][0].float().numpy()
    raise RuntimeError("the network was not reached")


def presets() -> dict:
    """The tensor that the first layer of the network sees, from the tools' own code where they are installed."""
    import open_clip
    import torch
    import torchvision.transforms as T
    import torchvision.transforms.functional as TF
    from torch import nn
    from transformers.models.bit.image_processing_bit import BitImageProcessor
    from transformers.models.bit.image_processing_pil_bit import BitImageProcessorPil
    from transformers.models.clip.image_processing_clip import CLIPImageProcessor
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

    sys.modules.setdefault("clip", types.ModuleType("clip"))  # clean-fid imports it only to load weights
    import cleanfid.clip_features as clean_clip
    import torch_fidelity.feature_extractor_clip as tf_clip
    import torch_fidelity.feature_extractor_dinov2 as tf_dino
    import torch_fidelity.feature_extractor_inceptionv3 as tf_inception
    from cleanfid.inception_torchscript import InceptionV3W
    from cleanfid.resize import build_resizer
    from cleanfid.utils import ResizeDataset
    from pytorch_fid.inception import InceptionV3

    class Capture(nn.Module):
        def forward(self, x, *rest):
            raise Captured(x)

    def bare(cls, **attributes):
        """An object of a tool's class without weights."""
        instance = cls.__new__(cls)
        if issubclass(cls, nn.Module):
            nn.Module.__init__(instance)
        for name, value in attributes.items():
            setattr(instance, name, value)
        return instance

    def first_layer(x):
        raise Captured(x)

    batch = lambda image: TF.pil_to_tensor(image)[None]  # noqa: E731
    single = torch.float32
    inception = bare(
        tf_inception.FeatureExtractorInceptionV3,
        features_list=["64"],
        feature_extractor_internal_dtype=single,
        Conv2d_1a_3x3=Capture(),
    )
    dino = bare(
        tf_dino.FeatureExtractorDinoV2,
        features_list=["dinov2"],
        feature_extractor_internal_dtype=single,
        model=Capture(),
    )

    def fidelity_clip(side):
        model = nn.Module()
        model.visual = Capture()
        return bare(
            tf_clip.FeatureExtractorCLIP,
            features_list=["clip"],
            feature_extractor_internal_dtype=single,
            model=model,
            resolution=side,
        )

    pytorch_fid = bare(
        InceptionV3,
        resize_input=True,
        normalize_input=True,
        output_blocks=[0],
        last_needed_block=0,
        blocks=nn.ModuleList([Capture()]),
    )
    clean_inception = bare(InceptionV3W, resize_inside=False, layers=Capture())
    clip_fx = bare(clean_clip.CLIP_fx, model=types.SimpleNamespace(encode_image=first_layer))

    def clean_dataset(resize):
        """ResizeDataset.__getitem__ of an image in memory."""

        def load(image):
            dataset = ResizeDataset.__new__(ResizeDataset)
            path = FOLDER / "image.npy"
            np.save(path, np.asarray(image))
            dataset.files, dataset.fdir = [path], None
            dataset.transforms, dataset.fn_resize = T.ToTensor(), resize
            dataset.custom_image_tranform = lambda x: x
            tensor = dataset[0]
            path.unlink()
            return tensor[None]

        return load

    clean_image, clean_clip_image = (
        clean_dataset(build_resizer("clean")),
        clean_dataset(clean_clip.img_preprocess_clip),
    )

    # Definitions of tools that are not on PyPI, from their repositories.
    imagenet = T.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    clip_constants = T.Normalize((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))
    bicubic = T.InterpolationMode.BICUBIC

    def squash(side, constants):
        return T.Compose([T.Resize((side, side), bicubic), T.CenterCrop(side), T.ToTensor(), constants])

    def dgm_clean(image, side):
        x = np.array(image).astype(np.float32)
        planes = [Image.fromarray(np.ascontiguousarray(x[:, :, k])) for k in range(3)]
        planes = [np.asarray(p.resize((side, side), resample=Image.BICUBIC)).clip(0, 255) for p in planes]
        return TF.to_tensor(np.stack(planes, axis=2).astype(np.float32)) / 255

    def dgm_inception(image):
        x = TF.to_tensor(image).unsqueeze(0)
        return 2 * torch.nn.functional.interpolate(x, size=(299, 299), mode="bilinear", align_corners=False)[0] - 1

    def cmmd(image, side):
        w, h = image.size
        short = min(w, h)
        top, left = (h - short) // 2, (w - short) // 2
        image = image.crop((left, top, left + short, top + short)).resize((side, side), resample=Image.BICUBIC)
        x = np.asarray(image).astype(np.float32)[None] / 255.0
        x = torch.nn.functional.interpolate(
            torch.from_numpy(x.transpose(0, 3, 1, 2)), size=(side, side), mode="bicubic"
        )
        processor = CLIPImageProcessor()
        return processor(
            images=x.permute(0, 2, 3, 1).numpy(),
            do_center_crop=False,
            do_resize=False,
            do_rescale=False,
            return_tensors="pt",
        )["pixel_values"][0]

    def processor(cls, edge, side, **constants):
        made = cls(size={"shortest_edge": edge}, crop_size={"height": side, "width": side}, **constants)
        return lambda image: made(images=image, return_tensors="pt")["pixel_values"][0]

    imagenet_constants = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
    transforms = {
        "inception torch-fidelity": lambda image: capture(inception, batch(image)),
        "inception clean-fid": lambda image: capture(clean_inception, clean_image(image)),
        "inception pytorch-fid": lambda image: capture(pytorch_fid, TF.to_tensor(image)[None]),
        "inception dgm-eval": dgm_inception,
        "inception dgm-eval-clean": lambda image: 2 * dgm_clean(image, 299) - 1,
        "dinov2 torch-fidelity": lambda image: capture(dino, batch(image)),
        "dinov2 mixture-ucb": squash(224, imagenet),
        "dinov2 dgm-eval": squash(224, imagenet),
        "dinov2 dgm-eval-clean": lambda image: imagenet(dgm_clean(image, 224)),
        "dinov2 huggingface": processor(BitImageProcessor, 256, 224, **imagenet_constants),
        "dinov2 huggingface-pil": processor(BitImageProcessorPil, 256, 224, **imagenet_constants),
        "clip-224 clean-fid": lambda image: capture(clip_fx, clean_clip_image(image)),
        "clip-224 mixture-ucb": squash(224, imagenet),
        "clip-336 cmmd": lambda image: cmmd(image, 336),
        "swav dgm-eval": T.Compose([T.Resize(224), T.ToTensor(), imagenet]),
    }
    for side in (224, 336):
        transforms |= {
            f"clip-{side} torch-fidelity": lambda image, side=side: capture(fidelity_clip(side), batch(image)),
            f"clip-{side} open-clip": open_clip.image_transform(side, is_train=False),
            f"clip-{side} huggingface": processor(CLIPImageProcessor, side, side),
            f"clip-{side} huggingface-pil": processor(CLIPImageProcessorPil, side, side),
            f"clip-{side} dgm-eval": squash(side, clip_constants),
            f"clip-{side} dgm-eval-clean": lambda image, side=side: clip_constants(dgm_clean(image, side)),
        }
    images = [Image.fromarray(pixels(seed, *size)) for seed, size in enumerate(PRESET_SIZES)]
    return {name: [digest(np.asarray(f(image))) for image in images] for name, f in transforms.items()}


def tools_file() -> None:
    """Write the hashes of torch and of the tools built on it."""
    import torch

    torch.set_num_threads(1)
    if torch.backends.cpu.get_cpu_capability() != "AVX2":
        sys.exit("run this on a processor with AVX2, or set ATEN_CPU_CAPABILITY=avx2: other builds round differently")
    names = [
        "torch",
        "torchvision",
        "torch-fidelity",
        "clean-fid",
        "pytorch-fid",
        "transformers",
        "open-clip-torch",
        "pillow",
        "numpy",
    ]
    versions = {name: version(name) for name in names}
    write("tools.json", versions, {**torch_cases(), **presets()})


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["pillow"]:
            pillow()
        case ["torch"]:
            tools_file()
        case _:
            sys.exit(__doc__)
