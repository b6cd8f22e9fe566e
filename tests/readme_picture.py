"""Makes the README's picture from a real run in a real terminal of 80 columns.

    python -m tests.readme_picture

It runs the first command of the README as for someone who has just installed breaklab: with an
empty cache, and without HIPS autograd, which that command does not install. It types predictions,
and draws the last screen, colours included.
"""

import re
import tempfile
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tests.harness.cli.terminal import dialogue

PICTURE = Path(__file__).parents[1] / "docs" / "first-break.svg"
COMMAND = ["break", "mul-swapped-operands"]
ANSWERS = ("s", "s", "d", "s", "1 2 3 4", "n")
WITHOUT_AUTOGRAD = (
    "import sys; sys.modules['autograd'] = None; from harness.cli import main; main()"
)


def main() -> None:
    """Draw the picture."""
    keys = [f"{answer}\n" for answer in ANSWERS]
    program = ("-c", WITHOUT_AUTOGRAD)
    with tempfile.TemporaryDirectory() as empty:
        folders = {"XDG_CACHE_HOME": empty, "BREAKLAB_DATA": f"{empty}/data"}
        done = dialogue(COMMAND, keys, program=program, NO_COLOR="", **folders)
    shown = Text.from_ansi(done.lasting.replace("\r", ""))
    start = shown.plain.rindex("\n", 0, shown.plain.rindex("track: page")) + 1
    console = Console(record=True, width=80, file=StringIO(), force_terminal=True)
    console.print(shown[start:], end="")
    svg = console.export_svg(title=f"harness {' '.join(COMMAND)}")
    svg = re.sub(r"@font-face\s*\{.*?\}", "", svg, flags=re.S)  # no fonts from elsewhere
    PICTURE.write_text(svg, encoding="utf-8")
    print(PICTURE)


if __name__ == "__main__":
    main()
