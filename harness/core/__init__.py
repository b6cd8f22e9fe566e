"""What all other packages share: the vocabulary, the errors and the records that they exchange.

Every text file that a user names or puts into a folder of pages is read with `read_bytes` or
`read_text`; every file that is written for a user is written by `harness.core.files`.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path
from typing import BinaryIO

from harness.core.errors import PageError
from harness.core.message import message

LARGEST = 64 * 1024
"""Bytes in a text that people write: ten times what one can read in five minutes."""

PACKAGES = Path(__file__).parents[2]
"""The folder that holds our own packages: the harness, minigrad and the pages.

They are found here and never by name: a learner's own package may be called `minigrad` too.
"""

DOCUMENTS = next(
    (folder for folder in (PACKAGES / "harness/docs", PACKAGES / "docs") if folder.is_dir()),
    PACKAGES / "docs",
)
"""The folder of the documents: `harness/docs` in a wheel, and `docs` in a clone."""

_NOT_BLOCKING = getattr(os, "O_NONBLOCK", 0)
"""For files such as /proc/kmsg, which are regular but block until there is more text."""

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def read_text(path: Path, most: int = LARGEST) -> str:
    r"""Return the text of a file of at most `most` bytes, with line ends as `\n`.

    Raises what `read_bytes` raises, and PageError for a file that is not UTF-8 or has control
    characters.
    """
    data = read_bytes(path, most)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        reason = message("it is not UTF-8 text: {reason}", reason=error.reason)
        raise PageError(str(path), line, reason, "save it as UTF-8 text") from None
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if control := _CONTROL.search(text):
        line = text.count("\n", 0, control.start()) + 1
        code = f"U+{ord(control[0]):04X}"
        problem = message("the control character {code} is not text", code=code)
        raise PageError(str(path), line, problem, "remove it")
    return text


def read_bytes(path: Path, most: int = LARGEST) -> bytes:
    """Return the content of a file.

    Raises PageError unless it is a regular file (after following links) of at most `most` bytes
    that can be opened, and its path is UTF-8.
    """
    require_utf8(path)
    name = str(path)
    data = None
    try:
        if file := open_regular(path):
            with file:
                data = file.read(most + 1)
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        if getattr(error, "errno", None) in (errno.EMFILE, errno.ENFILE):
            raise  # not the fault of the file
        problem = message(
            "cannot be read: {reason}", reason=getattr(error, "strerror", None) or error
        )
        remedy = "check the path, and that you are allowed to read the file"
        raise PageError(name, 1, problem, remedy) from None
    if data is None:
        remedy = "save the text in a regular file"
        raise PageError(name, 1, "it is not a regular file", remedy)
    if len(data) > most:
        problem = message("it is too large: at most {most} bytes are allowed", most=most)
        raise PageError(name, 1, problem, "shorten it, or split it into several files")
    return data


def open_regular(path: Path) -> BinaryIO | None:
    """Open a file for reading; None unless it is a regular file, after following links.

    Opening a pipe would block, and a device may never end. Raises OSError, and ValueError for a
    null character in the path.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        return None
    file = os.fdopen(os.open(path, os.O_RDONLY | _NOT_BLOCKING), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # it has been replaced since
        file.close()
        return None
    return file


def require_utf8(path: Path) -> None:
    """Raise PageError for a path that is not UTF-8: reports and caches cannot store it."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        remedy = "rename the file or the folder"
        raise PageError(str(path), 1, "its path is not UTF-8", remedy) from None
