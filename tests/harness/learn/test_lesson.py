"""Exercises as lessons: the file to start from, and the hints."""

from pathlib import Path

import pytest

from harness.core.errors import UsageError
from harness.grade.probes import read_submission
from harness.learn.lesson import STEPS, hints_of, write_start
from harness.pages.page import Page
from tests.harness.bundled import CATALOGUE, bundled_pages

EXERCISES = [page for page in bundled_pages() if page.front.kind == "exercise"]


@pytest.mark.parametrize("page", EXERCISES, ids=lambda page: page.id)
def test_every_exercise_has_three_hints(page: Page) -> None:
    hints = list(map(str, hints_of(page, page.section("Hints"))))
    assert len(hints) == STEPS
    assert all(hints)
    assert len(set(hints)) == STEPS


def test_with_few_hints_the_last_step_is_to_read_the_change() -> None:
    page = CATALOGUE.page("loss-falls")
    *first, last = hints_of(page, "1. One.\n2. Two.\n")
    assert list(map(str, first)) == ["One.", "Two."]
    assert "harness diff tanh-uses-input\n    harness diff unbroadcast-mean" in str(last)


def test_with_many_hints_the_last_step_has_the_rest() -> None:
    page = CATALOGUE.page("loss-falls")
    hints = hints_of(page, "1. One,\n   in two lines.\n2. Two.\n3. Three.\n4. Four.\n")
    assert list(map(str, hints)) == ["One,\n   in two lines.", "Two.", "Three.\n\nFour."]


@pytest.mark.parametrize("page", EXERCISES, ids=lambda page: page.id)
def test_the_file_to_start_from_is_a_submission(tmp_path: Path, page: Page) -> None:
    path = tmp_path / "mine.py"
    write_start(page, page.section("Your task"), path)
    assert [probe.name for probe in read_submission(path)] == ["my-probe"]
    lines = path.read_text().splitlines()
    assert lines[0] == f"# {page.title}"
    assert max(map(len, lines)) <= 100 or str(path) in max(lines, key=len)


def test_no_file_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("mine")
    with pytest.raises(UsageError, match="already exists"):
        write_start(EXERCISES[0], "", tmp_path / "mine.py")
    assert (tmp_path / "mine.py").read_text() == "mine"
