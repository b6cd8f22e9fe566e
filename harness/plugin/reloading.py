"""A fresh process for what cannot be swapped: it loads the patched engine from text."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.engines.loading import find_in_memory
from harness.plugin import PATCHED

if TYPE_CHECKING:
    import pytest

QUIET = ("-q", "-x", "-p", "no:cacheprovider", "--tb=no")

_VALUED = ("--breaks-engine", "--breaks-json", "--breaks-junit", "--breaks-min-score")
_OF_XDIST = ("-n", "--numprocesses", "--dist", "--maxprocesses")


def same_options(config: pytest.Config) -> list[str]:
    """Return the options of a run, without ours, those of xdist and the names of the tests."""
    options: list[str] = []
    given = iter(config.invocation_params.args)
    for argument in given:
        name = argument.partition("=")[0]
        if argument in (*_VALUED, *_OF_XDIST):
            next(given, None)
        elif not (
            name.startswith("--breaks")
            or name in _OF_XDIST
            or re.fullmatch(r"-n\w+", argument)
            or argument in (*config.args, config.getoption("breaks"))
        ):
            options.append(argument)
    return [*options, *(("-n0",) if config.pluginmanager.hasplugin("xdist") else ())]


def install_patched_engine(file: str) -> None:
    """Let the imports of this process find the engine that `run_reloaded` wrote to a file."""
    task = json.loads(Path(file).read_text(encoding="utf-8"))
    find_in_memory(Path(task["root"]), task["sources"])


class RunFailed(Exception):
    """Pytest did not run the tests, which says nothing about the break."""


class FirstFailure:
    """In the fresh process: writes down which test fails first."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the test to the file beside the task."""
        if report.failed:
            with Path(os.environ[PATCHED] + ".failed").open("a", encoding="utf-8") as file:
                file.write(f"{report.nodeid}\n")


def run_reloaded(
    root: Path, sources: Mapping[str, str], arguments: Sequence[str], folder: Path, limit: float
) -> tuple[list[str], str]:
    """Run pytest in a fresh process that loads the engine from these files.

    Returns
    -------
    list of str, str
        The tests that fail, and how the process ended if it did not end by itself.

    Raises RunFailed if pytest could not run them.
    """
    with tempfile.TemporaryDirectory(prefix="breaklab-") as scratch:
        task = Path(scratch) / "engine.json"
        task.write_text(json.dumps({"root": str(root), "sources": dict(sources)}), encoding="utf-8")
        command = [sys.executable, "-m", "pytest", *QUIET, *arguments]
        environment = {**os.environ, PATCHED: str(task), "PYTEST_ADDOPTS": ""}
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                env=environment,
                timeout=limit,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return [], f"not done after {limit:.0f} seconds"
        failed = Path(f"{task}.failed")
        names = failed.read_text(encoding="utf-8").split("\n")[:-1] if failed.exists() else []
        if done.returncode in (4, 5):  # wrong arguments, no tests
            raise RunFailed(f"`{' '.join(command[:20])} ...` ended with status {done.returncode}")
        problem = "" if done.returncode in (0, 1) else f"pytest ended with status {done.returncode}"
        return names, problem
