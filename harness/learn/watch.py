"""Watching files: which files have changed, and which commands to run because of that.

Files are polled: that needs nothing from the system, and works on network disks and in containers,
which send no events. The pause between two looks grows with what a look costs.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import UsageError
from harness.core.message import message
from harness.engines import SETTINGS, nearest_settings
from harness.learn.scratch_copy import INFO, nearest_copy
from harness.pages.catalogue import BUNDLED

SUFFIXES = (".py", ".md", ".toml")
"""The files that matter; an editor's backup and swap files have other names."""

IGNORED = {"__pycache__", "node_modules", "venv", "site-packages", "build", "dist"}
"""Folders to ignore, besides hidden ones."""

SHARE = 0.005
"""The share of one core that polling may use."""

SHORTEST, LONGEST = 0.3, 5.0
"""The bounds of the interval between two polls, in seconds."""

QUIET = 0.2
"""Seconds without a change after which a change is complete: some editors write in several steps,
or replace the file by a new one."""


@dataclass(frozen=True)
class Watched:
    """A file or a folder, and the engine that `harness doctor` examines if it changes."""

    root: Path
    engine: str | None = None
    """None if only a harness.toml names one."""


Snapshot = Mapping[str, tuple[int, int]]
"""The size in bytes and the time of the last change, in nanoseconds, by file."""


def watched(name: str) -> Watched:
    """Return what a file, a folder or an engine, such as `tensor.py:Tensor`, means.

    Raises UsageError if there is no such file.
    """
    path, place = Path(name), Path(name.rpartition(":")[0])
    if os.path.lexists(path):
        return Watched(path, name if path.suffix == ".py" else None)
    if place.name and os.path.lexists(place):
        return Watched(place.parent, name)
    problem = message("no file or folder {path}", path=name)
    raise UsageError(problem, "name a folder, a file, or an engine as in `tensor.py:Tensor`")


def snapshot(places: Iterable[Watched]) -> Snapshot:
    """Return the files that matter below the folders, and the files that are named."""
    return dict(_files(places))


def _files(places: Iterable[Watched]) -> Iterator[tuple[str, tuple[int, int]]]:
    pending = [str(place.root) for place in places]
    while pending:
        try:
            entries = os.scandir(pending[-1])
        except NotADirectoryError:
            yield from _file(pending.pop())
            continue
        except OSError:  # deleted, or not to be read
            pending.pop()
            continue
        del pending[-1]
        with entries:
            for entry in entries:
                if entry.name.startswith(".") or entry.name in IGNORED:
                    continue
                try:
                    if entry.name.endswith(SUFFIXES):
                        facts = entry.stat()
                        yield entry.path, (facts.st_size, facts.st_mtime_ns)
                    elif entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                except OSError:  # deleted in the meantime
                    continue


def _file(path: str) -> Iterator[tuple[str, tuple[int, int]]]:
    try:
        facts = os.stat(path)  # noqa: PTH116  like the entries of a folder
    except OSError:
        return
    yield path, (facts.st_size, facts.st_mtime_ns)


def changed(before: Snapshot, after: Snapshot) -> list[Path]:
    """Return the files that are new, different or deleted, in order."""
    paths = before.keys() | after.keys()
    return sorted(Path(path) for path in paths if before.get(path) != after.get(path))


def wait_for_change(
    places: Sequence[Watched], before: Snapshot, sleep: Callable[[float], None] = time.sleep
) -> Snapshot:
    """Return the files once some of them have changed, and no more changes follow."""
    while True:
        start = time.process_time()
        after = snapshot(places)
        cost = time.process_time() - start
        if after == before:
            sleep(min(max(SHORTEST, cost / SHARE), LONGEST))
            continue
        sleep(QUIET)
        if snapshot(places) == after:
            return after


# ----- What to run -----


@dataclass(frozen=True)
class Command:
    """A command of the harness, with the files because of which it runs."""

    arguments: tuple[str, ...]
    files: tuple[Path, ...]


def commands(files: Iterable[Path], places: Sequence[Watched]) -> list[Command]:
    """Return the commands to run because of these files, each one once.

    A file that is deleted counts for an engine and for a copy, but not for a page or an exercise.
    """
    by_arguments: dict[tuple[str, ...], list[Path]] = {}
    pages: dict[Path, list[Path]] = {}
    for path in files:
        if path.suffix == ".md":
            if _text(path).startswith("+++"):  # a page, or the translation of one
                pages.setdefault(_root_of(path), []).append(path)
        elif arguments := _arguments(path, places):
            by_arguments.setdefault(arguments, []).append(path)
    for root, changed_pages in pages.items():
        ids = dict.fromkeys(path.stem.partition(".")[0] for path in changed_pages)
        where = () if root == BUNDLED else ("--breaks", os.path.relpath(root))
        by_arguments.setdefault(("check", *ids, *where), []).extend(changed_pages)
    return [Command(arguments, tuple(paths)) for arguments, paths in by_arguments.items()]


def first_commands(places: Sequence[Watched]) -> tuple[list[Command], list[Path]]:
    """Return the commands to run before anything is saved, and the named files without one.

    They are those of the files, engines and copies that are named; of another folder, nothing runs
    before a file in it is saved.
    """
    files = [place.root for place in places if place.root.is_file()]
    found = {command.arguments: command for command in commands(files, places)}
    for place in places:
        if place.root.is_dir() and (arguments := _arguments_of_folder(place)):
            found.setdefault(arguments, Command(arguments, ()))
    known = {path for command in found.values() for path in command.files}
    return list(found.values()), [path for path in files if path not in known]


def _arguments_of_folder(place: Watched) -> tuple[str, ...]:
    """Return the command for an engine, or a folder in a copy; empty for any other folder."""
    if place.engine:
        return "doctor", place.engine
    copy = nearest_copy(place.root.absolute())
    return () if copy is None else ("fix", "--dir", os.path.relpath(copy))


def _arguments(path: Path, places: Sequence[Watched]) -> tuple[str, ...]:
    """Return the command for a file of an engine, a copy or an exercise; empty if there is none."""
    copy = nearest_copy(path.absolute().parent)
    if copy is not None:
        return ("fix", "--dir", os.path.relpath(copy)) if path.name != INFO else ()
    if path.suffix == ".py" and (exercise := _EXERCISE.search(_text(path))):
        name = str(path)
        return ("exercise", exercise[1], f"./{name}" if name.startswith("-") else name)
    if path.suffix == ".toml" and path.name != SETTINGS:
        return ()
    around = (place.engine for place in places if path.is_relative_to(place.root))
    engine = next(filter(None, around), None)
    if engine is None and (settings := nearest_settings(path.parent)):
        engine = os.path.relpath(settings)
    return () if engine is None else ("doctor", engine)


_EXERCISE = re.compile(r"^#\s*harness exercise ([a-z0-9-]+) ", re.M)
"""The line `# harness exercise ID FILE`, with which a file names its exercise."""


def _root_of(page: Path) -> Path:
    """Return the folder to name with `--breaks`: the one with shared probes, or the page's own."""
    parents = page.resolve().parents
    if BUNDLED in parents:
        return BUNDLED
    return next((folder for folder in parents[:2] if (folder / "probes").is_dir()), parents[0])


def _text(path: Path) -> str:
    """Return the first few thousand characters of a file; empty if it cannot be read."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(4000)
    except OSError:
        return ""
