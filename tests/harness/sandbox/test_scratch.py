"""Scratch folders are removed, whatever is in them."""

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from harness.sandbox import limits
from harness.sandbox.limits import empty_folder, scratch_folder


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which scratch folders are made."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    limits._remove_abandoned_once.cache_clear()
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


def test_a_link_in_place_of_the_folder_itself_is_not_followed(
    tmp_path: Path, temporary: Path
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "outside").write_text("stays", encoding="utf-8")
    with scratch_folder() as folder:
        folder.rmdir()
        folder.symlink_to(tmp_path / "home")
    assert list(temporary.iterdir()) == []
    assert (tmp_path / "home" / "outside").read_text(encoding="utf-8") == "stays"


def test_an_emptied_folder_can_be_used_again(tmp_path: Path) -> None:
    for change in (
        lambda path: path.chmod(0),
        Path.rmdir,
        lambda path: path.rename(tmp_path / "x"),
    ):
        folder = tmp_path / "folder"
        folder.mkdir(exist_ok=True)
        change(folder)
        empty_folder(folder)
        (folder / "file").write_text("", encoding="utf-8")
        empty_folder(folder)
        assert list(folder.iterdir()) == []


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
def test_the_folders_of_processes_that_were_killed_are_removed(temporary: Path) -> None:
    with subprocess.Popen(["true"]) as reaped:
        pass
    ended = subprocess.Popen(["true"])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)  # it stays a zombie
    here = os.getpid()
    for owner in (f"{reaped.pid}-a", f"{ended.pid}-a", f"{here}-b", "other"):
        (temporary / f"breaklab-{owner}").mkdir()
    with scratch_folder():
        pass
    ended.wait()
    assert {path.name for path in temporary.iterdir()} == {
        f"breaklab-{os.getpid()}-b",
        "breaklab-other",
    }
