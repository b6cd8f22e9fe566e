"""The scratch copy of a broken engine: a folder of files that a learner repairs.

Beside the engine's files it holds `fix.toml`, which says what the copy was made from. The copy is
loaded from its own files, and the engine that it was made from is only ever read.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import tokenize
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path

import msgspec

from harness.core import require_utf8
from harness.core.errors import PageError, UsageError
from harness.core.message import message
from harness.engines.engine import Engine, read_source
from harness.engines.location import RESERVED
from harness.pages.page import read_toml
from harness.pages.probe import not_python, parse_python

INFO = "fix.toml"
"""The file that says what a copy was made from."""

MAKE_ONE = "`harness fix ID` makes one; `harness list --kind break` shows the ids"

_HEAD = (
    "# A scratch copy of an engine with a bug, made by `harness fix`. Repair the Python files.\n"
)


class CopyOrigin(msgspec.Struct, frozen=True):
    """What a copy was made from."""

    page: str
    engine: str
    """The engine as for `--engine`; empty for minigrad."""
    base: str
    """The folder from which the engine and the pages were named."""
    breaks: tuple[str, ...]
    """Folders with more pages."""
    digest: str
    """Of the unbroken engine's files."""


@dataclass(frozen=True)
class ScratchCopy:
    """A folder with a copy, and what it was made from."""

    folder: Path
    origin: CopyOrigin

    @property
    def text(self) -> str:
        """The text of its `fix.toml`."""
        values = msgspec.to_builtins(self.origin).items()
        return _HEAD + "".join(f"{name} = {json.dumps(value)}\n" for name, value in values)

    def write(self, sources: Mapping[str, str], *, again: bool = False) -> Path | None:
        """Create the folder with these files; with `again`, return where the old one is now.

        It appears at its path when it is complete, so that nothing is lost if it cannot be written.
        Raises FileExistsError if there is anything at its path and `again` is not set;
        `require_place` looks before anything is computed.
        """
        if not again and os.path.lexists(self.folder):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(self.folder))
        new = self.folder.with_name(f".{self.folder.name}-{os.getpid()}")
        new.mkdir(parents=True)
        try:
            for file, text in sources.items():
                path = new / file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(_encoded(text))
            (new / INFO).write_text(self.text, encoding="utf-8")
            aside = self._set_aside()
            new.rename(self.folder)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        return aside

    def _set_aside(self) -> Path | None:
        """Rename the folder if there is one, and return its new path."""
        number = 1
        if not os.path.lexists(self.folder):
            return None
        while os.path.lexists(aside := self.folder.with_name(f"{self.folder.name}.{number}")):
            number += 1
        return self.folder.rename(aside)

    def read(self) -> dict[str, str]:
        """Return the Python files of the copy, those that the learner added too.

        Raises PageError, with the line, for a file that is not Python.
        """
        paths = (path for path in sorted(self.folder.rglob("*.py")) if self._is_source(path))
        return {path.relative_to(self.folder).as_posix(): _read(path) for path in paths}

    def engine(self, clean: Engine, sources: Mapping[str, str]) -> Engine:
        """Return the copy as an engine that is called as the unbroken one is."""
        root = self.folder.resolve()
        return replace(clean, root=root, sources=dict(sources), sites=(), base={})

    def _is_source(self, path: Path) -> bool:
        parts = path.relative_to(self.folder).parts
        hidden = any(part.startswith(".") or part == "__pycache__" for part in parts)
        # One of these would be imported in place of a module that the harness itself needs.
        return not hidden and parts[0].removesuffix(".py") not in RESERVED


def open_copy(folder: Path) -> ScratchCopy:
    """Return the copy in a folder.

    Raises UsageError if there is none, PageError if its `fix.toml` cannot be read.
    """
    path = folder / INFO
    if not os.path.lexists(path):
        raise UsageError(message("{folder} has no scratch copy", folder=folder), MAKE_ONE)
    problem = "it does not say what the copy was made from"
    remedy = "move the folder away, and run `harness fix ID` again"
    return ScratchCopy(folder, read_toml(path, CopyOrigin, problem, remedy))


def require_place(folder: Path, page: str, *, again: bool) -> None:
    """Raise UsageError if a copy cannot be made there: the folder exists, or is in another copy.

    With `again` it may exist, if it holds a copy and is not the current folder, which cannot be
    set aside under the feet of a shell. Raises PageError for a path that is not UTF-8.
    """
    place = folder.absolute()
    require_utf8(place)
    around = nearest_copy(place.resolve().parent)
    if around is None and again and Path.cwd().is_relative_to(place.resolve()):
        around = nearest_copy(place.resolve())
    if around is not None:
        problem = message("{path} is inside a scratch copy", path=folder)
        raise UsageError(problem, message("go to {folder} first", folder=around.parent))
    if not os.path.lexists(folder):
        return
    if not os.path.lexists(folder / INFO):
        problem = message("{path} already exists, and is not a scratch copy", path=folder)
        raise UsageError(problem, "name a new folder with --dir")
    if again:
        open_copy(folder)
        return
    remedy = message(
        "`harness fix {page} --check` checks the copy in it; --again starts over, and keeps the "
        "old copy beside the new one",
        page=page,
    )
    raise UsageError(message("{path} already exists", path=folder), remedy)


def nearest_copy(start: Path) -> Path | None:
    """Return the folder, or the nearest one above it, that holds a copy; None without one."""
    return next(
        (folder for folder in (start, *start.parents) if os.path.lexists(folder / INFO)), None
    )


def digest_of(engine: Engine) -> str:
    """Return a digest of an engine's files."""
    return hashlib.sha256(msgspec.json.encode(sorted(engine.sources.items()))).hexdigest()


def _encoded(text: str) -> bytes:
    """Return a file's text in the encoding that it declares."""
    encoding, _ = tokenize.detect_encoding(BytesIO(text.encode()).readline)
    return text.encode(encoding)


def _read(path: Path) -> str:
    """Return a Python file's text. Raises PageError if it cannot be compiled."""
    try:
        text = read_source(path)
        parse_python(text, str(path), 1, "file")
    except UnicodeDecodeError as error:
        raise _not_text(error, path) from None
    except SyntaxError as error:  # an unknown encoding, or first lines that are not text
        try:
            path.read_bytes().decode()
        except UnicodeDecodeError as cause:
            raise _not_text(cause, path) from None
        raise not_python(error, "", str(path), 1, "file") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:  # such as `return` outside a function
        raise not_python(error, text, str(path), 1, "file") from None
    return text


def _not_text(error: UnicodeDecodeError, path: Path) -> PageError:
    line = error.object.count(b"\n", 0, error.start) + 1
    problem = message("it is not UTF-8 text: {reason}", reason=error.reason)
    return PageError(str(path), line, problem, "save it as UTF-8 text")
