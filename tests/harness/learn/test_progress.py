"""Progress: what follows from the events."""

from datetime import timedelta

from harness.learn.events import (
    AnyEvent,
    Attempt,
    Draw,
    Hint,
    PageFinished,
    SelfTestPhase,
    TestAnswer,
)
from harness.learn.progress import Calibration, LearnerProgress, TestScore
from tests.harness.learn.events import START, prediction


def progress(*events: AnyEvent) -> LearnerProgress:
    return LearnerProgress(events)


def test_pages_and_solved_exercises_are_done() -> None:
    learner = progress(
        PageFinished(page="sub-sign"),
        Attempt(exercise="only-trees", killed=False),
        Attempt(exercise="squares-only", killed=True),
    )
    assert learner.done == {"sub-sign", "squares-only"}


def test_of_those_that_were_called_silent_so_many_were() -> None:
    learner = progress(
        prediction("silent-corruption", "silent-corruption", probe="a"),
        prediction("silent-corruption", "crash", probe="b"),
        prediction("silent-corruption", "crash", probe="c"),
        prediction("crash", "disguised-correct", probe="d"),
    )
    assert learner.calibration == [
        Calibration("silent-corruption", 3, 1, {"crash": 2}),
        Calibration("crash", 1, 0, {"disguised-correct": 1}),
    ]
    assert (learner.right, len(learner.predictions)) == (1, 4)


def test_the_first_prediction_about_a_run_counts() -> None:
    later = START + timedelta(days=1)
    learner = progress(
        prediction("crash", "silent-corruption", loss="uniform"),
        prediction("silent-corruption", "silent-corruption", loss="uniform", time=later),
        prediction("crash", "crash", loss="weighted"),
    )
    assert (learner.right, len(learner.predictions)) == (1, 2)


def test_answers_to_questions_count_but_are_not_calibrated() -> None:
    learner = progress(
        prediction("(3,)", "(4, 3)", question="What is the shape?"),
        prediction("crash", "crash"),
    )
    assert (learner.right, len(learner.predictions)) == (1, 2)
    assert learner.calibration == [Calibration("crash", 1, 1, {})]


def test_failures_and_hints_are_counted_per_exercise() -> None:
    learner = progress(
        *(Attempt(exercise="only-trees", killed=killed) for killed in (False, False, True)),
        Attempt(exercise="squares-only", killed=False),
        Hint(exercise="only-trees", step=1),
        Hint(exercise="only-trees", step=2),
    )
    assert (learner.failures("only-trees"), learner.hints("only-trees")) == (2, 2)
    assert (learner.failures("squares-only"), learner.hints("squares-only")) == (1, 0)


def test_the_self_test_counts_right_wrong_and_skipped_answers() -> None:
    def answer(page: str, right: bool | None, phase: SelfTestPhase = "before") -> TestAnswer:
        return TestAnswer(phase=phase, page=page, right=right)

    learner = progress(
        Draw(before=("a", "b", "c", "d"), after=("e", "f", "g", "h")),
        Draw(before=("x",), after=("y",)),  # of another machine: the first one counts
        answer("a", True),
        answer("a", False),
        answer("b", False),
        answer("c", None),
        answer("x", True),
        answer("e", True, "after"),
    )
    assert learner.score("before") == TestScore(questions=4, asked=3, answered=2, right=1)
    assert learner.score("after") == TestScore(questions=4, asked=1, answered=1, right=1)
    assert learner.unanswered("before") == ("d",)
    assert learner.unanswered("after") == ("f", "g", "h")
    assert progress().score("before") == TestScore(0, 0, 0, 0)
