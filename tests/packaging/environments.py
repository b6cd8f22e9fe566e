"""The wheel, built once per run, and virtual environments into which it is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).parents[2]

EPOCH = "1764288000"
"""The time in the archives of these tests, in seconds; a release takes that of its last commit."""

Completed = subprocess.CompletedProcess[str]


def run(command: list[str | Path], folder: Path, **environment: str) -> Completed:
    """Run a command with its output captured, and fail with what it printed if Python cannot."""
    return subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env=clean_environment() | environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=600,
        check=False,
    )


def clean_environment() -> dict[str, str]:
    """The variables of this process, without those that lead to our sources."""
    left_out = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYTEST_ADDOPTS"}
    return {name: text for name, text in os.environ.items() if name not in left_out}


def succeed(done: Completed) -> str:
    """Return what a command printed, which must have succeeded."""
    assert done.returncode == 0, f"{done.args}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


# ----- Building -----

BUILD = "import sys; from setuptools import build_meta; build_meta.build_{}(sys.argv[1])"


def build_archive(python: Path, source: Path, folder: Path, epoch: str = EPOCH) -> Path:
    """Build the source archive of the sources in `source`, and return it."""
    with copied(source) as copy:
        command = [python, "-c", BUILD.format("sdist"), folder]
        succeed(run(command, copy, SOURCE_DATE_EPOCH=epoch))
    (archive,) = folder.glob("*.tar.gz")
    return archive


def build_wheel(python: Path, archive: Path, folder: Path, epoch: str = EPOCH) -> Path:
    """Build the wheel from a source archive, and return it."""
    options = ["--no-build-isolation", "--no-deps", "--no-index", "-q", "-w", folder]
    command = [python, "-m", "pip", "wheel", *options, archive]
    succeed(run(command, folder, SOURCE_DATE_EPOCH=epoch))
    (wheel,) = folder.glob("*.whl")
    return wheel


@contextmanager
def copied(source: Path) -> Iterator[Path]:
    """Copy the sources, since a build writes among them, and old builds must not be part of it."""
    left_out = shutil.ignore_patterns(
        *(".git", ".nox", ".venv*", ".*_cache", ".hypothesis", "__pycache__", "*.egg-info"),
        *("build", "dist"),
    )
    with tempfile.TemporaryDirectory(prefix="breaklab-sources-") as folder:
        yield shutil.copytree(source, Path(folder, "breaklab"), ignore=left_out)


# ----- Environments -----


@dataclass(frozen=True)
class Environment:
    """A virtual environment."""

    folder: Path

    @property
    def work(self) -> Path:
        """The folder in which its scripts run."""
        return self.folder.with_name(f"{self.folder.name}-work")

    @property
    def scripts(self) -> Path:
        return self.folder / ("Scripts" if os.name == "nt" else "bin")

    @property
    def python(self) -> Path:
        return self.scripts / "python"

    @property
    def packages(self) -> Path:
        (folder,) = self.folder.glob("lib/python*/site-packages")
        return folder

    def pip(self, *arguments: str | Path) -> Completed:
        """Run this process's pip on the environment, which has none; the index is not asked."""
        pip = [sys.executable, "-m", "pip", "--python", self.python, "-q"]
        return run([*pip, "--disable-pip-version-check", *arguments], self.folder)

    def install(self, *wheels: Path) -> None:
        succeed(self.pip("install", "--no-deps", "--no-index", "--ignore-installed", *wheels))

    def uninstall(self, name: str) -> None:
        succeed(self.pip("uninstall", "--yes", name))

    def run(self, *command: str | Path, **environment: str) -> Completed:
        """Run a script of the environment."""
        script, *arguments = command
        self.work.mkdir(exist_ok=True)
        return run([self.scripts / script, *arguments], self.work, **environment)


def borrowing_environment(folder: Path) -> Environment:
    """Return a new environment that finds the libraries of the tests' own, but nothing of ours.

    What a `.pth` file in a borrowed folder names is not found, such as our sources.
    """
    venv.create(folder, with_pip=False)
    environment = Environment(folder)
    borrowed = sysconfig.get_path("purelib")
    (environment.packages / "borrowed.pth").write_text(f"{borrowed}\n", encoding="utf-8")
    return environment


# ----- Namesakes -----


def write_namesake(folder: Path, name: str, files: dict[str, str]) -> Path:
    """Write a wheel of a distribution with these files, and return it."""
    info = f"{name}-9.9.dist-info"
    metadata = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 9.9\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{file},,\n" for file in (*files, *metadata, f"{info}/RECORD"))
    wheel = folder / f"{name}-9.9-py3-none-any.whl"
    with ZipFile(wheel, "w") as archive:
        for file, text in (files | metadata | {f"{info}/RECORD": record}).items():
            archive.writestr(file, text)
    return wheel
