"""Reading the files of a suite; nothing is executed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from harness.core import read_bytes
from harness.core.errors import PageError
from harness.grade.processes import NotGradable

LARGEST, MOST_FILES = 1024 * 1024, 200
"""Bytes in a test file, and files in a suite."""


def read_files(path: Path, *, conftest: bool) -> dict[str, bytes]:
    """Return the test files at a path, by their path below it. Raises NotGradable.

    With `conftest`, the files `conftest.py` are among them.
    """
    files = {path.name: path} if path.is_file() else dict(_test_files(path, conftest))
    if not any(name != "conftest.py" for name in files):
        raise NotGradable(f"no file test_*.py or *_test.py in {path}")
    if len(files) > MOST_FILES:
        raise NotGradable(f"more than {MOST_FILES} test files")
    for name, file in files.items():
        if any(mark in name for mark in ("::", "[", "]")) or name.startswith("-"):
            raise NotGradable(f"pytest cannot load a file named `{name}`: rename it")
        if file.is_symlink() and file != path:
            raise NotGradable(f"{name} is a symbolic link")
    try:
        return {name: read_bytes(file, LARGEST) for name, file in files.items()}
    except PageError as error:
        raise NotGradable(f"{Path(error.path).name}: {error.problem}") from None


def _test_files(folder: Path, conftest: bool) -> Iterator[tuple[str, Path]]:
    patterns = ("test_*.py", "*_test.py", *(("conftest.py",) if conftest else ()))
    for pattern in patterns:
        for file in sorted(folder.rglob(pattern)):
            name = file.relative_to(folder)
            if not any(part.startswith((".", "__")) for part in name.parts):
                yield name.as_posix(), file
