"""`harness watch` in a terminal: a file is saved, something runs, Ctrl-C stops it."""

import os
from pathlib import Path

import pytest

from harness.cli.tasks import run_child
from tests.harness.cli.terminal import CTRL_C, dialogue
from tests.harness.command import harness
from tests.harness.sound_myth import SOUND_MYTH
from tests.harness.sound_page import write_page


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_ctrl_c_ends_the_command_that_a_saved_page_starts() -> None:
    """The page is replaced by a new file, as some editors do, and only one process says stopped."""
    page = write_page(Path("pages"), SOUND_MYTH, "np-sum-flattens.md")

    def save() -> None:
        new = page.with_suffix(".tmp")
        new.write_text(SOUND_MYTH, encoding="utf-8")
        new.replace(page)

    done = dialogue(
        ["watch", "--lang", "es"],
        [save, CTRL_C],
        prompts=("Ctrl-C termina.\n", "─\n"),
        columns=60,
    )
    assert done.status == 130
    assert done.lines[0] == "Archivos vigilados: 1. Ctrl-C termina."
    assert any("harness check np-sum-flattens --breaks pages" in line for line in done.lines)
    assert done.shown.count("harness: interrumpido") == 1
    assert done.lines[-1] == "harness: interrumpido"
    assert max(map(len, done.lines)) <= 60


def test_once_ends_with_the_status_of_what_ran() -> None:
    path = Path("mine.py")
    start = "# harness exercise squares-only mine.py\n"
    path.write_text(f"{start}def test_(:\n", encoding="utf-8")
    done = dialogue(["watch", "mine.py", "--once"])
    assert done.status == 2
    assert "mine.py:2: the file is not Python: invalid syntax" in done.shown
    assert any("exit status 2 (" in line for line in done.lines)


def test_a_command_that_a_signal_ends_has_the_status_of_a_shell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    command = Path("ended").absolute()
    command.write_text("#!/bin/sh\nkill -9 $$\n", encoding="utf-8")
    command.chmod(0o700)
    monkeypatch.setattr("sys.executable", str(command))
    assert run_child(["list"]) == 128 + 9


def test_a_command_without_lang_uses_the_language(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_child(["check", "no-such-page"], "es") == 2
    assert "no hay página" in capfd.readouterr().err


def test_nothing_runs_for_other_files() -> None:
    Path("notes.py").touch()
    done = dialogue(
        ["watch"],
        [lambda: os.utime("notes.py", ns=(1, 1)), CTRL_C],
        prompts=("Ctrl-C stops.\n", "nothing to run\n"),
    )
    assert (done.status, done.lines[1]) == (130, "notes.py: nothing to run")


def test_a_named_file_without_a_command_is_said_at_once() -> None:
    Path("notes.md").write_text("Notes\n", encoding="utf-8")
    done = dialogue(["watch", "notes.md", "--once"])
    assert done.status == 1
    assert done.lines[1] == "notes.md: nothing to run"
    assert "`# harness exercise ID" in done.text


def test_a_path_that_does_not_exist_is_refused() -> None:
    done = harness("watch", "nowhere")
    assert done.returncode == 2
    assert "no file or folder nowhere\n  remedy: name a folder, a file, or an engine" in done.stderr
