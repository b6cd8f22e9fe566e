"""Watching files: what counts as a change, and what runs because of it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.core.errors import UsageError
from harness.learn.scratch_copy import CopyOrigin, ScratchCopy
from harness.learn.watch import (
    LONGEST,
    QUIET,
    SHORTEST,
    Watched,
    changed,
    commands,
    first_commands,
    snapshot,
    wait_for_change,
    watched,
)
from tests.harness.bundled import CATALOGUE


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("a.py", "sub/b.md", "c.txt", ".d.py", "__pycache__/e.py", "f.py~", ".git/g.py"):
        write(tmp_path / name, "x")
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(text, encoding="utf-8")


def names(folder: Path) -> set[str]:
    return {os.path.relpath(path, folder) for path in snapshot([Watched(folder)])}


def test_sources_and_pages_are_watched_and_nothing_else(folder: Path) -> None:
    assert names(folder) == {"a.py", "sub/b.md"}
    assert set(snapshot([Watched(folder / "c.txt")])) == {str(folder / "c.txt")}
    assert snapshot([Watched(folder / "none")]) == {}


def test_a_loop_of_links_ends(folder: Path) -> None:
    (folder / "sub" / "loop").symlink_to(folder)
    assert names(folder) == {"a.py", "sub/b.md"}


def replaced(folder: Path) -> None:
    """As editors do that write a new file and rename it."""
    write(folder / ".a.py.tmp", "y")
    (folder / ".a.py.tmp").replace(folder / "a.py")


@pytest.mark.parametrize(
    ("change", "files"),
    [
        (lambda folder: write(folder / "a.py", "longer"), ["a.py"]),
        (lambda folder: os.utime(folder / "a.py", ns=(1, 1)), ["a.py"]),
        (lambda folder: (folder / "a.py").unlink(), ["a.py"]),
        (lambda folder: write(folder / "new" / "h.py", ""), ["new/h.py"]),
        (lambda folder: (folder / "a.py").rename(folder / "i.py"), ["a.py", "i.py"]),
        (replaced, ["a.py"]),
        (lambda folder: write(folder / "c.txt", "longer"), []),
    ],
)
def test_a_change_is_a_file_that_is_new_different_or_deleted(
    folder: Path, change: Callable[[Path], object], files: list[str]
) -> None:
    os.utime(folder / "a.py", ns=(0, 0))
    before = snapshot([Watched(folder)])
    change(folder)
    found = changed(before, snapshot([Watched(folder)]))
    assert found == [folder / file for file in files]


class Clock:
    """Sleeps, in no time, and does one thing after each sleep."""

    def __init__(self, *actions: Callable[[], object]) -> None:
        self.actions, self.slept = list(actions), list[float]()

    def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)
        if self.actions:
            self.actions.pop(0)()


def test_a_change_is_complete_when_nothing_follows(folder: Path) -> None:
    """A file that is deleted and written again, in steps, is one change."""
    places, path = [Watched(folder)], folder / "a.py"
    before = snapshot(places)
    clock = Clock(lambda: None, path.unlink, lambda: write(path, "1"), lambda: write(path, "12"))
    after = wait_for_change(places, before, clock)
    assert changed(before, after) == [path]
    assert after[str(path)][0] == 2
    assert SHORTEST <= clock.slept[0] <= LONGEST
    assert clock.slept[-1] == QUIET


def test_a_file_that_is_back_as_it_was_is_no_change(folder: Path) -> None:
    places, path = [Watched(folder)], folder / "a.py"
    before = snapshot(places)
    facts = path.stat()

    def restore() -> None:
        write(path, "x")
        os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))

    clock = Clock(path.unlink, restore, lambda: write(folder / "new.py", ""))
    assert changed(before, wait_for_change(places, before, clock)) == [folder / "new.py"]


# ----- What runs -----


def arguments(*files: Path, places: tuple[Watched, ...] = ()) -> list[tuple[str, ...]]:
    return [command.arguments for command in commands(files, places)]


def test_pages_are_checked_those_of_a_folder_together(folder: Path) -> None:
    for name in ("mine/f/one.md", "mine/f/one.es.md", "mine/two.md", "other/three.md"):
        write(folder / name, "+++\n+++\n# A title\n")
    (folder / "mine" / "probes").mkdir()
    write(folder / "mine" / "README.md", "# Read me\n")
    mine = [folder / "mine" / name for name in ("f/one.md", "f/one.es.md", "two.md", "README.md")]
    assert arguments(*mine, folder / "other" / "three.md") == [
        ("check", "one", "two", "--breaks", "mine"),
        ("check", "three", "--breaks", "other"),
    ]
    bundled = Path(CATALOGUE.page("sub-sign").path)
    assert arguments(bundled) == [("check", "sub-sign")]
    (folder / "mine" / "two.md").unlink()
    assert arguments(folder / "mine" / "two.md") == []


def test_an_exercise_names_its_page(folder: Path) -> None:
    path = folder / "mine.py"
    write(
        path, "# A title\n#\n#     harness exercise squares-only mine.py\n\ndef test_a(lib): ...\n"
    )
    assert arguments(path) == [("exercise", "squares-only", str(path))]
    path.unlink()
    assert arguments(path) == []


def test_a_file_whose_name_begins_as_an_option_is_a_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    write(Path("-x.py"), "# harness exercise squares-only -x.py\n")
    assert arguments(Path("-x.py")) == [("exercise", "squares-only", "./-x.py")]


def test_a_copy_is_checked(folder: Path) -> None:
    copy = ScratchCopy(folder / "fix-half", CopyOrigin("half", "", "/", (), ""))
    copy.write({"pkg/tiny.py": ""})
    files = [copy.folder / "pkg" / "tiny.py", copy.folder / "new.py", copy.folder / "fix.toml"]
    assert arguments(*files) == [("fix", "--dir", "fix-half")]
    assert arguments(copy.folder / "pkg" / "deleted.py") == [("fix", "--dir", "fix-half")]


def test_a_copy_that_is_named_twice_is_checked_once_before_anything_is_saved(folder: Path) -> None:
    copy = ScratchCopy(folder / "fix-half", CopyOrigin("half", "", "/", (), ""))
    copy.write({"pkg/tiny.py": ""})
    named = [copy.folder, copy.folder / "pkg", copy.folder / "pkg" / "tiny.py", folder]
    first, idle = first_commands([watched(str(path)) for path in named])
    assert [command.arguments for command in first] == [("fix", "--dir", "fix-half")]
    assert idle == []


def test_an_engine_is_examined_once(folder: Path) -> None:
    files = folder / "a.py", folder / "sub" / "b.py"
    assert arguments(*files) == []
    assert arguments(*files, places=(Watched(folder, "a.py:T"),)) == [("doctor", "a.py:T")]
    assert arguments(*files, places=(Watched(folder / "sub", "s.py:T"),)) == [("doctor", "s.py:T")]
    write(folder / "harness.toml", "")
    assert arguments(*files) == [("doctor", "harness.toml")]
    assert arguments(folder / "harness.toml") == [("doctor", "harness.toml")]
    assert arguments(folder / "pyproject.toml") == []


@pytest.mark.usefixtures("folder")
def test_what_is_watched_is_a_folder_a_file_or_an_engine() -> None:
    assert watched("sub") == Watched(Path("sub"))
    assert watched("a.py") == Watched(Path("a.py"), "a.py")
    assert watched("sub/b.md") == Watched(Path("sub/b.md"))
    assert watched("a.py:Tensor") == Watched(Path(), "a.py:Tensor")
    for name in ("none", "none.py:Tensor", ":", "/:"):
        with pytest.raises(UsageError, match="no file or folder"):
            watched(name)
