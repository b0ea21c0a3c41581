"""Networks in torch: fingerprints that say what was run, settings of sentence-transformers, full single precision, and a cache that
is keyed by files. Run by `make test-peers`."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
import torch
import transformers
from PIL import Image

import modelmix as mm

WORDS = [
    "a",
    "the",
    "cat",
    "dog",
    "house",
    "on",
    "in",
    "Red",
    "red",
    "BLUE",
    "blue",
    "sky",
    "slow",
    "photo",
    "of",
    "bridge",
]
TEXTS = ["a Red cat", "the dog on the bridge", "a photo of a BLUE house in the sky", "", "slow " * 400, "unknown words"]
RKE = mm.Rke(bandwidth=5)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MODELMIX_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def save_tokenizer(folder: Path, words: list[str] = WORDS) -> None:
    """One token per word, with case."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = {word: at for at, word in enumerate([*special, *words])}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    made.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=made, model_max_length=512, **names).save_pretrained(folder)


def bert(seed: int = 0) -> Any:
    torch.manual_seed(seed)
    config = transformers.BertConfig(
        vocab_size=len(WORDS) + 5,
        hidden_size=384,
        num_hidden_layers=1,
        num_attention_heads=6,
        intermediate_size=64,
    )
    return transformers.BertModel(config).eval()


@pytest.fixture(scope="module")
def texts_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bert")
    bert().save_pretrained(folder)
    save_tokenizer(folder)
    return folder


@pytest.fixture(scope="module")
def dino() -> Any:
    torch.manual_seed(1)
    config = transformers.Dinov2Config(
        hidden_size=384, num_hidden_layers=1, num_attention_heads=6, image_size=224, patch_size=14
    )
    return transformers.Dinov2Model(config).eval()


@pytest.fixture(scope="module")
def images() -> list[np.ndarray[Any, np.dtype[np.uint8]]]:
    random = np.random.default_rng(5)
    return [random.integers(0, 256, size=(40, 30 + at, 3), dtype=np.uint8) for at in range(5)]


def fingerprint(encoder: mm.encoders.Encoder) -> str:
    assert encoder.encoding is not None
    return encoder.encoding.fingerprint


def assert_close(found: Any, wanted: Any, tolerance: float = 1e-5) -> None:
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() <= tolerance * np.abs(wanted).max()


class Wrapped(torch.nn.Module):
    """A network of the user, which returns what `choose` makes of the vectors of patches."""

    def __init__(self, network: Any, choose: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.network, self.choose = network, choose

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.choose(self.network(pixels).last_hidden_state)


def test_modules_with_equal_weights_are_different_encoders(
    dino: Any, images: list[Any], tmp_path: Path, own_cache: Path
) -> None:
    for at, image in enumerate(images):
        (tmp_path / "png").mkdir(exist_ok=True)
        Image.fromarray(image).save(tmp_path / "png" / f"{at}.png")
    first, mean = Wrapped(dino, lambda patches: patches[:, 0]), Wrapped(dino, lambda patches: patches.mean(1))
    assert first.state_dict().keys() == mean.state_dict().keys()
    one = mm.encode(tmp_path / "png", mm.encoders.open("dinov2-vits14", weights=first))
    two = mm.encode(tmp_path / "png", mm.encoders.open("dinov2-vits14", weights=mean))
    with torch.inference_mode():
        pixels = torch.from_numpy(mm.encoders.preprocess(images, "dinov2-vits14"))
        patches = dino(pixels).last_hidden_state
    assert_close(one, patches[:, 0])
    assert_close(two, patches.mean(1))
    assert one.cached == two.cached == 0 and not list(own_cache.rglob("rows"))
    with pytest.raises(ValueError, match="must come from the same encoder"):
        mm.solve({"one": one, "two": two}, RKE)
    again = mm.encode(tmp_path / "png", mm.encoders.open("dinov2-vits14", weights=first))
    assert again.encoding == one.encoding and again.cached == 0
    mm.solve({"one": one, "again": again}, RKE)


def test_a_pooler_that_the_checkpoint_lacks_is_no_part_of_the_fingerprint(tmp_path: Path) -> None:
    torch.manual_seed(3)
    config = transformers.RobertaConfig(
        vocab_size=len(WORDS) + 5,
        hidden_size=768,
        num_hidden_layers=1,
        num_attention_heads=12,
        intermediate_size=64,
        pad_token_id=0,
    )
    transformers.RobertaForMaskedLM(config).save_pretrained(tmp_path)
    save_tokenizer(tmp_path)
    encoders = []
    for seed in (1, 2):
        torch.manual_seed(seed)  # the pooler is initialised at random
        encoders.append(mm.encoders.open("roberta-base", weights=tmp_path))
    assert fingerprint(encoders[0]) == fingerprint(encoders[1])
    first = mm.encode(TEXTS, encoders[0])
    second = mm.encode(TEXTS, encoders[1])
    assert (first.cached, second.cached) == (0, len(TEXTS))
    mm.solve({"one": first, "two": second}, RKE)


def test_a_checkpoint_that_lacks_a_layer_is_refused(texts_folder: Path, tmp_path: Path) -> None:
    bert().save_pretrained(tmp_path)
    save_tokenizer(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 2}))
    with pytest.raises(
        ValueError, match=r"lacks 16 weights of BertModel, such as encoder\.layer\.1\..*would be random"
    ):
        mm.encoders.open("all-minilm-l6-v2", weights=tmp_path)


def sentence_folder(folder: Path, source: Path, pooling: str, normalise: bool, **settings: Any) -> Path:
    """A folder as sentence-transformers saves it; `old` is the file that earlier versions wrote."""
    sentence_transformers = pytest.importorskip("sentence_transformers")
    modules = pytest.importorskip("sentence_transformers.sentence_transformer.modules")
    old = settings.pop("old", None)
    parts = [modules.Transformer(str(source), **settings), modules.Pooling(384, pooling_mode=pooling)]
    parts += [modules.Normalize()] if normalise else []
    sentence_transformers.SentenceTransformer(modules=parts, device="cpu").save(str(folder))
    if old is not None:
        (folder / "sentence_bert_config.json").write_text(json.dumps(old))
    return folder


SETTINGS: dict[str, tuple[str, bool, dict[str, Any]]] = {
    "the first token": ("cls", True, {"max_seq_length": 256}),
    "without a norm": ("mean", False, {"max_seq_length": 256}),
    "short texts": ("mean", True, {"max_seq_length": 6}),
    "long texts": ("mean", True, {}),
    "lower case": ("cls", False, {"do_lower_case": True}),
    "an old file": ("mean", True, {"old": {"max_seq_length": 5, "do_lower_case": True}}),
    "as in the table": ("mean", True, {"max_seq_length": 256}),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_settings_of_sentence_transformers_are_followed(case: str, texts_folder: Path, tmp_path: Path) -> None:
    sentence_transformers = pytest.importorskip("sentence_transformers")
    pooling, normalise, more = SETTINGS[case]
    folder = sentence_folder(tmp_path / "saved", texts_folder, pooling, normalise, **more)
    wanted = sentence_transformers.SentenceTransformer(str(folder), device="cpu").encode(TEXTS)
    encoder = mm.encoders.open("all-minilm-l6-v2", weights=folder)
    assert_close(encoder(TEXTS), wanted)
    plain = mm.encoders.open("all-minilm-l6-v2", weights=texts_folder)
    assert (fingerprint(encoder) == fingerprint(plain)) == (case == "as in the table")


def test_an_unsupported_module_is_refused(texts_folder: Path, tmp_path: Path) -> None:
    folder = sentence_folder(tmp_path / "saved", texts_folder, "max", True)
    with pytest.raises(ValueError, match=r"only cls or mean is supported"):
        mm.encoders.open("all-minilm-l6-v2", weights=folder)


def test_the_tokenizer_is_a_part_of_the_fingerprint(texts_folder: Path, tmp_path: Path) -> None:
    first = mm.encoders.open("all-minilm-l6-v2", weights=texts_folder)
    again = mm.encoders.open("all-minilm-l6-v2", weights=texts_folder)
    first(TEXTS)  # which sets truncation and padding in the tokenizer
    assert fingerprint(first) == fingerprint(again)
    bert().save_pretrained(tmp_path)
    save_tokenizer(tmp_path, WORDS[::-1])
    other = mm.encoders.open("all-minilm-l6-v2", weights=tmp_path)
    assert fingerprint(other) != fingerprint(first)
    mm.encode(TEXTS, first)
    assert mm.encode(TEXTS, other).cached == 0


def test_weights_in_half_precision_run_in_single(texts_folder: Path, tmp_path: Path) -> None:
    network = bert().half()
    network.save_pretrained(tmp_path / "half")
    network.float().save_pretrained(tmp_path / "single")
    for name in ("half", "single"):
        save_tokenizer(tmp_path / name)
    half, single = (mm.encoders.open("all-minilm-l6-v2", weights=tmp_path / name) for name in ("half", "single"))
    np.testing.assert_array_equal(half(TEXTS), single(TEXTS))
    assert fingerprint(half) == fingerprint(single)


def test_a_module_in_half_precision_is_converted(dino: Any, images: list[Any]) -> None:
    module = Wrapped(dino, lambda patches: patches[:, 0])
    wanted = mm.encoders.open("dinov2-vits14", weights=module)(images)
    assert np.abs(wanted - wanted.astype(np.float16)).max() > 0
    double = Wrapped(transformers.Dinov2Model(dino.config), lambda patches: patches[:, 0])
    double.load_state_dict(module.state_dict())
    double.double().train()
    np.testing.assert_array_equal(mm.encoders.open("dinov2-vits14", weights=double)(images), wanted)
    assert not double.training and {one.dtype for one in double.parameters()} == {torch.float32}


def test_autocast_outside_changes_nothing(dino: Any, images: list[Any], texts_folder: Path) -> None:
    vision = mm.encoders.open("dinov2-vits14", weights=dino)
    texts = mm.encoders.open("all-minilm-l6-v2", weights=texts_folder)
    wanted = vision(images), texts(TEXTS)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        np.testing.assert_array_equal(vision(images), wanted[0])
        np.testing.assert_array_equal(texts(TEXTS), wanted[1])
        assert torch.is_autocast_enabled("cpu")


PRECISIONS = ("cuda.matmul", "cudnn.conv", "mkldnn.matmul", "mkldnn.conv")


def precisions() -> dict[str, str]:
    """What torch computes single-precision operations in."""
    found: dict[str, str] = {}
    for name in PRECISIONS:
        backend, operation = name.split(".")
        found[name] = getattr(getattr(torch.backends, backend), operation).fp32_precision
    return found


def set_precision(value: str, *names: str) -> None:
    for name in names:
        backend, operation = name.split(".")
        getattr(getattr(torch.backends, backend), operation).fp32_precision = value


LOWERED: dict[str, Callable[[], None]] = {
    "nothing": lambda: None,
    "high": lambda: torch.set_float32_matmul_precision("high"),
    "medium": lambda: torch.set_float32_matmul_precision("medium"),
    "TF32": lambda: set_precision("tf32", "cuda.matmul", "cudnn.conv"),
    "bfloat16": lambda: set_precision("bf16", "mkldnn.matmul", "mkldnn.conv"),
    "everywhere": lambda: setattr(torch.backends, "fp32_precision", "tf32"),
}

#: Settings of torch are those of the process, so each case has one of its own.
PROGRAM = """
import json, sys
import numpy as np
import test_torch_encoders as tests
import torch, transformers
import modelmix as mm

inside = []

class Probe(torch.nn.Module):
    def forward(self, pixels):
        inside.append(tests.precisions())
        return pixels.flatten(1)[:, :384]

tests.LOWERED[sys.argv[1]]()
outside = tests.precisions()
legacy = torch.get_float32_matmul_precision() if sys.argv[1] in ("nothing", "high", "medium") else None
mm.encoders.open("dinov2-vits14", weights=Probe())(np.zeros((2, 30, 30, 3), np.uint8))
assert tests.precisions() == outside, (outside, tests.precisions())
if legacy is not None:
    assert torch.get_float32_matmul_precision() == legacy
print(json.dumps([outside, inside]))
"""


@pytest.mark.parametrize("case", LOWERED)
def test_lower_precision_outside_changes_nothing(case: str) -> None:
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning:modelmix", "-c", PROGRAM, case],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    outside, inside = json.loads(done.stdout)
    assert len(inside) == 1 and set(inside[0].values()) <= {"ieee", "none"}
    assert case == "nothing" or set(outside.values()) & {"tf32", "bf16"}


def test_files_are_known_by_their_bytes(dino: Any, images: list[Any], tmp_path: Path, own_cache: Path) -> None:
    """So that a second run neither decodes nor preprocesses them."""
    dino.save_pretrained(tmp_path / "dino")
    folder = tmp_path / "png"
    folder.mkdir()
    for at, image in enumerate(images):
        Image.fromarray(image).save(folder / f"{at}.png")
    encoder = mm.encoders.open("dinov2-vits14", weights=tmp_path / "dino")
    first = mm.encode(folder, encoder)
    [index] = own_cache.rglob("index")
    records = index.read_bytes()
    known = {records[at : at + 32] for at in range(0, len(records), 36)}
    assert known == {hashlib.sha256(file.read_bytes()).digest() for file in folder.iterdir()}
    second = mm.encode(folder, encoder)
    assert (first.cached, second.cached) == (0, len(images))
    np.testing.assert_array_equal(first.features, second.features)


def test_folders_have_a_checksum(dino: Any, images: list[Any], tmp_path: Path) -> None:
    dino.save_pretrained(tmp_path / "dino")
    folder = tmp_path / "png"
    folder.mkdir()
    whole = hashlib.sha256()
    for at, image in enumerate(images):
        Image.fromarray(image).save(folder / f"{at}.png")
        whole.update(f"{at}.png".encode() + b"\0" + hashlib.sha256((folder / f"{at}.png").read_bytes()).digest())
    encoder = mm.encoders.open("dinov2-vits14", weights=tmp_path / "dino")
    for cache in (False, True, True):
        assert mm.encode(folder, encoder, cache=cache).sha256 == whole.hexdigest()
    best = mm.solve({"a": folder, "b": images}, RKE, encoder=encoder)
    assert best.provenance is not None and best.provenance.inputs[0].sha256 == whole.hexdigest()
    # A file that is left out is not among the samples.
    (folder / "10.png").write_bytes(b"no")
    assert mm.encode(folder, encoder, on_error="skip").sha256 == whole.hexdigest()
    texts = tmp_path / "texts.txt"
    texts.write_text("a cat\n")
    bert().save_pretrained(tmp_path / "bert")
    save_tokenizer(tmp_path / "bert")
    encoded = mm.encode(texts, mm.encoders.open("all-minilm-l6-v2", weights=tmp_path / "bert"))
    line = encoded.ids[0].encode() + b"\0" + hashlib.sha256(b"a cat").digest()
    assert encoded.sha256 == hashlib.sha256(line).hexdigest()


def test_features_are_held_once(texts_folder: Path) -> None:
    encoder = mm.encoders.open("all-minilm-l6-v2", weights=texts_folder)
    texts = [f"a cat {'the ' * (at % 7)}{at}" for at in range(2000)]
    size = len(texts) * 384 * 4
    for wanted in (0, len(texts)):
        tracemalloc.start()
        found = mm.encode(texts, encoder)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert found.cached == wanted and found.features.nbytes == size
        assert most < 1.6 * size, most / size


def test_skipped_samples_leave_no_rows(dino: Any, images: list[Any]) -> None:
    encoder = mm.encoders.open("dinov2-vits14", weights=dino)
    wanted = encoder(images)
    broken: list[Any] = [b"no", images[0], images[1], b"no", b"no", *images[2:], b"no"]
    found = mm.encode(broken * 5, encoder, on_error="skip")
    np.testing.assert_allclose(found.features, np.tile(wanted, (5, 1)), rtol=0, atol=1e-5 * np.abs(wanted).max())
    assert found.ids == tuple(str(9 * part + at) for part in range(5) for at in (1, 2, 5, 6, 7))
    with pytest.raises(ValueError, match=r"no sample could be read; the first problem is that of 0: "):
        mm.encode([b"no"], encoder, on_error="skip")
