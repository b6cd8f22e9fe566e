"""The commands, the exit statuses, and the help in the reader's language.

Exit status: 0 as the page says; 1 not as the page says; 2 wrong usage or an unreadable page; 3 a
problem of the environment; 128 plus the signal's number after a signal, such as 130 after Ctrl-C,
or 141 (SIGPIPE) if the reader of a pipe has ended.
An error is one message on standard error with its remedy.

Only the module of the called command is imported, and commands import what they need inside their
functions, so that `harness list` starts at once, and a cached report is shown without NumPy or
LibCST.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from harness.cli.session import collision_problem, complain
from harness.cli.usage import REFUSED, refusal, require_command, translated
from harness.core import DOCUMENTS
from harness.core.errors import BreaklabError, EnvironmentProblem, InternalError, UsageError
from harness.core.message import message, shortened, visible
from harness.sandbox.signals import Terminated, broken_pipe, requests_raised

if TYPE_CHECKING:
    from harness.report.language import Language

COMMANDS = {
    "start": "track:start",
    "progress": "track:progress",
    "list": "show:list_pages",
    "show": "show:show",
    "diff": "show:diff",
    "break": "break_:break_engine",
    "try": "try_:try_code",
    "myth": "show:myth",
    "exercise": "tasks:exercise",
    "fix": "tasks:fix",
    "watch": "tasks:watch",
    "check": "author:check",
    "new": "author:new_page",
    "matrix": "matrix:show_kill_matrix",
    "doctor": "doctor:doctor",
    "html": "html:html",
    "grade": "grade:grade",
    "cohort": "grade:cohort",
    "merge": "grade:merge",
    "explain": "show:explain",
    "hunt": "hunt:hunt",
}
"""The function of each command, as `module:function` below `harness.cli`."""


def main() -> None:
    """Run the command line, and end the process with its exit status."""
    # The arrays are small: NumPy's threads would mostly wait for each other.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    atexit.register(gc.freeze)  # or Python searches the syntax trees for cycles after the last word
    traceback = "--traceback" in sys.argv
    arguments = [argument for argument in sys.argv[1:] if argument != "--traceback"]
    _open_streams()
    try:
        _require_utf8(arguments)
        if arguments[:1] == ["grade"]:
            _refuse_courses(arguments)
        try:
            with requests_raised():
                _run(arguments)
        finally:
            _note_weak_isolation(arguments)
    except Exception as error:
        if traceback:
            raise
        problem = _problem(error)
        with suppress(OSError):  # there may be nowhere to write to
            complain(problem, _language(arguments))
        sys.exit(problem.exit_status)
    except Terminated as request:
        if not request.reported:
            say = _language(arguments)
            new_line = "\n" if sys.stderr.isatty() else ""  # after the terminal's ^C
            print(f"{new_line}harness: {say('stopped')}", file=sys.stderr)
        raise
    finally:
        for stream in (sys.stdout, sys.stderr):
            _complete(stream)


def _language(arguments: Sequence[str]) -> Language:
    """Return the language of errors and help: that of `--lang`, else the locale's.

    With `--json` it is English, as in `CommandSession.language`. An unknown language is refused
    elsewhere.
    """
    from harness.report.language import ENGLISH, open_language

    given = [
        value.removeprefix("--lang=")
        for option, value in pairwise(["", *arguments])
        if option == "--lang" or value.startswith("--lang=")
    ]
    try:
        with suppress(UsageError):
            return open_language(given[-1] if given else "en" if "--json" in arguments else None)
        return open_language(None)
    except OSError:  # no file can be opened, which may be the error to report
        return ENGLISH


def _note_weak_isolation(arguments: Sequence[str]) -> None:
    """Warn if the code under test was not isolated from disk and network.

    Other commands than those that grade say it only on a terminal.
    """
    hosts = sys.modules.get("harness.sandbox.hosts")  # imported when something is run
    shown = sys.stderr.isatty() or arguments[:1] in (["grade"], ["cohort"])
    if hosts and hosts.not_granted and shown:
        say = _language(arguments)
        note = say(
            "this system allows no namespaces, so an engine, a page or a suite could read and "
            "change all your files; see {document}",
            document=DOCUMENTS / "safety.md",
        )
        print(f"harness: {note}", file=sys.stderr)


def _problem(error: Exception) -> BreaklabError:
    """Return an error as one message; any that is not expected is a mistake in breaklab."""
    if isinstance(error, BreaklabError):
        return error
    if isinstance(error, OSError):
        return EnvironmentProblem(
            message("the operating system refused a required operation: {error}", error=error),
            "check the path, the space on the disk and the limits (`ulimit -a`); "
            "--traceback shows the place",
        )
    if isinstance(error, MemoryError):
        return EnvironmentProblem(
            "there is not enough memory",
            "end other programs, or raise the limit (`ulimit -v`); --traceback shows the place",
        )
    if collision := collision_problem():
        return collision
    if isinstance(error, ImportError) and not (error.name or "").startswith("harness"):
        reason = shortened(" ".join(str(error).split()), 300)
        return EnvironmentProblem(
            message("a library cannot be imported: {error}", error=reason),
            "install breaklab again, or raise the limit on memory (`ulimit -v`); "
            "--traceback shows the place",
        )
    text = f"{type(error).__name__}: {shortened(' '.join(str(error).split()), 300)}"
    return InternalError(
        message("breaklab itself failed: {error}", error=text),
        "please report this, with the output of the same command with --traceback",
    )


def _complete(stream: TextIO) -> None:
    """Flush a stream; if that fails, discard its buffer, or it would fail again at exit."""
    try:
        stream.flush()
    except (OSError, Terminated):
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _require_utf8(arguments: Sequence[str]) -> None:
    """Raise UsageError for an argument that no report, page or cache could hold."""
    for argument in arguments:
        if any("\ud800" <= character <= "\udfff" for character in argument):
            raise UsageError(
                message("the argument `{argument}` is not UTF-8", argument=argument),
                "rename the file or folder",
            )


def _refuse_courses(arguments: Sequence[str]) -> None:
    """Raise UsageError for an option of `grade` that is now a command of its own."""
    for command, folders in (("cohort", "FOLDER"), ("merge", "FOLDER...")):
        if f"--{command}" in arguments:
            raise UsageError(
                message("`grade {option}` is now a command of its own", option=f"--{command}"),
                message("run `harness {command}`", command=f"{command} {folders} --out DIR"),
            )


class VisibleStream:
    """A text stream that writes escapes for characters that control a terminal or are invisible.

    Parameters
    ----------
    stream : TextIO
        The stream to write to. A `Screen` writes to it directly: it escapes the text that it shows,
        and adds colours.
    """

    buffer = None
    """No bytes can be written."""

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file = stream  # Rich's name for the stream behind another

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the stream."""
        return getattr(self.rich_proxied_file, name)

    def write(self, text: str) -> int:
        """Write the text. Raises Terminated if the reader has ended."""
        try:
            return self.rich_proxied_file.write(visible(text))
        except BrokenPipeError:
            raise broken_pipe() from None

    def flush(self) -> None:
        """Flush the stream. Raises Terminated if the reader has ended."""
        try:
            self.rich_proxied_file.flush()
        except BrokenPipeError:
            raise broken_pipe() from None

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        self.write("".join(lines))


def _open_streams() -> None:
    """Open the null device for closed standard streams, and make all text visible.

    A stream is closed after `<&-`. Without the null device, the next file that is opened would take
    its place. What is typed and is no text in the terminal's encoding is replaced.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))
    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # e.g. an arrow in ASCII
        setattr(sys, name, VisibleStream(stream))


def _run(arguments: list[str]) -> None:
    """Run the command, and write all of its output."""
    require_command(arguments, COMMANDS)
    called = arguments[0] if arguments and arguments[0] in COMMANDS else None
    command = translated(open_app(called), _language(arguments))
    try:
        # The name is the same for `python -m harness`.
        status: int = command(arguments, prog_name="harness", standalone_mode=False)
    except REFUSED as error:
        raise refusal(error, command, arguments) from None
    finally:
        sys.stdout.flush()
    sys.exit(status)


def open_app(called: str | None = None) -> typer.Typer:
    """Return the command line with all commands, or only with the one that is called."""
    app = typer.Typer(
        result_callback=_end,
        name="harness",
        help="Break an autodiff engine on purpose, predict what happens, and see what catches it.",
        epilog="With --traceback, any command shows where an error comes from.",
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback(invoke_without_command=True)(_without_command)
    for name in [called] if called else COMMANDS:
        module, _, function = COMMANDS[name].partition(":")
        app.command(name)(getattr(import_module(f"harness.cli.{module}"), function))
    return app


def _without_command(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the versions of breaklab and its libraries."),
    ] = False,
) -> int | None:
    """Show the version, the welcome or the help, unless a command was called."""
    if version:
        print(_versions())
        raise typer.Exit(0)
    if context.invoked_subcommand:
        return None
    if sys.stdin.isatty() and sys.stdout.isatty():
        from harness.cli.track import show_welcome_page

        return show_welcome_page()
    print(context.get_help(), file=sys.stderr)
    return 2


LIBRARIES = {
    "NumPy": "numpy",
    "LibCST": "libcst",
    "pytest": "pytest",
    "PyTorch": "torch",
    "HIPS autograd": "autograd",
}
"""The distributions whose versions results depend on."""


def _versions() -> str:
    """Return what a report of a mistake should begin with."""
    from platform import machine, python_version

    from harness.core.versions import own_version, version_of

    system = f"Python {python_version()}, {sys.platform} {machine()}"
    versions = (f"{name} {version_of(each, 'not installed')}" for name, each in LIBRARIES.items())
    return f"breaklab {own_version()}, {system}\n{', '.join(versions)}"


def _end(status: int, **_options: object) -> None:
    """End with the exit status that a command returns; the options are those before it."""
    raise typer.Exit(status)
