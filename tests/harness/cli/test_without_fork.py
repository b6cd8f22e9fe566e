"""Commands where a process cannot fork: the same output, or one line that says why not.

`LESS` removes from Python what it lacks on Windows; the processes that it starts lack it too.
"""

import os
from pathlib import Path

import pytest

from harness.sandbox.limits import WITHOUT_FORK
from tests.harness.cli.test_process import COMMANDS, folder, timeless
from tests.harness.command import Completed, harness_process, light_program

__all__ = ["folder"]

LESS = """
import os, select, shutil, signal, subprocess, sys, tempfile, types
import platformdirs.unix  # like `subprocess`, it is made for this system

subprocess.signal = types.SimpleNamespace(**vars(signal))
subprocess.os = types.SimpleNamespace(**vars(os))
for name in ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog"):
    sys.modules[name] = None
for name in (
    *("fork", "forkpty", "posix_spawn", "setsid", "setpgid", "killpg"),
    *("getpgid", "waitid", "WNOHANG", "WEXITED", "WNOWAIT", "P_ALL", "WIFSIGNALED", "WTERMSIG"),
    *("getuid", "geteuid", "getgid", "getegid", "chown", "mkfifo", "pread", "sysconf", "statvfs"),
    *("sched_getaffinity", "nice", "O_CLOEXEC", "O_NONBLOCK", "pidfd_open", "memfd_create"),
):
    delattr(os, name)
for name in ("SIGKILL", "SIGCHLD", "SIGHUP", "SIGPIPE", "SIGXCPU", "SIGPROF", "SIGALRM"):
    delattr(signal, name)
for name in ("setitimer", "ITIMER_PROF", "pthread_sigmask", "sigtimedwait", "alarm"):
    delattr(signal, name)
delattr(select, "poll")
"""
"""A `sitecustomize.py`."""

IMPORT_ALL = """
import importlib, os, pkgutil, harness
assert not hasattr(os, "fork")
for module in pkgutil.walk_packages(harness.__path__, "harness."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
print("all are imported")
"""

ONE_PROBE = ("skip-unbroadcast", "--probe", "add-new-axis", "--no-predict")


@pytest.fixture
def less(tmp_path: Path) -> dict[str, str]:
    """The environment of a process with less of Python."""
    where = tmp_path / "less"
    where.mkdir()
    (where / "sitecustomize.py").write_text(LESS, encoding="utf-8")
    return {"PYTHONPATH": os.pathsep.join([str(where), str(Path.cwd())])}


def run(
    command: str,
    folder: Path,
    pages: Path,
    patch: pytest.MonkeyPatch,
    name: str,
    environment: dict[str, str],
) -> Completed:
    """Run a command in a process with a cache and a learner of its own, without oracles."""
    patch.setenv("XDG_CACHE_HOME", str(folder / f"cache-{name}"))
    light = light_program(pages if command == "doctor" else None)
    own = [] if command in ("doctor", "explain") else ["--breaks", str(folder / "pages")]
    arguments = ONE_PROBE if command == "break" else COMMANDS[command]
    data = {"BREAKLAB_DATA": str(folder / f"data-{name}")}
    where = folder / name
    where.mkdir()
    for file in folder.glob("*.py"):
        (where / file.name).write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
    return harness_process(
        command, *arguments, *own, cwd=where, program=light, **data, **environment
    )


@pytest.mark.parametrize(
    "command",
    [
        *("break", "myth", "fix"),
        *(
            pytest.param(command, marks=pytest.mark.slow)
            for command in (
                "list",
                "show",
                "diff",
                "explain",
                "exercise",
                "check",
                "doctor",
                "start",
            )
        ),
        *(pytest.param(command, marks=pytest.mark.slow) for command in ("html", "progress", "try")),
    ],
)
def test_a_command_does_the_same_without_fork(
    command: str,
    folder: Path,
    folder_of_few_pages: Path,
    less: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usual = run(command, folder, folder_of_few_pages, monkeypatch, "usual", {})
    without = run(command, folder, folder_of_few_pages, monkeypatch, "without", less)
    assert timeless(without) == timeless(usual)
    assert "Traceback" not in without.stderr


def test_a_variable_forces_the_path_without_fork() -> None:
    text = "from harness.runs.isolated import HOSTED; print(HOSTED)"
    done = harness_process(program=("-c", text), **{WITHOUT_FORK: "1"})
    assert done.stdout == "False\n"


def test_every_module_can_be_imported_without_fork(less: dict[str, str]) -> None:
    done = harness_process(program=("-c", IMPORT_ALL), **less)
    assert (done.stdout, done.stderr) == ("all are imported\n", "")


@pytest.mark.parametrize(
    "arguments",
    [("-m", "harness", "grade", "suite.py"), ("-m", "harness", "cohort", ".", "--out", "results")],
)
def test_grading_is_refused_with_a_remedy(
    arguments: tuple[str, ...], folder: Path, less: dict[str, str]
) -> None:
    done = harness_process(program=arguments, cwd=folder, **less)
    assert done.returncode == 3
    assert done.stderr.count("\n") == 2
    assert "needs `fork`" in done.stderr
    assert "WSL" in done.stderr


def test_the_plugin_is_refused_with_a_remedy(folder: Path) -> None:
    options = ("-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "--breaks=sub-sign")
    done = harness_process(program=options, cwd=folder, **{WITHOUT_FORK: "1"})
    assert done.returncode == 4
    assert "pytest --breaks needs `fork`" in done.stderr
    assert "Traceback" not in done.stderr
