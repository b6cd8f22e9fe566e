"""Every command in a process of its own, which most tests do without."""

import os
import re
import resource
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.cli.app import COMMANDS as ALL
from tests.harness.cli.terminal import dialogue
from tests.harness.command import Completed, harness, harness_process, light_program
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
    "explain": ("cotangent",),
    "fix": ("np-sum-flattens",),
    "watch": ("nowhere",),
    "start": (),
    "progress": (),
    "matrix": ("no-such-break",),
    "doctor": ("tiny.py:Tensor",),
    "html": ("np-sum-flattens",),
    "new": ("mine", "--family", "f"),
    "hunt": ("--seed", "3"),
    "grade": ("suite.py", "--select", "sub-sign", "--correct", "tanh-by-expm1"),
    "cohort": ("suite.py", "--out", "results"),
    "merge": ("pages", "--out", "results"),
    "try": ("skip-unbroadcast", "-c", "a.shape"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with an engine and pages to run the commands on."""
    (tmp_path / "tiny.py").write_text(TINY, encoding="utf-8")
    (tmp_path / "suite.py").write_text("def test():\n    assert 1 == 2\n", encoding="utf-8")
    for name, text in {"np-sum-flattens": SOUND_MYTH, "equal-factors": SOUND_EXERCISE}.items():
        write_page(tmp_path / "pages", text, f"{name}.md")
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [  # `doctor` runs every shared probe; `test_own_files` runs it in a process with few pages
        pytest.param(command, marks=[pytest.mark.slow] * (command == "doctor"))
        for command in COMMANDS
    ],
)
def test_a_command_does_the_same_in_a_process_of_its_own(command: str, folder: Path) -> None:
    pages = (
        []
        if command in ("doctor", "explain", "new", "watch")
        else ["--breaks", str(folder / "pages")]
    )
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


@pytest.mark.parametrize(
    "closed",
    [
        ">&-",
        "<&- >&- 2>&-",
        *(pytest.param(one, marks=pytest.mark.slow) for one in ("<&-", "2>&-")),
    ],
)
def test_a_closed_stream_changes_nothing_else(closed: str) -> None:
    command = f"{shlex.quote(sys.executable)} -m harness show skip-unbroadcast {closed}"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=False)
    assert done.returncode == 0
    assert b"Traceback" not in done.stdout + done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    "arguments",
    ["list --json", "show skip-unbroadcast", pytest.param("list", marks=pytest.mark.slow)],
)
def test_a_full_disk_is_one_message_with_status_3(arguments: str) -> None:
    command = f"{shlex.quote(sys.executable)} -m harness {arguments} > /dev/full"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=False, text=True)
    assert done.returncode == 3
    assert done.stderr.count("\n") == 2
    assert "No space left on device" in done.stderr
    assert "remedy:" in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("redirection", ["2> /dev/full", "> /dev/full 2>&1", "2>&-"])
def test_an_error_that_cannot_be_shown_has_its_status(redirection: str) -> None:
    command = f"{shlex.quote(sys.executable)} -m harness show nothing-like-it {redirection}"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (2, b"", b"")


@pytest.mark.parametrize(
    "arguments",
    [
        "list --json",
        "--help",
        *(pytest.param(command, marks=pytest.mark.slow) for command in ("list", "show sub-sign")),
    ],
)
def test_a_pipe_that_nobody_reads_ends_the_command_silently(arguments: str) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "harness", *arguments.split()]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")


def test_text_that_the_terminal_cannot_encode_is_escaped() -> None:
    done = harness_process("show", "skip-unbroadcast", "--lang", "es", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Hip\\xf3tesis" in done.stdout


@pytest.mark.parametrize("number", [6, *(pytest.param(n, marks=pytest.mark.slow) for n in (5, 8))])
def test_too_few_files_are_one_message_with_status_3(number: int) -> None:
    few = (number, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    arguments = ["break", "skip-unbroadcast", "--probe", "add-new-axis", "--no-cache"]
    done = subprocess.run(
        [sys.executable, "-m", "harness", *arguments],
        capture_output=True,
        check=False,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, few),
    )
    assert done.returncode == 3
    assert "Too many open files" in done.stderr
    assert "Traceback" not in done.stderr


def test_on_a_terminal_the_hypothesis_comes_first_and_the_runs_wait_for_nobody() -> None:
    command = ["break", "skip-unbroadcast", "--probe", "add-new-axis", "--no-cache"]
    shown = dialogue(command, ["s\n"], program=light_program()).text
    title, hypothesis, change, place = (
        shown.index(words)
        for words in ("Skip the unbroadcast", "Hypothesis", "return g, g", "elementwise.py:24")
    )
    assert title < hypothesis < change < place
    assert "You     1 of 1 right" in shown


def test_too_little_memory_is_a_problem_of_the_environment() -> None:
    def limit_memory() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (100_000 * 1024,) * 2)

    ended = subprocess.run(
        [sys.executable, "-m", "harness", "break", "mul-swapped-operands", "--no-cache"],
        check=False,
        capture_output=True,
        text=True,
        preexec_fn=limit_memory,
    )
    assert ended.returncode == 3
    assert "ulimit -v" in ended.stderr
    assert "Traceback" not in ended.stderr
