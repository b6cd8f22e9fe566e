"""The parts that a break's page must have."""

from pathlib import Path

import pytest

from harness.check.pages import check_page
from harness.check.static import check_completeness
from harness.engines.engine import find_engine
from harness.experiment.baseline import Baseline, OpenContext
from harness.pages.catalogue import open_catalogue
from harness.pages.page import read_page
from harness.runs.cache import open_cache
from tests.harness.bundled import bundled_pages
from tests.harness.proven_page import QUESTION, WORDS, proven
from tests.harness.sound_page import SOUND, write_page

WHY, BEWARE = WORDS.splitlines(keepends=True)
PROVEN = proven().replace("level  = 3", "level  = 1")


def problems(folder: Path, text: str) -> list[str]:
    page = read_page(write_page(folder, text))
    return [finding.problem for finding in check_completeness(page)]


@pytest.mark.parametrize("page", bundled_pages(), ids=lambda page: page.id)
def test_every_bundled_page_is_complete(page: object) -> None:
    assert list(check_completeness(page)) == []  # type: ignore[arg-type]


def test_a_page_of_level_1_with_everything_is_complete(tmp_path: Path) -> None:
    assert problems(tmp_path, PROVEN) == []


EXPECT = "[expect.accumulate-in-place]\nlog-of-ones = 'crash'\n"
ADVICE = "[advice.accumulate-in-place]\nwhy = 'w'\nbeware = 'b'\n"


@pytest.mark.parametrize(
    ("keys", "level", "found"),
    [
        (EXPECT, 1, ["why", "beware"]),
        (EXPECT, 2, []),
        (EXPECT + ADVICE, 1, []),
        (EXPECT + ADVICE.replace("why = 'w'\n", ""), 1, ["why"]),
    ],
)
def test_a_first_page_explains_each_variant_of_which_it_states_outcomes(
    tmp_path: Path, keys: str, level: int, found: list[str]
) -> None:
    text = PROVEN.replace("level  = 1", f"level  = {level}")
    listed = problems(tmp_path, text.replace("+++\n# ", f"{keys}+++\n# ", 1))
    assert [problem.partition("`")[2].partition("`")[0] for problem in listed] == [
        f"advice.accumulate-in-place.{key}" for key in found
    ]


def test_a_text_for_a_variant_explains_outcomes(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, PROVEN.replace("+++\n# ", f"{ADVICE}+++\n# ", 1))
    assert "`advice.accumulate-in-place` explains no outcomes" in problem


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        (WHY, "`why` is missing"),
        (BEWARE, "`beware` is missing"),
        (QUESTION, "asks no question"),
        ("python invariant", "has no invariant"),
    ],
)
def test_a_missing_part_is_a_finding(tmp_path: Path, part: str, problem: str) -> None:
    text = PROVEN.replace(part, "text" if "python" in part else "")
    assert text != PROVEN
    assert problems(tmp_path, text) == [problem]
    expert = text.replace("level  = 1", "level  = 3")
    assert problems(tmp_path, expert) == ([problem] if "invariant" in problem else [])


def test_a_reason_takes_the_place_of_an_invariant(tmp_path: Path) -> None:
    assert "no_invariant" in SOUND
    assert problems(tmp_path, SOUND) == []


def test_the_check_of_a_page_includes_its_completeness(
    tmp_path: Path,
    without_oracles: None,  # noqa: ARG001
) -> None:
    write_page(tmp_path, PROVEN.replace(WHY, ""))
    context = OpenContext(open_catalogue([tmp_path]), find_engine(), Baseline(open_cache()))
    findings = check_page("log-slope-one", context).findings
    assert [(finding.problem, finding.exit_status) for finding in findings] == [
        ("`why` is missing", 1)
    ]
