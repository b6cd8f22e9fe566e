"""Hostile pages: each is rejected quickly, with one clear message.

Pages that a repository can contain are files in `pages/`; the others are created here. All are in
one folder and checked by one command, which shows that they do not affect each other.
"""

import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.command import harness_process

HERE = Path(__file__).parent / "pages"
KEPT = sorted(path.stem for path in HERE.glob("*.md"))


def front(path: Path) -> str:
    """The beginning of a page whose id matches its file name."""
    return f'+++\nid = "{path.stem}"\nkind = "break"\nfamily = "shapes"\n+++\n# A title\n'


def written(*parts: str) -> Callable[[Path], object]:
    """A page with these lines after its beginning."""
    return lambda path: path.write_text(front(path) + "".join(parts), encoding="utf-8")


def with_front(text: str) -> Callable[[Path], object]:
    """A page with this line in its front matter."""
    return lambda path: path.write_text(
        front(path).replace("+++\n#", f"{text}\n+++\n#"), encoding="utf-8"
    )


def with_title(title: str) -> Callable[[Path], object]:
    """A page with another title."""
    return lambda path: path.write_text(front(path).replace("A title", title), encoding="utf-8")


def linked_out(path: Path) -> None:
    (path.parent.parent / "secret").write_text("a secret", encoding="utf-8")
    path.symlink_to(path.parent.parent / "secret")


def too_deep_in_folders(path: Path) -> None:
    path.write_text(front(path), encoding="utf-8")
    here = path.parent
    for name in ["d" * 200] * 15:
        here = here / name
        here.mkdir()


MADE: dict[str, tuple[Callable[[Path], object], str]] = {
    "ten megabytes": (written("word " * 2_000_000), "are allowed"),
    "a pipe": (os.mkfifo, "it is not a regular file"),
    "a device": (lambda path: path.symlink_to("/dev/zero"), "it is not a regular file"),
    "a folder": (Path.mkdir, "it is not a regular file"),
    "a link to itself": (lambda path: path.symlink_to(path.name), "cannot be read"),
    "a link to nothing": (lambda path: path.symlink_to("nothing"), "cannot be read"),
    "a link out of the catalogue": (linked_out, "no front matter"),
    "a link to its folder": (lambda path: path.symlink_to("."), "it is not a regular file"),
    "folders without end": (too_deep_in_folders, ""),
    "code to import": (with_front('transformer = "this:s"'), "key `transformer` is unknown"),
    "brackets in the front matter": (with_front("a = " + "[" * 900 + "\nb = " * 9), "not TOML"),
    "a key with too many dots": (with_front(".".join("a" * 20_000) + " = 1"), "dots"),
    "keys with many dots": (
        with_front("".join(f"{'.'.join('a' * 250)}.b{n} = 1\n" for n in range(70))),
        "is unknown",
    ),
    "tables that grow": (
        with_front("".join(f"a{n} = [{'{b = [{c = 1}]}, ' * 40}]\n" for n in range(60))),
        "is unknown",
    ),
    "a title for a regex": (with_title("#" + " " * 60_000 + "x"), ""),
    "a heading for a regex": (written("## a" + " " * 60_000 + "b\n"), ""),
    "quotations in quotations": (written(">" * 60_000, "\n"), ""),
    "brackets": (written("[" * 20_000, "\n"), ""),
    "emphasis": (written("*a _b " * 10_000, "\n"), ""),
    "a diff in parentheses": (
        written(f"\n```diff\n@@ add @@\n-{'(' * 9000}a{')' * 9000}\n+b\n```\n"),
        "",
    ),
    "a diff of minus signs": (
        written(f"\n```diff\n@@ add @@\n-{'-' * 20_000}a\n+b\n```\n"),
        "",
    ),
    "a diff for a regex": (
        written(f"\n```diff\n@@ {'*.' * 2000}x @@\n-a\n+b\n```\n"),
        "",
    ),
    "a diff of many runs": (
        written(f"\n```diff\n@@ add @@\n-f({', '.join(['$...a'] * 200)})\n+b\n```\n"),
        "",
    ),
    "a probe of minus signs": (
        written(f'\n## Probes\n\n```python\ndef p(a={"-" * 50_000}1):\n    "d"\n```\n'),
        "nested too deeply",
    ),
    "a probe in parentheses": (
        written(f"\n## Probes\n\n```python\n{'(' * 9000}1{')' * 9000}\n```\n"),
        "not Python",
    ),
}

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no such files")


@pytest.fixture(scope="module")
def messages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The message for each page."""
    folder = tmp_path_factory.mktemp("catalogue") / "pages"
    folder.mkdir()
    for page in KEPT:
        shutil.copy(HERE / f"{page}.md", folder)
    for what, (make, _) in MADE.items():
        make(folder / f"{id_of(what)}.md")
    done = harness_process("check", *KEPT, *map(id_of, MADE), "--breaks", str(folder))
    assert (done.returncode, done.stderr) == (2, ""), done.stderr
    _, *parts = re.split(r"^FAILED (\S+) ", done.stdout, flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def id_of(what: str) -> str:
    return what.replace(" ", "-")


@pytest.mark.parametrize("page", [*KEPT, *MADE])
def test_a_page_is_refused_with_a_message(page: str, messages: dict[str, str]) -> None:
    message = messages[id_of(page)]
    words = MADE[page][1] if page in MADE else "remedy: "
    assert words in " ".join(message.split())
    assert "the check itself failed" not in message
    assert "a secret" not in message
    assert "Zen of Python" not in message
    assert all(line.isprintable() for line in message.splitlines()), message
    assert len(message) < 10_000


def test_a_duplicate_id_ends_the_command_with_a_message(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        path = tmp_path / folder / "x.md"
        path.write_text(front(path), encoding="utf-8")
    done = harness_process("check", "x", "--breaks", str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert "is taken by" in done.stderr
    assert "Traceback" not in done.stderr
