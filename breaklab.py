"""Where the command and the pytest plugin begin: beside the packages, under a name of its own.

Other distributions have packages called `harness`, `minigrad` or `breaks`, too. Installed into the
same environment, one of them replaces files of ours; when it is uninstalled, these are missing. So
this module imports only the standard library, and says which distribution it was.
"""

from __future__ import annotations

import base64
import hashlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.machinery import PathFinder
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from pathlib import Path
from typing import Any, NoReturn

HERE = Path(__file__).resolve().parent
"""The folder that holds our packages."""

PACKAGES = "harness", "minigrad", "breaks"

REPLACED = "{owner} has replaced {file}, which belongs to breaklab"
MISSING = "{file} is missing, as after another distribution with a package `{package}` was removed"
ELSEWHERE = "`{package}` is imported from {owner}, and not from breaklab"

REMEDY = (
    "install breaklab in a virtual environment of its own, or run `uvx breaklab`; to repair this "
    "one, uninstall the other distribution, then run `pip install --force-reinstall --no-deps "
    "breaklab`"
)
UNKNOWN = "something else"
"""What has replaced a file if no installed distribution contains it."""


@dataclass(frozen=True)
class Collision:
    """A file of ours that another distribution has replaced or removed, or that it hides."""

    template: str
    """One of the three above."""
    package: str
    file: str
    owner: str
    """The other distribution and its version."""

    @property
    def problem(self) -> str:
        """What has happened, in English: it is said where no translation can be read."""
        return self.template.format(package=self.package, file=self.file, owner=self.owner)

    def __str__(self) -> str:
        """Return the problem and the remedy."""
        return f"{self.problem}\n{REMEDY}"


def collision() -> Collision | None:
    """Return the first collision of our packages with those of another distribution, if any."""
    return next(_changed_files(), None) or next(_hidden_packages(), None)


def _changed_files() -> Iterator[Collision]:
    """Yield the Python files of our packages that are not as they were installed from a wheel."""
    for file in _installed_files():
        package = file.parts[0]
        if package not in PACKAGES or file.suffix != ".py":
            continue
        path = Path(str(file.locate()))
        if not path.is_file():
            yield Collision(MISSING, package, str(file), "")
        elif file.hash and _digest(path, file.hash.mode) != file.hash.value:
            yield Collision(REPLACED, package, str(file), _owner(str(file)) or UNKNOWN)


def _installed_files() -> list[Any]:
    try:
        ours = distribution("breaklab")
    except PackageNotFoundError:  # run from its sources
        return []
    located = ((file, Path(str(file.locate())).resolve()) for file in ours.files or ())
    return [file for file, path in located if path.is_relative_to(HERE)]


def _digest(path: Path, algorithm: str) -> str:
    digest = hashlib.new(algorithm, path.read_bytes()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _hidden_packages() -> Iterator[Collision]:
    """Yield our packages for which Python finds those of another distribution.

    A learner's own package may be called `minigrad` too, but belongs to no distribution.
    """
    for package in PACKAGES:
        spec = PathFinder.find_spec(package)
        file = f"{package}/__init__.py"
        if spec and spec.origin and Path(spec.origin).resolve() != HERE / file:
            owner = _owner(file)
            if owner or package == "harness":
                yield Collision(ELSEWHERE, package, file, owner or spec.origin)


def _owner(file: str) -> str | None:
    """Return the name and version of another distribution that contains the file."""
    return next((_name(item) for item in distributions() if _contains(item, file)), None)


def _contains(item: Distribution, file: str) -> bool:
    name = item.metadata["Name"]
    return name != "breaklab" and any(str(part) == file for part in item.files or ())


def _name(item: Distribution) -> str:
    return f"{item.metadata['Name']} {item.version}"


# ----- The entry points -----


def main() -> None:
    """Run the command line."""
    try:
        from harness.cli import main as run
    except Exception as error:
        _refuse(error)
    run()


def _refuse(error: Exception) -> NoReturn:
    """End because our packages cannot be imported; raise the error if no collision explains it."""
    found = collision()
    if not found:
        raise error
    print(f"harness: {str(found).replace(chr(10), f'{chr(10)}  ')}", file=sys.stderr)
    sys.exit(3)


def __getattr__(name: str) -> Any:
    """Return the pytest plugin; it is imported only if pytest asks for it."""
    if name != "plugin":
        raise AttributeError(name)
    try:
        from harness.plugin import entry
    except Exception as error:
        found = collision()
        if not found:
            raise error
        return _Refusal(found)
    return entry


class _Refusal:
    """What pytest gets instead of the plugin: tests run, but our options are refused."""

    def __init__(self, found: Collision) -> None:
        self.found = found

    def pytest_load_initial_conftests(self, args: list[str]) -> None:
        """Refuse our options with the reason, before pytest calls them unknown."""
        if any(argument.startswith("--breaks") for argument in args):
            import pytest

            raise pytest.UsageError(str(self.found))

    def pytest_report_header(self) -> str:
        """Say why `--breaks` cannot work."""
        return f"breaklab: {self.found}"
