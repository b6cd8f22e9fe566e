"""Hostile pages: each is rejected quickly, with one clear message.

All are in one folder and checked by one command, which shows that they do not affect each other.
"""

import codecs
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.command import harness_process

INVALID = b"""\
+++
id = "{id}"
kind = "break"
family = "shapes"
level = 1
sources = []

[expect]
add-same-shape = "?"
+++
# A page that does harm

## Hypothesis

What happens?

## The break

```diff
@@ add @@
-a
+b
```
"""


def replaced(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    return lambda page: page.replace(old, new)


def in_utf_16(page: bytes) -> bytes:
    return codecs.BOM_UTF16_LE + page.decode().encode("utf-16-le")


def in_yaml(page: bytes) -> bytes:
    return page.replace(b" = ", b": ").replace(b"+++\n", b"---\n")


EDITED: dict[str, Callable[[bytes], bytes]] = {
    "byte-order-mark": lambda page: codecs.BOM_UTF8 + page,
    "carriage-returns": replaced(b"\n", b"\r\n"),
    "empty": lambda _: b"",
    "escaped-escapes": replaced(b"level", b'"\\u001b[2J" = 1\nlevel'),
    "front-matter-without-end": replaced(b'"?"\n+++\n', b'"?"\n'),
    "id-of-another": replaced(b"id-of-another", b"skip-unbroadcast"),
    "json-in-place-of-toml": lambda _: b'+++\n{"id": "json-in-place-of-toml"}\n+++\n# T\n',
    "no-level": replaced(b"level = 1", b"level = nan"),
    "no-utf-8": lambda page: page + b"caf\xe9\n",
    "null-bytes": replaced(b"harm", b"ha\0rm"),
    "null-in-the-front": replaced(b"shapes", b"sha\0pes"),
    "number-without-end": replaced(b"level = 1", b"level = " + b"9" * 990),
    "only-the-fence": lambda _: b"+++",
    "patch-of-itself": replaced(b"-a\n+b", b"-$x\n+$x"),
    "patch-without-end": lambda page: page.removesuffix(b"```\n"),
    "path-in-id": replaced(b"path-in-id", b"../../etc/passwd"),
    "terminal-escapes": replaced(b"harm", b"\x1b[2J\x1b]0;owned\a"),
    "utf-16": in_utf_16,
    "yaml-in-place-of-toml": in_yaml,
}
"""What is done to the page above, whose id is put in before."""


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
    for page, edit in EDITED.items():
        (folder / f"{page}.md").write_bytes(edit(INVALID.replace(b"{id}", page.encode())))
    for what, (make, _) in MADE.items():
        make(folder / f"{id_of(what)}.md")
    done = harness_process("check", *EDITED, *map(id_of, MADE), "--breaks", str(folder))
    assert (done.returncode, done.stderr) == (2, ""), done.stderr
    _, *parts = re.split(r"^FAILED (\S+) ", done.stdout, flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def id_of(what: str) -> str:
    return what.replace(" ", "-")


@pytest.mark.parametrize("page", [*EDITED, *MADE])
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
