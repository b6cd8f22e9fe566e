"""Files that a user asks for."""

import errno
import os
import re
import resource
import signal
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

import pytest

import harness as package
from harness.core.errors import EnvironmentProblem, UsageError
from harness.core.files import PRIVATE, write_file, write_new
from tests.harness.command import handlers_restored, harness


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


@contextmanager
def full_disk(size: int = 1000) -> Iterator[None]:
    """Limit the size of files: the operating system refuses to write more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_nothing_is_left_of_a_new_file_if_the_disk_is_full(tmp_path: Path) -> None:
    with full_disk(), pytest.raises(EnvironmentProblem, match="a cannot be written"):
        write_new(tmp_path / "a", "text" * 1000, "choose another id")
    assert not list(tmp_path.iterdir())


def test_an_old_file_survives_a_full_disk(tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    file.write_text("the author's work\n" * 10)
    before = file.read_bytes()
    with full_disk(), pytest.raises(EnvironmentProblem, match="free some space") as error:
        write_file(file, "x" * 5000)
    assert error.value.exit_status == 3
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]


def test_an_interrupt_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "page.md"
    file.write_text("old")

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_file(file, "new")
    with pytest.raises(KeyboardInterrupt):
        write_new(tmp_path / "other", "new", "choose another id")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


def test_a_replaced_file_keeps_its_permissions_and_a_link_its_target(tmp_path: Path) -> None:
    file, link = tmp_path / "page.md", tmp_path / "folder" / "link.md"
    link.parent.mkdir()
    link.symlink_to("../page.md")
    file.write_text("old")
    file.chmod(0o640)
    write_file(link, "new")
    assert link.is_symlink()
    assert file.read_text() == "new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


def test_a_new_file_has_the_usual_permissions_unless_it_is_private(tmp_path: Path) -> None:
    (tmp_path / "usual").touch()
    write_file(tmp_path / "a", "text")
    write_file(tmp_path / "b", "text", PRIVATE)
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "usual").stat().st_mode
    assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o600


def test_a_long_name_can_be_replaced(tmp_path: Path) -> None:
    file = tmp_path / ("n" * 255)
    write_file(file, "text")
    assert file.read_text() == "text"


def test_a_pipe_stays_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_file(pipe, "text")
    assert os.read(reader, 10) == b"text"
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_file_that_is_open_is_written_where_its_descriptor_is(tmp_path: Path) -> None:
    """As after `> file`, or for `/dev/stdout`: what is printed before and after is kept."""
    file = tmp_path / "output"
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT)
    os.write(descriptor, b"before, ")
    write_file(Path(f"/dev/fd/{descriptor}"), "text")
    os.write(descriptor, b", after")
    os.close(descriptor)
    assert file.read_text() == "before, text, after"


def test_a_device_without_space_is_one_message() -> None:
    with pytest.raises(EnvironmentProblem, match="/dev/full cannot be written: No space left"):
        write_file(Path("/dev/full"), "text")


FAULTS = [
    (call, number)
    for call in ("open", "fsync", "chmod", "replace", "link")
    for number in (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EDQUOT)
]


@pytest.mark.parametrize(("call", "number"), FAULTS)
def test_after_a_fault_there_is_the_old_file_or_the_new_one(
    call: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("old")

    def fails(*_arguments: object, **_options: object) -> None:
        raise OSError(number, os.strerror(number))

    original = getattr(os, call)
    monkeypatch.setattr(os, call, fails)
    with suppress(EnvironmentProblem):
        write_file(old, "changed")
    with suppress(EnvironmentProblem):
        write_new(new, "changed", "choose another id")
    monkeypatch.setattr(os, call, original)
    assert old.read_text() == ("changed" if call == "link" else "old")
    assert not new.exists() or new.read_text() == "changed"
    assert {path.name for path in tmp_path.iterdir()} <= {"old", "new"}


def test_a_new_file_is_complete_when_it_appears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, seen = tmp_path / "a", []
    monkeypatch.setattr(os, "fsync", lambda _descriptor: seen.append(file.exists()))
    write_new(file, "text", "choose another id")
    assert (seen, file.read_text()) == ([False], "text")


@pytest.fixture
def hangup_kills() -> Iterator[None]:
    """SIGHUP ends our children even under nohup, which ignores it."""
    with handlers_restored():
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("hangup_kills")
def test_a_process_that_is_killed_leaves_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    old, random = tmp_path / "old", Random(0)
    texts = [letter * 200_000 for letter in "ab"]
    old.write_text(texts[0])
    for trial in range(100):
        child = os.fork()
        if child == 0:
            try:
                for number in range(1000):
                    write_file(old, texts[number % 2])
                    write_new(tmp_path / f"new-{trial}-{number}", texts[0], "choose another id")
            finally:
                os._exit(1)
        time.sleep(random.random() * 0.02)
        signum = random.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
        os.kill(child, signum)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == -signum
        assert old.read_text() in texts
        for file in tmp_path.glob("new-*"):
            assert file.read_text() == texts[0]
            file.unlink()


def test_a_page_survives_a_full_disk(tmp_path: Path) -> None:
    """The page grows beyond the limit when it is observed again."""
    patch = [
        "--scope=mul",
        "--before=unbroadcast(g * b, a.shape)",
        "--after=unbroadcast(g, a.shape)",
    ]
    options = ["--breaks", str(tmp_path)]
    harness("new", "mine", "--family=f", "--probe=add-new-axis", *patch, *options)
    page = tmp_path / "f" / "mine.md"
    text = page.read_text() + "The author's own words.\n" * 2000
    page.write_text(text)
    with full_disk(len(text)):
        result = harness("new", "mine", "--again", *options)
    assert result.returncode == 3
    assert f"{page} cannot be written" in result.stderr
    assert page.read_text() == text


OTHER_WRITERS = {
    "core/files.py": "this is the function",
    "grade/files.py": "a child's scratch folder",
    "learn/scratch_copy.py": "a new folder, which is renamed when it is complete",
    "plugin/entry.py": "a temporary folder",
    "plugin/reloads.py": "a temporary folder",
    "plugin/sharing.py": "a temporary folder",
    "sandbox/confinement.py": "settings of the kernel",
    "grade/running.py": "the null device",
    "sandbox/child.py": "a descriptor that is open",
}
MAKERS = "suite_tables.py", "adequacy/__main__.py", "engines/documents.py", "track_transcript.py"
"""What makes documents beside `python -m harness.report.documents`."""
WRITING = re.compile(r"\.write_(text|bytes)\(|open\((\S+, )?[\"'][wax]b?\+?[\"']|json\.dump\(")


def test_whatever_is_written_for_a_user_is_replaced_as_a_whole() -> None:
    """Files of the harness, and documents that `python -m tests...` makes."""
    folder = Path(package.__file__).parent
    texts = {
        path.relative_to(folder).as_posix(): path.read_text("utf-8")
        for path in folder.rglob("*.py")
    }
    assert {name for name, text in texts.items() if WRITING.search(text)} == set(OTHER_WRITERS)
    tests = Path(__file__).parents[2]
    for name in MAKERS:
        text = (tests / name).read_text("utf-8")
        assert "write_file(" in text, name
        assert not re.search(r"\b(DOCUMENT|COURSE|DOCS\b.*)\.write_(text|bytes)\(", text), name
