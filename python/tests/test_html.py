"""HTML of results in notebooks."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest
from by_hand import (
    HANDS,
    HOSTILE,
    LONG,
    hand_asked,
    hand_mixture,
    hand_run,
    hand_scores,
    hand_session,
    renamed,
    simulate_document,
)
from real_results import Real

import modelmix as mm
from modelmix._names import plain


class Checker(HTMLParser):
    """Fails on tags that are not closed in order, and collects the text."""

    KNOWN = frozenset(
        ["div", "p", "strong", "small", "table", "thead", "tbody", "tr", "th", "td", "span", "br", "details", "summary"]
    )

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
    mixture = hand_mixture(arms=renamed(hand_mixture().arms), best_single=HOSTILE, sentence=f"Mix {HOSTILE}.")
    document = simulate_document()
    document["arms"][0] = document["best_single"]["name"] = HOSTILE
    document["objective"] = document["order"][0] = "<b>"
    document["policies"]["<b>"] = document["policies"]["uniform"]
    session = hand_session(arms=renamed(hand_session().arms), best_single=HOSTILE)
    scores = hand_scores(
        arms=renamed(hand_scores().arms),
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
    # a full bar is ten em wide; bars have steps of an eighth of a twentieth
    expected = [6.25, 3.748, 0.002, 0.0]
    assert widths[-4:] == pytest.approx(expected, abs=10 / 320)


def test_analyses_are_shown_below_their_mixture() -> None:
    html = hand_asked()._repr_html_()
    assert html.count("<table ") == 5
    places = [
        html.index(words)
        for words in ("Mix flux", "Best mixtures", "Cheapest mixture", "against precision", "somewhat")
    ]
    assert places == sorted(places)
