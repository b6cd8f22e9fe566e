"""Predictions: what a learner may type, what is asked, and how it is answered."""

import re
from collections.abc import Sequence

import msgspec
import numpy as np
import pytest

from harness.cli.prediction import (
    CHOICES,
    ask_moves,
    check_answer,
    predict,
    read_prediction,
)
from harness.core.message import message
from harness.core.report import PredictionReport, QuestionReport, Report, SiteReport
from harness.core.vocabulary import LOSSES
from harness.pages.front_matter import Question
from harness.report.language import ENGLISH
from harness.report.terminal import Screen
from harness.runs.trial import draw
from tests.harness.bundled import CATALOGUE
from tests.harness.reports import report_of, report_with, run_of

PAGE = CATALOGUE.page("mul-ignore-upstream")
PROBES = {probe.name: probe for probe in CATALOGUE.probes_for(PAGE)}


class _Answers(Screen):
    """A console whose user types these answers, and then ends the input."""

    answers: list[str]

    def input(self, *_: object, **__: object) -> str:
        if not self.answers:
            raise EOFError
        return self.answers.pop(0)


def answers(*typed: str) -> _Answers:
    console = _Answers(record=True, width=80, force_terminal=False)
    console.answers = list(typed)
    return console


def predicted(
    report: Report, probes: Sequence[str], *typed: str
) -> tuple[list[PredictionReport], list[str]]:
    """The predictions, and the lines on the screen after the legend."""
    console = answers(*typed)
    chosen = [PROBES[name] for name in probes]
    predictions = list(predict(console, PAGE, chosen, report.questions, lambda: report))
    shown = console.export_text().split("Ctrl-D skips the rest.\n")[1]
    return predictions, [line.rstrip() for line in shown.splitlines()]


def question(answer: str, probe: str = "square", *choices: str) -> QuestionReport:
    return QuestionReport(probe, None, "What is it?", answer, "It is so.", list(choices))


@pytest.mark.parametrize("outcome", CHOICES)
def test_an_outcome_may_be_written_in_full_or_by_its_first_letters(outcome: str) -> None:
    assert read_prediction(outcome) == outcome
    assert read_prediction(f" {outcome[0].upper()} ") == outcome


def test_enter_is_not_a_prediction() -> None:
    assert read_prediction("  ") is None


@pytest.mark.parametrize("answer", ["boom", "0", "convention", "cs"])
def test_anything_else_is_answered_with_the_letters(answer: str) -> None:
    with pytest.raises(ValueError, match=r"^Type one of s, c, h, n; \? shows the code$"):
        read_prediction(answer)


def test_every_choice_is_explained_before_the_first_question() -> None:
    console = answers()
    list(predict(console, PAGE, [PROBES["mul"]], [], report_of))
    legend = console.export_text().split("1/2")[0]
    words = [line.split()[1] for line in legend.splitlines()[1:5]]
    assert words == [f"{ENGLISH(choice)}:" for choice in CHOICES]
    assert "s  silent-corruption: a wrong number or shape, and no error" in legend


def test_each_prediction_is_answered_at_once_with_the_reason() -> None:
    wrong = run_of("mul-inside", "weighted", "silent-corruption")
    agreeing = message("hidden here: on this input all numbers are right")
    hidden = [
        run_of("square", loss, "disguised-correct", stage="not-infected", inside=agreeing)
        for loss in LOSSES
    ]
    predictions, lines = predicted(
        report_with([wrong, *hidden]), ["mul-inside", "square"], "c", "c", "d"
    )
    assert [line.strip() for line in lines if "wrong: " in line or "right: " in line] == [
        "wrong: ≠ silent-corruption  what mul-inside showed",
        "wrong: = hidden  hidden here: on this input all numbers are right",
        "right: = hidden  hidden here: on this input all numbers are right",
    ]
    assert [(p.probe, p.loss, p.predicted, p.actual, p.right) for p in predictions] == [
        ("mul-inside", None, "crash", "silent-corruption", False),
        ("square", "uniform", "crash", "disguised-correct", False),
        ("square", "weighted", "disguised-correct", "disguised-correct", True),
    ]


def test_the_reason_is_what_was_recorded_on_this_input_unless_the_page_says_why() -> None:
    hidden = message("hidden here: on this input all numbers are right")
    recorded = message("here both are {value}", value="[1, 2]")
    runs = [
        run_of(
            probe, loss, "disguised-correct", stage="not-infected", inside=hidden, because=recorded
        )
        for probe in ("mul-inside", "square")
        for loss in LOSSES
    ]
    asked = [question("disguised-correct", "square", *CHOICES)]
    report = msgspec.structs.replace(report_with(runs), questions=asked)
    _, lines = predicted(report, ["mul-inside", "square"], "c", "c", "c")
    shown = [line.strip() for line in lines if line.strip().startswith("wrong: ")]
    assert shown[:2] == [
        "wrong: = hidden  here both are [1, 2]",
        "wrong: = hidden  It is so.",
    ]


def test_a_probe_that_does_not_reach_the_change_is_named_with_what_it_computes() -> None:
    report = report_with([run_of("square", loss, "not-reached") for loss in LOSSES])
    sites = [SiteReport("minigrad/elementwise.py", 42, "mul.vjp")]
    report = msgspec.structs.replace(report, sites=sites)
    _, lines = predicted(report, ["square"], "c")
    shown = " ".join(line.strip() for line in lines)
    assert "not-reached  a * a never runs the changed code, in `mul.vjp`" in shown


@pytest.mark.parametrize(
    ("expression", "choices", "typed", "accepted"),
    [
        ("outcome", (), "s", True),
        ("outcome", (), "dunno", False),
        ("outcome", ("crash", "silent-corruption"), "2", True),
        ("outcome", ("crash", "silent-corruption"), "9", False),
        ("outcome", ("crash", "silent-corruption"), "dunno", False),
        ("a.grad[0]", (), "1/3", True),
        ("a.grad[0]", (), "nan", True),
        ("a.grad[0]", (), "d", False),
        ("a.grad.shape", (), "(3, 5)", True),
        ("a.grad.shape", (), "()", True),
        ("a.grad.shape", (), "same", False),
        ("a.grad", (), "None", True),
        ("a.grad.dtype", (), "float32", True),
        ("failure.type", (), "ValueError", True),
    ],
)
def test_what_cannot_be_an_answer_is_not_counted_as_a_wrong_one(
    expression: str, choices: tuple[str, ...], typed: str, *, accepted: bool
) -> None:
    asked = Question("square", "What is it?", expression, None, choices)
    try:
        check_answer(typed, asked, ENGLISH)
    except ValueError:
        assert not accepted
    else:
        assert accepted


def test_a_letter_is_not_read_as_a_number() -> None:
    report = msgspec.structs.replace(report_of(), questions=[question("4")])
    _, lines = predicted(report, ["square"], "", "", "d", "4")
    assert any(line.strip().startswith("Type one or more numbers") for line in lines)
    assert any(line.strip() == "right: 4  It is so." for line in lines)


def test_losses_are_asked_apart_only_where_the_page_says_that_they_differ() -> None:
    probes = ("mul", "mul-inside")
    report = report_with([run_of(probe, loss, "crash") for probe in probes for loss in LOSSES])
    predictions, lines = predicted(report, ["mul", "mul-inside"], "c", "c", "c")
    assert [(p.probe, p.loss) for p in predictions] == [
        ("mul", "uniform"),
        ("mul", "weighted"),
        ("mul-inside", None),
    ]
    shown = " ".join(line.strip() for line in lines)
    assert "The loss is the sum of the output." in shown
    assert "The loss is a weighted sum of the output." in shown
    assert shown.count("The loss is") == 2


def test_a_question_mark_also_shows_the_code_around_the_change() -> None:
    console = answers("?", "c")
    report = report_with([run_of("mul-inside", "weighted", "crash")])

    def show_change() -> None:
        console.print("the rule around the change")

    list(predict(console, PAGE, [PROBES["mul-inside"]], [], lambda: report, show_change))
    shown = console.export_text()
    assert shown.index("def mul_inside(") < shown.index("the rule around the change")


def test_nonsense_is_asked_again_and_a_question_mark_shows_the_code() -> None:
    report = report_with([run_of("mul-inside", "weighted", "crash")])
    predictions, lines = predicted(report, ["mul-inside"], "maybe", "?", "c")
    assert "  Type one of s, c, h, n; ? shows the code" in lines
    assert any(line.lstrip().startswith("def mul_inside(") for line in lines)
    (numbers,) = (line for line in lines if line.startswith("    a = ["))
    typed = [float(number) for number in re.findall(r"-?\d+\.\d+", numbers)]
    assert np.allclose(typed, draw(PROBES["mul-inside"])["a"], atol=1e-4)
    assert [prediction.right for prediction in predictions] == [True]


def test_enter_skips_and_the_end_of_the_input_skips_the_rest() -> None:
    report = report_with([run_of("mul-inside", None, "crash"), run_of("square", None, "crash")])
    predictions, lines = predicted(report, ["mul-inside", "square"], "")
    assert predictions == []
    assert "The other questions are skipped." in lines


def test_an_outcome_that_is_not_in_the_legend_is_explained_when_it_is_met() -> None:
    report = report_with([run_of("mul-inside", None, "convention")])
    _, lines = predicted(report, ["mul-inside"], "c")
    assert "  convention: another valid choice at a kink" in lines


def test_a_question_of_the_page_follows_the_probe_and_shows_its_reason() -> None:
    report = msgspec.structs.replace(
        report_with([run_of("mul-inside", None, "silent-corruption")]),
        questions=[question("2", "mul-inside")],
    )
    predictions, lines = predicted(report, ["mul-inside"], "s", "2.0")
    answered = [line.strip() for line in lines if "right: " in line]
    assert answered == ["right: ≠ silent-corruption", "right: 2  It is so."]  # no number before
    assert [(p.question, p.predicted, p.actual) for p in predictions] == [
        ("", "silent-corruption", "silent-corruption"),
        ("What is it?", "2.0", "2"),
    ]


def test_a_question_about_the_outcome_replaces_the_usual_one() -> None:
    report = msgspec.structs.replace(
        report_with([run_of("mul-inside", None, "crash")]),
        questions=[question("crash", "mul-inside", "crash", "convention")],
    )
    predictions, lines = predicted(report, ["mul-inside"], "c", "c")
    assert any("1/1" in line for line in lines)
    assert "  right: ✗ crash  It is so." in lines
    assert [(p.question, p.right) for p in predictions] == [("", True)]


def test_an_answer_that_is_not_one_of_the_choices_is_asked_again() -> None:
    report = msgspec.structs.replace(
        report_with([run_of("mul-inside", None, "silent-corruption")]),
        questions=[question("b", "mul-inside", "a", "b")],
    )
    predictions, lines = predicted(report, ["mul-inside"], "", "3", "c", "2")
    assert lines.count("  Type one of the answers; ? shows the code") == 2
    assert "    1  a" in lines
    assert [(p.predicted, p.right) for p in predictions] == [("2", True)]


def test_a_probe_that_was_left_out_is_not_judged() -> None:
    predictions, lines = predicted(report_with([]), ["mul-inside"], "c")
    assert "  This probe cannot be judged here; see the report." in lines
    assert [(p.actual, p.right) for p in predictions] == [("", False)]


def test_a_move_of_a_metric_is_asked_again_until_it_can_be_read() -> None:
    console = answers("up", "h", "", "same")
    assert ask_moves(console, ["loss", "accuracy", "rate"]) == {"loss": "higher", "rate": "same"}
    assert "  Type l, h or s" in console.export_text()
