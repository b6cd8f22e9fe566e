"""Makes the README's picture from a real run in a real terminal of 80 columns.

    python tests/readme_picture.py

It runs the command in a pseudo-terminal and draws what came out, colours included.
"""

import os
import pty
import re
import sys
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

PICTURE = Path(__file__).parent.parent / "docs" / "skip-unbroadcast.svg"
COMMAND = ["break", "skip-unbroadcast", "--no-predict"]
PROGRESS = r"\x1b\[\?25l.*?\x1b\[\?25h(\s*\x1b\[1A\x1b\[2K)?"
"""What is shown while the cursor is hidden; it is erased at the end."""


def run_in_terminal(arguments: list[str]) -> str:
    """What the command writes to a terminal of 80 columns."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(COLUMNS="80", LINES="40", TERM="xterm-256color")
        os.environ.pop("NO_COLOR", None)
        os.execv(sys.executable, [sys.executable, "-m", "harness", *arguments])
    output = b""
    try:
        while chunk := os.read(terminal, 65536):
            output += chunk
    except OSError:  # how Linux says that the other side has gone
        pass
    os.waitpid(pid, 0)
    return output.decode().replace("\r\n", "\n")


def main() -> None:
    """Draw the picture."""
    shown = re.sub(PROGRESS, "", run_in_terminal(COMMAND), flags=re.S)
    console = Console(record=True, width=80, file=StringIO(), force_terminal=True)
    console.print(Text.from_ansi(f"$ harness {' '.join(COMMAND[:2])}\n\n{shown}".rstrip()))
    svg = console.export_svg(title="harness break skip-unbroadcast")
    svg = re.sub(r"@font-face\s*\{.*?\}", "", svg, flags=re.S)  # no fonts from elsewhere
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(svg, encoding="utf-8")
    print(PICTURE)


if __name__ == "__main__":
    main()
