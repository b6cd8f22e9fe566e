"""The container file and the devcontainer name what exists; nothing is built."""

import json
import re
import shlex
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from harness.cli.app import COMMANDS
from harness.pages.catalogue import BUNDLED

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
DEVCONTAINER = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text(encoding="utf-8"))
README = (ROOT / "README.md").read_text(encoding="utf-8")


def instruction(name: str) -> str:
    (line,) = re.findall(rf"^{name} (.*)$", DOCKERFILE, re.M)
    return str(line)


def test_both_start_from_the_python_that_the_constraints_are_for() -> None:
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    for image in (instruction("FROM"), DEVCONTAINER["image"]):
        (version,) = re.findall(r"/python:(\d+\.\d+)(?:-slim)?$", image)
        assert f"on Python {version}." in constraints
        assert version in SpecifierSet(PROJECT["requires-python"])


def test_the_container_installs_extras_that_exist_from_what_was_copied() -> None:
    source, target = instruction("COPY").split()
    assert source == "."
    words = shlex.split(instruction("RUN"))
    assert f"{target}/constraints.txt" in words
    (installed,) = (word for word in words if word.startswith(f"{target}["))
    extras = Requirement(installed.replace(target, "breaklab")).extras
    assert extras <= PROJECT["optional-dependencies"].keys()


def test_the_container_runs_a_command_that_is_installed() -> None:
    (command,) = json.loads(instruction("ENTRYPOINT"))
    assert command in PROJECT["scripts"]
    assert json.loads(instruction("CMD"))[0] in COMMANDS
    (run,) = re.findall(r"^#   .*docker run .* breaklab (.*)$", DOCKERFILE, re.M)
    assert run.split()[0] in COMMANDS
    assert list(BUNDLED.rglob(f"{run.split()[1]}.md"))
    assert re.search(rf"docker run .* breaklab {run}$", README, re.M)


def test_the_devcontainer_runs_the_test_command_of_the_readme_without_the_tests() -> None:
    command = DEVCONTAINER["postCreateCommand"]
    assert f"\n{command} && .venv-test/bin/pytest\n" in README
