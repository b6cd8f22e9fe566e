"""The answers to a page's questions: looked up in runs, by expressions that execute nothing."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.answer_key.outcome import Judgement
from harness.core.message import EMPTY
from harness.core.report import QuestionReport, Report
from harness.core.run import Failure, Run, pack
from harness.core.vocabulary import Loss, Outcome, Phase
from harness.engines.engine import find_engine
from harness.experiment.baseline import Baseline, CleanRun
from harness.experiment.description import JudgedRun
from harness.experiment.lab import run_lab
from harness.experiment.patching import prepare
from harness.experiment.statements import answer_question
from harness.pages.catalogue import open_catalogue
from harness.pages.front_matter import Question
from harness.runs.cache import open_cache
from tests.harness.proven_page import QUESTION, proven
from tests.harness.sound_page import write_page

LEAVES = {"a": pack(np.array([1.0, 2.0, 3.0]))}
DUE = {"a": pack(np.array([0.5, 0.25, 1 / 3]))}
GOT = {"a": pack(np.arange(12.0).reshape(4, 3))}


def run_of(loss: Loss | None = "weighted", **fields: Any) -> Run:
    fields = {"leaves": LEAVES, "gradients": GOT, "output": pack(6.0), "reached": [0]} | fields
    return Run("some", loss, **fields)


def asked(
    answer: str,
    run: Run | None = None,
    *,
    loss: Loss | None = None,
    outcome: Outcome = "silent-corruption",
    choices: tuple[str, ...] = (),
    probe: str = "some",
) -> QuestionReport:
    """Ask about the run, beside a clean run with the same loss, and one with the uniform loss."""
    run = run or run_of()
    runs = [run, run_of("uniform", output=pack(7.0))] if run.loss else [run]
    judgement = Judgement(outcome, None, EMPTY)
    keys = [CleanRun(run_of(item.loss, gradients=DUE), {}, {}) for item in runs]
    judged = [JudgedRun(item, key, judgement) for item, key in zip(runs, keys, strict=True)]
    return answer_question(Question(probe, "?", answer, loss, choices, "so"), judged)


def answer_to(expression: str, run: Run | None = None, **more: Any) -> str | None:
    report = asked(expression, run, **more)
    assert report.problem is None
    return report.answer


def problem_of(expression: str, run: Run | None = None, **more: Any) -> str:
    report = asked(expression, run, **more)
    assert (report.answer is None) or more.get("choices")
    assert report.problem
    return report.problem


@pytest.mark.parametrize(
    ("expression", "answer"),
    [
        ("a.grad.shape", "(4, 3)"),
        ("clean.a.grad.shape", "(3,)"),
        ("a.shape", "(3,)"),
        ("a.grad[0, 1]", "1"),
        ("a.grad[-1][2]", "11"),
        ("a.grad[0]", "[0, 1, 2]"),
        ("clean.a.grad[2]", "0.333"),
        ("clean.a.grad", "[0.5, 0.25, 0.333]"),
        ("a", "[1, 2, 3]"),
        ("a[1]", "2"),
        ("a.grad.dtype", "float64"),
        ("a.grad.ndim", "2"),
        ("a.grad.size", "12"),
        ("output", "6"),
        ("output.shape", "()"),
        ("outcome", "silent-corruption"),
    ],
)
def test_an_answer_is_looked_up(expression: str, answer: str) -> None:
    assert answer_to(expression) == answer


def test_the_weighted_loss_is_the_default() -> None:
    assert answer_to("output") == "6"
    assert answer_to("output", loss="uniform") == "7"
    assert asked("output").loss == "weighted"


@pytest.mark.parametrize("loss", ["uniform", "weighted"])
def test_a_probe_of_steps_has_no_loss(loss: Loss) -> None:
    assert answer_to("output", run_of(None)) == "6"
    assert "computes its own" in problem_of("output", run_of(None), loss=loss)


def test_a_log_has_entries_with_names() -> None:
    log = [{"loss": pack(3.14159)}, {"loss": pack(float("nan")), "w": pack(np.zeros((2, 2)))}]
    run = run_of(None, log=log)
    assert answer_to("log[0].loss", run) == "3.14"
    assert answer_to("log[-1]['loss']", run) == "nan"
    assert answer_to("log[1].w", run) == "[[0, 0], [0, 0]]"
    assert "no item `2`" in problem_of("log[2].loss", run)
    assert "only `loss`" in problem_of("log[0].bias", run)


def test_a_failure_has_a_type_and_a_message() -> None:
    run = run_of(failure=Failure(Phase.BACKWARD, "ValueError", "bad \x1b[2Jshape"))
    assert answer_to("failure.type", run, outcome="crash") == "ValueError"
    assert answer_to("failure.message", run) == "bad \\x1b[2Jshape"
    assert "`failure`" in problem_of("failure.type")
    assert "`failure`" in problem_of("clean.failure.type", run)


def test_what_a_run_does_not_reach_is_as_on_the_clean_engine() -> None:
    empty = Run("some", "weighted")
    assert answer_to("a.grad[2]", empty, outcome="not-reached") == "0.333"
    assert answer_to("outcome", empty, outcome="not-reached") == "not-reached"


def test_a_gradient_that_never_arrived_is_not_the_leaf() -> None:
    assert "`grad`" in problem_of("a.grad.shape", run_of(gradients={"a": None}))


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("b.grad", "asks for `b`, but this run has only `a`"),
        ("a.gard", "asks for `gard`"),
        ("a.grad.sum()", "contains `a.grad.sum()`"),
        ("a.grad.T", "asks for `T`"),
        ("a.grad[9]", "has no item `9`"),
        ("a.grad['x']", "has no item `x`"),
        ("a.grad[0:2]", "has the index `0:2`"),
        ("a.grad[len]", "has the index `len`"),
        ("a.grad[10**9]", "has the index"),
        (f"a.grad[{'9' * 60}]", "has no item"),
        ("a.grad", "is an array of shape (4, 3)"),
        ("a.grad + 1", "contains `a.grad + 1`"),
        ("1", "contains `1`"),
        ("clean", "is not a number"),
        ("clean.outcome", "asks for `outcome`"),
        ("clean.clean.a", "asks for `clean`"),
        ("log", "asks for `log`"),
        ("a.__class__", "asks for `__class__`"),
        ("a.grad.__class__.__mro__", "asks for `__class__`"),
        ("__builtins__", "asks for `__builtins__`"),
        ("outcome.format", "asks for `format`"),
        ("[x for x in a]", "contains `[x for x in a]`"),
        ("(lambda: a)()", "contains"),
        ("f'{a}'", "contains"),
        ("a; a", "is not an expression"),
        ("import os", "is not an expression"),
        ("a.", "cannot be read"),
        ("a\0", "cannot be read"),
        ("(" * 100, "cannot be read"),
        ("a" + "[0]" * 33, "has no item"),
    ],
)
def test_an_expression_without_an_answer_is_a_problem(expression: str, problem: str) -> None:
    assert problem in problem_of(expression)
    assert problem_of(expression).startswith(f"the answer `{expression}` ")


def test_an_unknown_probe_is_a_problem() -> None:
    assert "`other`, which is not a probe of the page" in problem_of("a", probe="other")


def test_a_long_text_is_not_an_answer() -> None:
    run = run_of(failure=Failure(Phase.RUN, "ValueError", "x" * 200))
    assert "has 200 characters" in problem_of("failure.message", run)


def test_an_answer_is_one_of_the_choices() -> None:
    assert answer_to("a.grad.shape", choices=("(3,)", "(4, 3)")) == "(4, 3)"
    problem = problem_of("a.grad.shape", choices=("(3,)", "(4,3)"))
    assert "is (4, 3), which is not one of the choices" in problem


# ----- In the lab -----


@pytest.fixture
def report(tmp_path: Path, without_oracles: None) -> Report:  # noqa: ARG001
    write_page(tmp_path, proven(questions=QUESTION + QUESTION.replace("a.grad", "clean.a.grad")))
    return report_with(tmp_path)


def report_with(folder: Path, *names: str) -> Report:
    catalogue = open_catalogue([folder])
    page = catalogue.page("log-slope-one")
    experiment = prepare(page, catalogue, find_engine(), probes=names)
    return run_lab(experiment, Baseline(open_cache()))


def test_a_report_answers_the_questions_of_its_page(report: Report) -> None:
    assert [question.answer for question in report.questions] == ["1", "2"]
    assert [question.problem for question in report.questions] == [None, None]
    assert report.questions[0].because.startswith("Without the division")


def test_a_report_has_the_words_of_its_page(report: Report) -> None:
    assert report.why.startswith("The rule passes")
    assert report.beware.startswith("The slope of the logarithm")
    assert report.invariant == "assert abs(a.grad * a.data - 1).max() < 0.001"


def test_other_probes_than_those_of_the_page_answer_no_question(
    tmp_path: Path,
    without_oracles: None,  # noqa: ARG001
) -> None:
    write_page(tmp_path, proven())
    assert report_with(tmp_path, "log-of-ones").questions == []


def test_an_answer_can_be_about_a_leaf_that_the_probe_creates() -> None:
    names = {"Linear[1].weight": pack([[1.0, 2.0]]), "tensor[0]": pack([3.0])}
    run = run_of(
        leaves=LEAVES | names, gradients=GOT | {name: pack([[7.0, 8.0]]) for name in names}
    )
    assert answer_to("Linear[1].weight.grad[0, 1]", run) == "8"
    assert answer_to("Linear[1].weight[0, 1]", run) == "2"
    assert answer_to("tensor[0].shape", run) == "(1,)"
    assert answer_to("tensor[0].grad.shape", run) == "(1, 2)"
    assert "has no item `0`" in problem_of("Linear[0].weight", run)
