"""What the commands cost: `harness break` and `harness matrix`, with nothing and with all at hand.

    python -m tests.benchmarks.runner [--quick] [--json] [--only break|matrix]

It works on a copy of the packages with a store of its own, so that a page can be changed and nobody
else's runs are touched. README.md says how it is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median, quantiles

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

from harness.core.message import from_parts
from harness.experiment.cached import CachedReport
from harness.runs.cache import CHECKSUM
from tests.benchmarks.engine import ONE_THREAD, ROOT
from tests.benchmarks.processes import Watched, watched
from tests.benchmarks.report import machine

BREAK = "skip-unbroadcast"

IMPORTS = ("-c", "import numpy, libcst")
"""What `harness break` is held against."""

PACKAGES = ("breaks", "harness", "minigrad")

ROUNDS = 21


@dataclass(frozen=True)
class Row:
    """A measurement, what it is held against, and what it shall not exceed."""

    what: str
    found: str
    against: str = ""
    ratio: float | None = None
    """The number that `target` is for, where there is one."""
    shown: str = ""
    target: float | None = None
    unit: str = ""

    @property
    def verdict(self) -> str:
        """Whether the target is reached."""
        if self.target is None or self.ratio is None:
            return ""
        return "reached" if self.ratio <= self.target else "missed"


def main() -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description="What the commands cost.")
    parser.add_argument("--quick", action="store_true", help="two pages, one round: a test")
    parser.add_argument("--json", action="store_true", help="print JSON; the table goes to stderr")
    parser.add_argument("--only", choices=("break", "matrix"), help="only this command")
    options = parser.parse_args()
    rows: list[Row] = []
    with copied(few=options.quick) as place:
        if options.only != "matrix":
            rows += measure_break(place, 1 if options.quick else ROUNDS)
        if options.only != "break":
            rows += measure_matrix(place, 1 if options.quick else 3)
    console = Console(width=80, stderr=options.json)
    about = machine(ONE_THREAD)
    console.print(f"{about['processor']}; Python {about['python']}\n")
    if options.quick:
        console.print("two pages, one round: whether it works, not how fast it is\n", style="bold")
    console.print(table(rows))
    if options.json:
        print(json.dumps([{**asdict(row), "verdict": row.verdict} for row in rows], indent=1))
    return 0


def table(rows: list[Row]) -> Table:
    """A line a row."""
    shown = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    shown.add_column("what", no_wrap=True)
    for heading in ("it took", "against", "ratio", "target"):
        shown.add_column(heading, justify="right", no_wrap=True)
    shown.add_column("", no_wrap=True)
    for row in rows:
        target = f"{row.target:g}{row.unit}" if row.target else ""
        shown.add_row(row.what, row.found, row.against, row.shown, target, row.verdict)
    return shown


# ----- Where it is measured -----


@dataclass(frozen=True)
class Place:
    """A copy of the packages, and the environment in which it is run."""

    root: Path
    environment: dict[str, str]

    @property
    def store(self) -> Path:
        """The file of what is kept."""
        return Path(self.environment["XDG_CACHE_HOME"], "breaklab", "runs.sqlite")

    def harness(self, *arguments: str) -> tuple[str, ...]:
        """The command line."""
        return (sys.executable, "-m", "harness", *arguments)


@contextmanager
def copied(*, few: bool) -> Iterator[Place]:
    """The packages in a folder that is removed again; with `few`, two breaks and what they need."""
    with tempfile.TemporaryDirectory(prefix="measured-") as name:
        folder = Path(name)
        for package in PACKAGES:
            unneeded = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / package, folder / package, ignore=unneeded)
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


def measure_break(place: Place, rounds: int) -> list[Row]:
    """Against the import of NumPy and LibCST alone, in turns: AB, BA, AB, ..."""
    ours = place.harness("break", BREAK, "--no-predict")
    theirs = (sys.executable, *IMPORTS)
    for command in (theirs, ours):
        _processor(place, command)
    rows = []
    for what, forget in (("break, report cached", False), ("break, runs cached", True)):
        spent: dict[tuple[str, ...], list[float]] = {ours: [], theirs: []}
        for turn in range(rounds):
            for command in (ours, theirs) if turn % 2 else (theirs, ours):
                if forget and command is ours:
                    _forget_reports(place)
                spent[command].append(_processor(place, command))
        ratios = [a / b for a, b in zip(spent[ours], spent[theirs], strict=True)]
        low, ratio, high = quantiles(ratios, n=4) if rounds > 1 else ratios * 3
        mine, others = (f"{1000 * median(spent[command]):.0f} ms" for command in (ours, theirs))
        said = f"{ratio:.2f} ±{(high - low) / 2 / ratio:.0%}"
        rows.append(Row(what, mine, others, ratio, said, 1.5))
        if forget:
            _forget_reports(place)
        imported = _imported(place, ours) & {"numpy", "libcst", "torch", "autograd"}
        told = ", ".join(sorted(imported)) or "nothing"
        rows.append(Row("  it imports", told, "", float("torch" in imported), "", 0.0))
    return rows


def _processor(place: Place, command: tuple[str, ...]) -> float:
    """Seconds of processor time of a process and its children, from its start to its end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    _run(place, command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _forget_reports(place: Place) -> None:
    """Delete the cached reports, and keep the runs."""
    with closing(sqlite3.connect(place.store)) as file, file:
        rows = file.execute("SELECT key, row FROM results").fetchall()
        reports = [(key,) for key, row in rows if _is_report(row[CHECKSUM:])]
        file.executemany("DELETE FROM results WHERE key = ?", reports)


def _is_report(data: bytes) -> bool:
    try:
        msgspec.msgpack.decode(data, type=CachedReport, dec_hook=from_parts)
    except msgspec.MsgspecError:
        return False
    return True


def _imported(place: Place, command: tuple[str, ...]) -> set[str]:
    """The top-level modules that a command imports."""
    said = _run(place, (command[0], "-X", "importtime", *command[1:])).stderr
    return set(re.findall(r"\| +(\w+)$", said, re.M))


def _run(
    place: Place, command: tuple[str, ...], environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command,
        cwd=place.root,
        env=environment or place.environment,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode not in (0, 1):  # 1: not as some page says, which is none of our business
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return done


# ----- harness matrix -----


def measure_matrix(place: Place, rounds: int) -> list[Row]:
    """Cold, with nothing changed, and after changes of one page."""
    shutil.rmtree(place.store.parent, ignore_errors=True)
    recorded = place.root / "recorded"
    recorded.mkdir()
    cold = watched(_bare("record", recorded), place.root, _with_packages(place))
    bare = float(_run(place, _bare("replay", recorded), _with_packages(place)).stdout)
    warm = min((_matrix(place) for _ in range(rounds)), key=lambda each: each.wall)
    pages = _pages(place)
    page = next((place.root / "breaks").rglob(f"{BREAK}.md"))
    text = page.read_text("utf-8")
    page.write_text(text + "\nAnother sentence.\n", "utf-8")
    reworded = _matrix(place)
    page.write_text(text.replace("\n+$grad", "\n+($grad)").replace("\n+$g\n", "\n+($g)\n"), "utf-8")
    assert page.read_text("utf-8") != text, f"the patch of {BREAK} is written in another way now"
    repatched = _matrix(place)
    page.write_text(text, "utf-8")
    one = cold.wall / pages
    return [
        _seconds(f"matrix of {pages}, cold", cold, 30.0),
        _against_bare(cold, bare),
        _seconds("matrix, nothing changed", warm, 2.0),
        _after("matrix, one page's prose", reworded, warm, one),
        _after("matrix, one page's patch", repatched, warm, one),
        _memory("memory in all, cold", cold),
        _memory("  nothing changed", warm),
    ]


def _matrix(place: Place) -> Watched:
    return watched(place.harness("matrix"), place.root, place.environment)


def _bare(what: str, folder: Path) -> tuple[str, ...]:
    return (sys.executable, str(Path(__file__).with_name("bare.py")), what, str(folder))


def _with_packages(place: Place) -> dict[str, str]:
    """The environment in which a program outside the copied packages imports them."""
    return place.environment | {"PYTHONPATH": str(place.root)}


def _against_bare(run: Watched, bare: float) -> Row:
    """The processor time of the matrix, and of its jobs run bare."""
    ratio = run.processor / bare
    found, against = f"{run.processor:.1f} s", f"{bare:.1f} s"
    return Row("  its jobs, run bare", found, against, ratio, f"{ratio:.2f}", 2.5)


def _pages(place: Place) -> int:
    said = _run(place, place.harness("list", "--json")).stdout
    kinds = ("break", "variant", "control")
    return sum(page["kind"] in kinds for page in json.loads(said)["pages"])


def _seconds(what: str, run: Watched, target: float) -> Row:
    spent = f"{run.processor:.1f} s of CPU"
    return Row(what, f"{run.wall:.1f} s", spent, run.wall, "", target, " s")


def _after(what: str, run: Watched, warm: Watched, one: float) -> Row:
    """How many pages' share of the cold time was spent beyond that of a run without a change."""
    worth = max(0.0, run.wall - warm.wall) / one
    return Row(what, f"{run.wall:.1f} s", f"{one:.2f} s a page", worth, f"{worth:.1f} pages")


def _memory(what: str, run: Watched) -> Row:
    if run.memory is None:
        return Row(what, "no /proc")
    megabytes, most = run.memory / 1e6, f"{run.processes} processes"
    return Row(what, f"{megabytes:.0f} MB", most, megabytes, "", 600.0, " MB")


if __name__ == "__main__":
    sys.exit(main())
