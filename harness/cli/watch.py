"""`harness watch`: on saving a file, run what it is for."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.text import Text

from harness.cli.options import Lang
from harness.cli.session import Session
from harness.report.language import VARIABLES
from harness.sandbox.signals import Terminated


def watch(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PATH]...",
            help="Folders, files, or an engine such as `tensor.py:Tensor`; by default this folder.",
        ),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Exit after the first run, with its exit status.")
    ] = False,
    lang: Lang = None,
) -> int:
    """Check a page, an exercise, a copy or an engine whenever you save it; Ctrl-C stops."""
    from harness.learn.watch import changed, commands, snapshot, wait_for_change, watched

    console = Session(lang=lang).console
    say, places = console.say, [watched(path) for path in paths or ["."]]
    files = snapshot(places)
    console.print(say("Files watched: {count}. Ctrl-C stops.", count=len(files)))
    while True:
        now = wait_for_change(places, files)
        saved, files = changed(files, now), now
        found = commands(saved, places)
        if not found:
            names = ", ".join(map(str, saved))
            console.print(say("{files}: nothing to run", files=names), soft_wrap=True)
            continue
        statuses = []
        for command in found:
            arguments = list(command.arguments)
            console.print()
            console.rule(Text(_now() + "  harness " + " ".join(arguments)), align="left")
            start = time.monotonic()
            statuses.append(run_child(arguments, lang))
            seconds = f"{time.monotonic() - start:.1f}"
            result = say("passed ({seconds} s)", seconds=seconds)
            if statuses[-1]:
                status = statuses[-1]
                result = say("exit status {status} ({seconds} s)", status=status, seconds=seconds)
            console.rule(Text(f"{_now()}  {result}"), align="left")
        if once:
            return max(statuses)


def run_child(arguments: Sequence[str], lang: str | None = None) -> int:
    """Run a command in a process of its own, and return its exit status, 128 + n for a signal.

    The language is passed in an environment variable, since not every command has `--lang`.

    It does not get the terminal's Ctrl-C: this process ends it, so that only one of both says so.
    """
    sys.stdout.flush()
    path = os.pathsep.join(entry or os.curdir for entry in sys.path)
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "harness", *arguments],
        stdin=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": path} | ({VARIABLES[0]: lang} if lang else {}),
        start_new_session=True,
    )
    try:
        status = child.wait()
    except Terminated as request:
        child.terminate()
        # Before it is ready, it ends without a word.
        request.reported = child.wait() > 0
        raise
    return status if status >= 0 else 128 - status


def _now() -> str:
    return time.strftime("%H:%M:%S")
