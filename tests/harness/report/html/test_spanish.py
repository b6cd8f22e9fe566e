"""Every HTML page in Spanish: what is left in English is marked as English."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from jinja2 import Environment, nodes

from harness.cli import matrix
from harness.doctor import diagnosis
from harness.grade import grading
from harness.report.html import document
from tests.harness.bundled import CATALOGUE
from tests.harness.command import harness
from tests.harness.grade.results import MIXED, REJECTED
from tests.harness.matrix.made import everything
from tests.harness.report import diagnoses

TEMPLATES = Path(document.__file__).parent / "templates"
ORIGINAL = "minimum-copied-from-maximum"
"""A page that is not translated."""
SPAIN = {"LANG": "es_ES.UTF-8"}
ENGLISH = re.compile(
    r"\b(the|is|of|with|and|that|which|by|this|page|not|break|probe|level|more|reached)\b",
    re.I,
)
NAMES = {"breaklab", "minigrad", "grad"}
"""The words in templates that are names."""
VALUES = (
    *(nodes.Call, nodes.Compare, nodes.Filter, nodes.Getitem),
    *(nodes.Extends, nodes.FromImport),
)
"""The parts of a template whose strings are not shown, or are translated by what they call."""
VOID = {"br", "col", "hr", "img", "input", "link", "meta", "use"}


class Reader(HTMLParser):
    """The texts of a page that a screen reader pronounces in the language of the page.

    Code and text that is marked as English are left out.
    """

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.language = ""
        self.elements: list[tuple[str, bool]] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = dict(attributes)
        if tag == "html":
            self.language = values.get("lang") or ""
        quiet = tag in ("code", "pre", "script", "style", "svg") or (
            tag != "html" and values.get("lang") == "en"
        )
        quiet |= bool(self.elements) and self.elements[-1][1]
        if not quiet:
            self.texts += filter(None, (values.get(name) for name in ("aria-label", "title")))
        if tag not in VOID:
            self.elements.append((tag, quiet))

    def handle_endtag(self, tag: str) -> None:
        while self.elements and self.elements.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self.elements and not self.elements[-1][1]:
            self.texts.append(data)


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    return reader


def english_in(html: str) -> list[str]:
    """The texts with an English word, in a page that must be in Spanish."""
    reader = read(html)
    assert reader.language == "es"
    plain = [re.sub(r"[\w.]+-[\w-]+|\w+Error.*", "", text) for text in reader.texts]
    assert any(plain)
    return [text for text in plain if ENGLISH.search(text)]


def pieces(node: nodes.Node) -> Iterator[str]:
    """The text of a template without the values that are filled in."""
    if isinstance(node, nodes.TemplateData):
        yield node.data
    elif isinstance(node, nodes.Const) and isinstance(node.value, str):
        yield node.value
    elif not isinstance(node, VALUES):
        for child in node.iter_child_nodes(exclude=("test", "target", "iter", "args")):
            yield from pieces(child)


@pytest.mark.parametrize("file", sorted(TEMPLATES.iterdir()), ids=lambda file: file.stem)
def test_every_text_of_a_template_is_said_in_the_language(file: Path) -> None:
    source = Environment(trim_blocks=True, lstrip_blocks=True).parse(file.read_text("utf-8"))
    html = "<body>" + "".join(pieces(source)).replace("<!doctype html>", "")
    words = set(re.findall(r"[A-Za-z]{3,}", " ".join(read(html).texts)))
    assert words - NAMES == set()


def test_a_text_that_is_not_translated_is_noticed() -> None:
    (block,) = Environment().parse("<p class='x'>{{ 'Nothing' if a else say('b') }} Left</p>").body
    assert read("".join(pieces(block))).texts == ["Nothing Left"]


@pytest.mark.usefixtures("without_oracles")
def test_a_break_is_in_spanish_as_far_as_its_page_is_translated(tmp_path: Path) -> None:
    file = tmp_path / "es.html"
    ids = ("sub-sign", ORIGINAL)
    assert harness("html", *ids, "--lang", "es", "--out", str(file)).returncode == 0
    page = file.read_text("utf-8")
    assert english_in(page) == []
    assert "Predice antes de mirar" in page
    title = CATALOGUE.page(ORIGINAL).title
    assert page.count(f'lang="en">{title}<') == 3  # in the index, after sub-sign, as a heading


def test_a_matrix_is_in_spanish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "_cached_matrix", lambda *_: everything())
    file = tmp_path / "matrix.html"
    options = ("--html", str(file), "--lang", "es")
    terminal = harness("matrix", "sub-sign", *options).stdout
    assert english_in(file.read_text("utf-8")) == []
    assert "diagnostics" in terminal  # which stays in English


def test_a_diagnosis_is_in_spanish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = diagnoses.diagnosis(diagnoses.defect(1, alike=True))
    monkeypatch.setattr(diagnosis, "diagnose", lambda *_: found)
    file = tmp_path / "doctor.html"
    harness("doctor", "mine:Tensor", "--html", str(file), "--lang", "es")
    page = file.read_text("utf-8")
    assert english_in(page) == []
    assert "se comporta como <code>sub-sign</code>" in page


@pytest.mark.parametrize("result", [MIXED, REJECTED], ids=["graded", "rejected"])
@pytest.mark.parametrize("arguments", [("--lang", "es"), ()], ids=["option", "locale"])
def test_a_grade_is_in_spanish(
    result: Any, arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grading, "grade_suite", lambda *_: result)
    (tmp_path / "test_a.py").touch()
    chosen = ("--select", "sub-sign", "--correct", "tanh-by-expm1", "--format", "html")
    done = harness("grade", str(tmp_path), *chosen, *arguments, **({} if arguments else SPAIN))
    assert english_in(done.stdout) == []
    if result is MIXED:
        assert "Se detectan 2 de 6 roturas de minigrad" in done.stdout
        assert "<td>Perder el menos del segundo operando</td>" in done.stdout
        assert "ninguna prueba la alcanza" in done.stdout


@pytest.mark.parametrize("command", ["matrix", "doctor"])
def test_a_language_that_is_not_there_is_named_before_anything_runs(command: str) -> None:
    done = harness(*command.split(), "--lang", "xx")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no language `xx`" in done.stderr
