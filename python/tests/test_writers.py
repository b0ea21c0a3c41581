"""Tables as LaTeX, Markdown and CSV."""

from __future__ import annotations

import csv
import io
import math
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from shutil import which
from typing import Any

import pandas as pd
import pytest
from by_hand import hand_asked, hand_curated, hand_mixture, hand_run, hand_scores, hand_session, hand_simulation
from real_results import Real

import modelmix as mm

AWKWARD = r"50%_off & {x^2} $~#\a|b*c <d>"


def named(name: str) -> mm.Mixture:
    """A mixture with another name for its first arm."""
    best = hand_mixture()
    return replace(best, arms=(replace(best.arms[0], name=name), *best.arms[1:]), best_single=name)


def test_latex_of_a_mixture() -> None:
    assert hand_mixture().to_latex().split("\n") == [
        r"\begin{tabular}{lrrrrr}",
        r"\toprule",
        r"arm & weight & 95\% interval & MMD$^2$ $\times$100 & adds & samples \\",
        r"\midrule",
        r"flux & 62.5\% & 55.0\%--70.0\% & 2.50 & 0.0125 & 1,500 \\",
        r"sdxl & 37.5\% & 30.0\%--45.0\% & 11.25 & 2.50e-4 & 1,500 \\",
        r"pixart & $<$0.1\% & 0.0\%--0.0\% & 120.0 & -- & 1,500 \\",
        r"\textbf{mixture} &  &  & \textbf{0.500} &  & \textbf{4,500} \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_latex_in_a_table_environment() -> None:
    text = hand_scores().to_latex(caption="Scores of 100% & more", label="tab:scores").split("\n")
    assert text[:4] == [
        r"\begin{table}",
        r"\centering",
        r"\caption{Scores of 100\% \& more}",
        r"\label{tab:scores}",
    ]
    assert text[-1] == r"\end{table}"
    # the best value of each metric is bold, without the mark
    assert r"sdxl & 6.00 $\pm$ 0.250 & 8.00 $\pm$ 0.500 & \textbf{10.00 $\pm$ 1.50} \\" in text
    assert r"arm & rke $\uparrow$ & kid $\downarrow$ & fid $\downarrow$ \\" in text


def test_latex_escapes_names() -> None:
    row = named(AWKWARD).to_latex().split("\n")[4]
    assert row.startswith(
        r"50\%\_off \& \{x\textasciicircum{}2\} \$\textasciitilde{}\#\textbackslash{}a$|$b{*}c $<$d$>$ & 62.5\%"
    )


def test_latex_does_not_parse_names_as_arguments() -> None:
    # the end of a row and \midrule have optional arguments in brackets, and a star changes the command
    assert named("[b] c").to_latex().split("\n")[4].startswith("{[}b] c & ")
    assert named("*").to_latex().split("\n")[4].startswith("{*} & ")


@pytest.mark.skipif(which("pdflatex") is None, reason="there is no LaTeX")
def test_latex_compiles(tmp_path: Path, real: Real) -> None:
    tables = "\n\n".join(result.to_latex() for result in [*real.all(), named(AWKWARD)])
    text = rf"\documentclass{{article}}\usepackage{{booktabs}}\begin{{document}}{tables}\end{{document}}"
    (tmp_path / "tables.tex").write_text(text, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "tables.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_every_latex_row_has_all_columns(real: Real) -> None:
    for result in real.all():
        lines = result.to_latex().split("\n")
        columns = len(re.fullmatch(r"\\begin\{tabular\}\{([lr]+)\}", lines[0])[1])  # type: ignore[index]
        rows = [line for line in lines if line.endswith(r" \\")]
        assert len(rows) == 1 + len(result._table().rows)
        assert all(len(re.findall(r"(?<!\\)&", row)) == columns - 1 for row in rows)
        # only characters that pdflatex can typeset
        assert all(letter.isascii() for letter in "".join(rows)), rows


def test_markdown() -> None:
    assert hand_scores().to_markdown().split("\n") == [
        "| arm | rke ↑ | kid ↓ | fid ↓ |",
        "| :-- | --: | --: | --: |",
        "| flux | 4.00 ± 0.125 | **2.00 ± 0.250** | 30.00 |",
        "| sdxl | 6.00 ± 0.250 | 8.00 ± 0.500 | **10.00 ± 1.50** |",
        "| **mixture** | **8.00 ± 0.500** | 3.50 ± 0.125 | **10.00 ± 0.750** |",
    ]
    row = named(AWKWARD).to_markdown().split("\n")[2]
    assert row.startswith(r"| 50%\_off & \{x^2\} $\~\#\\a\|b\*c \<d\> | 62.5% |")


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_csv_has_all_digits() -> None:
    first, *_, last = rows_of(hand_mixture().to_csv())
    assert first == {
        "arm": "flux",
        "weight": "0.625",
        "95% interval low": "0.55",
        "95% interval high": "0.7",
        "MMD² ×100": "2.5",
        "adds": "0.0125",
        "samples": "1500",
    }
    assert (
        last["arm"] == "mixture" and last["weight"] == "" and last["MMD² ×100"] == "0.5" and last["samples"] == "4500"
    )
    # 0.0002 prints as <0.1%, and an unknown value as a dash
    assert (
        rows_of(hand_mixture().to_csv())[2]["weight"] == "0.0002" and rows_of(hand_mixture().to_csv())[2]["adds"] == ""
    )


def test_csv_of_scores_and_simulations() -> None:
    table = rows_of(hand_scores().to_csv())
    assert list(table[0]) == ["arm", "rke", "rke error", "kid", "kid std", "fid", "fid error"]
    assert table[0]["kid"] == "2.0" and table[0]["kid std"] == "0.25" and table[0]["fid error"] == ""
    runs = rows_of(hand_simulation().to_csv())
    assert runs[1]["policy"] == "adaptive" and runs[1]["to 99%"] == "" and runs[1]["to 90%"] == "90.5"
    assert runs[1]["final loss std"] == "0.02"
    assert (runs[1]["pulls most"], runs[1]["pulls most share"]) == ("flux", "0.6")


def test_csv_of_analyses() -> None:
    asked = hand_asked()
    assert asked.subsets is not None and asked.front is not None and asked.sensitivity is not None
    sizes = rows_of(asked.subsets.to_csv())
    assert [row["at most"] for row in sizes] == ["1", "2", "3"] and sizes[1]["mixture sdxl"] == "0.375"
    assert sizes[0]["mixture sdxl"] == ""
    front = rows_of(asked.front.to_csv())
    assert [float(row["λ"]) for row in front] == [0.0, 0.25, math.inf]
    tried = rows_of(asked.sensitivity.to_csv())
    assert tried[1]["bandwidth"] == "20.0" and tried[1]["best single arm"] == "flux"
    assert tried[1]["best single arm score"] == "2.5"


def test_pandas_reads_every_csv(real: Real) -> None:
    for result in real.all():
        frame = pd.read_csv(io.StringIO(result.to_csv()))
        assert len(frame) == len(result._table().rows)
    best = real.mixture
    frame = pd.read_csv(io.StringIO(best.to_csv()), index_col="arm")
    assert dict(frame["weight"].dropna()) == best.weights


def test_every_result_has_the_writers() -> None:
    for result in (hand_mixture(), hand_session(), hand_run(), hand_curated(), hand_simulation(), hand_scores()):
        assert r"\toprule" in result.to_latex() and result.to_markdown().startswith("| ") and "," in result.to_csv()
        for text in (result.to_latex(), result.to_markdown(), result.to_csv()):
            assert "█" not in text


@pytest.mark.parametrize("way", ["to_latex", "to_markdown", "to_csv"])
def test_writers_write_to_a_path(way: str, tmp_path: Path) -> None:
    write: Any = getattr(named("模型"), way)
    text = write(tmp_path / "table.txt")
    assert text == write() and "模型" in text
    assert (tmp_path / "table.txt").read_bytes().decode("utf-8").rstrip("\n") == text.rstrip("\n")
    with pytest.raises(OSError):
        write(tmp_path / "nowhere" / "table.txt")
