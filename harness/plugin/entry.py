"""The plugin's options, and what a fresh process does that loads a patched engine.

Importing this module is cheap: pytest does so in every run. A fresh process imports nothing else of
ours before the user's `conftest.py`, which may set what NumPy reads when it is imported.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from harness.plugin import PATCHED

if TYPE_CHECKING:
    import argparse

    import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, all of which begin with `--breaks`."""
    group = parser.getgroup("breaklab", "deliberate bugs in an autodiff engine")
    group.addoption(
        "--breaks",
        metavar="SELECTION",
        nargs="?",
        const="all",
        help="if the tests pass, put each break into the engine and see which tests notice; "
        "--breaks=SELECTION is a list of ids, family:NAME, unit:NAME, level:N and track, separated "
        "by commas",
    )
    group.addoption(
        "--breaks-rules",
        metavar="TARGET",
        help="if the tests pass, put bugs into your own backward rules in a file, a folder or a "
        "module, one site at a time; TARGET:NAME is one rule",
    )
    group.addoption(
        "--breaks-engine",
        metavar="TARGET",
        help="the engine under test, as for `harness --engine`; minigrad by default",
    )
    group.addoption(
        "--breaks-pages",
        metavar="DIR",
        action="append",
        default=[],
        help="a folder with more pages, as for `harness --breaks`; may be repeated",
    )
    group.addoption("--breaks-json", metavar="FILE", help="write the result as JSON")
    group.addoption("--breaks-junit", metavar="FILE", help="write the result as JUnit XML")
    group.addoption(
        "--breaks-sarif", metavar="FILE", help="write the breaks that are not killed as SARIF"
    )
    group.addoption(
        "--breaks-min-score",
        metavar="PERCENT",
        type=float,
        help="fail if a smaller share of the breaks is killed",
    )
    group.addoption(
        "--breaks-baseline",
        metavar="FILE",
        help="fail if the tests miss anything that is not in this file",
    )
    group.addoption(
        "--breaks-baseline-update",
        action="store_true",
        help="write what the tests miss now into the file that --breaks-baseline names",
    )
    group.addoption(
        "--breaks-all",
        action="store_true",
        help="run every test that reaches a break, not only until the first one fails",
    )


def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Load the patched engine of this process, or start to record, before anything is imported."""
    if PATCHED in os.environ:
        from harness.engines.loading import find_in_memory

        task = json.loads(Path(os.environ[PATCHED]).read_text(encoding="utf-8"))
        find_in_memory(Path(task["root"]), task["sources"])
    elif _is_used(early_config.known_args_namespace):
        _refuse_environment()
        if early_config.known_args_namespace.breaks_rules is not None:
            _use_one_thread()
        from harness.grade.reach import CALLS

        CALLS.start()


def _refuse_environment() -> None:
    """Raise UsageError without `fork`, or if another distribution has replaced files of ours."""
    import pytest

    from breaklab import collision
    from harness.core.errors import EnvironmentProblem
    from harness.sandbox.fork import require_fork

    if found := collision():
        raise pytest.UsageError(str(found))
    try:
        require_fork("pytest --breaks")
    except EnvironmentProblem as error:
        raise pytest.UsageError(str(error)) from None


def _is_used(options: argparse.Namespace) -> bool:
    return options.breaks is not None or options.breaks_rules is not None


def _use_one_thread() -> None:
    """Let PyTorch compute in one thread: a fork has no others, and would wait for them forever."""
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker and, if `--breaks` was given, the rest of the plugin."""
    config.addinivalue_line(
        "markers", "kills(*ids): this test alone kills these breaks; checked by `pytest --breaks`"
    )
    if PATCHED in os.environ:
        from harness.grade.running import fix_hypothesis

        fix_hypothesis()
        config.pluginmanager.register(FirstFailure(), "breaklab-reloaded")
    elif _is_used(config.option):
        from harness.grade.reach import CALLS

        is_recorded = CALLS.stop()  # `register` calls no tests, and recording would slow it down
        from harness.plugin.session import register

        session = register(config)
        session.is_recorded = is_recorded
        if session.runs_tests:
            CALLS.start()


class FirstFailure:
    """In the fresh process: writes down which test fails first."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the test to the file beside the task."""
        if report.failed:
            with Path(os.environ[PATCHED] + ".failed").open("a", encoding="utf-8") as file:
                file.write(f"{report.nodeid}\n")
