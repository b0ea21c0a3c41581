#!/usr/bin/env python3
"""Build three small tokenizers, and write the token ids that transformers computes with them for difficult texts.

Usage: python tools/golden_tokens.py  (needs tokenizers and transformers)

Writes ``crates/modelmix-encode/tests/fixtures/tokens``: one ``tokenizer.json`` per family (WordPiece as in BERT, byte-level BPE as in
RoBERTa, Unigram as in XLM-RoBERTa), and ``golden.json`` with the ids, masks and types of batches. The tokenizers contain settings of
truncation and padding that transformers ignores, as those on the hub do. Every run writes the same files: vocabularies are counted here,
because some trainers break ties at random.
"""

from __future__ import annotations

import collections
import json
import math
from pathlib import Path
from typing import Any

import tokenizers
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "crates" / "modelmix-encode" / "tests" / "fixtures" / "tokens"

SENTENCES = [
    "A mixture of generative models can be more diverse than the most diverse of them.",
    "The kernel distance between two samples is the mean over their pairs.",
    "Le cœur déçu mais l'âme plutôt naïve, Louÿs rêva de crapaüter en canoë.",
    "Falsches Üben von Xylophonmusik quält jeden größeren Zwerg; 3.14159 Meter.",
    "В чащах юга жил бы цитрус? Да, но фальшивый экземпляр!",
    "いろはにほへと ちりぬるを 我が世誰ぞ 常ならむ",
    "天地玄黃 宇宙洪荒 日月盈昃 辰宿列張",
    "نص حكيم له سر قاطع وذو شأن عظيم مكتوب على ثوب أخضر",
    "דג סקרן שט בים מאוכזב ולפתע מצא חברה",
    "ऋषियों को सताने वाले दुष्ट राक्षसों के राजा रावण",
    "query: how many samples are needed? passage: about 1,024 per arm (2^10).",
    "def main():\n    return {'a': [1, 2, 3]}  # tabs\tand\r\nlines",
    "👩‍👩‍👧‍👦 families, 👍🏽 thumbs and 🇫🇷 flags",
]

# A text, or a piece and how often it is repeated.
TEXTS: list[str | list[Any]] = [
    "",
    " ",
    " \t \n ",
    "Hello, world!",
    "  leading and trailing  ",
    "multiple   spaces\tand\nnew lines\r\nof both kinds",
    "no-break\u00a0space, thin\u2009space, zero\u200bwidth, ideographic\u3000space, line\u2028separator, next\u0085line",
    "vertical\u000btab, form\u000cfeed, file\u001cseparator, unit\u001fseparator",
    "naïve café, décomposé: nai\u0308ve cafe\u0301",
    "stacked marks: Z\u0351\u036b\u0343\u036a\u0302\u0352\u0301a\u0310\u0317l\u0334g\u0321o\u0335",
    "👩‍👩‍👧‍👦 👍🏽 🇫🇷 🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f ❤️",
    "\u200dzero width joiner first, and variation selector last\ufe0f",
    "عربي مع أرقام ١٢٣ and English 123",
    "עברית \u202eright to left override\u202c text",
    "日本語とEnglishの混在、全角ＡＢＣ１２３",
    "中文没有空格也可以分词，𠮷野家",
    "한국어 문장, 자모: \u1112\u1161\u11ab",
    "हिन्दी संयुक्ताक्षर क्ष त्र ज्ञ",
    "ไทยไม่มีช่องว่าง",
    "ﬁ ligature, ½ fraction, ² superscript, Ⅷ numeral, ① circled, ㎏ unit",
    "İstanbul'da ılık; ẞ and ß; ς at the end of σίγματος",
    "control \x01\x02\x1b[31m characters \x7f and \x9f",
    "NUL \x00 inside",
    "\x00",
    "\ufffd replacement, \ufeff byte order mark, \ufffe noncharacter \U0010ffff",
    "private use \ue000 \U000f0000, unassigned \u0378 \U000e0fff",
    "new in Unicode 15 and later: \U0001fae8 \U0001f9c2 \U00031350 \U0001c000 \U00016d40 \u2429 \ua7da",
    "quotes “curly” ‘single’ «guillemets» „low‟ and 'don't, can't, I'LL, we've'",
    "numbers 1234567890 1,000,000.00 -1e-10 0x1F ½ ٣",
    "punctuation !@#$%^&*()_+-=[]{}|;':\",./<>?`~ ……———",
    "special tokens: [CLS] [SEP] [PAD] [MASK] <s> </s> <pad> <mask> <unk>",
    "CamelCase snake_case kebab-case SCREAMING",
    "🙂",
    "\u0301",
    "\U0001f468\u200d",
    "mathematical 𝓗𝓮𝓵𝓵𝓸 and 𝟙𝟚𝟛",
    ["a", 101],
    ["supercalifragilistic", 200],
    ["é", 5000],
    ["x ", 3000],
    ["👍🏽", 700],
    ["\u0300", 400],
]

# The maximum length, with special tokens, and the prefix.
BATCHES = [(12, ""), (64, ""), (24, "query: ")]


def pieces(words: list[str], longest: int) -> collections.Counter[str]:
    """Count the parts of words of up to ``longest`` characters."""
    counts: collections.Counter[str] = collections.Counter()
    for word in words:
        for start in range(len(word)):
            counts.update(word[start:end] for end in range(start + 1, min(start + longest, len(word)) + 1))
    return counts


def most_common(counts: collections.Counter[str], number: int) -> list[str]:
    """Return all single characters, and the most common longer pieces, in a fixed order."""
    by_count = sorted(counts, key=lambda piece: (-counts[piece], piece))
    return (
        sorted(piece for piece in counts if len(piece) == 1) + [piece for piece in by_count if len(piece) > 1][:number]
    )


def wordpiece() -> tuple[Tokenizer, dict[str, str]]:
    """Build a tokenizer as BERT's."""
    normalizer, splitter = normalizers.BertNormalizer(lowercase=True), pre_tokenizers.BertPreTokenizer()
    words = [word for text in SENTENCES for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text))]
    first = most_common(collections.Counter(word[:end] for word in words for end in range(1, len(word) + 1)), 400)
    inside = most_common(pieces([word[1:] for word in words], 4), 300)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = [*special, *first, *(f"##{piece}" for piece in inside)]
    model = models.WordPiece(
        vocab={token: i for i, token in enumerate(vocabulary)}, unk_token="[UNK]", max_input_chars_per_word=100
    )
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = splitter
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(special)
    ends = [(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1", special_tokens=ends
    )
    # As all-MiniLM-L6-v2 has them.
    tokenizer.enable_truncation(8)
    tokenizer.enable_padding(length=8, pad_id=0, pad_token="[PAD]")
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return tokenizer, names | {"mask_token": "[MASK]"}


def byte_level() -> tuple[Tokenizer, dict[str, str]]:
    """Build a tokenizer as RoBERTa's."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    # The order of RoBERTa, in which the padding token is not the first.
    special = ["<s>", "<pad>", "</s>", "<unk>", AddedToken("<mask>", lstrip=True, special=True)]
    trainer = trainers.BpeTrainer(
        vocab_size=900,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    ends = [(token, tokenizer.token_to_id(token)) for token in ("</s>", "<s>")]
    tokenizer.post_processor = processors.RobertaProcessing(ends[0], ends[1], trim_offsets=True, add_prefix_space=False)
    names = {"pad_token": "<pad>", "unk_token": "<unk>", "cls_token": "<s>", "sep_token": "</s>"}
    return tokenizer, names | {"mask_token": "<mask>"}


def unigram() -> tuple[Tokenizer, dict[str, str]]:
    """Build a tokenizer as XLM-RoBERTa's."""
    normalizer = normalizers.Sequence(
        [normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(tokenizers.Regex(" {2,}"), " ")]
    )
    splitter = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")]
    )
    words = [word for text in SENTENCES for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text))]
    counts = pieces(words, 6)
    total = counts.total()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    scored = [(piece, round(math.log(counts[piece] / total), 6)) for piece in most_common(counts, 600)]
    tokenizer = Tokenizer(models.Unigram([(token, 0.0) for token in special] + scored, unk_id=3, byte_fallback=False))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = splitter
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.add_special_tokens(special)
    ends = [(token, tokenizer.token_to_id(token)) for token in ("<s>", "</s>")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=ends
    )
    names = {"pad_token": "<pad>", "unk_token": "<unk>", "cls_token": "<s>", "sep_token": "</s>"}
    return tokenizer, names


def text_of(text: str | list[Any]) -> str:
    """Return a text in full."""
    return text if isinstance(text, str) else text[0] * text[1]


def main() -> None:
    """Write the tokenizers and the golden ids."""
    OUTPUT.mkdir(parents=True, exist_ok=True)
    texts = [text_of(text) for text in TEXTS]
    families: dict[str, Any] = {}
    for name, build in [("wordpiece", wordpiece), ("byte-level", byte_level), ("unigram", unigram)]:
        tokenizer, special = build()
        path = OUTPUT / f"{name}.json"
        tokenizer.save(str(path), pretty=False)
        fast = transformers.PreTrainedTokenizerFast(tokenizer_file=str(path), **special)
        # Texts that are repeated are long, so they are in truncated batches alone.
        alone = [fast(text)["input_ids"] for text, given in zip(texts, TEXTS, strict=True) if isinstance(given, str)]
        batches = []
        for max_length, prefix in BATCHES:
            batch = fast([prefix + text for text in texts], padding=True, truncation=True, max_length=max_length)
            rows = list(zip(batch["input_ids"], batch["attention_mask"], strict=True))
            batches.append(
                {
                    "max_length": max_length,
                    "prefix": prefix,
                    "longest": len(batch["input_ids"][0]),
                    # Without padding: masks are ones, then zeros, and types are zeros, as checked below.
                    "ids": [row[: sum(mask)] for row, mask in rows],
                }
            )
            for row, mask in rows:
                assert mask == sorted(mask, reverse=True)
                assert all(i == fast.pad_token_id for i, m in zip(row, mask, strict=True) if not m)
            assert all(not any(row) for row in batch.get("token_type_ids", []))
        families[name] = {"pad": fast.pad_token_id, "pad_token": fast.pad_token, "alone": alone, "batches": batches}
    golden = {
        "tokenizers": tokenizers.__version__,
        "transformers": transformers.__version__,
        "texts": TEXTS,
        "families": families,
    }
    lines = json.dumps(golden, ensure_ascii=True, separators=(",", ":"))
    (OUTPUT / "golden.json").write_text(lines + "\n", encoding="utf-8")
    for path in sorted(OUTPUT.iterdir()):
        print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
