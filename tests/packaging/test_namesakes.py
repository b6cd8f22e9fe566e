"""Other distributions with our packages' names, before and after ours, and uninstalled."""

from pathlib import Path

import pytest

from tests.packaging.environments import (
    Completed,
    Environment,
    borrowing_environment,
    write_namesake,
)

NAMESAKES = {
    "harness": {"harness/__init__.py": "", "harness/cli/__init__.py": "def run(): ...\n"},
    "minigrad": {
        "minigrad/__init__.py": "class Scalar: ...\n",
        "minigrad/nn.py": "raise SystemExit\n",
    },
    "breaks": {"breaks/__init__.py": "__version__ = '9.9'\n", "breaks/cli.py": ""},
}
"""The packages of the distributions, whose files collide with ours."""

TEST = """
from minigrad.tensor import Tensor

def test_sum():
    assert Tensor([1.0]).sum().data == 1
"""


def environment(folder: Path, *wheels: Path) -> Environment:
    made = borrowing_environment(folder / "environment")
    for wheel in wheels:
        made.install(wheel)
    made.work.mkdir()
    (made.work / "test_engine.py").write_text(TEST, encoding="utf-8")
    return made


def pytest_breaks(made: Environment) -> Completed:
    options = ("-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:hypothesispytest")
    return made.run("python", "-m", "pytest", *options, "--breaks=mul-swapped-operands")


def check(made: Environment) -> Completed:
    return made.run("harness", "check", "mul-swapped-operands")


@pytest.mark.parametrize(
    "name",
    ["harness", *(pytest.param(name, marks=pytest.mark.slow) for name in ("minigrad", "breaks"))],
)
def test_a_distribution_that_replaces_our_files_is_named(
    name: str, archives: tuple[Path, Path], tmp_path: Path
) -> None:
    made = environment(tmp_path, archives[1], write_namesake(tmp_path, name, NAMESAKES[name]))
    for done in (check(made), pytest_breaks(made)):
        assert done.returncode in (3, 4)
        assert f"{name} 9.9 has replaced {name}/__init__.py" in done.stdout + done.stderr
        assert "pip install --force-reinstall" in done.stdout + done.stderr
        assert "Traceback" not in done.stdout + done.stderr
    made.uninstall(name)
    for done in (check(made), pytest_breaks(made)):
        assert f"{name}/__init__.py is missing" in done.stdout + done.stderr
        assert "Traceback" not in done.stdout + done.stderr
    made.install(archives[1])
    assert check(made).returncode == 0


def test_a_distribution_that_we_have_replaced_removes_our_files_when_uninstalled(
    archives: tuple[Path, Path], tmp_path: Path
) -> None:
    namesake = write_namesake(tmp_path, "harness", NAMESAKES["harness"])
    made = environment(tmp_path, namesake, archives[1])
    assert check(made).returncode == 0
    assert pytest_breaks(made).returncode in (0, 1)
    made.uninstall("harness")
    done = made.run("breaklab", "list")
    assert done.returncode == 3
    assert "harness/__init__.py is missing" in done.stderr


def test_any_option_is_refused_if_the_plugin_cannot_be_imported(
    archives: tuple[Path, Path], tmp_path: Path
) -> None:
    made = environment(tmp_path, archives[1])
    hiding = tmp_path / "hiding" / "harness"
    hiding.mkdir(parents=True)
    (hiding / "__init__.py").touch()
    for option in ("--breaks", "--breaks-rules=ops.py", "--breaks-baseline=known.toml"):
        command = ("python", "-m", "pytest", "-p", "no:cacheprovider", option)
        done = made.run(*command, PYTHONPATH=str(hiding.parent))
        assert done.returncode == 4
        assert f"`harness` is imported from {hiding}" in done.stderr
        assert "unrecognized" not in done.stderr
    command = ("python", "-m", "pytest", "-p", "no:cacheprovider")
    done = made.run(*command, PYTHONPATH=str(hiding.parent))
    assert done.returncode == 0
    assert f"breaklab: `harness` is imported from {hiding}" in done.stdout
