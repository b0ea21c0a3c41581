"""Results: what they print, show, convert to and draw. Documents are written by hand."""

from __future__ import annotations

import copy
import json
import math
import pickle
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest
from matplotlib import colors, pyplot
from matplotlib.collections import PolyCollection
from matplotlib.patches import Rectangle
from matplotlib.text import Annotation, Text

import modelmix as mm
from modelmix import results
from modelmix._names import plain, short, shorten
from modelmix._table import Table, bar, count, number, percent, tiny

ROOT = Path(__file__).parents[2]
FASHION = ROOT / "data" / "fashion"

HOSTILE = '<script>alert("1")</script>&amp;\n\x1b[31m\u202e\'$x$'
LONG = "organisation/" + "a-very-long-name-of-a-model-" * 6 + "1.0"


# Documents by hand


def solve_document() -> dict[str, Any]:
    term = {"term": "kid", "weight": 1.0, "value": 0.01, "score": 0.5}

    def arm(name: str, weight: float, interval: list[float] | None, score: float, adds: float | None) -> dict[str, Any]:
        return {
            "name": name,
            "samples": 1500,
            "weight": weight,
            "interval": interval,
            "loss": score / 100,
            "score": score,
            "adds": adds,
            "terms": [term],
        }

    kernel = {"name": "gaussian", "bandwidth": 20.0}
    return {
        "command": "solve",
        "version": "0.1.0",
        "objective": "kid(bandwidth=20)",
        "kernel": kernel,
        "kernels": [kernel],
        "score": {"name": "KID ×100", "more_is_better": False},
        "arms": [
            arm("flux", 0.625, [0.55, 0.7], 2.5, 0.0125),
            arm("sdxl", 0.3748, [0.3, 0.45], 11.25, 0.00025),
            arm("pixart", 0.0002, [0.0, 0.0], 120.0, None),
        ],
        "mixture": {"loss": 0.005, "score": 0.5, "gap": 2e-5, "terms": [term]},
        "best_single": {"name": "flux", "loss": 0.025, "score": 2.5},
        "gain": 0.02,
        "quadratic": [[0.5, 0.1, 0.2], [0.1, 0.6, 0.3], [0.2, 0.3, 0.7]],
        "linear": [-0.1, -0.2, -0.3],
        "constant": 0.25,
    }


SENTENCE = "Mix flux 62%, sdxl 37%: KID ×100 0.500 instead of 2.50 with the best single model, flux."


def score_document() -> dict[str, Any]:
    return {
        "command": "score",
        "version": "0.1.0",
        "arms": [
            {
                "name": "flux",
                "samples": 1000,
                "scores": {"rke": 4.0, "kid": 2.0, "kid_std": 0.25, "fid": 30.0},
                "errors": {"rke": 0.125, "fid": None},
            },
            {
                "name": "sdxl",
                "samples": 500,
                "scores": {"rke": 6.0, "kid": 8.0, "kid_std": 0.5, "fid": 10.0},
                "errors": {"rke": 0.25, "fid": 1.5},
            },
        ],
        "mixture": {
            "weights": {"flux": 0.25, "sdxl": 0.75},
            "effective_samples": 640.0,
            "scores": {"rke": 8.0, "kid": 3.5, "kid_std": 0.125, "fid": 10.0},
            "errors": {"rke": 0.5, "fid": 0.75},
        },
        "settings": {"metrics": ["rke", "kid", "fid"], "neighbours": 5},
    }


def simulate_document() -> dict[str, Any]:
    def policy(means: list[float], stds: list[float], weights: list[float], reached: list[Any]) -> dict[str, Any]:
        return {
            "rounds": [10, 100, 1000, 2000],
            "loss": {"mean": means, "std": stds},
            "regret": {"mean": [mean / 10 for mean in means], "std": stds},
            "shares": [weights] * 4,
            "weights": weights,
            "reached": dict(zip(["90", "95", "99"], reached, strict=True)),
        }

    return {
        "command": "simulate",
        "version": "0.1.0",
        "objective": "rke(bandwidth=30)",
        "kernel": {"name": "gaussian", "bandwidth": 30.0},
        "score": {"name": "RKE", "more_is_better": True},
        "arms": ["flux", "sdxl"],
        "seeds": 4,
        "seed": 0,
        "optimum": {"weights": [0.625, 0.375], "loss": 0.25},
        "best_single": {"name": "flux", "loss": 0.5},
        "gain": 0.25,
        "order": ["uniform", "adaptive"],
        "policies": {
            "adaptive": policy([90.0, 0.5, 0.3, 0.26], [5.0, 0.1, 0.05, 0.02], [0.6, 0.4], [90.5, 1204.5, None]),
            "uniform": policy([80.0, 0.6, 0.35, 0.3], [4.0, 0.1, 0.04, 0.01], [0.5, 0.5], [100.0, 200.0, 1500.0]),
        },
    }


def session_document() -> dict[str, Any]:
    def arm(name: str, samples: int, weight: float, loss: float | None, lost: int = 0) -> dict[str, Any]:
        return {
            "name": name,
            "samples": samples,
            "pending": 0,
            "abandoned": lost,
            "share": samples / 40,
            "weight": weight,
            "loss": loss,
        }

    return {
        "policy": "adaptive",
        "kernels": [{"name": "gaussian", "bandwidth": 30.0}],
        "rounds": 40,
        "samples": 40,
        "arms": [
            arm("flux", 30, 0.7, 0.5),
            arm("sdxl", 10, 0.3, 0.75),
            arm("pixart", 0, 0.0, None, 3),
        ],
        "loss": 0.4,
        "mixture_loss": 0.375,
        "gap": 0.0,
        "best_single": 0,
        "form": {
            "quadratic": [1.0, 2.0, 0.0, 3.0, 4.0, 0.0, 0.0, 0.0, 0.0],
            "linear": [0.5, 0.25, 0.0],
        },
    }


def hand_mixture(**changes: Any) -> mm.Mixture:
    return replace(mm.Mixture._read(solve_document(), SENTENCE), **changes)


def hand_scores(**changes: Any) -> mm.Scores:
    return replace(mm.Scores._read(score_document()), **changes)


def hand_simulation(**changes: Any) -> mm.Simulation:
    return replace(mm.Simulation._read(simulate_document()), **changes)


def hand_session(**changes: Any) -> mm.SessionReport:
    return replace(mm.SessionReport._read(session_document(), "rke(bandwidth=30)"), **changes)


def hand_run() -> mm.Run:
    failure = mm.Failure(7, "pixart", 1, "TimeoutError: late", "Traceback …", TimeoutError("late"))
    return mm.Run(
        report=hand_session(),
        pulls=43,
        calls={"flux": 30, "sdxl": 10, "pixart": 3},
        failures={"flux": [], "sdxl": [], "pixart": [failure]},
        samples={"flux": [1, 2], "sdxl": [], "pixart": []},
        resumed=12,
        session=mm.Session(["flux", "sdxl", "pixart"], mm.Rke(bandwidth=30)),
    )


HANDS: dict[str, Callable[[], Any]] = {
    "mixture": hand_mixture,
    "scores": hand_scores,
    "simulation": hand_simulation,
    "session": hand_session,
    "run": hand_run,
}


# Real results


class Real:
    """Results of the engine on a part of the data that ships."""

    def __init__(self) -> None:
        arms = mm.load(FASHION / "specialists.npz")
        self.arms = {name: arms[name][:120] for name in ("tops_gan", "shoes_gan", "flow")}
        self.reference = mm.load_array(FASHION / "reference.npy")[:200]
        kid = mm.Kid(self.reference, bandwidth=20)
        self.mixture = mm.solve(self.arms, kid)
        self.fid = mm.solve(self.arms, "fid", reference=self.reference)
        self.single = mm.solve({"flow": self.arms["flow"]}, "rke")
        self.scores = mm.score(self.arms, self.reference)
        self.alone = mm.score({"flow": self.arms["flow"]}, metrics=["rke", "vendi"])
        self.simulation = mm.simulate(self.arms, kid, policies=[mm.Adaptive(), "uniform"], rounds=40, seeds=2)
        session = mm.Session(self.arms, kid)
        self.empty = session.report()
        for turn in range(12):
            self.pull = session.ask()
            session.tell(self.pull, self.arms[self.pull.arm][turn])
        self.session = session.report()
        self.run = mm.run({"left": _left, "right": _right}, embed=list, objective="rke(bandwidth=1)", budget=9)

    def all(self) -> list[Any]:
        found = [self.mixture, self.fid, self.single, self.scores, self.alone, self.simulation]
        return [*found, self.empty, self.session, self.run]


def _left(count: int) -> list[list[float]]:
    return [[0.0, float(at)] for at in range(count)]


_calls = iter(range(1000))


def _right(count: int) -> list[list[float]]:
    if next(_calls) % 3 == 0:
        raise TimeoutError("the service is late")
    return [[9.0, float(at)] for at in range(count)]


@pytest.fixture(scope="module")
def real() -> Real:
    return Real()


# Text


def test_a_mixture_prints_as_this() -> None:
    assert str(hand_mixture()).split("\n") == [
        SENTENCE,
        "",
        "  arm      weight                 95% interval  KID ×100     adds  samples",
        "  flux      62.5%  ████████████▌   55.0%–70.0%      2.50   0.0125    1,500",
        "  sdxl      37.5%  ███████▌        30.0%–45.0%     11.25  2.50e-4    1,500",
        "  pixart    <0.1%                    0.0%–0.0%     120.0        –    1,500",
        "  mixture                                          0.500             4,500",
        "",
        "objective kid(bandwidth=20); gaussian, bandwidth 20; "
        'loss 0.00500 is within 2e-5 of the optimum; "adds" is how much it grows without the arm',
    ]


def test_a_mixture_without_intervals_has_no_column_for_them() -> None:
    arms = tuple(replace(arm, interval=None) for arm in hand_mixture().arms)
    assert str(hand_mixture(arms=arms)).split("\n")[2:4] == [
        "  arm      weight                 KID ×100     adds  samples",
        "  flux      62.5%  ████████████▌      2.50   0.0125    1,500",
    ]


def test_scores_print_as_this() -> None:
    assert str(hand_scores()).split("\n") == [
        "Scores of 2 models and a mixture",
        "",
        "  arm               rke ↑           kid ↓            fid ↓",
        "  flux     4.00 ± 0.125    2.00 ± 0.250 *          30.00",
        "  sdxl     6.00 ± 0.250    8.00 ± 0.500     10.00 ± 1.50 *",
        "  mixture  8.00 ± 0.500 *  3.50 ± 0.125    10.00 ± 0.750 *",
        "",
        "mixture: sdxl 75.0%, flux 25.0%; it says as much as 640 samples",
        "* best; ± is a standard error, and for kid the spread between subsets",
    ]


def test_a_simulation_prints_as_this() -> None:
    # rounds between two are rounded up, and of two arms pulled as often the last is named, as the
    # command line does
    assert str(hand_simulation()).split("\n") == [
        "uniform keeps 95% of the gain from round 200 of 2,000 on.",
        "",
        "  policy        final loss  regret  to 90%  to 95%  to 99%  pulls most",
        "  uniform   0.300 ± 0.0100  0.0300     100     200   1,500  sdxl 50%",
        "  adaptive  0.260 ± 0.0200  0.0260      91   1,205       –  flux 60%",
        "",
        "objective rke(bandwidth=30), 4 seeds; optimum 0.250, best single arm flux 0.500; "
        '"to 95%" is the median round from which on 95% of the gain between them is kept',
    ]
    document = simulate_document()
    document["policies"]["uniform"]["reached"]["95"] = None
    title = str(mm.Simulation._read(document)).split("\n")[0]
    assert title == "uniform does not keep 95% of the gain within 2,000 rounds."


def test_a_session_and_a_run_print_as_this() -> None:
    note = (
        "objective rke(bandwidth=30), policy adaptive; loss of the samples held 0.400, "
        "of the best mixture of them 0.375, best single arm flux"
    )
    assert str(hand_session()).split("\n") == [
        "After 40 samples: flux 70%, sdxl 30%.",
        "",
        "  arm     weight                  share  samples   loss  given up",
        "  flux     70.0%  ██████████████  75.0%       30  0.500         0",
        "  sdxl     30.0%  ██████          25.0%       10  0.750         0",
        "  pixart    0.0%                   0.0%        0      –         3",
        "",
        note,
    ]
    assert str(hand_run()).split("\n") == [
        "After 40 samples: flux 70%, sdxl 30%.",
        "",
        "  arm     weight                  share  samples   loss  given up  calls  failed",
        "  flux     70.0%  ██████████████  75.0%       30  0.500         0     30       0",
        "  sdxl     30.0%  ██████          25.0%       10  0.750         0     10       0",
        "  pixart    0.0%                   0.0%        0      –         3      3       1",
        "",
        f"43 pulls, 12 of them from the checkpoint; {note}",
    ]


def test_estimates_print_their_error_where_it_is_known() -> None:
    known, unknown = mm.Estimate(12.345, 0.678, "jackknife"), mm.Estimate(0.5, math.nan, "terms")
    assert (str(known), str(unknown), float(known)) == ("12.35 ± 0.678", "0.500", 12.345)
    four = mm.Prdc(unknown, unknown, known, unknown)
    assert str(four) == "precision 0.500, recall 0.500, density 12.35 ± 0.678, coverage 0.500"


def test_the_table_is_that_of_the_command_line() -> None:
    # the README shows what the command line prints for the same data
    arms, reference = mm.load(FASHION / "specialists.npz"), mm.load_array(FASHION / "reference.npy")
    printed = str(mm.solve(arms, mm.Kid(reference, bandwidth=20)))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = readme.split("```text\n")[1].split("\n```")[0]
    assert shown.startswith("Mix tops_gan 37%")
    assert printed.startswith(shown + "\n\n")


def test_an_interactive_session_shows_the_table(real: Real) -> None:
    for result in real.all():
        assert repr(result) == str(result)
        assert "  arm " in str(result) or "  policy " in str(result)


def test_numbers_are_written_as_the_command_line_does() -> None:
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
def test_kernels_read_as_on_the_command_line(kernel: dict[str, Any], words: str) -> None:
    assert f"; {words}; loss" in str(hand_mixture(kernels=(kernel,)))


def test_names_are_cut_in_the_middle_and_stay_apart() -> None:
    assert shorten("abcdefghij", 10) == "abcdefghij"
    assert shorten("abcdefghijk", 10) == "abcdef…ijk"
    assert plain("a\nb\x1bc\u202ed") == "a b c d"
    assert short(["a" * 30 + "1" + "b" * 30, "a" * 30 + "2" + "b" * 30], 12) == [
        "1 aaaaaa…bbb",
        "2 aaaaaa…bbb",
    ]
    # an arm that is called as the row of the mixture does not number all
    assert short(["mixture", "flux", "mixture"], 12) == ["mixture", "flux", "mixture"]


def test_hostile_names_keep_the_table_in_shape() -> None:
    plainly, named = (
        hand_mixture(),
        hand_mixture(arms=_renamed(hand_mixture().arms), best_single=HOSTILE),
    )
    assert len(str(named).split("\n")) == len(str(plainly).split("\n"))
    rows = str(named).split("\n")[3:6]
    assert not any(mark in str(named) for mark in "\x1b\u202e")
    assert len({len(row) for row in rows}) == 1
    assert "模型" in str(hand_mixture(arms=(replace(plainly.arms[0], name="模型"), *plainly.arms[1:])))


def test_wide_letters_take_two_columns() -> None:
    table = Table("", ["arm", "n"], [["模型", "1"], ["abcd", "2"]])
    assert table.text().split("\n")[2:] == ["  arm   n", "  模型  1", "  abcd  2"]


def _renamed(arms: tuple[Any, ...]) -> tuple[Any, ...]:
    return (replace(arms[0], name=HOSTILE), replace(arms[1], name=LONG), *arms[2:])


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_tables_fit_the_terminal(real: Real, columns: int) -> None:
    for result in real.all():
        table = result._table()
        text = table.text(columns)
        assert max(len(line) for line in text.split("\n")) <= columns
        for row in [table.header, *table.rows]:
            assert all(cell.strip() in text for cell in row)
    assert max(map(len, str(real.scores).split("\n"))) > 120


def test_only_terminals_cut_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert "  arm      weight                 95% interval  KID ×100     adds  samples" in str(hand_mixture())
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert max(map(len, str(hand_mixture()).split("\n"))) <= 40


def test_scores_that_do_not_exist_are_a_dash(real: Real) -> None:
    document = score_document()
    document["arms"][0]["scores"]["fid"] = None
    table = mm.Scores._read(document)
    row = str(table).split("\n")[3]
    assert row.split() == ["flux", "4.00", "±", "0.125", "2.00", "±", "0.250", "*", "–"]
    # there is no best among what is not known
    assert "10.00 ± 1.50 *" not in str(table)
    table.plot()


# HTML


class Checker(HTMLParser):
    """Fails on tags that are not closed in order, and keeps the text."""

    KNOWN = frozenset(["div", "p", "strong", "small", "table", "thead", "tbody", "tr", "th", "td", "span", "br"])

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.cells: list[str] = []
        self.rows: list[int] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in self.KNOWN
        assert [name for name, _ in attrs] in ([], ["style"])
        if tag == "tr":
            self.rows.append(0)
        if tag in ("td", "th"):
            self.rows[-1] += 1
            self.cells.append("")
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if {"td", "th"} & set(self.open):
            self.cells[-1] += data

    @classmethod
    def of(cls, result: Any) -> Checker:
        checker = cls()
        checker.feed(result._repr_html_())
        checker.close()
        assert checker.open == []
        assert len(set(checker.rows)) == 1
        return checker


def test_html_has_the_cells_of_the_text(real: Real) -> None:
    for result in [*real.all(), *(make() for make in HANDS.values())]:
        table, checker = result._table(), Checker.of(result)
        for at, (cell, shown) in enumerate(
            zip(
                (cell for row in [table.header, *table.rows] for cell in row),
                checker.cells,
                strict=True,
            )
        ):
            place = at % len(table.header)
            blocks = place in table.bars
            assert "".join(shown.split()) == ("" if blocks else "".join(cell.split()))
        assert table.title in checker.text
        assert all(line in checker.text for line in table.note.split("\n"))


def test_html_is_escaped() -> None:
    mixture = hand_mixture(arms=_renamed(hand_mixture().arms), best_single=HOSTILE, sentence=f"Mix {HOSTILE}.")
    document = simulate_document()
    document["arms"][0] = document["best_single"]["name"] = HOSTILE
    document["objective"] = document["order"][0] = "<b>"
    document["policies"]["<b>"] = document["policies"]["uniform"]
    session = hand_session(arms=_renamed(hand_session().arms), best_single=HOSTILE)
    scores = hand_scores(
        arms=_renamed(hand_scores().arms),
        mixture=replace(hand_scores().mixture, weights={HOSTILE: 1.0}),
    )
    run = replace(hand_run(), report=session, calls={HOSTILE: 1, LONG: 2, "pixart": 3})
    run = replace(run, failures={HOSTILE: [], LONG: [], "pixart": []})
    simulation = mm.Simulation._read(document)
    assert Checker.of(simulation).cells[7] == "<b>"
    for result in (mixture, scores, session, run):
        checker = Checker.of(result)
        assert plain(HOSTILE).strip() in checker.cells
        assert LONG in checker.cells


def test_bars_of_html_are_as_long_as_the_weights() -> None:
    html = hand_mixture()._repr_html_()
    widths = [float(part.split("em")[0]) for part in html.split(";width:")[1:]]
    # a whole bar is ten em; bars go in eighths of a twentieth
    expected = [6.25, 3.748, 0.002, 0.0]
    assert widths[-4:] == pytest.approx(expected, abs=10 / 320)


# Documents and frames


def test_documents_are_read_and_written_without_loss(real: Real) -> None:
    assert hand_mixture().to_dict() == solve_document()
    assert hand_scores().to_dict() == score_document()
    assert hand_simulation().to_dict() == simulate_document()
    for best in (real.mixture, real.fid, real.single):
        assert mm.Mixture._read(_through_json(best), best.sentence) == best
    for table in (real.scores, real.alone):
        assert mm.Scores._read(_through_json(table)) == table
    assert mm.Simulation._read(_through_json(real.simulation)) == real.simulation
    assert list(mm.Simulation._read(_through_json(hand_simulation())).policies) == [
        "uniform",
        "adaptive",
    ]


def _through_json(result: Any) -> Any:
    return json.loads(json.dumps(result.to_dict(), allow_nan=False))


def test_documents_are_plain_data(real: Real) -> None:
    for result in [*real.all(), hand_run()]:
        assert _through_json(result) == result.to_dict()
    plainly = hand_session().to_dict()
    assert plainly["arms"][2] == session_document()["arms"][2]
    assert plainly["best_single"] == "flux"
    assert plainly["quadratic"] == [[1.0, 2.0, 0.0], [3.0, 4.0, 0.0], [0.0, 0.0, 0.0]]
    done = hand_run().to_dict()
    assert done["report"] == plainly
    assert done["failures"]["pixart"] == [
        {
            "pull": 7,
            "arm": "pixart",
            "attempt": 1,
            "error": "TimeoutError: late",
            "trace": "Traceback …",
        }
    ]
    assert "samples" not in done


def _schema(name: str) -> Any:
    import jsonschema

    path = ROOT / "crates" / "modelmix-cli" / "schema" / f"{name}.schema.json"
    schema = json.loads(path.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_documents_follow_the_schemas(real: Real) -> None:
    for best in (real.mixture, real.fid, real.single):
        _schema("solve").validate(_through_json(best))
    for table in (real.scores, real.alone):
        _schema("score").validate(_through_json(table))
    _schema("simulate").validate(_through_json(real.simulation))


@pytest.mark.parametrize("name", ["solve", "score", "simulate"])
def test_the_schemas_refuse_what_lacks_a_part(real: Real, name: str) -> None:
    result = {"solve": real.mixture, "score": real.scores, "simulate": real.simulation}[name]
    for part in ("arms", "version", "command"):
        document = _through_json(result)
        del document[part]
        assert not _schema(name).is_valid(document)


def test_frames_of_mixtures() -> None:
    frame = hand_mixture().to_pandas()
    assert list(frame.index) == ["flux", "sdxl", "pixart"]
    assert frame["weight"].tolist() == [0.625, 0.3748, 0.0002]
    assert frame["weight_low"].tolist() == [0.55, 0.3, 0.0]
    assert frame["weight_high"].tolist() == [0.7, 0.45, 0.0]
    assert frame["score"].tolist() == [2.5, 11.25, 120.0]
    assert frame["loss"].tolist() == [0.025, 0.1125, 1.2]
    assert frame["adds"].tolist()[:2] == [0.0125, 0.00025] and math.isnan(frame["adds"].iloc[2])
    assert frame["samples"].tolist() == [1500, 1500, 1500]
    floats = ("weight", "weight_low", "weight_high", "loss", "score", "adds")
    assert _kinds(frame) == {**dict.fromkeys(floats, "f"), "samples": "i"}
    bare = hand_mixture(arms=tuple(replace(arm, interval=None, adds=None) for arm in hand_mixture().arms)).to_pandas()
    assert bare[["weight_low", "weight_high", "adds"]].isna().all(axis=None)
    assert _kinds(bare) == _kinds(frame)


def _kinds(frame: Any) -> dict[str, str]:
    return {name: kind.kind for name, kind in frame.dtypes.items()}


def test_frames_of_scores() -> None:
    frame = hand_scores().to_pandas()
    assert list(frame.index) == ["flux", "sdxl", "mixture"]
    assert frame["fid"].tolist() == [30.0, 10.0, 10.0]
    assert frame["kid_std"].tolist() == [0.25, 0.5, 0.125]
    assert frame["rke_error"].tolist() == [0.125, 0.25, 0.5]
    assert math.isnan(frame.loc["flux", "fid_error"]) and frame.loc["mixture", "fid_error"] == 0.75
    assert set(_kinds(frame).values()) == {"f"}


def test_an_arm_may_be_called_mixture() -> None:
    arms = (replace(hand_scores().arms[0], name="mixture"), hand_scores().arms[1])
    table = hand_scores(arms=arms)
    frame = table.to_pandas()
    assert list(frame.index) == ["mixture", "sdxl", "mixture"]
    assert frame["rke"].tolist() == [4.0, 6.0, 8.0]
    assert str(table).count("\n  mixture ") == 2


def test_frames_of_simulations() -> None:
    frame = hand_simulation().to_pandas()
    assert list(frame.columns) == ["policy", "round", "loss", "loss_std", "regret", "regret_std"]
    assert frame["policy"].tolist() == ["uniform"] * 4 + ["adaptive"] * 4
    assert frame["round"].tolist() == [10, 100, 1000, 2000] * 2
    assert frame["loss"].tolist() == [80.0, 0.6, 0.35, 0.3, 90.0, 0.5, 0.3, 0.26]
    assert frame["loss_std"].tolist() == [4.0, 0.1, 0.04, 0.01, 5.0, 0.1, 0.05, 0.02]
    assert frame["regret"].tolist() == pytest.approx([8.0, 0.06, 0.035, 0.03, 9.0, 0.05, 0.03, 0.026])
    kinds = _kinds(frame)
    assert kinds["round"] == "i" and {kinds[name] for name in list(frame.columns)[2:]} == {"f"}


def test_frames_of_sessions_and_runs(real: Real) -> None:
    frame = hand_session().to_pandas()
    assert list(frame.index) == ["flux", "sdxl", "pixart"]
    assert frame["weight"].tolist() == [0.7, 0.3, 0.0]
    assert frame["share"].tolist() == [0.75, 0.25, 0.0]
    assert frame["samples"].tolist() == [30, 10, 0]
    assert frame["abandoned"].tolist() == [0, 0, 3]
    assert frame["loss"].tolist()[:2] == [0.5, 0.75] and math.isnan(frame["loss"].iloc[2])
    whole = hand_run().to_pandas()
    assert whole[list(frame.columns)].equals(frame)
    assert whole["calls"].tolist() == [30, 10, 3] and whole["failures"].tolist() == [0, 0, 1]
    kinds = {
        "weight": "f",
        "share": "f",
        "samples": "i",
        "pending": "i",
        "abandoned": "i",
        "loss": "f",
    }
    assert _kinds(whole) == {**kinds, "calls": "i", "failures": "i"}
    # nothing is known of any arm, and the column of losses is still one of numbers
    assert _kinds(real.empty.to_pandas()) == kinds


# Copies

ESTIMATE = mm.Estimate(1.5, 0.25, "jackknife")

COPIED: list[Any] = [
    ESTIMATE,
    mm.Prdc(ESTIMATE, ESTIMATE, ESTIMATE, mm.Estimate(0.5, 0.125, "terms")),
    mm.Pull(3, "flux", 0, 4),
    hand_mixture(),
    hand_mixture().arms[0],
    hand_mixture().terms[0],
    hand_scores(),
    hand_scores().arms[0],
    hand_scores().mixture,
    hand_simulation(),
    hand_simulation()["adaptive"],
    hand_simulation()["adaptive"].loss,
    hand_session(),
    hand_session().arms[2],
    results.FeatureError(2500, 0.02, 1000, 0.9, -0.002, 0.001, 0.0003, 0.0002, None, None),
    results.SimulatedFeatures(2500, 0.9, 0.002, 0.0003),
    hand_run(),
    hand_run().failures["pixart"][0],
    mm.Adaptive(),
    mm.Cab(beta=2.0, sensitivity=0.03),
    mm.Ogd(sensitivity=0.03),
    mm.Vanilla(kappa=1.0),
    mm.Sparse(keep=2),
    mm.Greedy(),
    mm.Halving(rounds=100),
    mm.Uniform(),
    mm.Fixed([0.5, 0.5], tracked=True),
    mm.MixtureOracle(),
    mm.OneArmOracle(),
    mm.Rke(bandwidth=30),
    mm.Kid(kernel="kid"),
    mm.Mmd(kernel="laplacian", bandwidth=5),
    mm.Fid(),
    mm.Vendi(order=2),
    mm.Precision(neighbours=3),
    mm.Density(),
    mm.Cost(),
    mm.Score("aesthetic", range=(0.0, 10.0)),
    mm.Objective("kid - 0.2*precision"),
    mm.Rke(bandwidth=30) - 0.2 * mm.Precision(),
]


def _copies(thing: Any) -> Iterator[Any]:
    yield copy.copy(thing)
    yield copy.deepcopy(thing)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        yield pickle.loads(pickle.dumps(thing, protocol))


@pytest.mark.parametrize("thing", COPIED, ids=lambda thing: type(thing).__name__)
def test_copies_are_equal(thing: Any) -> None:
    for copied in _copies(thing):
        assert copied == thing
        assert str(copied) == str(thing)
        assert isinstance(copied, mm.Objective) or type(copied) is type(thing)


def test_all_that_is_public_is_copied() -> None:
    made = {type(thing) for thing in COPIED}
    # no values of their own, or tested with sessions
    others = {mm.Policy, mm.Session, mm.Objective}
    public = {getattr(mm, name) for name in mm.__all__} | {getattr(results, name) for name in results.__all__}
    assert {thing for thing in public if isinstance(thing, type)} <= made | others


def test_real_results_are_copied(real: Real) -> None:
    for result in [*real.all(), real.pull]:
        for copied in _copies(result):
            assert copied == result and str(copied) == str(result)


def test_objectives_take_their_data_along(real: Real) -> None:
    objective = mm.Kid(real.reference, bandwidth=20) + 0.5 * mm.Cost({"tops_gan": 0.0, "shoes_gan": 0.1, "flow": 0.2})
    expected = mm.solve(real.arms, objective).weights
    assert 0.0 < expected["tops_gan"] < 1.0
    for copied in _copies(objective):
        assert mm.solve(real.arms, copied).weights == expected


def test_a_failure_keeps_its_text_and_leaves_its_exception() -> None:
    failure = mm.Failure(1, "flux", 2, "OSError: gone", "Traceback …", OSError("gone", lambda: None))
    copied = pickle.loads(pickle.dumps(failure))
    assert copied == failure
    assert (copied.exception, copied.trace, copied.attempt) == (None, "Traceback …", 2)
    assert failure.exception is not None


# Figures


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No figure is shown, none is left, and matplotlib's settings are as they were."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("show() was called")

    monkeypatch.setattr(pyplot, "show", refuse)
    before = dict(matplotlib.rcParams)
    yield
    pyplot.close("all")
    assert dict(matplotlib.rcParams) == before


def _bars(ax: Any) -> list[list[float]]:
    return [[patch.get_width() for patch in container.patches] for container in ax.containers]


def _texts(ax: Any) -> list[str]:
    return [text.get_text() for text in ax.texts]


def _aside(ax: Any) -> Any:
    [other] = [other for other in ax.figure.axes if other is not ax]
    return other


def _intervals(ax: Any) -> list[tuple[float, float]]:
    return [tuple(line.get_xdata()) for line in ax.lines if line.get_label() == "_interval"]


def _names(ax: Any) -> list[str]:
    return [label.get_text() for label in ax.get_yticklabels()]


def test_a_mixture_is_drawn() -> None:
    ax = hand_mixture().plot()
    assert _bars(ax) == [[0.625, 0.3748, 0.0002]]
    assert _intervals(ax) == [(0.55, 0.7), (0.3, 0.45), (0.0, 0.0)]
    assert _texts(ax) == ["62.5%", "37.5%", "<0.1%"]
    assert _names(ax) == ["flux", "sdxl", "pixart", "mixture"]
    assert ax.get_title("left") == "KID ×100 0.500 instead of 2.50 with flux alone"
    other = _aside(ax)
    arms, mixed = other.lines
    assert list(arms.get_xdata()) == [2.5, 11.25, 120.0] and list(arms.get_ydata()) == [0, 1, 2]
    assert list(mixed.get_xdata()) == [0.5] and list(mixed.get_ydata()) == [3]
    assert _texts(other) == ["2.50", "11.25", "120.0", "0.500"]
    assert [text.get_text() for text in other.texts if text.get_fontweight() == "bold"] == [
        "2.50",
        "0.500",
    ]
    # what is gained is marked from the mixture to the best single arm
    [band] = [patch for patch in other.patches if patch.get_alpha()]
    assert (band.get_x(), band.get_width()) == (0.5, 2.0)
    assert other.get_xlabel() == "KID ×100, less is better"
    assert other.get_ylim() == ax.get_ylim() == (3.5, -0.5)
    ax.figure.canvas.draw()
    assert ax.get_window_extent().x1 < other.get_window_extent().x0


def test_a_mixture_without_intervals_is_drawn(real: Real) -> None:
    ax = real.fid.plot()
    assert _intervals(ax) == []
    assert _bars(ax) == [list(real.fid.weights.values())]
    assert ax.get_xlabel() == "weight"


def test_a_single_arm_is_drawn(real: Real) -> None:
    ax = real.single.plot()
    assert _bars(ax) == [[1.0]] and _names(ax) == ["flow", "mixture"]
    assert ax.get_title("left").startswith("flow alone: no mixture has a better RKE than its ")
    table = real.alone.plot()
    assert table.images[0].get_array().tolist() == [[1.0, 1.0]]


def test_a_simulation_is_drawn() -> None:
    report = hand_simulation()
    ax = report.plot()
    levels = [line.get_ydata()[0] for line in ax.lines if len(set(line.get_ydata())) == 1]
    assert levels == [0.25, 0.5]
    curves = [line for line in ax.lines if len(line.get_xdata()) == 4]
    assert [list(curve.get_ydata()) for curve in curves] == [
        [80.0, 0.6, 0.35, 0.3],
        [90.0, 0.5, 0.3, 0.26],
    ]
    assert all(list(curve.get_xdata()) == [10, 100, 1000, 2000] for curve in curves)
    assert len({curve.get_color() for curve in curves}) == 2
    # the first policy lies on top
    assert curves[0].get_zorder() > curves[1].get_zorder()
    bands = [found for found in ax.collections if isinstance(found, PolyCollection)]
    for done, band, curve in zip(report.policies.values(), bands, curves, strict=True):
        corners = {(float(x), float(y)) for x, y in band.get_paths()[0].vertices}
        for at, mean, std in zip(done.rounds, done.loss.mean, done.loss.std, strict=True):
            assert {(at, mean - std), (at, mean + std)} <= corners
        assert colors.to_rgb(band.get_facecolor()[0]) == colors.to_rgb(curve.get_color())
    assert ax.get_xlabel() == "round"
    assert ax.get_title("left") == "rke(bandwidth=30), mean of 4 seeds ± one standard deviation"


def test_the_first_losses_do_not_squash_the_view() -> None:
    low, high = hand_simulation().plot().get_ylim()
    assert 0.2 < low < 0.25 and 0.5 < high < 0.7
    # where a loss is large to the end it is seen
    document = simulate_document()
    document["policies"]["uniform"]["loss"]["mean"] = [80.0, 20.0, 9.0, 8.0]
    ax = mm.Simulation._read(document).plot()
    assert ax.get_ylim()[1] > 9.0 and ax.get_yscale() == "log"


def test_the_legend_is_in_the_order_of_the_lines_and_covers_none() -> None:
    ax = hand_simulation().plot()
    legend = ax.get_legend()
    names = [text.get_text() for text in legend.get_texts()]
    assert names == ["best single arm, flux", "uniform", "adaptive", "optimal mixture"]
    ax.figure.canvas.draw()
    assert legend.get_window_extent().x0 >= ax.get_window_extent().x1
    assert legend.get_window_extent().x1 <= ax.figure.bbox.x1
    # where nobody makes room beside the axes, there is room above the lines
    figure, axes = pyplot.subplots(1, 2, figsize=(9, 4))
    hand_simulation().plot(axes[0])
    figure.canvas.draw()
    box, room = axes[0].get_legend().get_window_extent(), axes[0].get_window_extent()
    assert room.x0 <= box.x0 and box.x1 <= room.x1 + 1 and box.y1 <= room.y1 + 1
    assert not any(_crosses(line, box) for line in axes[0].lines)
    # the check is able to fail
    assert any(_crosses(line, room) for line in axes[0].lines)


def _crosses(line: Any, box: Any) -> bool:
    corners = line.get_transform().transform(line.get_xydata())
    steps = np.linspace(0.0, 1.0, 500)[:, None]
    path = np.concatenate([a + steps * (b - a) for a, b in pairwise(corners)])
    return any(box.contains(x, y) for x, y in path)


def test_more_policies_than_colours_are_told_apart() -> None:
    done = hand_simulation()["adaptive"]
    ax = hand_simulation(policies={f"ogd(sensitivity={at})": done for at in range(1, 20)}).plot()
    looks = {(line.get_color(), line.get_linestyle(), str(line._dash_pattern)) for line in ax.lines}
    assert len(looks) == 19 + 2


def test_one_seed_has_no_band() -> None:
    done = hand_simulation()["adaptive"]
    flat = replace(done, loss=results.Spread(done.loss.mean, (0.0,) * 4))
    ax = hand_simulation(policies={"adaptive": flat}, seeds=1).plot()
    assert not ax.collections
    assert ax.get_title("left") == "rke(bandwidth=30), one seed"


def test_scores_are_drawn() -> None:
    ax = hand_scores().plot()
    # from the worst of a metric to its best, whichever way is better
    assert np.allclose(ax.images[0].get_array(), [[0, 1, 0], [0.5, 0, 1], [1, 0.75, 1]])
    assert _names(ax) == ["flux", "sdxl", "mixture"]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["RKE ↑", "KID ↓", "FID ↓"]
    places = {tuple(map(round, text.get_position())): text for text in ax.texts if "±" not in text.get_text()}
    shown = {place: text.get_text() for place, text in places.items()}
    assert shown == {
        (0, 0): "4.00", (1, 0): "2.00", (2, 0): "30.00",
        (0, 1): "6.00", (1, 1): "8.00", (2, 1): "10.00",
        (0, 2): "8.00", (1, 2): "3.50", (2, 2): "10.00",
    }  # fmt: skip
    best = {(1, 0), (2, 1), (0, 2), (2, 2)}
    assert {place for place, text in places.items() if text.get_fontweight() == "bold"} == best
    frames = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    centres = {(round(f.get_x() + f.get_width() / 2), round(f.get_y() + f.get_height() / 2)) for f in frames}
    assert centres == best
    assert sum("±" in text for text in _texts(ax)) == 8


def test_a_session_is_drawn() -> None:
    for result in (hand_session(), hand_run()):
        ax = result.plot()
        assert _bars(ax) == [[0.7, 0.3, 0.0], [0.75, 0.25, 0.0]]
        assert _texts(ax) == ["70.0%", "30.0%", "0.0%", "75.0%", "25.0%", "0.0%"]
        labels = [text.get_text() for text in ax.get_legend().get_texts()]
        assert labels == ["weight in the best mixture", "share of the samples"]
        assert _names(ax) == ["flux", "sdxl", "pixart"]
        assert ax.get_title("left") == "After 40 samples"


def test_a_session_without_samples_is_drawn(real: Real) -> None:
    ax = real.empty.plot()
    assert _bars(ax) == [[0.0] * 3] * 2 and ax.get_title("left") == "No samples yet"


@pytest.mark.parametrize("make", HANDS.values(), ids=HANDS)
@pytest.mark.parametrize("layout", [None, "constrained", "tight"])
def test_figures_are_drawn_into_given_axes(make: Callable[[], Any], layout: Any) -> None:
    own = make().plot()
    assert len(pyplot.get_fignums()) == 1 and own.figure.number == pyplot.get_fignums()[0]
    pyplot.close("all")
    figure, axes = pyplot.subplots(1, 2, layout=layout)
    before = axes[1].get_position().bounds
    assert make().plot(ax=axes[0]) is axes[0]
    assert len(pyplot.get_fignums()) == 1
    assert not axes[1].has_data() and axes[1].get_position().bounds == before
    figure.canvas.draw()
    # what was added is in the room that the axes had
    assert all(ax.get_position().x1 <= axes[1].get_position().x0 for ax in figure.axes if ax is not axes[1])


@pytest.mark.parametrize("make", HANDS.values(), ids=HANDS)
def test_figures_are_drawn_into_axes_without_a_grid(make: Callable[[], Any]) -> None:
    figure = pyplot.figure()
    ax = figure.add_axes((0.2, 0.2, 0.6, 0.6))
    make().plot(ax)
    figure.canvas.draw()
    for other in figure.axes:
        box = other.get_position()
        assert box.x0 >= 0.2 - 1e-9 and box.x1 <= 0.8 + 1e-9
    part = pyplot.figure(layout="constrained").subfigures(1, 2)[0]
    assert make().plot(part.add_subplot()).figure is part


@pytest.mark.parametrize("make", HANDS.values(), ids=HANDS)
@pytest.mark.parametrize("style", ["default", "dark_background"])
def test_text_is_read_on_light_and_on_dark_paper(make: Callable[[], Any], style: str) -> None:
    with pyplot.style.context(style):
        ax = make().plot()
    # what is drawn outside of the style's context into its axes is readable as well
    with pyplot.style.context(style):
        _, later = pyplot.subplots()
    make().plot(later)
    for figure in (ax.figure, later.figure):
        figure.canvas.draw()
        paper = sum(colors.to_rgb(figure.get_facecolor())) / 3
        for text in figure.findobj(Text):
            if text.get_text() and text.get_visible():
                assert abs(sum(colors.to_rgb(text.get_color())) / 3 - paper) > 0.5, text


@pytest.mark.parametrize("arms", [1, 3, 20])
def test_long_and_hostile_names_fit(arms: int) -> None:
    first = hand_mixture().arms[0]
    names = [HOSTILE, *(f"{LONG}-{at}" for at in range(arms - 1))]
    made = tuple(replace(first, name=name, weight=1 / arms, interval=None) for name in names)
    ax = hand_mixture(arms=made, best_single=names[-1]).plot()
    ax.figure.canvas.draw()
    shown = [label.get_text() for label in ax.get_yticklabels()]
    assert len(set(shown)) == arms + 1
    assert max(len(text) for text in shown) <= 34 + HOSTILE.count("$")
    # dollars are dollars, not formulas
    assert all("$" not in text.replace(r"\$", "") for text in shown)
    labels = sorted((label.get_window_extent() for label in ax.get_yticklabels()), key=lambda box: box.y0)
    assert all(below.y1 <= above.y0 + 1 for below, above in pairwise(labels))
    assert min(box.x0 for box in labels) >= 0
    for other in ax.figure.axes:
        for note in other.findobj(Annotation):
            assert note.get_window_extent().x1 <= ax.figure.bbox.x1


# What is not installed


@pytest.mark.parametrize("make", HANDS.values(), ids=HANDS)
def test_without_matplotlib(make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError) as failed:
        make().plot()
    assert str(failed.value) == "plot() needs matplotlib; install it with pip install matplotlib"


@pytest.mark.parametrize("make", HANDS.values(), ids=HANDS)
def test_without_pandas(make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError) as failed:
        make().to_pandas()
    assert str(failed.value) == "to_pandas() needs pandas; install it with pip install pandas, or use to_dict()"
    make().to_dict()


def test_without_tqdm(real: Real, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(ImportError) as failed:
        mm.solve(real.arms, "rke", progress=True)
    assert str(failed.value) == "progress=True needs tqdm; install it with pip install tqdm"
    mm.solve(real.arms, "rke")
