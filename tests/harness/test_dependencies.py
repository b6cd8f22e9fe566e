"""The bounds in pyproject.toml match the constraints files that the tests run with."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]
UNTESTED = {"torch"}
"""Its lowest version is not installed: see constraints-lowest.txt."""


def declared() -> Iterator[Requirement]:
    """The requirements of the package and of its extras, without references to its own extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = (line for extra in project["optional-dependencies"].values() for line in extra)
    requirements = map(Requirement, [*project["dependencies"], *extras])
    return (item for item in requirements if item.name != project["name"])


def pinned(file: str) -> dict[str, Version]:
    pins = re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / file).read_text(encoding="utf-8"), re.M)
    return {name.lower(): Version(version) for name, version in pins}


def test_the_lowest_versions_that_are_tested_are_the_declared_bounds() -> None:
    lowest = pinned("constraints-lowest.txt")
    for item in declared():
        (bound,) = item.specifier
        assert bound.operator == ">=", item
        if item.name not in UNTESTED:
            assert lowest[item.name.lower()] == Version(bound.version), item


def test_the_newest_versions_are_within_the_declared_bounds() -> None:
    newest = pinned("constraints.txt")
    for item in declared():
        assert newest[item.name.lower()] in item.specifier, item
