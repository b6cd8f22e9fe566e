"""The terminal: signs, code that is wrapped, Markdown, and the progress bar."""

import io
import sys
from io import BytesIO, TextIOWrapper
from typing import Any, get_args

import pytest

from harness.core.vocabulary import Outcome
from harness.report.pages import show_section
from harness.report.terminal import ProgressBar, Screen, outcome_text, show_code
from harness.report.view import STYLES


def test_every_outcome_has_a_sign_of_its_own() -> None:
    assert STYLES.keys() == set(get_args(Outcome))
    assert len({sign for sign, _ in STYLES.values()}) == len(STYLES)
    assert outcome_text("crash").plain == "✗ crash"


def on_screen(width: int, **details: Any) -> Screen:
    return Screen(record=True, width=width, force_terminal=True, color_system=None, **details)


def test_code_that_is_wider_than_the_window_is_wrapped_with_a_mark() -> None:
    console = on_screen(20)
    show_code(console, "def f(first, second):\n    return 'abcdefghijklmnopqrstuvwxyz'\n", "python")
    assert [line.rstrip() for line in console.export_text().splitlines()] == [
        *("def f(first,", "↪ second):", "    return", "↪ 'abcdefghijklmnopq", "↪ rstuvwxyz'", "")
    ]


def test_the_mark_is_one_that_the_terminal_can_show() -> None:
    console = on_screen(20, file=TextIOWrapper(BytesIO(), "ascii"))
    show_code(console, "return first_thing + second_thing", "python")
    assert "\n> + second_thing" in console.export_text()


def test_of_a_link_to_a_page_only_its_text_is_shown() -> None:
    console = Screen(width=80, force_terminal=True, color_system="standard")
    with console.capture() as shown:
        show_section(console, "See", "[a page](../a/page.md) and [a site](https://example.org)")
    assert "a page and " in shown.get()
    assert "page.md" not in shown.get()
    assert "https://example.org" in shown.get()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_for_terminals_alone(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressBar() as bar:
        bar.watch(2, 3, "a-break")
    assert (bar.done, bar.total) == (2, 3)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_gets_a_bar_with_any_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with ProgressBar() as bar:
        bar.watch(0, 4)
        bar.watch(3, 4, "[/red] \x07.py")
    assert "3/4" in terminal.getvalue()
    assert r"[/red] \x07.py" in terminal.getvalue()
