"""Driving a command in a terminal of its own, key by key."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

CTRL_C, CTRL_D, ENTER = "\x03", "\x04", "\n"

LOST = 30.0
"""Seconds without any output after which a key is pressed again."""

PATIENCE = 300.0
"""Seconds after which a command that neither ends nor prompts counts as hanging."""

_LAUNCH = (
    "import os, sys; os.login_tty(0); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
)


_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\]8;[^\x1b]*\x1b\\|\r")
"""What colours text, links it or moves the cursor."""

_PROGRESS = re.compile(r"\x1b\[\?25l.*?\x1b\[\?25h(\s*\x1b\[1A\x1b\[2K)?", re.S)
"""What is shown while the cursor is hidden, a sign that a command is at work; it is erased."""


@dataclass(frozen=True)
class Dialogue:
    """What a terminal showed, and the exit status."""

    status: int
    shown: str

    @property
    def lines(self) -> list[str]:
        """The lines that stay on the screen, without spaces at their end."""
        return [line.rstrip() for line in _CONTROL.sub("", self.lasting).splitlines()]

    @property
    def text(self) -> str:
        """The lines as one text."""
        return "\n".join(self.lines)

    @property
    def lasting(self) -> str:
        """What stays on the terminal, with colours: no signs that a command is at work."""
        return _PROGRESS.sub("", self.shown)


def dialogue(
    arguments: Sequence[str],
    keys: Sequence[str | Callable[[], object]] = (),
    *,
    prompts: tuple[str, ...] = ("> ", "yes: "),
    columns: int = 80,
    rows: int = 24,
    program: Sequence[str] = ("-m", "harness"),
    cwd: Path | None = None,
    **environment: str,
) -> Dialogue:
    """Run `harness ARGUMENTS`, and press the next keys at each prompt.

    A function in place of keys is called at that moment. `prompts` are the ends of the output at
    which keys are pressed. `program` is how Python runs the command; an empty variable of the
    environment is unset.
    """
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    with mock.patch.dict(os.environ):
        for name in ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG", "COLUMNS", "LINES"):
            os.environ.pop(name, None)
        os.environ.update({"NO_COLOR": "1", "TERM": "xterm-256color"} | environment)
        for name in (name for name, value in environment.items() if not value):
            del os.environ[name]
        process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCH, *program, *arguments],
            cwd=cwd,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=dict(os.environ),  # without what only C knows: readline sets COLUMNS
        )
    os.close(slave)
    ends = tuple(prompt.replace("\n", "\r\n").encode() for prompt in prompts)
    shown = _drive(process, master, list(keys), ends)
    os.close(master)
    return Dialogue(process.wait(), shown.replace("\r\n", "\n"))


def _drive(
    process: subprocess.Popen[bytes],
    master: int,
    keys: list[str | Callable[[], object]],
    prompts: tuple[bytes, ...],
) -> str:
    data, start, deadline = b"", 0, time.monotonic() + PATIENCE
    pressed, at = "", 0.0
    while time.monotonic() < deadline:
        if select.select([master], [], [], 0.05)[0]:
            try:
                data += os.read(master, 65536)
            except OSError:  # the other side is closed
                break
        elif keys and data[start:].endswith(prompts):
            start, key, at = len(data), keys.pop(0), time.monotonic()
            pressed = key if isinstance(key, str) else ""
            if isinstance(key, str):
                os.write(master, key.encode())
            else:
                key()
        elif pressed and len(data) == start and time.monotonic() > at + LOST:
            # The prompt was printed, but the terminal was not yet read: a Ctrl-D is lost then.
            at = time.monotonic()
            os.write(master, pressed.encode())
        elif process.poll() is not None:
            break
    else:
        process.kill()
    return data.decode()
