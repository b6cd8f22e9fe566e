"""Running the command line: in this process, or as a user does in a process of its own."""

import fcntl
import io
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
import traceback
from pathlib import Path
from unittest import mock

import pytest

from harness import cli

Completed = subprocess.CompletedProcess[str]


def harness(*arguments: str, cwd: Path | None = None, **environment: str) -> Completed:
    """Run `harness ARGUMENTS` in this process, with its output piped, at 80 columns."""
    status, out, err = 0, _pipe("strict"), _pipe("backslashreplace")
    with pytest.MonkeyPatch.context() as patch, mock.patch.dict(os.environ):
        _set_environment(environment)
        if cwd:
            patch.chdir(cwd)
        patch.setattr(sys, "argv", ["harness", *arguments])
        patch.setattr(sys, "stdin", io.StringIO())
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        try:
            cli.main()
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
        except Exception:
            traceback.print_exc()
            status = 1
    return subprocess.CompletedProcess(arguments, status, _text(out), _text(err))


def harness_process(*arguments: str, cwd: Path | None = None, **environment: str) -> Completed:
    """Run `harness ARGUMENTS` in a process of its own, with its output piped, at 80 columns."""
    with mock.patch.dict(os.environ):
        _set_environment(environment)
        return subprocess.run(
            [sys.executable, "-m", "harness", *arguments],
            capture_output=True,
            text=True,
            encoding="utf-8",
            cwd=cwd,
            check=False,
        )


def _set_environment(environment: dict[str, str]) -> None:
    """The environment of these tests, without a language, and with these variables."""
    for name in ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG"):
        os.environ.pop(name, None)
    os.environ.update({"COLUMNS": "80", "PYTHONIOENCODING": "utf-8"} | environment)


def _pipe(errors: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), "utf-8", errors, newline="\n", write_through=True)


def _text(stream: io.TextIOWrapper) -> str:
    """What was written, as `subprocess` would decode it."""
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue().decode("utf-8")


def plain(shown: str) -> str:
    """What a terminal shows, without the sequences that colour it or move the cursor."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)


def on_a_terminal(
    arguments: list[str],
    answers: list[str],
    prompt: str = ":",
    *,
    columns: int = 80,
    status: int = 0,
    **environment: str,
) -> str:
    """What `harness ARGUMENTS` shows when its terminal is given one answer a question."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    unset = ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG", "COLUMNS", "LINES")
    inherited = {name: value for name, value in os.environ.items() if name not in unset}
    process = subprocess.Popen(
        [sys.executable, "-m", "harness", *arguments],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=inherited | {"TERM": "xterm-256color"} | environment,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # so that Ctrl-C is a signal
    )
    os.close(slave)
    shown, waiting, deadline = "", list(answers), time.monotonic() + 600
    while time.monotonic() < deadline:
        if select.select([master], [], [], 0.1)[0]:
            try:
                shown += os.read(master, 4096).decode()
            except OSError:  # the other side is closed: that is how a terminal ends
                break
        if waiting and shown.rstrip(" ").endswith(prompt) and not shown.endswith("\n"):
            os.write(master, (waiting.pop(0) + "\n").encode())
            shown += "\n"
        elif process.poll() is not None:
            break
    assert process.wait(600) == status, shown
    os.close(master)
    return shown
