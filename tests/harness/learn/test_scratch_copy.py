"""The folder in which a break is repaired."""

from pathlib import Path

import pytest

from harness.core.errors import PageError, UsageError
from harness.learn.scratch_copy import (
    INFO,
    CopyOrigin,
    ScratchCopy,
    digest_of,
    nearest_copy,
    open_copy,
    require_place,
)
from tests.harness.tiny import tiny_engine

ORIGIN = CopyOrigin("half", "", "/", ("/pages",), "digest")
FILES = {"tiny.py": "x = 1\n", "inner/more.py": "# -*- coding: latin-1 -*-\ny = 'é'\n"}


@pytest.fixture
def copy(tmp_path: Path) -> ScratchCopy:
    made = ScratchCopy(tmp_path / "a" / "fix-half", ORIGIN)
    made.write(FILES)
    return made


def test_a_copy_is_read_as_it_was_written(copy: ScratchCopy) -> None:
    assert copy.read() == FILES
    assert open_copy(copy.folder) == copy
    assert b"\xe9" in (copy.folder / "inner" / "more.py").read_bytes()


def test_files_that_the_learner_adds_belong_to_the_copy(copy: ScratchCopy) -> None:
    for name in ("helper.py", ".hidden.py", "numpy.py", "__pycache__/old.py", "notes.txt"):
        path = copy.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("z = 1\n", encoding="utf-8")
    assert copy.read().keys() - FILES.keys() == {"helper.py"}


def test_the_engine_of_a_copy_is_called_as_the_original_one(copy: ScratchCopy) -> None:
    engine = copy.engine(tiny_engine(), copy.read())
    assert engine.dialect == tiny_engine().dialect
    assert engine.root == copy.folder.resolve()
    assert (engine.sources, engine.base) == (FILES, {})


def test_a_digest_is_that_of_the_files() -> None:
    assert digest_of(tiny_engine("a = 1\n")) != digest_of(tiny_engine("a = 2\n"))
    assert digest_of(tiny_engine("a = 1\n")) == digest_of(tiny_engine("a = 1\n"))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a = 1\nx = (1,\n", ":2: the file is not Python: '(' was never closed\n    x = (1,\n"),
        ("def f():\n    retrn 1\n", ":2: the file is not Python: invalid syntax\n    retrn 1\n"),
        ("if True:\n    return 1\n", ":2: the file is not Python: 'return' outside function\n"),
        ("# coding: nope\n", ":1: the file is not Python: unknown encoding: nope"),
        ("x = '\0'\n", "null bytes"),
    ],
)
def test_a_file_that_is_not_python_is_named_with_the_line_and_a_caret(
    copy: ScratchCopy, text: str, problem: str
) -> None:
    (copy.folder / "tiny.py").write_text(text, encoding="utf-8")
    with pytest.raises(PageError) as refused:
        copy.read()
    assert str(refused.value).startswith(str(copy.folder / "tiny.py"))
    assert problem in str(refused.value)
    code = refused.value.problem.splitlines()[1:]
    if "retrn" in text:
        assert code == ["    retrn 1", "          ^"]


@pytest.mark.parametrize("line", [1, 2, 3, 2000])
@pytest.mark.parametrize("head", [b"", b"\xef\xbb\xbf"])
def test_a_file_that_is_not_text_is_named_with_the_line(
    copy: ScratchCopy, line: int, head: bytes
) -> None:
    text = head + b"x = 1\n" * (line - 1) + b"y = '\xff'\nz = 1\n"
    (copy.folder / "tiny.py").write_bytes(text)
    with pytest.raises(PageError, match=rf"tiny\.py:{line}: it is not UTF-8 text"):
        copy.read()


def test_the_caret_of_a_long_line_fits_a_narrow_window(copy: ScratchCopy) -> None:
    (copy.folder / "tiny.py").write_text(f"x = {'1 + ' * 50}?\n", encoding="utf-8")
    with pytest.raises(PageError) as refused:
        copy.read()
    code, caret = refused.value.problem.splitlines()[1:]
    assert max(len(code), len(caret)) <= 60
    assert code[caret.index("^")] == "?"


def test_a_folder_that_exists_is_refused_with_the_remedy(copy: ScratchCopy, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"already exists\n.* --check` .* --again starts over"):
        require_place(copy.folder, "half", again=False)
    require_place(copy.folder, "half", again=True)
    require_place(tmp_path / "new", "half", again=False)
    require_place(tmp_path / "new", "half", again=True)
    for again in (False, True):
        with pytest.raises(UsageError, match=r"is not a scratch copy\n.* --dir"):
            require_place(tmp_path, "half", again=again)
    with pytest.raises(FileExistsError):
        copy.write({})


@pytest.mark.parametrize("folder", ["fix-other", ".", "..", "inner/fix-half"])
def test_a_copy_is_not_made_inside_another_one(
    copy: ScratchCopy, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (copy.folder / "inner").mkdir(exist_ok=True)
    monkeypatch.chdir(copy.folder / ("inner" if folder == ".." else "."))
    with pytest.raises(UsageError, match="is inside a scratch copy") as refused:
        require_place(Path(folder), "half", again=True)
    assert str(refused.value.remedy) == f"go to {copy.folder.parent} first"


def test_a_copy_that_is_set_aside_is_kept(copy: ScratchCopy) -> None:
    (copy.folder / "tiny.py").write_text("mine = 1\n", encoding="utf-8")
    for name in ("fix-half.1", "fix-half.2"):
        assert copy.write(FILES, again=True) == copy.folder.with_name(name)
    first = copy.folder.with_name("fix-half.1") / "tiny.py"
    assert first.read_text(encoding="utf-8") == "mine = 1\n"
    assert ScratchCopy(copy.folder / "none", ORIGIN).write(FILES, again=True) is None


def test_nothing_is_left_of_a_copy_that_cannot_be_written_and_the_old_one_stays(
    tmp_path: Path,
) -> None:
    made = ScratchCopy(tmp_path / "fix-half", ORIGIN)
    with pytest.raises(OSError, match="name too long"):
        made.write({"a.py": "", "n" * 300: ""})
    assert list(tmp_path.iterdir()) == []
    made.write(FILES)
    with pytest.raises(OSError, match="name too long"):
        made.write({"n" * 300: ""}, again=True)
    assert [path.name for path in tmp_path.iterdir()] == ["fix-half"]
    assert made.read().keys() == FILES.keys()


def test_the_nearest_copy_is_looked_for_upwards(copy: ScratchCopy, tmp_path: Path) -> None:
    assert nearest_copy(copy.folder / "inner") == copy.folder
    assert nearest_copy(copy.folder) == copy.folder
    assert nearest_copy(tmp_path) is None
    with pytest.raises(UsageError, match="has no scratch copy"):
        open_copy(tmp_path)


@pytest.mark.parametrize("text", ["page = 1\n", "page = ", "", 'page = "a"\n'])
def test_a_damaged_description_is_named(copy: ScratchCopy, text: str) -> None:
    (copy.folder / INFO).write_text(text, encoding="utf-8")
    with pytest.raises(PageError, match=r"fix\.toml:1: it does not say what the copy was made"):
        open_copy(copy.folder)
