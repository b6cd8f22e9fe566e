"""When the commands of the track say their first word, and their last one.

    python -m tests.benchmarks.words [--rounds N]

Each command runs in a terminal of its own, with the results of its runs in a cache. The first word
is the first text that stays on the screen; the last one is the first prompt, or the end of the
command.
"""

from __future__ import annotations

import argparse
import os
import pty
import select
import subprocess
import sys
import tempfile
import time
from statistics import median

from tests.benchmarks.engine import ROOT, children_seconds, machine
from tests.harness.cli.terminal import Dialogue

COMMANDS = (
    *("", "start", "start 0", "start 1", "progress", "list product", "explain silent"),
    *("show mul-swapped-operands", "diff mul-swapped-operands", "break mul-swapped-operands"),
    *("break skip-unbroadcast --no-predict", "try mul-swapped-operands -c a*b"),
    *("myth gradcheck-passed-engine-right", "exercise squares-only", "hunt --seed 3"),
)
"""What a learner types on the track."""

SHOW_CURSOR = "\x1b[?25h"
"""Ends a sign that a command is at work."""

PROMPTS = (b"> ", b"yes: ")


def main() -> int:
    """Measure, and print a table in Markdown."""
    parser = argparse.ArgumentParser(description="First and last word of each command.")
    parser.add_argument("--rounds", type=int, default=5, help="after one that fills the cache")
    rounds = parser.parse_args().rounds
    if rounds < 1:
        parser.error("--rounds must be at least 1")
    print(f"{machine()}, load {os.getloadavg()[0]:.1f}\n")
    print("| command | first word | last word | processor time |\n| --- | ---: | ---: | ---: |")
    for command in COMMANDS:
        times = [run(command.split()) for _ in range(rounds + 1)][1:]
        cells = [f"{median(column):.2f} s" for column in zip(*times, strict=True)]
        print(f"| `{f'harness {command}'.strip()}` | {' | '.join(cells)} |", flush=True)
    return 0


def run(arguments: list[str]) -> tuple[float, float, float]:
    """Return the seconds to the first and to the last word, and those of processor time."""
    with tempfile.TemporaryDirectory() as folder:
        master, slave = pty.openpty()
        used, start = children_seconds(), time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-m", "harness", *arguments],
            cwd=ROOT,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            env={**os.environ, "BREAKLAB_DATA": folder, "NO_COLOR": "1", "PAGER": "cat"},
        )
        os.close(slave)
        first, last = _watch(process, master, start)
        process.kill()
        process.wait()
        os.close(master)
        return first, last, children_seconds() - used


def _watch(process: subprocess.Popen[bytes], master: int, start: float) -> tuple[float, float]:
    shown, first = b"", 0.0
    while True:
        if select.select([master], [], [], 0.02)[0]:
            try:
                shown += os.read(master, 65536)
            except OSError:  # the other side is closed
                break
            if not first and lasting(shown).strip():
                first = time.perf_counter() - start
        elif shown.endswith(PROMPTS) or process.poll() is not None:
            break
    return first, time.perf_counter() - start


def lasting(shown: bytes) -> str:
    """Return the text that stays on the screen, without signs of work, even unfinished ones."""
    return Dialogue(0, shown.decode(errors="replace") + SHOW_CURSOR).text


if __name__ == "__main__":
    sys.exit(main())
