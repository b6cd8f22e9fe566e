"""The commands and the exit statuses.

Exit status: 0 as the page says; 1 not as the page says; 2 wrong usage or a page that cannot be
read; 3 a problem of the environment. An error is one message on standard error with its remedy.

Commands import what they need inside their functions, so that `harness --help` and `harness list`
start at once, and a report from the cache is shown without NumPy or LibCST.
"""

from __future__ import annotations

import os
import sys

import typer

from harness.cli.break_ import break_engine
from harness.cli.check import check
from harness.cli.diff import diff
from harness.cli.doctor import doctor
from harness.cli.exercise import exercise
from harness.cli.list import list_pages
from harness.cli.matrix import show_kill_matrix
from harness.cli.myth import myth
from harness.cli.new import new_page
from harness.cli.session import complain
from harness.cli.show import show
from harness.core.errors import BreaklabError
from harness.sandbox.signals import end_on_request


def _end(status: int) -> None:
    """End with the exit status that a command returns."""
    raise typer.Exit(status)


app = typer.Typer(
    result_callback=_end,
    name="harness",
    help="Break an autodiff engine on purpose, predict what happens, and see which checks notice.",
    epilog="With --traceback, any command shows where an error comes from.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("list")(list_pages)
app.command()(show)
app.command()(diff)
app.command("break")(break_engine)
app.command()(myth)
app.command()(exercise)
app.command()(check)
app.command("new")(new_page)
app.command("matrix")(show_kill_matrix)
app.command()(doctor)


def main() -> None:
    """Run the command line, and end the process with its exit status."""
    end_on_request()
    # The arrays are small: NumPy's threads would spend their time waiting for one another.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    traceback = "--traceback" in sys.argv
    arguments = [argument for argument in sys.argv[1:] if argument != "--traceback"]
    try:
        app(arguments)
    except BreaklabError as error:
        if traceback:
            raise
        complain(error)
        sys.exit(error.exit_status)
