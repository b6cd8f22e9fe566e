"""The archives that the tests of this folder install."""

import fcntl
import os
import sys
from pathlib import Path

import pytest

from tests.packaging.environments import ROOT, build_archive, build_wheel


@pytest.fixture(scope="session")
def archives() -> tuple[Path, Path]:
    """The source archive and the wheel built from it, once for all processes of the run."""
    folder = Path(os.environ["BREAKLAB_TEST_HOME"]) / "archives"
    folder.mkdir(exist_ok=True)
    python = Path(sys.executable)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not list(folder.glob("*.whl")):
            build_wheel(python, build_archive(python, ROOT, folder), folder)
    (archive,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return archive, wheel
