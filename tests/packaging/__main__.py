"""Rehearse a release: `python -m tests.packaging`; `--final` also checks what only a release needs.

Builds both archives twice, compares them, and tries them where nothing else is installed. Nothing
is uploaded. Prints one line for each step, and ends with the first that fails.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import venv
from collections.abc import Callable
from pathlib import Path

from tests.packaging.environments import (
    ROOT,
    Completed,
    Environment,
    borrowing_environment,
    build_archive,
    build_wheel,
    run,
    succeed,
)

PAGE = "mul-swapped-operands"

SAME = (
    ("list", "--json"),
    ("show", PAGE),
    ("diff", PAGE),
    ("explain", "cotangent"),
    ("break", PAGE, "--no-predict"),
    ("myth", "zero-gradients-lose-their-shape"),
    ("start",),
    ("progress",),
)
"""Commands of the first hour that print the same from the wheel as from the sources."""

HOUR: tuple[tuple[int, str, tuple[str, ...]], ...] = (
    (0, "Python", ("--version",)),
    (0, "all pass", ("check", PAGE, "a-gradient-penalty-only-needs-the-gradient")),
    (0, "", ("matrix", PAGE)),
    (0, "", ("exercise", "--help")),
    (0, "", ("html", PAGE, "--out", "page.html")),
)
"""Other commands, with the exit status and a part of what they print."""

TESTS = {
    "test_weak.py": """
from minigrad.tensor import Tensor

def test_product():
    a, b = Tensor([2.0], requires_grad=True), Tensor([2.0], requires_grad=True)
    (a * b).sum().backward()
    assert a.grad[0] == 2
""",
    "test_strong.py": """
from minigrad.tensor import Tensor

def test_product():
    a, b = Tensor([2.0], requires_grad=True), Tensor([5.0], requires_grad=True)
    (a * b).sum().backward()
    assert a.grad[0] == 5
""",
}
"""A suite that misses the break of the page, since its factors are equal, and one that kills it."""


class Rehearsal:
    """The archives, and the environment into which they are installed."""

    def __init__(self, folder: Path, python: Path, *, quick: bool) -> None:
        self.folder, self.python, self.quick = folder, python, quick
        self.epoch = _last_commit()

    def build(self) -> str:
        """Build both archives twice, and compare the bytes."""
        builder = self.folder / "builder"
        if self.quick:
            python = Path(sys.executable)
        else:
            venv.create(builder, with_pip=True)
            python = Environment(builder).python
            succeed(run([python, "-m", "pip", "install", "-q", "setuptools>=77"], self.folder))
        built = []
        for name in ("first", "second"):
            (folder := self.folder / name).mkdir()
            archive = build_archive(python, ROOT, folder, self.epoch)
            built.append((archive, build_wheel(python, archive, folder, self.epoch)))
        for one, other in zip(*built, strict=True):
            assert one.read_bytes() == other.read_bytes(), f"{one.name} differs between two builds"
        self.archive, self.wheel = built[0]
        return ", ".join(f"{file.name} {file.stat().st_size:,} bytes" for file in built[0])

    def compare_files(self) -> str:
        """Check that the source archive has every file of the repository."""
        with tarfile.open(self.archive) as archive:
            packed = {name.partition("/")[2] for name in archive.getnames()}
        listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
        tracked = set(listed.stdout.splitlines())
        assert not (missing := tracked - packed), f"not in the source archive: {sorted(missing)}"
        return f"{len(packed)} files, among them all {len(tracked)} of the repository"

    def install(self) -> str:
        """Install the wheel and pytest into an empty environment."""
        folder = self.folder / "empty"
        if self.quick:
            self.environment = borrowing_environment(folder)
            self.environment.install(self.wheel)
        else:
            succeed(run([self.python, "-m", "venv", folder], self.folder))
            self.environment = Environment(folder)
            constraints = ["-c", ROOT / "constraints.txt"]
            pip = [self.environment.python, "-m", "pip", "install", "-q", *constraints]
            succeed(run([*pip, f"{self.wheel}[html]", "pytest"], self.folder))
        return succeed(self.command("--version")).replace("\n", "; ").rstrip("; ")

    def command(self, *arguments: str) -> Completed:
        """Run a command of the wheel, with a home folder of its own."""
        return self.environment.run("breaklab", *arguments, **self._home("wheel"))

    def _home(self, name: str) -> dict[str, str]:
        home = str(self.folder / f"home-{name}")
        folders = {"HOME": home, "XDG_CACHE_HOME": f"{home}/cache", "BREAKLAB_DATA": f"{home}/data"}
        return folders | {"COLUMNS": "80", "LC_ALL": "C.UTF-8"}

    def first_hour(self) -> str:
        """Run what a learner runs first, and compare it with the same from the sources."""
        for arguments in SAME:
            ours = succeed(self.command(*arguments))
            command = [self.environment.python, "-P", "-m", "harness", *arguments]
            environment = self._home("sources") | {"PYTHONPATH": str(ROOT)}
            theirs = succeed(run(command, self.environment.work, **environment))
            assert _same(ours) == _same(theirs), f"breaklab {' '.join(arguments)} differs"
        for status, part, arguments in HOUR:
            done = self.command(*arguments)
            assert done.returncode == status, f"{arguments}\n{done.stdout}{done.stderr}"
            assert part in done.stdout, f"{arguments}: {done.stdout}"
        return f"{len(SAME)} commands print what the sources print, {len(HOUR)} more work"

    def plugin(self) -> str:
        """Run two suites with `pytest --breaks`: one misses the break, and one kills it."""
        fates = []
        for name, text in TESTS.items():
            (self.environment.work / name).write_text(text, encoding="utf-8")
            options = ("-p", "no:cacheprovider", "-q", f"--breaks={PAGE}", "--breaks-min-score=100")
            done = self.environment.run(
                "python", "-m", "pytest", *options, name, **self._home("wheel")
            )
            fates.append(done.returncode)
        assert fates == [1, 0], f"the exit statuses are {fates}\n{done.stdout}{done.stderr}"
        return "a weak suite misses the break, and a strong one kills it"

    def test_sources(self) -> str:
        """Run tests from the unpacked source archive."""
        with tarfile.open(self.archive) as archive:
            archive.extractall(self.folder, filter="data")
        folder = self.folder / self.archive.name.removesuffix(".tar.gz")
        part = ["tests/harness/patch", "tests/harness/test_dependencies.py"]
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *part]
        return succeed(run(command, folder)).strip().splitlines()[-1]


def _last_commit() -> str:
    """Return the time of the last commit; outside a repository 1980, the first in a ZIP file."""
    command = ["git", "log", "-1", "--format=%ct"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "315619200"


def _same(text: str) -> str:
    """Leave out what differs between two runs: times, and the folder that something is in."""
    return re.sub(r"\d+\.\d+ s\b|(/[\w.-]+)+/(?=(minigrad|breaks|harness)/)", "", text)


def check_final() -> str:
    """Check the version, the changelog and the address, which are set just before a release."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    version, address = settings["project"]["version"], settings["tool"]["breaklab"]["repository"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.fullmatch(r"\d+\.\d+\.\d+", version), f"version {version} is not that of a release"
    heading = rf"^## {re.escape(version)} - \d{{4}}-\d\d-\d\d$"
    assert re.search(heading, changelog, re.M), f"CHANGELOG.md has no dated heading for {version}"
    assert address, "tool.breaklab.repository in pyproject.toml is empty: links would be relative"
    return f"{version}, {address}"


def main() -> None:
    """Rehearse a release."""
    parser = argparse.ArgumentParser(prog="python -m tests.packaging", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="borrow the libraries of this environment"
    )
    parser.add_argument(
        "--final", action="store_true", help="check version, changelog and address, too"
    )
    parser.add_argument(
        "--python", type=Path, default=Path(sys.executable), help="which Python to try"
    )
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="breaklab-release-"))
    rehearsal = Rehearsal(folder, options.python, quick=options.quick)
    steps: list[Callable[[], str]] = [check_final] if options.final else []
    steps += [rehearsal.build, rehearsal.compare_files, rehearsal.install, rehearsal.first_hour]
    steps += [rehearsal.plugin] + ([] if options.quick else [rehearsal.test_sources])
    try:
        for step in steps:
            start = time.perf_counter()
            try:
                result = step()
            except AssertionError as error:
                sys.exit(f"{step.__name__}: {error}")
            print(f"{step.__name__} ({time.perf_counter() - start:.0f} s): {result}", flush=True)
        print("Nothing differs. Upload dist/ yourself." if options.final else "Nothing differs.")
        if options.final:
            shutil.copytree(folder / "first", ROOT / "dist", dirs_exist_ok=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
