"""What may be shown of a suite's result, and that every format shows no more than that."""

import random
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.core.errors import UsageError
from harness.grade.feedback import Feedback, disclose
from harness.grade.suite import BreakResult, SuiteReport, Weights
from harness.report.grading import FORMATS, Format, default_feedback, render
from tests.harness.bundled import bundled_pages
from tests.harness.grade.results import FATES, MIXED, REJECTED, report, result

BREAKS = [page for page in bundled_pages() if page.front.kind == "break"]
TITLES = {page.id: page.title for page in BREAKS}
HIDING: tuple[Feedback, ...] = ("score", "stage")
STAGES = (None, "not-infected", "not-propagated", "not-revealed")


def whole_catalogue() -> SuiteReport:
    """Every bundled break with a fate and a stage, each at a place of its own."""
    return report(
        *(
            result(
                page.id,
                FATES[number % 5],
                page.front.level,
                family=page.front.family,
                stage=STAGES[number % 4] if FATES[number % 5] == "survived" else None,
                path=("swapped", "reloaded")[number % 2],
                file=f"place_{number}.py",
                line=7_000_000 + number,
                seconds=8_000_000 + number,
            )
            for number, page in enumerate(BREAKS)
        ),
        claims={"t.py::test_mul": [page.id for page in BREAKS]},
    )


def outputs(suite: SuiteReport, feedback: Feedback, **details: Any) -> dict[Format, str]:
    """What each format shows; SARIF only if it accepts the feedback."""
    grade = disclose(suite, feedback, **details)
    forms = [form for form in FORMATS if form != "sarif" or feedback == "names"]
    shown = {form: render(grade, form) for form in forms}
    shown["html"] = MARKUP.sub(" ", shown["html"])
    return shown


MARKUP = re.compile(r"<(style|script)>.*?</\1>|<[^>]*>", re.S)
"""Of HTML, what is not shown as text."""


SECRETS = {text for page in BREAKS for text in (page.id, page.title, page.front.family)}


def betrayed(text: str) -> set[str]:
    """The ids, titles and families of breaks that a text contains, as they are or as JSON."""
    flat = " ".join(text.split()).replace('\\"', '"')
    contained = [secret for secret in SECRETS if secret in flat]
    return {secret for secret in contained if re.search(rf"\b{re.escape(secret)}(?!\w)", flat)}


@pytest.mark.parametrize("feedback", HIDING)
def test_no_format_names_a_break_or_its_place(feedback: Feedback) -> None:
    shown = outputs(whole_catalogue(), feedback, titles=TITLES, root=Path("/engine_of_mine"))
    for form, text in shown.items():
        assert betrayed(text) == set(), form
        for place in ("place_", "70000", "80000", "engine_of_mine", "reloaded", "swapped"):
            assert place not in text, (form, place)


def test_with_all_names_everything_is_shown() -> None:
    shown = outputs(whole_catalogue(), "names", titles=TITLES, root=Path("/engine_of_mine"))
    assert betrayed(shown["json"]) == SECRETS
    assert all(part in shown["json"] for part in ("place_0", "70000", "engine_of_mine"))


@pytest.mark.parametrize("feedback", HIDING)
def test_what_is_shown_does_not_depend_on_which_break_it_is(feedback: Feedback) -> None:
    """Other names and places in another order give the same text, to the byte."""
    suite = whole_catalogue()
    disguised = [
        msgspec.structs.replace(
            one, break_=f"x{i}", family=f"y{i % 3}", file="z.py", line=i, path=None, seconds=i
        )
        for i, one in enumerate(suite.breaks)
    ]
    random.Random(5).shuffle(disguised)
    other = msgspec.structs.replace(suite, breaks=disguised, claims={})
    assert outputs(other, feedback) == outputs(suite, feedback, titles=TITLES)


def test_only_numbers_are_shown_as_score() -> None:
    for text in outputs(MIXED, "score").values():
        assert "test_mul" not in text
        assert "assertion" not in text


@pytest.mark.parametrize("feedback", ["score", "stage", "names"])
def test_every_format_says_why_a_suite_has_no_score(feedback: Feedback) -> None:
    for form, text in outputs(REJECTED, feedback).items():
        flat = " ".join(text.split())
        for part in ("2 tests fail on a correct engine", "in-place", "test_a"):
            assert part in flat, form
        if form in ("text", "junit", "gradescope", "prairielearn", "sarif"):
            assert "adds gradients in place" in flat


def test_the_stage_says_where_a_break_was_lost() -> None:
    text = " ".join(outputs(MIXED, "stage")["text"].split())
    assert (
        "1 x reached by test_mul and 1 more, with a wrong number that no assertion looks at" in text
    )
    assert "1 x not reached by any test" in text
    assert "1 x test_mul also fails on correct code that is written differently" in text


def test_breaks_that_met_the_same_end_are_counted() -> None:
    breaks: list[BreakResult] = [result(name, "survived", stage="not-revealed") for name in "abc"]
    assert "3 x reached by test_mul" in outputs(report(*breaks), "stage")["text"]


def test_a_break_of_weight_0_is_not_shown() -> None:
    weights = Weights(breaks={"unbroadcast-mean": 0})
    for text in outputs(MIXED, "names", weights=weights).values():
        shown = text.replace("test_b does not kill unbroadcast-mean", "")
        shown = shown.replace('"unbroadcast-mean"\n    ]', "")  # the author's own claim
        assert "unbroadcast-mean" not in shown
    assert "2 x" not in outputs(MIXED, "stage", weights=weights)["text"]


def test_a_suite_that_nothing_could_be_tried_on_has_no_score() -> None:
    for suite, weights, reason in (
        (report(result("a", "does-not-apply")), Weights(), "no break has a site"),
        (report(result("a")), Weights(levels={1: 0}), "all breaks that could be tried"),
    ):
        grade = disclose(suite, "names", weights)
        assert (grade.gradable, grade.score, grade.points) == (False, None, None)
        assert reason in grade.reason


def test_a_place_is_shown_as_seen_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert disclose(MIXED, root=tmp_path / "src").root == "src"
    assert disclose(MIXED, root=tmp_path).root == "."
    assert disclose(MIXED, root=Path("/elsewhere")).root == "/elsewhere"


def test_sarif_is_refused_unless_the_breaks_may_be_named() -> None:
    for feedback in HIDING:
        with pytest.raises(UsageError, match="SARIF"):
            render(disclose(MIXED, feedback), "sarif")


def test_formats_for_students_hide_the_breaks_by_default() -> None:
    assert {form: default_feedback(form) for form in FORMATS} == {
        "text": "names",
        "json": "names",
        "html": "names",
        "junit": "names",
        "gradescope": "stage",
        "prairielearn": "stage",
        "sarif": "names",
    }
