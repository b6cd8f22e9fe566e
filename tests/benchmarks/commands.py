"""What the commands cost: `harness break` and `harness matrix`, with and without a cache.

    python -m tests.benchmarks.commands [--quick] [--only break|matrix]

It works on a copy of the packages with a cache of its own, so that a page can be changed and the
user's cache is not touched. README.md says how it is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

from harness.core.message import from_parts
from harness.experiment.cached import CachedReport
from harness.runs.cache import CHECKSUM
from tests.benchmarks.engine import ONE_THREAD, ROOT, children_seconds, machine

BREAK = "skip-unbroadcast"
PACKAGES = ("breaks", "harness", "minigrad")
ROUNDS = 21

PAUSE = 0.05
"""Seconds between two looks at the memory."""


@dataclass(frozen=True)
class Row:
    """A measurement as text, and the number that the target is for."""

    what: str
    cost: str
    against: str = ""
    number: float = 0.0
    ratio: str = ""
    target: float | None = None
    unit: str = ""


def main() -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description="What the commands cost.")
    parser.add_argument("--quick", action="store_true", help="few pages, one round: a test")
    parser.add_argument("--only", choices=("break", "matrix"), help="only this command")
    options = parser.parse_args()
    rows: list[Row] = []
    with _copy(few=options.quick) as place:
        if options.only != "matrix":
            rows += _measure_break(place, 1 if options.quick else ROUNDS)
        if options.only != "break":
            rows += _measure_matrix(place, 1 if options.quick else 3)
    console = Console(width=80)
    console.print(f"{machine()}\n")
    if options.quick:
        console.print("few pages, one round: whether it works, not how fast it is\n", style="bold")
    shown = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    shown.add_column("what", no_wrap=True)
    for heading in ("it took", "against", "ratio", "target"):
        shown.add_column(heading, justify="right", no_wrap=True)
    shown.add_column("", no_wrap=True)
    for row in rows:
        if row.target is None:
            shown.add_row(row.what, row.cost, row.against, row.ratio)
        else:
            verdict = "reached" if row.number <= row.target else "missed"
            target = f"{row.target:g}{row.unit}" if row.target else ""
            shown.add_row(row.what, row.cost, row.against, row.ratio, target, verdict)
    console.print(shown)
    return 0


# ----- Where it is measured -----


@dataclass(frozen=True)
class Place:
    """A copy of the packages, and the environment in which it is run."""

    root: Path
    environment: dict[str, str]

    @property
    def cache(self) -> Path:
        return Path(self.environment["XDG_CACHE_HOME"], "breaklab", "runs.sqlite")

    def harness(self, *arguments: str) -> tuple[str, ...]:
        return (sys.executable, "-m", "harness", *arguments)

    def run(self, command: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            command,
            cwd=self.root,
            env=self.environment,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        _check(command, done.returncode, done.stderr)
        return done


def _check(command: tuple[str, ...], status: int, stderr: str) -> None:
    """A status of 1 says something about a page, which does not matter here."""
    if status not in (0, 1):
        raise RuntimeError(f"{' '.join(command)} failed:\n{stderr[-2000:]}")


@contextmanager
def _copy(*, few: bool) -> Iterator[Place]:
    """The packages in a temporary folder; with `few`, only pages of one family and controls."""
    with tempfile.TemporaryDirectory(prefix="measured-") as name:
        folder = Path(name)
        for package in PACKAGES:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / package, folder / package, ignore=ignored)
        if few:
            _leave_few(folder / "breaks")
        environment = {
            **{key: text for key, text in os.environ.items() if not key.startswith("PYTHON")},
            **ONE_THREAD,
            "COLUMNS": "80",
            "XDG_CACHE_HOME": str(folder / "cache"),
        }
        yield Place(folder, environment)


def _leave_few(pages: Path) -> None:
    """Remove most pages, and what is said about them elsewhere."""
    texts = {page: page.read_text("utf-8") for page in pages.rglob("*.md")}
    text = next(text for page, text in texts.items() if page.stem == BREAK)
    kept = {BREAK, "transpose-no-inverse", *re.findall(r"^\[\w+\.([\w-]+)\]", text, re.M)}
    for page, text in list(texts.items()):
        if page.stem not in kept and not re.search(r'^kind\s*=\s*"control"', text, re.M):
            page.unlink()
            del texts[page]
    named = set(re.findall(r"^([\w-]+)\s*= ", "\n".join(texts.values()), re.M))
    for file in (pages / "probes").glob("*.py"):
        functions = re.findall(r"^def (\w+)", file.read_text("utf-8"), re.M)
        if named.isdisjoint(function.replace("_", "-") for function in functions):
            file.unlink()
    for file in ("track.toml", "matrix.toml"):
        (pages / file).unlink(missing_ok=True)


# ----- harness break -----


def _measure_break(place: Place, rounds: int) -> list[Row]:
    """Against the import of NumPy and LibCST alone, in turns: AB, BA, AB, ..."""
    ours = place.harness("break", BREAK, "--no-predict")
    theirs = (sys.executable, "-c", "import numpy, libcst")
    for command in (theirs, ours):
        place.run(command)
    rows = []
    for what, forget in (("break, report cached", False), ("break, runs cached", True)):
        spent: dict[tuple[str, ...], list[float]] = {ours: [], theirs: []}
        for turn in range(rounds):
            for command in (ours, theirs) if turn % 2 else (theirs, ours):
                if forget and command is ours:
                    _delete_reports(place)
                before = children_seconds()
                place.run(command)
                spent[command].append(children_seconds() - before)
        ratios = [a / b for a, b in zip(spent[ours], spent[theirs], strict=True)]
        low, ratio, high = quantiles(ratios, n=4) if rounds > 1 else ratios * 3
        costs = [f"{1000 * median(spent[command]):.0f} ms" for command in (ours, theirs)]
        rows.append(Row(what, *costs, ratio, f"{ratio:.2f} ±{(high - low) / 2 / ratio:.0%}", 1.5))
        if forget:
            _delete_reports(place)
        timed = place.run((ours[0], "-X", "importtime", *ours[1:])).stderr
        imported = set(re.findall(r"\| +(\w+)$", timed, re.M))
        slow = sorted(imported & {"numpy", "libcst", "torch", "autograd"})
        names = ", ".join(slow) or "nothing"
        rows.append(Row("  it imports", names, "", float("torch" in slow), "", 0.0))
    return rows


def _delete_reports(place: Place) -> None:
    """Delete the cached reports, and keep the runs."""
    with closing(sqlite3.connect(place.cache)) as file, file:
        rows = file.execute("SELECT key, row FROM results").fetchall()
        reports = [(key,) for key, row in rows if _is_report(row[CHECKSUM:])]
        file.executemany("DELETE FROM results WHERE key = ?", reports)


def _is_report(data: bytes) -> bool:
    try:
        msgspec.msgpack.decode(data, type=CachedReport, dec_hook=from_parts)
    except msgspec.MsgspecError:
        return False
    return True


# ----- harness matrix -----


def _measure_matrix(place: Place, rounds: int) -> list[Row]:
    """Cold, with nothing changed, and after changes of one page."""
    shutil.rmtree(place.cache.parent, ignore_errors=True)
    cold = _matrix(place)
    warm = min((_matrix(place) for _ in range(rounds)), key=lambda cost: cost.wall)
    listed = json.loads(place.run(place.harness("list", "--json")).stdout)["pages"]
    pages = sum(page["kind"] in ("break", "variant", "control") for page in listed)
    page = next((place.root / "breaks").rglob(f"{BREAK}.md"))
    text = page.read_text("utf-8")
    page.write_text(text + "\nAnother sentence.\n", "utf-8")
    reworded = _matrix(place)
    page.write_text(text.replace("\n+$grad", "\n+($grad)").replace("\n+$g\n", "\n+($g)\n"), "utf-8")
    assert page.read_text("utf-8") != text, f"the patch of {BREAK} is written in another way now"
    repatched = _matrix(place)
    page.write_text(text, "utf-8")
    one = cold.wall / pages
    rows = [
        Row(
            what,
            f"{cost.wall:.1f} s",
            f"{cost.processor:.1f} s of CPU",
            cost.wall,
            "",
            target,
            " s",
        )
        for what, cost, target in (
            (f"matrix of {pages}, cold", cold, 30.0),
            ("matrix, nothing changed", warm, 2.0),
        )
    ]
    for what, cost in (
        ("matrix, one page's prose", reworded),
        ("matrix, one page's patch", repatched),
    ):
        worth = max(0.0, cost.wall - warm.wall) / one
        rows.append(
            Row(what, f"{cost.wall:.1f} s", f"{one:.2f} s a page", ratio=f"{worth:.1f} pages")
        )
    for what, cost in (("memory in all, cold", cold), ("  nothing changed", warm)):
        size = cost.memory / 1e6
        rows.append(Row(what, f"{size:.0f} MB", "", size, "", 600.0, " MB"))
    return rows


_ADOPTER = """\
import ctypes, os, subprocess, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
status = subprocess.run(sys.argv[1:]).returncode
try:
    while True:
        os.wait()
except ChildProcessError:
    sys.exit(status if status >= 0 else 128 - status)
"""
"""Runs a command and waits for the processes that it leaves behind, so that their time counts."""


@dataclass(frozen=True)
class Cost:
    """What a command and its descendants took together: seconds, and bytes at the peak."""

    wall: float
    processor: float
    memory: int


def _matrix(place: Place) -> Cost:
    return watch(place.harness("matrix"), place.root, place.environment)


def watch(command: tuple[str, ...], folder: Path, environment: dict[str, str]) -> Cost:
    """Run a command, and look at the memory of all its processes until it ends.

    Raises RuntimeError if it fails.
    """
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as stderr,
        subprocess.Popen(
            [sys.executable, "-c", _ADOPTER, *command],
            cwd=folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
        ) as process,
    ):
        start, used, memory = time.perf_counter(), children_seconds(), 0
        while process.poll() is None:
            memory = max(memory, sum(map(_proportional_size, _descendants(process.pid))))
            time.sleep(PAUSE)
        wall, processor = time.perf_counter() - start, children_seconds() - used
        stderr.seek(0)
        _check(command, process.returncode, stderr.read())
    return Cost(wall, processor, memory)


def _descendants(first: int) -> list[int]:
    """A process and all that descend from it."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):  # it may have ended meanwhile
            after_name = (entry / "stat").read_text("utf-8", "replace").rpartition(")")[2]
            children.setdefault(int(after_name.split()[1]), []).append(int(entry.name))
    processes = [first]
    for process in processes:
        processes += children.get(process, [])
    return processes


def _proportional_size(process: int) -> int:
    """In bytes: a page of memory that n processes map counts 1/n for each."""
    with suppress(OSError):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text("ascii").splitlines():
            if line.startswith("Pss:"):
                return 1024 * int(line.split()[1])
    return 0


if __name__ == "__main__":
    sys.exit(main())
