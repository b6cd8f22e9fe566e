"""The project's tasks: `nox -l` lists them, `nox -s lint` runs one.

They run in the environment of nox itself, which the second command in the README creates:
`.venv-test/bin/nox`. Only `lowest` and `others` create their own environments.
"""

from __future__ import annotations

import os
from pathlib import Path

import nox

nox.options.default_venv_backend = "none"
nox.options.sessions = ["lint", "types", "imports", "tests"]
nox.options.error_on_external_run = False
nox.options.error_on_missing_interpreters = False  # `others` skips a version that is not installed

CALLERS = (
    *("core", "pages", "report", "cli/test_cli.py", "learn/test_database.py", "runs/test_cache.py"),
    *("matrix/test_command.py", "training/test_statistics.py"),
    *("patch/test_patch_application.py", "patch/test_patch_portable.py"),
    "patch/test_patch_statements.py",
)
"""The tests of the code that calls the libraries whose lowest versions are tested."""

OTHERS = ("3.12", "3.13", "3.14")
"""The versions of Python that are supported, besides the one that all tests run on."""

# Those that pyenv has installed are found even if it has not activated them.
_PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
for _folder in _PYENV.glob("versions/*/bin"):
    os.environ["PATH"] += f"{os.pathsep}{_folder}"

VERSIONED = (
    *("engines/test_loader.py", "engines/test_origin.py", "engines/test_changed_parts.py"),
    *("grade/test_positions.py", "patch/test_patch_application.py", "rules"),
    *("runs/test_cache.py", "sandbox/test_fork.py", "plugin/test_reasons.py"),
)
"""Quick tests of what depends on the version: code objects, trees, forks, SQLite, pytest."""


@nox.session
def lint(session: nox.Session) -> None:
    """Run the linter, and check the formatting."""
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Check the types."""
    session.run("mypy")


@nox.session
def imports(session: nox.Session) -> None:
    """Check the import contracts."""
    session.run("lint-imports")


@nox.session
def pages(session: nox.Session) -> None:
    """Check every page, and compare the kill matrix with the committed one."""
    session.run("harness", "matrix")
    session.run("harness", "check")
    session.run("harness", "check", "--training")


@nox.session
def tests(session: nox.Session) -> None:
    """Run the default tier of the tests; arguments go to pytest."""
    session.run("pytest", *session.posargs)


@nox.session(venv_backend="venv")
def lowest(session: nox.Session) -> None:
    """Run commands and quick tests with the lowest versions that are allowed, without PyTorch."""
    extras = "autograd,junit,training"
    session.install("-r", "constraints-lowest.txt", "-e", f".[{extras}]")
    session.run("harness", "break", "--help", silent=True)
    session.run("harness", "break", "skip-unbroadcast", "--no-predict", silent=True)
    session.run("harness", "check", "skip-unbroadcast")
    session.run("harness", "matrix", "skip-unbroadcast", silent=True)
    tests = [f"tests/harness/{place}" for place in CALLERS]
    # The browser is the same for all versions.
    options = ("--ignore=tests/harness/report/html/test_browser.py", *session.posargs)
    session.run("pytest", *tests, *options)


@nox.session(venv_backend="venv", python=OTHERS)
def others(session: nox.Session) -> None:
    """Run commands and quick tests on the other versions of Python, with the newest NumPy."""
    constraints = Path(session.create_tmp(), "constraints.txt")
    pins = Path("constraints.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    constraints.write_text("".join(pin for pin in pins if not pin.startswith("numpy==")))
    wanted = ("-e", ".[autograd,html,junit]", "pytest", "pytest-xdist", "hypothesis")
    session.install("-c", str(constraints), *wanted)
    session.run("harness", "--version")
    session.run("harness", "break", "skip-unbroadcast", "--no-predict", silent=True)
    session.run("harness", "check", "mul-swapped-operands")
    tests = [f"tests/harness/{place}" for place in VERSIONED]
    # One process: each would take as long to start as all of these tests take.
    session.run("pytest", "-n", "0", *tests, "tests/packaging/test_upgrading.py", *session.posargs)


@nox.session
def slow(session: nox.Session) -> None:
    """Run only the slow tier: repetitions, full Hypothesis profiles, kill trials, benchmarks."""
    session.run("pytest", "-m", "slow", *session.posargs)


@nox.session
def documents(session: nox.Session) -> None:
    """Update the generated documents."""
    session.run("python", "-m", "harness.report.documents")
