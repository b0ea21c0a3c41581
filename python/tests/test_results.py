"""Text of results."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from typing import Any

import pytest
from by_hand import (
    CERTAINTY,
    CHOSE,
    HOSTILE,
    NOTE,
    SENTENCE,
    hand_asked,
    hand_curated,
    hand_kept,
    hand_mixture,
    hand_run,
    hand_scores,
    hand_session,
    hand_simulation,
    hand_stopped,
    renamed,
    score_document,
    simulate_document,
)
from places import FASHION, ROOT
from real_results import Real

import modelmix as mm
from modelmix._names import plain, short, shorten
from modelmix._table import Table, bar, count, number, percent, tiny


def test_text_of_a_mixture() -> None:
    assert str(hand_mixture()).split("\n") == [
        SENTENCE,
        "",
        "  arm      weight                 95% interval  MMD² ×100     adds  samples",
        "  flux      62.5%  ████████████▌   55.0%–70.0%       2.50   0.0125    1,500",
        "  sdxl      37.5%  ███████▌        30.0%–45.0%      11.25  2.50e-4    1,500",
        "  pixart    <0.1%                    0.0%–0.0%      120.0        –    1,500",
        "  mixture                                           0.500             4,500",
        "",
        "objective mmd(bandwidth=20); gaussian, bandwidth 20; "
        'loss 0.00500; duality gap 2e-5; "adds": loss increase without the arm',
    ]


def test_a_mixture_without_intervals_has_no_column_for_them() -> None:
    arms = tuple(replace(arm, interval=None) for arm in hand_mixture().arms)
    assert str(hand_mixture(arms=arms)).split("\n")[2:4] == [
        "  arm      weight                 MMD² ×100     adds  samples",
        "  flux      62.5%  ████████████▌       2.50   0.0125    1,500",
    ]


def test_text_of_scores() -> None:
    assert str(hand_scores()).split("\n") == [
        "Scores of 2 models and a mixture",
        "",
        "  arm               rke ↑           kid ↓            fid ↓",
        "  flux     4.00 ± 0.125    2.00 ± 0.250 *          30.00",
        "  sdxl     6.00 ± 0.250    8.00 ± 0.500     10.00 ± 1.50 *",
        "  mixture  8.00 ± 0.500 *  3.50 ± 0.125    10.00 ± 0.750 *",
        "",
        "mixture: sdxl 75.0%, flux 25.0%; effective sample size 640",
        "* best; ±: standard error; for kid the standard deviation between subsets",
    ]


def test_text_of_a_simulation() -> None:
    # fractional rounds are rounded up, and of two arms with equal shares the last is named, as on the
    # command line
    assert str(hand_simulation()).split("\n") == [
        "uniform keeps 95% of the gain from round 200 of 2,000 on.",
        "",
        "  policy        final loss  regret  to 90%  to 95%  to 99%  pulls most",
        "  uniform   0.300 ± 0.0100  0.0300     100     200   1,500  sdxl 50%",
        "  adaptive  0.260 ± 0.0200  0.0260      91   1,205       –  flux 60%",
        "",
        "objective rke(bandwidth=30), 4 seeds; optimum 0.250, best single arm flux 0.500; "
        '"to 95%": median round from which 95% of the gain is kept',
    ]
    document = simulate_document()
    document["policies"]["uniform"]["reached"]["95"] = None
    title = str(mm.Simulation._read(document)).split("\n")[0]
    assert title == "uniform does not keep 95% of the gain within 2,000 rounds."


def test_text_of_a_session_and_a_run() -> None:
    note = (
        "objective rke(bandwidth=30), policy adaptive; loss of the samples held 0.400, "
        "of the best mixture of them 0.375, best single arm flux"
    )
    assert str(hand_session()).split("\n") == [
        "After 40 samples: flux 70%, sdxl 30%.",
        "",
        "  arm     weight                  share  samples   loss  abandoned",
        "  flux     70.0%  ██████████████  75.0%       30  0.500          0",
        "  sdxl     30.0%  ██████          25.0%       10  0.750          0",
        "  pixart    0.0%                   0.0%        0      –          3",
        "",
        note,
    ]
    assert str(hand_run()).split("\n") == [
        "After 40 samples: flux 70%, sdxl 30%.",
        "",
        "  arm     weight                  share  samples   loss  abandoned  calls  failed",
        "  flux     70.0%  ██████████████  75.0%       30  0.500          0     30       0",
        "  sdxl     30.0%  ██████          25.0%       10  0.750          0     10       0",
        "  pixart    0.0%                   0.0%        0      –          3      3       1",
        "",
        f"43 pulls, 12 of them from the checkpoint; {note}",
    ]


def test_text_of_estimates_has_the_error_if_known() -> None:
    known, unknown = mm.Estimate(12.345, 0.678, "jackknife"), mm.Estimate(0.5, math.nan, "terms")
    assert (str(known), str(unknown), float(known)) == ("12.35 ± 0.678", "0.500", 12.345)
    four = mm.Prdc(unknown, unknown, known, unknown)
    assert str(four) == "precision 0.500, recall 0.500, density 12.35 ± 0.678, coverage 0.500"


def test_the_table_equals_that_of_the_command_line() -> None:
    # the README shows the output of the command line for the same data
    arms, reference = mm.load(FASHION / "specialists.npz"), mm.load_array(FASHION / "reference.npy")
    printed = str(mm.solve(arms, mm.Mmd(reference, bandwidth=20)))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = readme.split("```text\n")[1].split("\n```")[0]
    assert shown.startswith("Mix tops_gan 37%, shoes_gan 32%, legs_bags_gan 31%: ")
    assert printed.startswith(shown + "\n\nobjective mmd(bandwidth=20); ")


def test_an_interactive_session_shows_the_table(real: Real) -> None:
    for result in real.all():
        assert repr(result) == str(result)
        assert str(result).split("\n")[2].split()[0] in ("arm", "policy", "at", "λ", "bandwidth")


def test_numbers_have_the_format_of_the_command_line() -> None:
    assert [percent(share) for share in (0.0, 0.0004, 0.0005, 0.375, 1.0)] == [
        "0.0%",
        "<0.1%",
        "0.1%",
        "37.5%",
        "100.0%",
    ]
    assert [bar(share, 2) for share in (0.0, 1 / 16, 0.5, 0.75, 1.0, 1.5)] == [
        "",
        "▏",
        "█",
        "█▌",
        "██",
        "██",
    ]
    assert [count(value) for value in (None, 0, 204.5, 1499.5, 1e6)] == [
        "–",
        "0",
        "205",
        "1,500",
        "1,000,000",
    ]
    assert [number(value) for value in (None, math.nan, 0.0, 0.5)] == ["–", "–", "0.0", "0.500"]
    assert [tiny(value) for value in (0.0, -1e-20, 2e-17, 1e-5, 0.5)] == [
        "0",
        "0",
        "2e-17",
        "1e-5",
        "5e-1",
    ]


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        ({"name": "laplacian", "bandwidth": 1 / 3}, "laplacian, bandwidth 0.333333"),
        (
            {"name": "polynomial", "scale": 0.5, "offset": 1.0, "degree": 3},
            "polynomial, (0.5 x·y + 1)^3",
        ),
        ({"name": "cosine", "power": 1}, "cosine"),
        ({"name": "cosine", "power": 2}, "cosine^2"),
    ],
)
def test_kernels_have_the_text_of_the_command_line(kernel: dict[str, Any], words: str) -> None:
    assert f"; {words}; loss" in str(hand_mixture(kernels=(kernel,)))


def test_names_are_shortened_in_the_middle_and_stay_distinct() -> None:
    assert shorten("abcdefghij", 10) == "abcdefghij"
    assert shorten("abcdefghijk", 10) == "abcdef…ijk"
    assert plain("a\nb\x1bc\u202ed") == "a b c d"
    assert short(["a" * 30 + "1" + "b" * 30, "a" * 30 + "2" + "b" * 30], 12) == [
        "1 aaaaaa…bbb",
        "2 aaaaaa…bbb",
    ]
    # an arm named like the row of the mixture does not number all names
    assert short(["mixture", "flux", "mixture"], 12) == ["mixture", "flux", "mixture"]


def test_hostile_names_do_not_break_the_table() -> None:
    plainly, named = (
        hand_mixture(),
        hand_mixture(arms=renamed(hand_mixture().arms), best_single=HOSTILE),
    )
    assert len(str(named).split("\n")) == len(str(plainly).split("\n"))
    rows = str(named).split("\n")[3:6]
    assert not any(mark in str(named) for mark in "\x1b\u202e")
    assert len({len(row) for row in rows}) == 1
    assert "模型" in str(hand_mixture(arms=(replace(plainly.arms[0], name="模型"), *plainly.arms[1:])))


def test_wide_letters_take_two_columns() -> None:
    table = Table("", ["arm", "n"], [["模型", "1"], ["abcd", "2"]])
    assert table.text().split("\n")[2:] == ["  arm   n", "  模型  1", "  abcd  2"]


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_tables_fit_the_terminal(real: Real, columns: int) -> None:
    for result in real.all():
        table = result._table()
        text = table.text(columns)
        assert max(len(line) for line in text.split("\n")) <= columns
        for row in [table.header, *table.rows]:
            cells = (
                part for at, cell in enumerate(row) for part in (cell.split(", ") if at in table.lists else [cell])
            )
            assert all(" ".join(cell.split()) in " ".join(text.split()) for cell in cells)
    assert max(map(len, str(real.scores).split("\n"))) > 120


def test_only_terminals_limit_the_width_of_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert "  arm      weight                 95% interval  MMD² ×100     adds  samples" in str(hand_mixture())
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert max(map(len, str(hand_mixture()).split("\n"))) <= 40


def test_missing_scores_are_a_dash(real: Real) -> None:
    document = score_document()
    document["arms"][0]["scores"]["fid"] = None
    table = mm.Scores._read(document)
    row = str(table).split("\n")[3]
    assert row.split() == ["flux", "4.00", "±", "0.125", "2.00", "±", "0.250", "*", "–"]
    # missing scores are not marked as best
    assert "10.00 ± 1.50 *" not in str(table)
    table.plot()


def test_text_of_analyses() -> None:
    best = hand_asked()
    text = str(best).split("\n")
    assert text[:9] == [*str(hand_mixture()).split("\n")[:7], "", CERTAINTY]
    assert text[9:11] == ["", str(hand_mixture()).split("\n")[-1]]
    unasked: dict[str, Any] = dict.fromkeys(best._answers())
    assert str(best) == "\n\n".join([str(replace(best, **unasked)), *map(str, best._answers().values())])
    assert str(best.subsets).split("\n") == [
        "Best mixtures of few arms",
        "",
        "  at most  MMD² ×100  gain kept              mixture",
        "  1 arm         2.50       0.0%              flux 100.0%",
        "  2 arms       0.600      95.0%  █████████▌  flux 62.5%, sdxl 37.5%",
        "  3 arms       0.500     100.0%  ██████████  flux 62.5%, sdxl 37.5%, pixart <0.1%",
        "",
        "at most 2 arms: optimality not proved",
    ]
    assert str(best.cheapest).split("\n") == [
        "Cheapest mixture within the tolerance: sdxl 75.0%, flux 25.0%; 32.50 per period instead of 12346 for the best mixture.",
        "",
        "  arm   weight                   samples per period",
        "  sdxl   75.0%  ███████████████                 750",
        "  flux   25.0%  █████                           250",
        "",
        "MMD² ×100 0.600; loss 0.00600, 0.00100 above the best (tolerance 0.00100); "
        "fees 20.00, samples 12.50; no mixture within the tolerance costs less than 32.50",
    ]
    assert str(best.front).split("\n") == [
        "MMD² ×100 against precision",
        "",
        "  λ      MMD² ×100  precision  mixture",
        "  0.0        0.500      0.750  flux 62.5%, sdxl 37.5%, pixart <0.1%",
        "  0.250       1.50      0.875  flux 80.0%, sdxl 20.0%",
        "  ∞           2.50      0.900  flux 100.0%",
        "",
        "objective mmd(bandwidth=20) + λ·(-precision); 3 of 3 points; weights are linear between points",
    ]
    assert str(best.sensitivity).split("\n")[2:5] == [
        "  bandwidth  MMD² ×100    gain  best single arm  mixture",
        "  10.00          0.250  0.0200  flux 2.25        flux 75.0%, sdxl 25.0%",
        "  20.00 *        0.500  0.0200  flux 2.50        flux 62.5%, sdxl 37.5%, pixart <0.1%",
    ]


def test_lists_wrap_in_narrow_terminals() -> None:
    few = hand_asked().subsets
    assert few is not None
    assert few._table().text(56).split("\n")[2:] == [
        "  at most  MMD² ×100  gain kept",
        "  1 arm         2.50       0.0%",
        "  2 arms       0.600      95.0%  █████████▌",
        "  3 arms       0.500     100.0%  ██████████",
        "",
        "  at most  mixture",
        "  1 arm    flux 100.0%",
        "  2 arms   flux 62.5%, sdxl 37.5%",
        "  3 arms   flux 62.5%, sdxl 37.5%, pixart <0.1%",
        "",
        "at most 2 arms: optimality not proved",
    ]
    assert few._table().text(40).split("\n")[-5:-2] == [
        "  2 arms   flux 62.5%, sdxl 37.5%",
        "  3 arms   flux 62.5%, sdxl 37.5%,",
        "           pixart <0.1%",
    ]


def test_text_of_coresets_and_kept_samples() -> None:
    assert str(hand_curated()).split("\n") == [
        CHOSE,
        "",
        "  arm     chosen  share                   in the mixture  samples",
        "  flux         3  75.0%  ███████████████           62.5%    1,500",
        "  sdxl         1  25.0%  █████                     37.5%    1,500",
        "  pixart       0   0.0%                             0.0%    1,500",
        "",
        "RKE 20.00; random sets 4.00 ± 0.125, mixture of all rows 8.00",
        "",
        "objective rke(bandwidth=30); chosen by herding",
        NOTE,
    ]
    said = str(hand_kept())
    assert "  arm     weight                  share  samples   loss  kept  abandoned" in said
    assert (
        "the weights are at most 0.0125 above the least loss; the session may stop; changed: sdxl in round 31" in said
    )
    assert said.endswith(f"20 samples are kept, with a loss of 0.250\n{NOTE}")
    lines = str(hand_stopped()).split("\n")
    assert lines[2].endswith("pulls most  stopped at  stopped  wrong  kept        kept loss  at optimum")
    assert lines[3].endswith("sdxl 50%             –    25.0%   0.0%   970  0.125 ± 0.00500           –")
    assert lines[4].endswith("flux 60%           550    75.0%   0.0%   970  0.125 ± 0.00500         751")
    assert lines[7].startswith(
        '"stopped at": median round at which the weights are certified to be within 5% of the gain'
    )
    assert lines[-1] == NOTE


def test_sums_of_terms_have_one_column_per_term(blobs: dict[str, Any]) -> None:
    costs = dict.fromkeys(blobs, 1.0)
    best = mm.solve(blobs, mm.Rke(bandwidth=1) + 0.1 * mm.Cost(costs))
    (header,) = (line.split() for line in str(best).splitlines() if line.split()[:1] == ["arm"])
    assert header[-5:] == ["RKE", "cost", "loss", "adds", "samples"]
    alone = mm.solve(blobs, mm.Rke(bandwidth=1))
    (header,) = (line.split() for line in str(alone).splitlines() if line.split()[:1] == ["arm"])
    assert header[-3:] == ["RKE", "adds", "samples"]
