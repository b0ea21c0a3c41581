#!/usr/bin/env python3
"""List wording that the style of this project does not allow, in tracked text files.

    python tools/old_words.py                    # Markdown files
    python tools/old_words.py --suffix .rs .py   # other suffixes
    python tools/old_words.py README.md docs     # some files and folders

Prints one line per finding, with the replacement, and exits with code 1 if there is any. Code blocks of Markdown files are skipped unless
``--code`` is given: they may show the output of a program.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Counted nouns, for "one row a sample" and its kin.
COUNTED = (
    r"(?:rows?|samples?|arrays?|arms?|files?|pulls?|runs?|values?|numbers?|scores?|prices?|texts?|lines?|scripts?|tests?|steps?|seconds?|"
    r"ms|tables?|terms?|figures?|bytes?|words?|weights?|programs?|matrix|matrices|copy|copies|points?|column|columns)"
)
UNITS = (
    r"(?:samples?|arms?|arrays?|rows?|rounds?|pulls?|runs?|policy|policies|period|figure|line|model|experiment|concept|use|result|size|crate|"
    r"problem|family|seed|term|file)"
)

# Pattern, and what to write instead, in any case. A space also matches the end of a line, with the mark of a comment on the next one.
PATTERNS = [
    # "a sample" for rates.
    (
        rf"\b(?:\d[\d,.]*|one|two|three|four|five|ten|fifty|many|few|enough|an?|some|how many) {COUNTED} an? {UNITS}\b",
        '"per": one row per sample',
    ),
    (
        rf"\b(?:rows|samples|pulls|runs|seconds|time|memory|rounds|programs|price) an? {UNITS}\b",
        '"per": samples per arm',
    ),
    (r"\b(?:costs?|bought|paid) an? (?:period|sample|month|round)\b", '"per": costs per period'),
    # "where" for conditions.
    (r"\b(?:nothing|none) where\b", '"None if …"'),
    (r"\bnothing if\b", '"None if …" or "zero if …"'),
    (
        r"\bwhere (?:it|that|they|none|nothing) (?:is|are) (?:left out|not given|not known|known|given|missing|said)\b",
        '"if …" or "default: …"',
    ),
    (r"\bwhere there (?:is|are) (?:one|none|no|any|a|two|such)\b", '"if there is …"'),
    # Quantities without a number.
    (r"\bso many\b", "the number"),
    (r"\bso much of\b", "the share"),
    (r"\bit says as much as\b", '"effective sample size"'),
    (r"\bpercent points?\b", '"percentage points"'),
    # Persons and houses.
    (r"\blets? go\b|\bletting go\b", '"evict" or "release"'),
    (r"\bwhoever\b|\bwhomever\b", '"you" or "a caller"'),
    (r"\bnobody\b", "the subject that is meant"),
    (r"\b(?:as|that) people (?:read|write|know|use|have|trust)\b", '"as reported", "common"'),
    (
        r"\brooms\b|\b(?:a|the|no|some|with|mak(?:e|es|ing)|made|leaves?|needs?) room\b",
        '"module", "tolerance", "capacity"',
    ),
    (r"\bdoors?\b", '"API" or "entry point"'),
    (r"\bstrangers?\b", '"unknown"'),
    (r"\b(?:his|her) liking\b|\bpleases\b", "the condition"),
    # Statistics.
    (r"\bsurely\b|\bhow sure\b|\bbeing sure\b|\b(?:is|be) sure of\b", '"at 95% confidence"'),
    (r"\bflatter(?:s|y|ed|ing)?\b", '"optimistically biased"'),
    (r"\blooks? again and again\b", '"optional stopping"'),
    (r"\b(?:alarms?|detectors?) (?:rings?|rang)\b|\brings? for nothing\b", '"raises an alarm", "false alarm"'),
    (r"\b(?:runs?|sessions?) without end\b", '"long session", "unbounded"'),
    (r"\b(?:too|little|much) dear\b|\bdear(?:er|est)\b", '"expensive"'),
    (r"\ball that is drawn\b", '"random seed"'),
    (r"\bone after another\b", '"consecutive"'),
    (r"\bat hand\b", '"given" or "recorded"'),
    # The command line.
    (r"\bwhat is typed\b", '"command-line flags"'),
    (r"\bwhatever (?:they|it|that) (?:is|are)\b", '"any"'),
    (r"\blearn(?:s|ed)? anew\b|\bdrawn anew\b|\bstarts? anew\b", '"again"'),
    (r"\bhas no eyes\b", "the technical term"),
]
SPACE = r"(?:[ ]|\n[ \t]*(?://[/!]?|\#|>)?[ \t]*)"
COMPILED = [(re.compile(pattern.replace(" ", SPACE), re.IGNORECASE), instead) for pattern, instead in PATTERNS]

# Occurrences that are right: the end of the path, and a part of the line. An empty part allows the whole file.
ALLOWED = [
    ("tools/old_words.py", ""),
]

# Recorded output, kept as it was written.
SKIPPED = (
    "benches/runs/",
    "experiments/policies/chosen.md",
    "experiments/policies/held-out.md",
    # What language models wrote.
    "examples/live/stories/report.html",
)


def tracked(paths: list[str], suffixes: list[str]) -> list[str]:
    """Return the tracked files below these paths (all, if there are none) that have one of the suffixes."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--", *(str(Path(path).resolve()) for path in paths)]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
    return [
        name
        for name in listed
        if name.endswith(tuple(suffixes)) and not name.startswith(SKIPPED) and (ROOT / name).is_file()
    ]


def without_code(text: str) -> str:
    """Return a Markdown text with the lines of its fenced blocks empty."""
    fenced, lines = False, []
    for line in text.split("\n"):
        mark = line.lstrip().startswith("```")
        fenced ^= mark
        lines.append("" if mark or fenced else line)
    return "\n".join(lines)


def findings(name: str, text: str) -> Iterator[tuple[int, str, str]]:
    """Return line, wording and replacement of each occurrence."""
    lines = text.split("\n")
    for pattern, instead in COMPILED:
        for match in pattern.finditer(text):
            number = text.count("\n", 0, match.start()) + 1
            if not any(name.endswith(path) and part in lines[number - 1] for path, part in ALLOWED):
                yield number, " ".join(match.group().split()), instead


def main() -> int:
    """Print the findings and return the exit code."""
    parser = argparse.ArgumentParser(description="List wording that the style of this project does not allow.")
    parser.add_argument("paths", nargs="*", help="files or folders [default: all tracked files]")
    parser.add_argument("--suffix", nargs="+", default=[".md"], help="suffixes of files [default: .md]")
    parser.add_argument("--code", action="store_true", help="include code blocks of Markdown files")
    arguments = parser.parse_args()
    found = 0
    for name in tracked(arguments.paths, arguments.suffix):
        text = (ROOT / name).read_text(encoding="utf-8")
        if name.endswith(".md") and not arguments.code:
            text = without_code(text)
        for number, wording, instead in sorted(findings(name, text)):
            print(f'{name}:{number}: "{wording}"; write {instead}')
            found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
