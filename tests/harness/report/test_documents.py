"""The documents that are made: what is committed is what the code and the catalogue say today."""

import html
import re
from pathlib import Path

import pytest

from harness.diagnostics import DIAGNOSTICS
from harness.report import markdown_table
from harness.report.documents import (
    DOCUMENTS,
    END,
    START,
    catalogue_index,
    diagnostics_table,
    with_text,
)
from tests.harness.bundled import CATALOGUE, bundled_pages
from tests.harness.cli.terminal import dialogue
from tests.harness.command import harness
from tests.track_transcript import ANSWERS, answers, document, transcript

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("path", DOCUMENTS, ids=str)
def test_what_is_committed_is_what_would_be_made(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    page = path.read_text(encoding="utf-8")
    assert page == with_text(page, DOCUMENTS[path]()), "run: python -m harness.report.documents"


def test_the_table_has_a_row_of_four_cells_for_each_diagnostic() -> None:
    head, ruler, *rows = diagnostics_table().splitlines()
    assert [row.split("`")[1] for row in rows] == [each.name for each in DIAGNOSTICS]
    assert {row.count("|") for row in (head, ruler, *rows)} == {5}


def test_the_index_links_every_page_and_every_link_leads_somewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    index = catalogue_index()
    links = [part.partition(")")[0] for part in index.split("](")[1:]]
    assert [link for link in links if not (ROOT / "docs" / link).is_file()] == []
    assert {Path(link).stem for link in links} >= {page.id for page in bundled_pages()}


def test_the_track_is_thirteen_first_lessons_of_three_kinds_in_spanish_too() -> None:
    kinds = [CATALOGUE.page(page).front.kind for page in CATALOGUE.track]
    assert len(kinds) == 13
    assert set(kinds) == {"break", "myth", "exercise"}
    for page in map(CATALOGUE.page, CATALOGUE.track):
        assert page.front.level == 1
        assert "es" in CATALOGUE.translations(page.id)


def test_only_what_stands_between_the_markers_is_replaced() -> None:
    page = f"before\n{START}old\n{END}after\n"
    assert with_text(page, "new\n") == f"before\n{START}new\n{END}after\n"
    with pytest.raises(ValueError, match="no markers"):
        with_text("before and after\n", "new\n")


@pytest.mark.parametrize("document", ["README.md", "docs/commands.md", "docs/seeds.md"])
def test_every_link_leads_somewhere(document: str) -> None:
    links = _links(document)
    assert len(links) >= 4
    assert [link for link in links if not link.exists()] == []


@pytest.mark.usefixtures("without_oracles")
def test_the_picture_in_the_readme_is_what_its_command_prints() -> None:
    """Except for what the oracles say; whitespace is not compared."""
    readme, svg = _text("README.md"), _text("docs/first-break.svg")
    (command,) = re.findall(r"\.venv/bin/harness (break [\w-]+)$", readme, re.M)
    picture = "".join(html.unescape(re.sub(r"<[^>]*>", "", svg)).split())
    lines = harness(*command.split(), "--no-cache").stdout.splitlines()
    verdicts = [i for i, line in enumerate(lines) if line.startswith(("Caught", "Write"))]
    shown = lines[: verdicts[0]] + lines[verdicts[1] :]
    assert len(shown) > 15
    missing = [line for line in shown if "".join(line.split()) not in picture]
    assert [line for line in missing if "Not available" not in line] == []


@pytest.mark.parametrize("file", ["docs/track.md", "docs/track.es.md"])
def test_the_transcript_answers_every_page_of_the_track(file: str) -> None:
    assert tuple(ANSWERS) == tuple(CATALOGUE.track)
    text = _text(file)
    assert [page for page in ANSWERS if page not in text] == []
    assert "Traceback" not in text


WITHOUT_PAGE_0 = re.compile(r"^`harness start` .*\n.*\n\n|\n(Next|Sigue) +harness start .*", re.M)
"""What a page says, before and after it, to someone who has not read page 0."""


@pytest.mark.slow
@pytest.mark.parametrize("code", ["en", "es"])
def test_the_transcript_is_what_a_page_shows_today(code: str) -> None:
    page = "mul-swapped-operands"
    done = dialogue(["break", page, "--lang", code], answers(page, code))
    shown, whole = (
        "\n".join(line for line in text.splitlines() if not line.startswith("  >"))
        for text in (transcript(done), document(code).read_text("utf-8"))
    )  # a terminal may echo a key twice
    shown = WITHOUT_PAGE_0.sub("", shown)
    assert shown in whole, "run: python -m tests.track_transcript"


def test_every_page_about_a_claim_of_a_seed_is_in_their_table() -> None:
    linked = {link.stem for link in _links("docs/seeds.md")}
    about = {page.id for page in bundled_pages() if any("seeds/" in s for s in page.front.sources)}
    assert about - linked == set()


def _links(document: str) -> list[Path]:
    """Return the files that a document of the repository links to."""
    links = [part.partition(")")[0] for part in _text(document).split("](")[1:]]
    return [(ROOT / document).parent / link for link in links if not link.startswith("https://")]


def _text(document: str) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


def test_a_cell_of_a_table_is_one_line_and_may_contain_a_bar() -> None:
    assert markdown_table(["a", "n"], [["x | y\nz", "1"]], numbers=["n"]) == [
        "| a | n |",
        "| --- | ---: |",
        "| x \\| y z | 1 |",
    ]
