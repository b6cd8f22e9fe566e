"""The options for the result of a grading: checked first, then followed."""

import io
from pathlib import Path
from typing import Any

import pytest

from harness.cli.grade import Results, open_results, show_result
from harness.cli.session import CommandSession
from harness.core.errors import BreaklabError
from harness.grade import grading
from harness.grade.plan import GradingPlan
from harness.grade.suite import SuiteReport
from harness.report.terminal import Screen
from tests.harness.bundled import CATALOGUE
from tests.harness.command import harness
from tests.harness.grade.results import MIXED

ONE_VARIANT = ("--correct", "sub-is-add-of-neg")


def opened(width: int = 80, **options: Any) -> Results:
    session = CommandSession()
    vars(session).update(catalogue=CATALOGUE, console=Screen(file=io.StringIO(), width=width))
    return open_results(session, **options)


def shown(results: Results, out: Path | None = None) -> str:
    show_result(results, MIXED, out)
    file = results.session.console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def test_without_options_the_result_is_text_with_all_names() -> None:
    results = opened()
    assert (results.form, results.feedback) == ("text", "names")
    assert "unbroadcast-mean  reached by test_mul" in shown(results)
    assert "\nnext: harness break unbroadcast-mean\n" in shown(results)


def test_text_fits_a_narrow_terminal() -> None:
    assert max(map(len, shown(opened(60)).splitlines())) <= 60


def test_formats_for_students_show_no_names_unless_asked_to() -> None:
    assert opened(form="gradescope").feedback == "stage"
    assert opened(form="gradescope", feedback="names").feedback == "names"


def test_json_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(opened(form="json")) == ""
    assert capsys.readouterr().out.startswith('{\n  "schema": 1')


def test_a_result_is_written_to_a_file(tmp_path: Path) -> None:
    file = tmp_path / "results.txt"
    assert shown(opened(), file) == ""
    assert file.read_text().startswith("minigrad: 5 tests kill 2 of 6 breaks (33.3 %)")


def test_weights_are_read(tmp_path: Path) -> None:
    file = tmp_path / "weights.toml"
    file.write_text("points = 30\n")
    assert "Points: 10 of 30" in shown(opened(weights=file))


@pytest.mark.parametrize(
    ("options", "problem", "remedy", "status"),
    [
        ({"form": "gradscope"}, "--format: there is no `gradscope`", "`gradescope`", 2),
        ({"feedback": "name"}, "--feedback: there is no `name`", "did you mean `names`", 2),
        ({"form": "sarif", "feedback": "stage"}, "SARIF", "`names`", 2),
        ({"weights": Path("none.toml")}, "cannot be read", "check the path", 2),
    ],
)
def test_a_mistake_is_found_before_anything_is_graded(
    options: dict[str, Any], problem: str, remedy: str, status: int
) -> None:
    with pytest.raises(BreaklabError) as error:
        opened(**options)
    assert problem in error.value.problem
    assert remedy in error.value.remedy
    assert error.value.exit_status == status


def test_the_command_reports_a_mistake_before_it_runs_the_suite(tmp_path: Path) -> None:
    suite = tmp_path / "test_slow.py"
    suite.write_text("import time\ntime.sleep(3600)\n")
    weights = tmp_path / "weights.toml"
    weights.write_text("[breaks]\nsub-sign = 0\n")
    for arguments, problem, status in (
        (["--format", "pdf"], "--format: there is no `pdf`", 2),
        (["--format", "text", "--json"], "--json cannot be combined with --format text", 2),
        (["--out", str(tmp_path / "none" / "results")], "results cannot be written", 3),
        (
            ["--select", "sub-sign", "--weights", str(weights)],
            "all selected breaks have the weight",
            2,
        ),
    ):
        done = harness("grade", str(suite), *ONE_VARIANT, *arguments)
        assert (done.returncode, done.stdout) == (status, "")
        assert problem in done.stderr


@pytest.mark.parametrize(("feedback", "stages"), [("score", False), ("stage", True)])
def test_stages_are_found_only_if_they_are_shown(
    feedback: str, stages: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans: list[GradingPlan] = []

    def grade_suite(_path: Path, plan: GradingPlan, _progress: Any) -> SuiteReport:
        plans.append(plan)
        return MIXED

    monkeypatch.setattr(grading, "grade_suite", grade_suite)
    (tmp_path / "test_a.py").touch()
    arguments = [*ONE_VARIANT, "--select", "sub-sign", "--feedback", feedback]
    done = harness("grade", str(tmp_path), *arguments)
    assert done.returncode == 0
    assert [plan.stages for plan in plans] == [stages]
