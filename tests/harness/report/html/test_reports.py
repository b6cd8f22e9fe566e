"""Matrices, grades and diagnoses as HTML, and a break in a notebook."""

import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

from harness.cli import matrix
from harness.core.errors import EnvironmentProblem
from harness.report.notebook import show_break
from tests.harness.command import harness
from tests.harness.matrix.tiny import plan, run, write_pages


def text_of(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def test_a_matrix_is_a_grid_whose_cells_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, found = run(plan(write_pages(tmp_path / "pages"), ids=["flat"]))
    monkeypatch.setattr(matrix, "_cached_matrix", lambda *_: found)
    file = tmp_path / "matrix.html"
    assert harness("matrix", "sub-sign", "--html", str(file)).returncode == 0
    page = text_of(file)
    assert '<th scope="row"><code>flat</code></th>' in page
    (cell,) = re.findall(r'aria-label="●: flat, shape">.*?<p>(.*?)</p>', page)
    assert "has shape" in cell


@pytest.mark.usefixtures("few_pages", "without_oracles")
def test_a_diagnosis_names_what_looks_wrong(tmp_path: Path) -> None:
    file, engine = tmp_path / "mine.html", tmp_path / "tiny_engine.py"
    engine.write_text((Path(__file__).parents[3] / "engines" / "inline.py").read_text("utf-8"))
    harness("doctor", f"{engine}:Tensor", "--html", str(file))
    assert "How breaklab calls it" in text_of(file)
    assert "add-same-shape" in text_of(file)


def test_nothing_runs_if_the_file_cannot_be_written(tmp_path: Path) -> None:
    nowhere = str(tmp_path / "nowhere" / "a.html")
    commands = (
        ("matrix", "--html"),
        ("doctor", "--html"),
        ("html", "--out"),
        ("break", "sub-sign", "--html"),
    )
    for command in commands:
        ended = harness(*command, nowhere)
        assert ended.returncode in (2, 3)
        assert ended.stdout == ""
        assert "no folder" in ended.stderr or "no engine is named" in ended.stderr


def test_without_jinja_there_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("harness.report.html")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    ended = harness("html", "sub-sign", "--out", str(tmp_path / "a.html"))
    assert ended.returncode == 3
    assert "pip install 'breaklab[html]'" in ended.stderr


@pytest.mark.usefixtures("without_oracles")
def test_every_link_within_a_file_has_its_target(tmp_path: Path) -> None:
    file = tmp_path / "a.html"
    assert harness("html", "skip-unbroadcast", "--out", str(file)).returncode == 0
    page = text_of(file)
    targets = set(re.findall(r' href="#([^"]+)"', page))
    assert "main" in targets
    assert targets <= set(re.findall(r' id="([^"]+)"', page))


def test_only_a_break_with_probes_is_a_page(tmp_path: Path) -> None:
    out = str(tmp_path / "a.html")
    assert "changes a whole training run" in harness("html", "clip-infinite", "--out", out).stderr
    refused = harness("break", "clip-infinite", "--seeds", "2", "--html", out)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "changes a whole training run" in refused.stderr
    assert "is a myth, not a break" in harness("html", "smaller-h-is-better", "--out", out).stderr
    assert "did you mean `sub-sign`" in harness("html", "sub-sing", "--out", out).stderr


def test_all_breaks_or_some_but_not_both(tmp_path: Path) -> None:
    refused = harness("html", "--all", "sub-sign", "--out", str(tmp_path / "a.html"))
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--all cannot be combined with ids\n  remedy: leave one" in refused.stderr


@pytest.mark.usefixtures("without_oracles")
def test_a_notebook_shows_the_page_and_a_text() -> None:
    shown = show_break("sub-sign")
    assert repr(shown).startswith("Drop the minus of the second operand")
    assert "Caught" in repr(shown)
    assert shown._repr_html_().startswith('<iframe srcdoc="&lt;!doctype html&gt;')


@pytest.mark.usefixtures("without_oracles")
def test_without_jinja_a_notebook_shows_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("harness.report.html")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "harness.report.notebook")
    monkeypatch.setitem(sys.modules, "jinja2", None)
    monkeypatch.setitem(sys.modules, "markupsafe", None)
    shown = import_module("harness.report.notebook").show_break("sub-sign")
    assert repr(shown).startswith("Drop the minus of the second operand")
    with pytest.raises(EnvironmentProblem, match="needs Jinja2"):
        shown._repr_html_()
