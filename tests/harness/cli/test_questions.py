"""A page's questions on a terminal: what counts as right, and what is answered."""

import json
from pathlib import Path

import msgspec
import pytest

from harness.cli.prediction import is_right
from harness.core.report import QuestionReport
from harness.pages.probe import Probe
from harness.report.language import open_language
from harness.report.one_screen import show_report
from harness.report.terminal import Screen
from tests.harness.cli.terminal import dialogue
from tests.harness.command import harness, light_program
from tests.harness.proven_page import proven
from tests.harness.reports import report_of
from tests.harness.sound_page import write_page


def question(answer: str, choices: tuple[str, ...] = ()) -> QuestionReport:
    return QuestionReport("some", None, "What is it?", answer, "It is so.", list(choices))


@pytest.mark.parametrize(
    ("answer", "typed"),
    [
        ("0.333", "0.333"),
        ("0.333", "0.3333333"),
        ("0.333", "1/3"),
        ("-0.333", "-1/3"),
        ("0.333", " .333 "),
        ("2", "2.0"),
        ("1.23e+04", "12345"),
        ("nan", "NaN"),
        ("inf", "inf"),
        ("(4, 3)", "(4, 3)"),
        ("(4, 3)", "(4,3)"),
        ("(4, 3)", "4, 3"),
        ("(4, 3)", "[4 3]"),
        ("(3,)", "(3)"),
        ("()", "( )"),
        ("[1, 0.333]", "[1, 1/3]"),
        ("[[1, 2], [3, 4]]", "[[1,2],[3,4]]"),
        ("crash", "c"),
        ("silent-corruption", "silent"),
        ("convention", "convention"),
        ("ValueError", "valueerror"),
        ("float32", "float32"),
    ],
)
def test_what_is_typed_may_be_written_in_several_ways(answer: str, typed: str) -> None:
    assert is_right(typed, question(answer))


@pytest.mark.parametrize(
    ("answer", "typed"),
    [
        ("0.333", "0.33"),
        ("0.333", "0.334"),
        ("0.333", "1/0"),
        ("2", "two"),
        ("(4, 3)", "(3, 4)"),
        ("(4, 3)", "(4, 3, 1)"),
        ("crash", "silent"),
        ("crash", "boom"),
        ("ValueError", "TypeError"),
        ("1", "1/3/3"),
        ("1", "9" * 400 + "/1"),
        ("1", "1e999"),
    ],
)
def test_anything_else_is_wrong(answer: str, typed: str) -> None:
    assert not is_right(typed, question(answer))


@pytest.mark.parametrize(
    ("typed", "right"),
    [
        *[("2", True), ("(4, 3)", True), ("4,3", True), ("1", False), ("0", False), ("3", False)],
        ("2" * 10_000, False),
    ],
)
def test_a_choice_is_named_by_its_number_or_its_text(typed: str, right: bool) -> None:
    assert is_right(typed, question("(4, 3)", ("(3,)", "(4, 3)"))) == right


@pytest.mark.parametrize(("typed", "right"), [("1", False), ("2", True), ("2.0", True)])
def test_choices_that_are_numbers_have_no_numbers(typed: str, right: bool) -> None:
    assert is_right(typed, question("2", ("2", "1"))) == right


def test_an_outcome_may_be_typed_in_spanish() -> None:
    assert is_right("corrupción silenciosa", question("silent-corruption"), open_language("es"))


def test_the_questions_come_before_the_report(tmp_path: Path) -> None:
    write_page(tmp_path, proven())
    command = ["break", "log-slope-one", "--breaks", str(tmp_path)]
    text = dialogue(command, ["s\n", "1\n", "d\n"], program=light_program()).text
    places = [
        text.index(words)
        for words in ("What do you predict?", "What is a.grad[0]?", "right: 1", "Why ", "Caught ")
    ]
    assert places == sorted(places)
    assert "    assert abs(a.grad * a.data - 1).max() < 1e-3" in text


def test_a_page_is_shown_with_its_invariant_as_code(tmp_path: Path) -> None:
    write_page(tmp_path, proven())
    shown = harness("show", "log-slope-one", "--breaks", str(tmp_path)).stdout
    assert "def gradient_of_log_is_the_reciprocal(lib, rng):" in shown
    assert "invariant\n" not in shown


@pytest.mark.usefixtures("without_oracles")
def test_json_has_the_questions_and_what_the_page_says(tmp_path: Path) -> None:
    write_page(tmp_path, proven())
    done = harness("break", "log-slope-one", "--breaks", str(tmp_path), "--json")
    report = json.loads(done.stdout)
    (entry,) = report["questions"]
    assert {key: entry[key] for key in ("probe", "loss", "question", "answer", "because")} == {
        "probe": "log-of-powers",
        "loss": "uniform",
        "question": "What is a.grad[0]?",
        "answer": "1",
        "because": "Without the division, the gradient of the sum arrives as it is.",
    }
    assert report["why"].startswith("The rule passes")
    assert report["beware"].startswith("The slope")
    assert report["invariant"].startswith("assert abs(")


def test_the_report_shows_what_its_page_says() -> None:
    report = msgspec.structs.replace(
        report_of(("one", None, "crash")),
        why="It does.",
        beware="It hides.",
        invariant="assert a",
    )
    console = Screen(record=True, width=80, force_terminal=False)
    show_report(
        console, report, [Probe("one", "What it is.", "gradient", (), "one", "", "p.py", 1)]
    )
    rows = [line.split() for line in console.export_text().splitlines()]
    expected = [["Why", "It", "does."], ["Beware", "It", "hides."], ["Write", "assert", "a"]]
    assert [row in rows for row in expected] == [True] * 3
