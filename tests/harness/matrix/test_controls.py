"""Controls: what must hold before a matrix is believed."""

from harness.matrix.records import FalseAlarm, Matrix
from harness.matrix.verdict import build_matrix
from tests.harness.matrix.made import (
    ALL,
    NO_OP,
    SABOTAGE,
    diagnostic,
    evaluation,
    evaluations,
    seen,
)


def problems(matrix: Matrix, control: str) -> list[str]:
    return next(row.problems for row in matrix.controls if row.control == control)


def test_controls_that_hold_are_not_a_problem() -> None:
    variant = evaluation("variant", seen(outcome="disguised-correct"))
    matrix = build_matrix(evaluations(evaluation("b", seen(by="shape")), variants=(variant,)))
    assert [row.control for row in matrix.controls] == [
        *("clean", "variant", "no-op", "sabotage", "asked")
    ]
    assert (matrix.agrees, matrix.problems) == (True, [])


def test_an_alarm_about_the_clean_engine_is_a_false_one() -> None:
    alarm = FalseAlarm("clean", "gradcheck", "small", "uniform", "noise")
    matrix = build_matrix(evaluations(clean=(alarm,)))
    assert problems(matrix, "clean") == ["gradcheck on small, uniform: noise"]
    assert [row.false_alarms for row in matrix.diagnostics] == [0, 1, 0]
    assert not matrix.agrees


def test_an_alarm_about_a_variant_is_false_but_where_it_differs_by_convention() -> None:
    variant = evaluation(
        "other-subgradient",
        seen("small", "gradcheck", "convention"),
        seen("large", "shape", "disguised-correct"),
    )
    matrix = build_matrix(evaluations(variants=(variant,)))
    assert problems(matrix, "other-subgradient") == ["shape on large, weighted: shape on large"]
    assert [alarm.probe for alarm in matrix.variants[0].alarms] == ["large"]
    assert [row.false_alarms for row in matrix.diagnostics] == [1, 0, 0]


def test_what_the_clean_engine_raises_too_is_not_counted_against_every_variant() -> None:
    variant = evaluation("variant", seen(outcome="disguised-correct", wrong="shape"))
    assert build_matrix(evaluations(variants=(variant,))).variants[0].alarms == []


def test_a_no_op_must_be_silent_and_look_like_nothing() -> None:
    no_op = evaluation(
        "no-op", seen("small", "shape", "disguised-correct"), seen("large", "", "crash")
    )
    matrix = build_matrix(evaluations(controls=(no_op, SABOTAGE)))
    assert problems(matrix, "no-op") == [
        "large, weighted: crash: what large showed",
        "shape on small, weighted: shape on small",
    ]
    assert [row.false_alarms for row in matrix.diagnostics] == [1, 0, 0]


def test_a_no_op_that_no_probe_reaches_shows_nothing() -> None:
    no_op = evaluation("no-op", seen(outcome="not-reached"))
    assert (
        "shows nothing"
        in problems(build_matrix(evaluations(controls=(no_op, SABOTAGE))), "no-op")[0]
    )


def test_who_misses_the_sabotage_is_blind() -> None:
    sabotage = evaluation(
        "sabotage", seen("small", "shape"), seen("large", "torch", wrong="gradcheck")
    )
    matrix = build_matrix(evaluations(controls=(NO_OP, sabotage)))
    assert problems(matrix, "sabotage") == ["gradcheck raises no alarm on any probe"]
    assert matrix.problems[0].startswith("the control `sabotage` fails")


def test_without_its_controls_no_matrix_counts() -> None:
    matrix = build_matrix(evaluations(evaluation("b", seen(by="shape")), controls=()))
    assert "no control `no-op`" in problems(matrix, "no-op")[0]
    assert "no control `sabotage`" in problems(matrix, "sabotage")[0]


def test_who_never_looked_has_not_passed_unless_it_asks_a_library() -> None:
    """The diagnostic that checks nothing must not go unnoticed; one without its library may."""
    skipped = {"torch": "torch is not installed", "idle": "it measured nothing on this run"}
    run = seen(by="shape gradcheck", skipped=skipped)
    no_op = evaluation("no-op", seen(outcome="disguised-correct", skipped=skipped))
    matrix = build_matrix(
        evaluations(
            evaluation("b", run),
            controls=(no_op, evaluation("sabotage", run)),
            diagnostics=(*ALL, diagnostic("idle")),
        )
    )
    assert problems(matrix, "asked") == ["idle never ran: it measured nothing on this run"]
    assert matrix.skipped == skipped
