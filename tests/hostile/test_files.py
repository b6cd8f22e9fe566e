"""Files that are not regular, not text or too large, wherever the harness reads one.

Each ends the command at once, with one message.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.core import LARGEST, read_text
from harness.core.errors import PageError
from tests.harness.command import harness
from tests.harness.sound_page import write_page

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no such files")

KINDS: dict[str, tuple[Callable[[Path], object], str]] = {
    "a pipe": (os.mkfifo, "it is not a regular file"),
    "a device": (lambda path: path.symlink_to("/dev/zero"), "it is not a regular file"),
    "a folder": (Path.mkdir, "it is not a regular file"),
    "a link to nothing": (lambda path: path.symlink_to("nothing"), "No such file"),
    "a link to itself": (lambda path: path.symlink_to(path.name), "symbolic links"),
    "not UTF-8": (lambda path: path.write_bytes(b"\xff\xfe\xe9"), "it is not UTF-8 text"),
    "a null": (lambda path: path.write_bytes(b"a = 1\n\0"), "U+0000 is not text"),
    "too large": (lambda path: path.write_bytes(b"#" * (LARGEST + 1)), "it is too large"),
}

IN_SPANISH = {
    "it is not a regular file": "no es un archivo normal",
    "it is too large": "es demasiado grande",
    "remedy: ": "solución: ",
}
"""What the commands with `--lang es` say."""

PLACES = {
    "a page": ("f/x.md", "show x --breaks ."),
    "a translation": ("f/log-slope-one.es.md", "show log-slope-one --lang es --breaks ."),
    "a translation that is checked": ("f/log-slope-one.es.md", "check log-slope-one --breaks ."),
    "a file of probes": ("probes/p.py", "list --probes --breaks ."),
    "translated probes": ("probes/es.toml", "show log-slope-one --lang es --breaks ."),
    "conventions": ("catalogue.toml", "matrix log-slope-one --breaks ."),
    "the track": ("track.toml", "list --track --breaks ."),
    "the translated track": ("track.es.toml", "list --track --lang es --breaks ."),
    "a recipe": ("recipes/mine.py", "diff training --breaks ."),
    "settings": ("harness.toml", "doctor harness.toml"),
    "settings of this folder": ("harness.toml", "diff log-slope-one --breaks ."),
    "a submission": ("mine.py", "exercise squares-only mine.py"),
}
TRAINING = """\
+++
id = "training"
kind = "break"
family = "f"
recipe = "mine"
+++
# A training
"""


@pytest.fixture(autouse=True)
def _at_once() -> Iterator[None]:
    """A command that waits for a pipe, or reads a device to its end, fails the test."""

    def too_late(*_: object) -> None:
        raise TimeoutError("the command takes too long")

    before = signal.signal(signal.SIGALRM, too_late)
    signal.alarm(120)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_is_not_text_is_refused_with_a_remedy(kind: str, tmp_path: Path) -> None:
    make, words = KINDS[kind]
    make(tmp_path / "file")
    with pytest.raises(PageError) as caught:
        read_text(tmp_path / "file")
    assert words in caught.value.problem
    assert caught.value.remedy


@pytest.mark.parametrize("kind", ["a pipe", "a device", "a link to nothing", "too large"])
@pytest.mark.parametrize("place", PLACES)
def test_every_command_refuses_such_a_file(place: str, kind: str, tmp_path: Path) -> None:
    (file, command), (make, words) = PLACES[place], KINDS[kind]
    write_page(tmp_path / "f")
    write_page(tmp_path / "f", TRAINING, "training.md")
    (tmp_path / file).parent.mkdir(exist_ok=True)
    make(tmp_path / file)
    done = harness(*command.split(), cwd=tmp_path)
    shown = " ".join(f"{done.stdout} {done.stderr}".split())
    table = IN_SPANISH if "--lang es" in command else {}
    assert done.returncode == 2, shown
    assert f"{Path(file).name}:1" in shown
    assert table.get(words, words) in shown
    assert shown.count(table.get("remedy: ", "remedy: ")) == 1 or command.startswith("check")
    assert "Traceback" not in shown


@pytest.mark.parametrize("kind", ["a pipe", "a device", "too large"])
def test_an_engine_that_is_such_a_file_is_an_environment_problem(kind: str, tmp_path: Path) -> None:
    make, words = KINDS[kind]
    if kind == "too large":
        (tmp_path / "mine.py").write_bytes(b"#" * (1024 * 1024 + 1))
    else:
        make(tmp_path / "mine.py")
    done = harness("doctor", "mine.py:Tensor", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, "")
    assert words in done.stderr
    assert "remedy: " in done.stderr


@pytest.mark.parametrize("file", ["caf\udce9.md", "caf\udce9/x.md", "probes/caf\udce9.py"])
@pytest.mark.parametrize("command", ["list --json", "check x --json", "list --probes --json"])
def test_a_name_that_is_not_utf8_is_one_message(file: str, command: str, tmp_path: Path) -> None:
    write_page(tmp_path, name=file)
    done = harness(*command.split(), "--breaks", str(tmp_path))
    if "--probes" in command and file.endswith(".md"):
        assert done.returncode == 0  # it reads no page
    elif "probes" in file and "--probes" not in command:
        assert "caf" not in done.stderr  # it reads no probe
    else:
        assert (done.returncode, done.stdout) == (2, "")
        assert "caf\\udce9" in done.stderr
        assert done.stderr.endswith(
            "its path is not UTF-8\n  remedy: rename the file or the folder\n"
        )


@pytest.mark.parametrize("option", ["--breaks", "--engine", "--markdown", "--probe"])
def test_an_argument_that_is_not_utf8_is_one_message(option: str) -> None:
    done = harness("matrix", option, "caf\udce9")
    assert (done.returncode, done.stdout) == (2, "")
    assert "the argument `caf\\udce9` is not UTF-8\n  remedy: " in done.stderr
