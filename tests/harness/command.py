"""Running the command line: in this process, or as a user does in a process of its own."""

import io
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest

from harness import cli

Completed = subprocess.CompletedProcess[str]

REQUESTS = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
"""The signals that request a command to end."""


@contextmanager
def handlers_restored() -> Iterator[None]:
    """Restore the handlers of the requests, which a command that is stopped ignores in the end."""
    handlers = {number: signal.getsignal(number) for number in REQUESTS}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def harness(*arguments: str, cwd: Path | None = None, **environment: str) -> Completed:
    """Run `harness ARGUMENTS` in this process, with its output piped, at 80 columns."""
    status, out, err = 0, _pipe("strict"), _pipe("backslashreplace")
    with handlers_restored(), pytest.MonkeyPatch.context() as patch, mock.patch.dict(os.environ):
        _set_environment(environment)
        if cwd:
            patch.chdir(cwd)
        patch.setattr(sys, "argv", ["harness", *arguments])
        patch.setattr(sys, "stdin", io.StringIO())
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        try:
            cli.main()
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
        except Exception:
            traceback.print_exc()
            status = 1
    return subprocess.CompletedProcess(arguments, status, _text(out), _text(err))


def harness_process(
    *arguments: str,
    cwd: Path | None = None,
    program: Sequence[str] = ("-m", "harness"),
    **environment: str,
) -> Completed:
    """Run `harness ARGUMENTS` in a process of its own, with its output piped, at 80 columns.

    `program` holds the arguments with which Python starts the command.
    """
    with mock.patch.dict(os.environ):
        _set_environment(environment)
        return subprocess.run(
            [sys.executable, *program, *arguments],
            capture_output=True,
            text=True,
            encoding="utf-8",
            cwd=cwd,
            check=False,
        )


def light_program(pages: Path | None = None) -> tuple[str, ...]:
    """Return a `program` without oracles, and with these pages as the bundled ones.

    It does for another process what the fixtures `without_oracles` and `few_pages` do for this one.
    """
    lines = ["from harness.runs import cached_runs", "cached_runs.find_spec = lambda _: None"]
    lines += ["import os", f"os.environ.update({_other_caches()})"]
    if pages:
        lines += ["from pathlib import Path", "from harness.pages import catalogue"]
        lines += [f"catalogue.BUNDLED = Path({str(pages)!r})"]
    return "-P", "-c", "\n".join([*lines, "from harness.cli import main", "main()"])


def hide_oracles(patch: pytest.MonkeyPatch) -> None:
    """Act as if PyTorch and HIPS autograd were not installed.

    The key of a cached result does not know about that, so this takes another cache.
    """
    patch.setattr("harness.runs.cached_runs.find_spec", lambda _: None)
    for name, folder in _other_caches().items():
        patch.setenv(name, folder)


def _other_caches() -> dict[str, str]:
    here = os.environ["XDG_CACHE_HOME"].removesuffix(_HIDDEN) + _HIDDEN
    return {"XDG_CACHE_HOME": here, "LOCALAPPDATA": here}


_HIDDEN = "-without-oracles"


def _set_environment(environment: dict[str, str]) -> None:
    """The environment of these tests, without a language, and with these variables."""
    for name in ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG"):
        os.environ.pop(name, None)
    os.environ.update({"COLUMNS": "80", "PYTHONIOENCODING": "utf-8"} | environment)


def _pipe(errors: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), "utf-8", errors, newline="\n", write_through=True)


def _text(stream: io.TextIOWrapper) -> str:
    """What was written, as `subprocess` would decode it."""
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue().decode("utf-8")
