"""Trials that end a kill matrix by a signal at a random time, and check what it leaves behind.

    python -m tests.hostile.kill_trials --trials 30

Each trial starts a small matrix with its own store and scratch folders, sends a signal, and checks
that the matrix ends soon and with the right status, that none of its processes are left, that the
engine's folder is unchanged and that the store is valid. The same command, started again, must
resume, not repeat stored runs, clean up, and print the same matrix as an undisturbed one. That
reference comes from two matrices that ran at the same time on one store.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import minigrad

ROOT = Path(__file__).parents[2]
ENGINE = Path(minigrad.__file__).parent
COMMAND = ("matrix", "--on", "unbroadcast-on-arrival", "--json", "skip-unbroadcast")
"""A break and the controls, on a rewrite of the engine."""

STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129, signal.SIGKILL: -9}
SOON = 300.0
"""Seconds after which a process is taken to stay for ever; an idle machine needs a tenth of one."""


@dataclass
class Place:
    """The folders of a matrix; its processes inherit the environment that names them."""

    folder: Path
    environment: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        for name in ("cache", "scratch"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        cache, scratch = str(self.folder / "cache"), str(self.folder / "scratch")
        kept = {name: value for name, value in os.environ.items() if name not in ("LANG", "LC_ALL")}
        self.environment = {**kept, "XDG_CACHE_HOME": cache, "TMPDIR": scratch, "COLUMNS": "80"}

    @property
    def store(self) -> Path:
        return self.folder / "cache" / "breaklab" / "runs.sqlite"

    @property
    def scratch(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "scratch").iterdir())

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.hostile.small_matrix", *COMMAND],
            cwd=ROOT,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=heed_requests,
        )

    def processes(self) -> list[int]:
        """The live processes that were started here, without zombies."""
        mark, found = f"XDG_CACHE_HOME={self.folder / 'cache'}".encode(), []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and entry.name != str(os.getpid()):
                try:
                    if mark in (entry / "environ").read_bytes().split(b"\0"):
                        found.append(int(entry.name))
                except OSError:
                    pass
        return found

    def stored(self) -> dict[bytes, int]:
        """The keys of the stored results, and their rows; a result computed again gets a new row.

        Raises sqlite3.DatabaseError if the store is corrupted.
        """
        if not self.store.exists():
            return {}
        with closing(sqlite3.connect(self.store)) as file:
            answer = file.execute("PRAGMA integrity_check").fetchone()[0]
            if answer != "ok":
                raise sqlite3.DatabaseError(answer)
            tables = {name for (name,) in file.execute("SELECT name FROM sqlite_master")}
            if "results" not in tables:  # it was just being made
                return {}
            return dict(file.execute("SELECT key, rowid FROM results"))


def heed_requests() -> None:
    """Handle signals as in a terminal; a process started in the background ignores Ctrl-C."""
    for number in STATUS:
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)


def finish(process: subprocess.Popen[str]) -> dict[str, Any]:
    """The output of the matrix, without its times."""
    out, err = process.communicate(timeout=600)
    assert process.returncode in (0, 1), err
    assert out, err
    shown: dict[str, Any] = without_seconds(json.loads(out))
    return shown


def without_seconds(thing: Any) -> Any:
    if isinstance(thing, dict):
        return {key: without_seconds(value) for key, value in thing.items() if key != "seconds"}
    return [without_seconds(item) for item in thing] if isinstance(thing, list) else thing


def tree(folder: Path) -> str:
    """A digest of the names and contents of all files in a folder, without bytecode."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if "__pycache__" in path.parts:  # another test may be importing the package
            continue
        digest.update(str(path).encode() + (path.read_bytes() if path.is_file() else b""))
    return digest.hexdigest()


@dataclass(frozen=True)
class Trial:
    """The result of a matrix that received a signal."""

    wrong: list[str]
    """What went wrong; empty if nothing did."""
    status: int | None = None
    took: float = 0.0
    """Seconds from the signal to the end of its last process."""
    kept: int = 0
    """The number of runs in the store."""


def trial(
    folder: Path,
    number: signal.Signals,
    wait: Callable[[Place], None],
    reference: dict[str, Any],
    *,
    group: bool,
) -> Trial:
    """Run a matrix that gets the signal when `wait` returns.

    With `group`, every process of its group receives it, as from a terminal.
    """
    place, before = Place(folder), tree(ENGINE)
    process = place.start()
    wait(place)
    if process.poll() is None:
        (os.killpg if group else os.kill)(process.pid, number)
    start = time.monotonic()
    try:
        _, err = process.communicate(timeout=SOON)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return Trial([f"still there {SOON:g} seconds after {number.name}"])
    while (left := place.processes()) and time.monotonic() - start < SOON:
        time.sleep(0.01)
    took, wrong = time.monotonic() - start, []
    # It may have been done before; or just started, and then the system's default ends it.
    if process.returncode not in (STATUS[number], 0, 1, -number):
        wrong.append(f"status {process.returncode} after {number.name}: {err}")
    if process.returncode in (129, 130, 143) and err.count("\n") > 1:
        wrong.append(f"said more than one line: {err}")
    if left:
        wrong.append(f"processes are left: {left}")
    if number != signal.SIGKILL and place.scratch:
        wrong.append(f"scratch folders are left: {place.scratch}")
    kept = place.stored()
    if finish(place.start()) != reference:
        wrong.append("the next run shows another matrix")
    if not kept.items() <= place.stored().items():
        wrong.append("what was kept was run again")
    if place.scratch:
        wrong.append(f"the next run did not sweep {place.scratch}")
    if place.store.with_name("runs.sqlite.damaged").exists():
        wrong.append("the store was put aside")
    if tree(ENGINE) != before:
        wrong.append("the engine's folder was changed")
    return Trial(wrong, process.returncode, took, len(kept))


def until_it_has_stored(place: Place) -> None:
    """Wait until a matrix that has just begun has its first runs in the store."""
    end = time.monotonic() + SOON
    while not place.stored() and time.monotonic() < end:
        time.sleep(0.02)


def two_at_once(folder: Path) -> tuple[dict[str, Any], float]:
    """The output of two matrices that share a store, and their time in seconds."""
    start, place = time.monotonic(), Place(folder)
    one, another = place.start(), place.start()
    shown = finish(one)
    assert finish(another) == shown
    assert place.stored()
    return shown, time.monotonic() - start


def undisturbed(folder: Path) -> tuple[dict[str, Any], float]:
    """The output of an undisturbed matrix, and its time in seconds."""
    start = time.monotonic()
    return finish(Place(folder).start()), time.monotonic() - start


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=30, help="for each signal")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--signal", choices=[number.name for number in STATUS], help="only this one"
    )
    arguments = parser.parse_args()
    signals = [number for number in STATUS if arguments.signal in (None, number.name)]
    rng, failures = random.Random(arguments.seed), 0
    with tempfile.TemporaryDirectory() as folder:
        reference, seconds = undisturbed(Path(folder, "undisturbed"))
        print(f"undisturbed: {seconds:.1f} seconds", flush=True)
        shown, took = two_at_once(Path(folder, "two"))
        failures += shown != reference
        print(f"two at once: {took:.1f} seconds, {'well' if shown == reference else 'WRONG'}")
        print("signal   to     after  status  ends after  runs kept")
        for number in signals:
            for count in range(arguments.trials):
                delay, group = rng.uniform(0.0, seconds), count % 3 == 0
                here = Path(folder, f"{number.name}-{count}")
                result = trial(
                    here, number, lambda _, delay=delay: time.sleep(delay), reference, group=group
                )
                failures += bool(result.wrong)
                print(
                    f"{number.name:8} {'all' if group else 'first':5} {delay:5.1f} s  "
                    f"{result.status or 0:6}  {result.took:8.2f} s  {result.kept:9}  "
                    f"{'; '.join(result.wrong) or 'well'}",
                    flush=True,
                )
    print(f"{failures} of {len(signals) * arguments.trials} trials went wrong")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
