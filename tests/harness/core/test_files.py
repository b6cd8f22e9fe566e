"""Files that a user asks for."""

import errno
from pathlib import Path
from typing import Any

import pytest

from harness.core import write_new
from harness.core.errors import EnvironmentProblem, UsageError


def test_a_new_file_holds_text_or_bytes(tmp_path: Path) -> None:
    write_new(tmp_path / "a", "é\n", "choose another id")
    write_new(tmp_path / "b", b"\xff", "choose another id")
    assert (tmp_path / "a").read_bytes() == "é\n".encode()
    assert (tmp_path / "b").read_bytes() == b"\xff"


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("a", "folder", "link"):
        with pytest.raises(UsageError, match=r"already exists\n  remedy: choose another id"):
            write_new(tmp_path / name, "other", "choose another id")
    assert (tmp_path / "a").read_text() == "mine"


def test_the_folder_of_a_new_file_must_exist(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    with pytest.raises(EnvironmentProblem, match=f"there is no folder {missing}\n  remedy: name a"):
        write_new(missing / "a", "text", "choose another id")


def test_nothing_is_left_if_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, opened = tmp_path / "a", Path.open

    def full(self: Path, *arguments: Any) -> Any:
        file = opened(self, *arguments)

        class Full:
            def __enter__(self) -> Any:
                return self

            def __exit__(self, *_: object) -> None:
                file.close()

            def write(self, _: bytes) -> int:
                raise OSError(errno.ENOSPC, "No space left on device")

        return Full()

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(OSError, match="No space"):
        write_new(path, "text", "choose another id")
    assert not path.exists()
