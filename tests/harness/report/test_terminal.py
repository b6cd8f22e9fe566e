"""The terminal: signs, code that is wrapped, Markdown, and the progress bar."""

import io
import re
import sys
from io import BytesIO, TextIOWrapper
from typing import Any, get_args

import pytest

from harness.core.vocabulary import Outcome
from harness.report.pages import show_section
from harness.report.terminal import (
    LabelRows,
    ProgressBar,
    Screen,
    open_console,
    outcome_text,
    show_code,
)
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


DIFF = "@@ minigrad/a.py:1 add.vjp\n-return g * 2\n+return g"


@pytest.mark.parametrize(
    "text", ["`a` and `b`", f"```diff\n{DIFF}\n```", '```python\ndef f():\n    return "a", 1\n```']
)
def test_code_has_no_background_and_only_colours_for_every_theme(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    console = open_console(file=Terminal())
    with console.capture() as shown:
        show_section(console, "Code", text)
        show_code(console, DIFF, "diff")
    codes = {
        code for style in re.findall(r"\x1b\[([0-9;]*)m", shown.get()) for code in style.split(";")
    }
    assert codes - {"", "0", "1", "2", "3", "4"} <= {"31", "32", "35", "49"}


@pytest.mark.parametrize("width", [20, 39, 40, 60])
def test_no_word_of_a_labelled_text_is_cut_away(width: int) -> None:
    console = on_screen(width)
    command = "harness break recursive-backward-no-topo"
    console.print(LabelRows({"Next": command, "No lo ven": "second-backward: 6 de 6"}))
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= width
    shown = "".join("".join(lines).split())
    assert "…" not in shown
    assert all(word in shown for word in ("recursive-backward-no-topo", "second-backward:6de6"))
    assert (lines[0].rstrip() == "Next") == (width < 40)


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
