"""The progress bar."""

import io
import sys

import pytest

from harness.report.terminal import ProgressBar


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
