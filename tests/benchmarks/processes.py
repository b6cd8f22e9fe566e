"""A command with all its descendants: the time that they take, and the memory at their peak."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PAUSE = 0.05
"""Seconds between two looks at the memory, beyond what a look takes."""


_ADOPTING = """\
import ctypes, os, subprocess, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
status = subprocess.run(sys.argv[1:]).returncode
try:
    while True:
        os.wait()
except ChildProcessError:
    sys.exit(status if status >= 0 else 128 - status)
"""


@dataclass(frozen=True)
class Watched:
    """What a command and its descendants took together."""

    wall: float
    """Seconds from its start to its end."""
    processor: float
    """Seconds of processor time."""
    memory: int | None
    """Bytes at the peak; what processes share is counted once. None where there is no /proc."""
    processes: int
    """How many there were at that moment."""


def watched(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> Watched:
    """Run a command, and look at the memory of all its processes until it ends.

    The sampling itself takes processor time, which is not in `processor`. The command runs below a
    process that adopts the processes it leaves behind, so that their time is counted too.

    Raises RuntimeError where it fails; a status of 1 says something about pages.
    """
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said,
        subprocess.Popen(
            [sys.executable, "-c", _ADOPTING, *command],
            cwd=folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=said,
        ) as process,
    ):
        start, used = time.perf_counter(), _of_children()
        memory, processes = None, 0
        while process.poll() is None:
            sizes = [size for each in _descendants(process.pid) if (size := _proportional(each))]
            if sizes and (memory is None or sum(sizes) > memory):
                memory, processes = sum(sizes), len(sizes)
            time.sleep(PAUSE)
        wall, processor = time.perf_counter() - start, _of_children() - used
        if process.returncode not in (0, 1):
            said.seek(0)
            raise RuntimeError(f"{' '.join(command)} failed:\n{said.read()[-2000:]}")
    return Watched(wall, processor, memory, processes)


def _of_children() -> float:
    times = os.times()
    return times.children_user + times.children_system


def _descendants(first: int) -> list[int]:
    """A process and all that descend from it."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):  # it may have ended meanwhile
            after_name = (entry / "stat").read_text("utf-8", "replace").rpartition(")")[2]
            children.setdefault(int(after_name.split()[1]), []).append(int(entry.name))
    found = [first]
    for each in found:
        found += children.get(each, [])
    return found


def _proportional(process: int) -> int:
    """The proportional set size, in bytes: a page that n processes map counts 1/n for each."""
    with suppress(OSError):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text("ascii").splitlines():
            if line.startswith("Pss:"):
                return 1024 * int(line.split()[1])
    return 0
