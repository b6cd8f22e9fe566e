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


def test_one_result_is_shown_in_several_formats_and_again_from_its_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grading, "grade_suite", lambda *_: MIXED)
    record, gradescope = tmp_path / "record.json", tmp_path / "results.json"
    (tmp_path / "test_a.py").touch()
    chosen = [*ONE_VARIANT, "--select", "sub-sign"]
    files = [f"--format=record={record}", f"--format=gradescope={gradescope}"]
    done = harness(
        "grade",
        str(tmp_path),
        *chosen,
        *files,
        "--format",
        "text",
        "--out",
        str(tmp_path / "shown"),
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    text = (tmp_path / "shown").read_text()
    assert "minigrad: 5 tests kill 2 of 6 breaks (33.3 %)" in text
    again = harness("grade", "--from", str(record), f"--format=gradescope={tmp_path / 'again'}")
    assert (again.returncode, again.stdout) == (0, "")
    assert (tmp_path / "again").read_text() == gradescope.read_text()
    assert "unbroadcast-mean" not in gradescope.read_text()
    again = harness("grade", "--from", str(record), "--feedback", "score")
    assert again.stdout.startswith("minigrad: 5 tests kill 2 of 6 breaks (33.3 %)")
    gradescope.write_text("{}")
    done = harness("grade", "--from", str(gradescope))
    assert done.returncode == 2
    assert "is not a record of a grading" in done.stderr


def test_the_breaks_of_a_folder_are_graded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[GradingPlan] = []

    def grade_suite(_path: Path, plan: GradingPlan, _progress: Any) -> SuiteReport:
        plans.append(plan)
        return MIXED

    monkeypatch.setattr(grading, "grade_suite", grade_suite)
    (tmp_path / "test_a.py").touch()
    folder = CATALOGUE.files["sub-sign"].parent
    done = harness("grade", str(tmp_path), *ONE_VARIANT, "--only", str(folder))
    assert (done.returncode, done.stderr) == (0, "")
    chosen = {mutant.page.id for mutant in plans[0].breaks}
    assert "sub-sign" in chosen
    assert {CATALOGUE.files[name].parent for name in chosen} == {folder}
    assert not plans[0].partial
    harness("grade", str(tmp_path), *ONE_VARIANT, "--select=sub-sign", "--format=prairielearn")
    assert plans[1].partial


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
        (["--format", "pdf"], "gradescope, prairielearn, sarif, record\n", 2),
        (["--format", "text", "--json"], "--json cannot be combined with --format text", 2),
        (["--format", "text", "--format", "html"], "several formats have no file: text, html", 2),
        (["--format", "text=a.txt", "--out", "b.txt"], "--out is for a format without a file", 2),
        (["--from", "record.json"], "name a suite, or a record", 2),
        (["--only", str(tmp_path)], "there is no break in", 2),
        (
            ["--only", str(tmp_path), "--select", "sub-sign"],
            "--only cannot be combined with --select",
            2,
        ),
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
