"""Whatever a command reads, it prints no control characters and no invisible characters."""

import io
import json
import os
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.markdown import Markdown
from rich.table import Table
from rich.text import Text

from harness.cli.app import VisibleStream
from harness.core.message import visible
from harness.report import to_json
from harness.report.terminal import open_console
from tests.harness.cli.terminal import dialogue
from tests.harness.command import harness
from tests.harness.sound_page import SOUND, write_page

HOSTILE = "\x1b]0;title\x07\x1b[31m\r\x9b31m\x7f\u061c\u200b\u200d\u200f\u202e\u2066\u2028\ufeff"
ESCAPED = HOSTILE.encode("unicode_escape").decode()
MARKUP = "[/bold] [red] :smile:"
LEGITIMATE = "¿Qué pasó?\u00a0Ñandú → ≠ ✗ ┌─┐ 漢字 Ж\n\tcafe\u0301"


def controls(text: str) -> set[str]:
    """The characters of a text that control a terminal or are invisible."""
    return {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")} - {
        *"\n\t"
    }


@given(st.text())
def test_visible_text_has_no_controls_and_keeps_everything_else(text: str) -> None:
    shown = visible(text)
    assert not controls(shown)
    assert controls(text) or visible(shown) == shown
    assert visible(LEGITIMATE + text).startswith(LEGITIMATE)


@given(st.text())
def test_a_stream_writes_only_visible_text(text: str) -> None:
    stream = VisibleStream(io.StringIO())
    print(text, file=stream)  # type: ignore[arg-type]  # what `print` needs
    stream.writelines([text, text])
    assert stream.getvalue() == visible(f"{text}\n{text}{text}")


@given(st.text())
def test_a_console_shows_only_visible_text(text: str) -> None:
    table = Table()
    table.add_column(text)
    table.add_row(text, Text(text))
    console = open_console(file=io.StringIO())
    for renderable in (text, Text(text), table, Markdown(text)):
        console.print(renderable)
    assert not controls(console.file.getvalue())  # type: ignore[attr-defined]  # a StringIO


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_json_is_visible_and_the_same_data(text: str) -> None:
    shown = to_json({text: [text]})
    assert not controls(shown)
    assert json.loads(shown) == {text: [text]}


def test_markup_in_a_text_is_shown_as_it_is() -> None:
    console = open_console(file=io.StringIO())
    console.print(MARKUP)
    assert console.file.getvalue() == f"{MARKUP}\n"  # type: ignore[attr-defined]  # a StringIO


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a hostile name that contains a hostile page, probe, settings and submission."""
    folder = tmp_path_factory.mktemp("hostile") / f"{HOSTILE} [red] :smile:"
    folder.mkdir()
    marks = "\u202e\u200b\ufeff"  # a page must not contain control characters
    page = SOUND.replace("# Hand", f"# {marks} {MARKUP} &#27;&#x9b;&#x202e; Hand")
    page = page.replace("Every entry", f"{marks} &#27;[31m Every entry")
    page = page.replace("The logarithm", f"{ESCAPED} {MARKUP} The logarithm")
    write_page(folder, page)
    write_page(folder, page.replace('"log-slope-one"', '"no-level"\nlevel = 9'), "no-level.md")
    write_page(folder, f'def p(x=(3,)):\n    "{ESCAPED} {MARKUP}"\n    return x\n', "probes/p.py")
    raising = f'def test():\n    raise ValueError("{ESCAPED} {MARKUP}")\n'
    write_page(folder, raising, "test_raising.py")
    settings = json.dumps(f"{HOSTILE}:T")
    write_page(folder, f"[engine]\ntarget = {settings}\n", "harness.toml")
    write_page(folder, f'[engine]\n{settings} = "{marks}"\n', "key.toml")
    return folder


COMMANDS = {
    "list": "list --breaks HERE",
    "list as JSON": "list --json --breaks HERE",
    "list of probes": "list --probes --breaks HERE",
    "list of probes as JSON": "list --probes --json --breaks HERE",
    "show": "show log-slope-one --breaks HERE",
    "show as JSON": "show log-slope-one --json --breaks HERE",
    "break": "break log-slope-one --breaks HERE",
    "break as JSON": "break log-slope-one --json --breaks HERE",
    "check": "check log-slope-one no-level --breaks HERE",
    "check as JSON": "check log-slope-one no-level --json --breaks HERE",
    "settings": "doctor HERE",
    "a key of settings": "doctor HERE/key.toml",
    "a folder": "list --breaks HERE/nowhere",
    "a command": "HOSTILE",
    "an option": "list --HOSTILE",
    "an id": "show HOSTILE",
    "an id with a traceback": "show HOSTILE --traceback",
    "a probe": "break log-slope-one --breaks HERE --probe HOSTILE",
    "a variant": "break log-slope-one --breaks HERE --on HOSTILE",
    "an engine": "break log-slope-one --breaks HERE --engine HOSTILE",
    "a module": "doctor HOSTILE:HOSTILE",
    "a language": "show log-slope-one --breaks HERE --lang HOSTILE",
    "a family": "matrix --family HOSTILE",
    "a number": "break log-slope-one --breaks HERE --seeds HOSTILE",
    "a submission": "exercise squares-only HERE/HOSTILE",
    "a suite": "grade HERE/HOSTILE",
    "a suite's exception": "grade HERE/test_raising.py --select sub-sign --correct tanh-by-expm1",
    "a new page": "new HOSTILE --family HOSTILE --breaks HERE",
}


@pytest.mark.usefixtures("without_oracles")
@pytest.mark.parametrize("command", COMMANDS.values(), ids=list(COMMANDS))
def test_no_command_prints_what_controls_a_terminal(command: str, folder: Path) -> None:
    words = command.split()
    not_utf8 = os.fsdecode(b"\xff")
    arguments = [
        word.replace("HERE", str(folder)).replace("HOSTILE", HOSTILE + not_utf8) for word in words
    ]
    done = harness(*arguments)
    assert not controls(done.stdout + done.stderr)
    assert done.stdout + done.stderr
    if "--traceback" not in words:
        assert "Traceback" not in done.stderr


def test_on_a_terminal_only_the_console_adds_escape_sequences(folder: Path) -> None:
    shown = dialogue(["list", "--probes", "--breaks", str(folder)], NO_COLOR="").shown
    assert "\x1b[1m" in shown
    assert "\\x1b]0;title" in shown
    assert not controls(shown) & set(HOSTILE) - {*"\x1b\r"}
    assert "\x1b]0" not in shown
