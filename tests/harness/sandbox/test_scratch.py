"""Scratch folders are removed, whatever is in them."""

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from harness.sandbox import scratch
from harness.sandbox.scratch import scratch_folder


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which scratch folders are made."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    scratch._remove_abandoned_once.cache_clear()
    return tmp_path / "tmp"


def test_deep_and_protected_folders_are_removed_and_links_are_not_followed(
    tmp_path: Path, temporary: Path
) -> None:
    (tmp_path / "outside").write_text("stays", encoding="utf-8")
    with scratch_folder() as folder:
        (folder / "link").symlink_to(tmp_path)
        (folder / "protected").mkdir(mode=0o000)
        here = os.open(folder, os.O_RDONLY)
        for _ in range(300):  # deeper than any path may be long
            os.mkdir("x" * 50, dir_fd=here)
            below = os.open("x" * 50, os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below
        os.close(here)
    assert list(temporary.iterdir()) == []
    assert (tmp_path / "outside").read_text(encoding="utf-8") == "stays"


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
def test_the_folders_of_processes_that_were_killed_are_removed(temporary: Path) -> None:
    with subprocess.Popen(["true"]) as process:
        pass
    for name in (f"breaklab-{process.pid}-a", f"breaklab-{os.getpid()}-b", "breaklab-other"):
        (temporary / name).mkdir()
    with scratch_folder():
        pass
    assert {path.name for path in temporary.iterdir()} == {
        f"breaklab-{os.getpid()}-b",
        "breaklab-other",
    }
