"""`harness matrix`: what it prints, what it writes, how it ends. On the tiny engine, for speed."""

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from harness import cli
from harness.engines import engine
from harness.experiment import baseline
from harness.matrix import plan
from harness.pages import catalogue
from harness.sandbox import hosts
from tests.harness.matrix.tiny import DIAGNOSTICS, ENGINE, write_pages
from tests.harness.tiny import tiny_engine

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def matrix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Runs `harness matrix ARGUMENTS --no-cache`: exit status, standard output, standard error."""
    pages = write_pages(tmp_path / "pages")
    monkeypatch.setattr(catalogue, "open_catalogue", lambda _: catalogue.Catalogue(pages.roots))
    monkeypatch.setattr(engine, "find_engine", lambda: tiny_engine(ENGINE))
    monkeypatch.setattr(baseline, "Baseline", partial(baseline.Baseline, diagnostics=DIAGNOSTICS))
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["harness", "matrix", *arguments, "--no-cache"])
        with pytest.raises(SystemExit) as end:
            cli.main()
        out, err = capsys.readouterr()
        return int(end.value.code or 0), out, err

    return run


def test_a_break_that_nothing_reaches_is_status_1_and_what_is_caught_is_status_0(
    matrix: Command,
) -> None:
    status, out, err = matrix()
    assert (status, err) == (1, "")
    assert "unused is never reached: no probe runs the patched code" in out
    assert max(map(len, out.splitlines())) <= 80
    status, out, _ = matrix("half", "flat")
    assert (status, "No break survives; no false alarm." in out) == (0, True)
    assert "half" in matrix("--family", "values")[1]


def test_a_matrix_that_is_computed_is_written_as_a_page(matrix: Command, tmp_path: Path) -> None:
    file = tmp_path / "matrix.html"
    assert matrix("half", "--html", str(file))[0] == 0
    assert '<th scope="row"><code>half</code></th>' in file.read_text(encoding="utf-8")


def test_several_processes_give_the_same_matrix_as_one(
    matrix: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found() -> dict[str, object]:
        return {**json.loads(matrix("--json")[1]), "seconds": 0}

    one = found()
    monkeypatch.setattr(plan, "available_cores", lambda: 2)
    monkeypatch.setattr(plan, "close_hosts", hosts.close_hosts)
    assert found() == one


def test_what_is_accepted_is_as_committed_until_something_changes(
    matrix: Command, tmp_path: Path
) -> None:
    status, out, _ = matrix("half", "--accept")
    committed = tmp_path / "pages" / "matrix.toml"
    assert status == 0
    assert f"accepted: {committed}" in out
    assert "As committed; no false alarm." in matrix("half")[1]
    text = committed.read_text(encoding="utf-8")
    committed.write_text(text.replace('"square", ', ""), encoding="utf-8")
    status, out, _ = matrix("half")
    assert status == 1
    assert "  half\n    + gradcheck now catches it with square\n" in out
    assert "1 break is not as committed; once you know why, run `harness matrix --accept`" in out


def test_rows_of_a_folder_that_has_no_committed_matrix_are_new(
    matrix: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two folders: `half` is committed, `flat` in the course's folder is not."""
    pages, course = tmp_path / "pages", tmp_path / "course"
    course.mkdir()
    (pages / "flat.md").rename(course / "flat.md")
    (pages / "unused.md").unlink()
    both = catalogue.Catalogue((pages, course))
    monkeypatch.setattr(catalogue, "open_catalogue", lambda _: catalogue.Catalogue(both.roots))
    assert matrix("half", "--accept")[0] == 0
    status, out, _ = matrix()
    assert status == 1
    assert "1 break is new, and in no committed matrix" in out
    assert "As committed" not in out
    assert json.loads(matrix("--json")[1])["new"] == ["flat"]
    status, out, _ = matrix("--only", str(course))
    assert (status, "flat" in out, "half" in out) == (1, True, False)
    assert matrix("--only", str(course), "--accept")[0] == 0
    assert "[flat]" in (course / "matrix.toml").read_text(encoding="utf-8")
    assert "As committed; no false alarm." in matrix()[1]
    (course / "flat.md").rename(course / "flatter.md")
    text = (course / "flatter.md").read_text(encoding="utf-8")
    (course / "flatter.md").write_text(text.replace("flat", "flatter"), encoding="utf-8")
    assert matrix("--only", str(course), "--accept")[0] == 0
    assert "[flat]" not in (course / "matrix.toml").read_text(encoding="utf-8")


def test_only_a_folder_without_a_break_is_an_error(matrix: Command, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    status, _, err = matrix("--only", str(tmp_path / "empty"))
    assert (status, "no break to run in" in err) == (2, True)


def test_what_cannot_be_accepted_is_an_error_with_a_remedy(matrix: Command, tmp_path: Path) -> None:
    (tmp_path / "pages" / "sabotage.md").unlink()
    status, out, err = matrix("--accept")
    assert (status, out) == (1, "")
    assert err.startswith("harness: not accepted: a control fails: `sabotage`")
    assert "remedy: " in err


def test_json_and_markdown_print_nothing_else(matrix: Command) -> None:
    said = json.loads(matrix("half", "--json")[1])
    assert (said["schema"], said["agrees"]) == (1, True)
    assert [row["break"] for row in said["breaks"]] == ["half"]
    assert matrix("half")[1].startswith("Kill matrix of tiny: 1 break x ")
    assert matrix("half", "--markdown", "-")[1].startswith("# Kill matrix of `tiny`\n")


def test_files_are_written_beside_the_report(matrix: Command, tmp_path: Path) -> None:
    markdown = tmp_path / "matrix.md"
    status, out, _ = matrix("--markdown", str(markdown))
    assert status == 1
    assert out.startswith("Kill matrix")
    assert markdown.read_text(encoding="utf-8").startswith("# Kill matrix")
    status, _, err = matrix("--markdown", str(tmp_path / "missing" / "matrix"))
    assert (status, "cannot be written" in err, "remedy: " in err) == (3, True, True)


def test_a_mistake_is_status_2_before_anything_runs(
    matrix: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "run_lab", None)
    status, _, err = matrix("--family", "valeus")
    assert (status, "did you mean `values`" in err) == (2, True)


def test_ctrl_c_stops_at_once_and_says_what_was_finished(
    matrix: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third page is interrupted."""
    lab, pages = plan.run_lab, []

    def interrupted(*given: object) -> object:
        if len(pages) == 2:
            raise KeyboardInterrupt
        pages.append(given)
        return lab(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(plan, "run_lab", interrupted)
    assert matrix() == (130, "", "harness: stopped; 2 of 6 pages were finished\n")
