"""Every command in a process of its own, which most tests do without."""

import re
from pathlib import Path

import pytest

from harness.cli.app import COMMANDS as ALL
from tests.harness.command import Completed, harness, harness_process
from tests.harness.matrix.tiny import ENGINE as TINY
from tests.harness.sound_exercise import SOUND_EXERCISE
from tests.harness.sound_myth import SOUND_MYTH
from tests.harness.sound_page import write_page

COMMANDS = {
    "list": ("--track",),
    "show": ("skip-unbroadcast",),
    "diff": ("skip-unbroadcast",),
    "break": ("skip-unbroadcast", "--probe", "add-new-axis"),
    "myth": ("np-sum-flattens",),
    "exercise": ("equal-factors",),
    "check": ("np-sum-flattens",),
    "matrix": ("no-such-break",),
    "doctor": ("tiny.py:Tensor",),
    "new": ("mine", "--family", "f"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with an engine and pages to run the commands on."""
    (tmp_path / "tiny.py").write_text(TINY, encoding="utf-8")
    for name, text in {"np-sum-flattens": SOUND_MYTH, "equal-factors": SOUND_EXERCISE}.items():
        write_page(tmp_path / "pages", text, f"{name}.md")
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_does_the_same_in_a_process_of_its_own(command: str, folder: Path) -> None:
    pages = [] if command in ("doctor", "new") else ["--breaks", str(folder / "pages")]
    arguments = (command, *COMMANDS[command], *pages)
    actual = harness_process(*arguments, cwd=folder)
    for path in folder.rglob("mine.md"):
        path.unlink()  # `new` writes it, and overwrites nothing
    assert timeless(actual) == timeless(harness(*arguments, cwd=folder))
    assert "Traceback" not in actual.stderr


def timeless(completed: Completed) -> tuple[int, str, str]:
    """What came of a command, without the seconds that it took."""
    texts = (re.sub(r"\d+\.\d+ s\b", "", text) for text in (completed.stdout, completed.stderr))
    return (completed.returncode, *texts)


def test_no_command_is_left_out() -> None:
    assert COMMANDS.keys() == ALL.keys()
