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
from collections.abc import Sequence
from dataclasses import dataclass
from unittest import mock

CTRL_C, CTRL_D, ENTER = "\x03", "\x04", "\n"

LOST = 30.0
"""Seconds without any output after which a key is pressed again."""

PATIENCE = 300.0
"""Seconds after which a command that neither ends nor prompts counts as hanging."""

_LAUNCH = (
    "import os, sys; os.login_tty(0); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
)


_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")
"""What moves the cursor, such as the sign that a command is running."""


@dataclass(frozen=True)
class Dialogue:
    """What a terminal showed, and the exit status."""

    status: int
    shown: str

    @property
    def lines(self) -> list[str]:
        """The lines of the screen, without line ends and without spaces at their end."""
        return [line.rstrip() for line in _CONTROL.sub("", self.shown).splitlines()]


def dialogue(
    arguments: Sequence[str],
    keys: Sequence[str] = (),
    *,
    columns: int = 80,
    rows: int = 24,
    **environment: str,
) -> Dialogue:
    """Run `harness ARGUMENTS`, and press the next keys at each prompt, which ends with `> `."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    with mock.patch.dict(os.environ):
        for name in ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG", "COLUMNS", "LINES"):
            os.environ.pop(name, None)
        os.environ.update({"NO_COLOR": "1", "TERM": "xterm"} | environment)
        process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCH, "-m", "harness", *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=dict(os.environ),  # without the size that readline adds behind Python's back
        )
    os.close(slave)
    shown = _drive(process, master, list(keys))
    os.close(master)
    return Dialogue(process.wait(), shown.replace("\r\n", "\n"))


def _drive(process: subprocess.Popen[bytes], master: int, keys: list[str]) -> str:
    data, start, deadline = b"", 0, time.monotonic() + PATIENCE
    pressed, at = "", 0.0
    while time.monotonic() < deadline:
        if select.select([master], [], [], 0.05)[0]:
            try:
                data += os.read(master, 65536)
            except OSError:  # the other side is closed
                break
        elif keys and data[start:].endswith((b"> ", b"yes: ")):
            start, pressed, at = len(data), keys.pop(0), time.monotonic()
            os.write(master, pressed.encode())
        elif pressed and len(data) == start and time.monotonic() > at + LOST:
            # The prompt was printed, but the terminal was not yet read: a Ctrl-D is lost then.
            at = time.monotonic()
            os.write(master, pressed.encode())
        elif process.poll() is not None:
            break
    else:
        process.kill()
    return data.decode()
