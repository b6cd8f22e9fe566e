"""Page 0 on a terminal and in a pipe."""

import json
import re

import pytest

from harness.learn.events import AnyEvent, PageFinished, PredictionMade, open_journal
from harness.learn.progress import PRIMER
from tests.harness.bundled import CATALOGUE
from tests.harness.cli.terminal import CTRL_C, CTRL_D, ENTER, dialogue
from tests.harness.command import harness, light_program

STOPPED = "`harness start` continues with page 0."
TRACK = tuple(CATALOGUE.track)


def events() -> tuple[AnyEvent, ...]:
    return tuple(open_journal().events)


def answers() -> dict[str, tuple[str, bool]]:
    """What was predicted for each question of page 0, and whether it was right."""
    return {
        event.probe: (event.predicted, event.right)
        for event in events()
        if isinstance(event, PredictionMade) and event.page == PRIMER
    }


def test_page_0_comes_first_and_is_recorded() -> None:
    keys = [ENTER, "12\n", "6\n", "7.0\n", "a\n", CTRL_C]
    done = dialogue(["start"], keys, program=light_program())
    assert answers() == {
        "value": ("12", True),
        "rule": ("6", False),
        "gradient": ("7.0", True),
        "slip": ("a", True),
    }
    assert [event.page for event in events() if isinstance(event, PageFinished)][:1] == [PRIMER]
    assert "That is what both operands receive together." in done.text
    assert done.text.index("The same in minigrad") < done.text.index("Self-test")
    assert "Page 0" not in harness("start").stdout
    assert re.search(r"Page 0 +read", harness("progress").stdout)


def test_an_answer_that_cannot_be_one_is_not_counted() -> None:
    keys = ["x\n", ENTER, "dunno\n", "1/0\n", "1e999999999\n", "nan\n", ENTER, ENTER, ENTER]
    keys += ["d\n", "12\n", "q\n"]
    done = dialogue(["start"], keys, program=light_program())
    assert done.text.count("Press Enter to continue, or type q to stop.") == 1
    assert done.text.count("Type a number.") == 4
    assert done.text.count("Type a, b or c.") == 2
    assert answers() == {}
    assert done.lines[-1] == STOPPED


def test_what_is_behind_a_wrong_number_is_said_however_it_is_written() -> None:
    done = dialogue(["start"], [ENTER, "9.0\n", "q\n"], program=light_program())
    assert "That is s; x is still to be added." in done.text
    assert answers() == {"value": ("9.0", False)}


def test_page_0_goes_on_where_it_was_left() -> None:
    assert dialogue(["start"], [ENTER, "12\n", CTRL_D], program=light_program()).status == 0
    assert "1 of 4 questions answered" in harness("progress").stdout
    entry = json.loads(harness("progress", "--json").stdout)["page_0"]
    assert entry == {"done": False, "answered": 1, "questions": 4}
    done = dialogue(["start"], [ENTER, "?\n", "q\n"], program=light_program(), columns=60)
    assert "continue with step 2 of 5" in done.text
    assert "1/5" not in done.text
    assert "def backward(output):" in done.text
    assert max(map(len, done.lines)) <= 60
    assert "↪" not in done.text
    assert done.lines[-1] == STOPPED


@pytest.mark.parametrize("language", ["en", "es"])
def test_page_0_is_readable_in_a_pipe(language: str) -> None:
    done = harness("start", "0", "--lang", language, COLUMNS="60")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    wide = [line for line in lines if len(line) > 60 and "return unbroadcast" not in line]
    assert wide == []
    assert "\x1b" not in done.stdout
    steps = [line[:3] for line in lines if re.match(r"\d/5  \S", line)]
    assert steps == ["1/5", "2/5", "3/5", "4/5", "5/5"]
    assert "≠ 57" in done.stdout
    assert events() == ()


def test_the_track_can_begin_at_any_page() -> None:
    number = next(n for n, page in enumerate(TRACK, 1) if CATALOGUE.page(page).front.kind == "myth")
    assert f"Page {number} of {len(TRACK)}" in harness("start", str(number)).stdout
    refused = harness("start", str(len(TRACK) + 1))
    assert (refused.returncode, refused.stdout) == (2, "")
    assert f"its pages are 0 to {len(TRACK)}" in refused.stderr


@pytest.mark.parametrize("arguments", [("x",), ("x", "--lang", "en"), ("--lang", "en", "x")])
def test_a_page_that_is_no_number_is_refused_as_typed(arguments: tuple[str, ...]) -> None:
    refused = harness("start", *arguments)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "`N` cannot be `x`\n  remedy: give a whole number" in refused.stderr


def test_two_pages_are_refused_with_the_form_of_the_command() -> None:
    assert "write `harness start [N]`," in harness("start", "1", "2").stderr


def test_page_0_comes_first_for_someone_who_did_only_the_first_page() -> None:
    """The README begins with that page."""
    open_journal().record(PageFinished(page=TRACK[0]))
    assert "page 0" in harness("start").stdout
    open_journal().record(PageFinished(page=TRACK[1]))
    assert "page 0" not in harness("start").stdout


def test_page_0_is_not_offered_again_to_someone_who_skipped_it() -> None:
    dialogue(["start"], ["s\n", CTRL_C], program=light_program())
    assert f"page 1 of {len(TRACK)}" in harness("start").stdout
    assert "0 of 4 questions answered" in harness("progress").stdout
