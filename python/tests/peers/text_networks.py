"""Original text networks with random weights, with small tokenizers of the same classes as the published models have."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import sentencepiece
import tokenizers
import transformers
from networks import export_texts, redraw
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules
from sentencepiece import sentencepiece_model_pb2
from tokenizers import models, pre_tokenizers, trainers

TEXTS = [
    "a photo of a cat",
    "Ein Foto einer Katze im Schnee, bei Nacht.",
    "",
    "   ",
    " \t\u00a0\u3000\n leading and trailing \u2009\u2028 ",
    "naïve café — «quotes» … ellipsis, nai\u0308ve cafe\u0301",
    "東京タワーの夜景、雨。全角ＡＢＣ１２３ 𠮷野家",
    "한국어 문장, \u1112\u1161\u11ab",
    "हिन्दी क्ष त्र ज्ञ, ไทยไม่มีช่องว่าง",
    "عربي مع أرقام ١٢٣ and 123, עברית \u202eright to left\u202c",
    "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 zero-width\u200bspace",
    "Z\u0351\u036b\u0343\u036a\u0302\u0352a\u0310\u0317l\u0334g\u0321o\u0335, \ufeff byte order mark",
    "ﬁ ligature, ½, ² and Ⅷ, ① ㎏, İstanbul ılık ẞß ς σίγματος 𝓗𝓮𝓵𝓵𝓸",
    "[CLS] special [SEP] tokens <s> </s> <pad> [PAD] <mask> [MASK] <unk>",
    "line\nbreak\ttab\r\nend\x0b\x0c\x1c",
    "control \x01\x1b[31m \x7f\x9f and NUL \x00 inside",
    "\ufffd \ufffe \U0010ffff \ue000 \u0378 \U000e0fff \u2429",
    "\u0301",
    "\U0001f468\u200d",
    "supercalifragilistic" * 30,
    "long " * 900,
    "é" * 700,
    "UPPER lower MiXeD 12345 1,000.00 -1e-10 $%&*()don't I'LL",
]

#: Networks that are not BERT.
FAMILIES = {
    "roberta-base": "roberta",
    "all-mpnet-base-v2": "mpnet",
    "multilingual-e5-small": "xlm-roberta",
    "multilingual-e5-base": "xlm-roberta",
    "multilingual-e5-large": "xlm-roberta",
    "bge-m3": "xlm-roberta",
    "gte-base-en-v1.5": "gte",
    "gte-large-en-v1.5": "gte",
}
#: The maximum length in tokens that a model's own settings have, if it is not 512.
LENGTHS = {
    "all-minilm-l6-v2": 256,
    "all-mpnet-base-v2": 384,
    "bge-m3": 8192,
    "gte-base-en-v1.5": 8192,
    "gte-large-en-v1.5": 8192,
}


def family(name: str) -> str:
    return FAMILIES.get(name, "bert")


def prefix(name: str) -> str:
    """The prefix that the card of e5 asks for, for symmetric tasks."""
    return "query: " if "e5-" in name else ""


def pooling(name: str) -> str:
    """The pooling in the settings of the published model."""
    return "cls" if name.startswith("bge-") or name.endswith("-en-v1.5") else "mean"


def wordpieces(special: list[str]) -> dict[str, int]:
    """A small vocabulary of BERT's kind."""
    trained = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    trained.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    trained.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=700, special_tokens=special, show_progress=False)
    trained.train_from_iterator(TEXTS * 3, trainer)
    return dict(sorted(trained.get_vocab().items(), key=lambda item: item[1]))


def byte_level() -> tuple[dict[str, int], list[tuple[str, str]]]:
    """A small vocabulary of RoBERTa's kind, with its merges."""
    trained = tokenizers.Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=700,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    trained.train_from_iterator(TEXTS * 3, trainer)
    model = json.loads(trained.to_str())["model"]
    return model["vocab"], [tuple(merge) for merge in model["merges"]]


def sentence_pieces() -> tuple[list[tuple[str, float]], bytes]:
    """A small vocabulary of XLM-RoBERTa's kind, with the normalisation that sentencepiece compiles into its models."""
    written = io.BytesIO()
    words = [word for text in TEXTS for word in text.replace("\x00", "").split()]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(words * 3),
        model_writer=written,
        vocab_size=500,
        hard_vocab_limit=False,
        character_coverage=1.0,
        normalization_rule_name="nmt_nfkc",
        minloglevel=2,
    )
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(written.getvalue())
    special = [(token, 0.0) for token in ("<s>", "<pad>", "</s>", "<unk>")]
    pieces = [(piece.piece, piece.score) for piece in proto.pieces if piece.type == piece.NORMAL]
    return [*special, *pieces, ("<mask>", 0.0)], proto.normalizer_spec.precompiled_charsmap


def tokenizer(kind: str, length: int) -> Any:
    if kind == "roberta":
        vocabulary, merges = byte_level()
        return transformers.RobertaTokenizer(vocab=vocabulary, merges=merges, model_max_length=length)
    if kind == "xlm-roberta":
        pieces, charsmap = sentence_pieces()
        return transformers.XLMRobertaTokenizer(
            vocab=pieces, _spm_precompiled_charsmap=charsmap, model_max_length=length
        )
    if kind == "mpnet":
        vocabulary = wordpieces(["<s>", "<pad>", "</s>", "<unk>", "[UNK]", "<mask>"])
        return transformers.MPNetTokenizer(vocab=vocabulary, model_max_length=length)
    vocabulary = wordpieces(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    return transformers.BertTokenizer(vocab=vocabulary, model_max_length=length)


def network(kind: str, width: int, length: int, tokens: Any) -> Any:
    """A network of two layers, with the positions that the published ones have."""
    settings: dict[str, Any] = {
        "vocab_size": len(tokens),
        "hidden_size": width,
        "num_hidden_layers": 2,
        "num_attention_heads": width // 64,
        "intermediate_size": 256,
        "pad_token_id": tokens.pad_token_id,
    }
    if kind == "bert":
        made: Any = transformers.BertModel(transformers.BertConfig(**settings, max_position_embeddings=512))
    elif kind == "mpnet":
        made = transformers.MPNetModel(transformers.MPNetConfig(**settings, max_position_embeddings=514))
    elif kind == "gte":
        # Rotary positions, and no types of tokens.
        rope = {"rope_type": "default", "rope_theta": 500_000.0}
        made = transformers.GteModel(
            transformers.GteConfig(**settings, max_position_embeddings=8192, type_vocab_size=0, rope_parameters=rope)
        )
    else:
        # Positions count from the one after the padding token's.
        positions = {"max_position_embeddings": max(length, 512) + 2, "type_vocab_size": 1}
        model, config = {
            "roberta": (transformers.RobertaModel, transformers.RobertaConfig),
            "xlm-roberta": (transformers.XLMRobertaModel, transformers.XLMRobertaConfig),
        }[kind]
        made = model(config(**settings, **positions))
    return redraw(made)


def inputs(kind: str) -> list[str]:
    """The inputs of an export: types of tokens are those of BERT alone."""
    return ["input_ids", "attention_mask", *(["token_type_ids"] if kind == "bert" else [])]


def save(folder: Path, name: str, width: int) -> Any:
    """Write the files that a repository of a sentence encoder has, with ONNX, and return the model of sentence-transformers."""
    kind, length = family(name), LENGTHS.get(name, 512)
    tokens = tokenizer(kind, length)
    made = network(kind, width, length, tokens)
    made.save_pretrained(folder / "plain")
    tokens.save_pretrained(folder / "plain")
    sentences = SentenceTransformer(
        modules=[
            modules.Transformer(str(folder / "plain"), max_seq_length=length),
            modules.Pooling(width, pooling(name)),
            modules.Normalize(),
        ],
        device="cpu",
    )
    sentences.save(str(folder / "repository"))
    export_texts(made, folder / "repository" / "onnx" / "model.onnx", inputs(kind))
    return sentences
