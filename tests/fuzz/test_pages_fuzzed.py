"""Corrupted pages, probes, translations, exercises, recipes and tables."""

from __future__ import annotations

import contextlib
import math
import re
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from harness.check import Finding
from harness.check.prose import check_prose
from harness.check.static import check_names
from harness.check.translations import check_translation
from harness.experiment.myth import find_exhibit
from harness.grade.exercise import read_answer, read_suite, without_answer
from harness.grade.probes import read_submission
from harness.matrix.committed import read_committed, write_committed
from harness.pages.catalogue import Catalogue, open_catalogue
from harness.pages.front_matter import ID, PatchFront, ProbedFront
from harness.pages.page import Page, read_page, read_table, split_front
from harness.pages.probe import Probe, read_probes
from harness.pages.translation import translated
from harness.patch import parse_patch
from harness.report.language import open_language
from harness.runs.trial import draw
from harness.training.recipe import read_expectation, read_recipe
from tests.examples import examples
from tests.fuzz.changes import changed, originals, spoiled, texts
from tests.fuzz.sound import in_time, lines_of, read

FEW = examples(50)
"""Of the profile that was asked for."""

LARGEST_DRAWN = 10_000
"""The largest number of elements of a leaf that is drawn here."""


@cache
def catalogue() -> Catalogue:
    return open_catalogue()


@contextlib.contextmanager
def placed(name: str, whole: str | bytes) -> Iterator[Path]:
    """A file with this content, alone in a folder."""
    with tempfile.TemporaryDirectory(prefix="fuzzed-") as folder:
        file = Path(folder, name)
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(whole if isinstance(whole, bytes) else whole.encode())
        yield file


def pages(of: str = "*") -> st.SearchStrategy[tuple[str, str]]:
    """Pages of the catalogue without their translations."""
    found = [one for one in texts(f"{of}/*.md") if "." not in Path(one[0]).stem]
    return st.sampled_from(found)


# ----- Pages -----


@given(st.data(), pages(), st.sampled_from(["front", "body", "whole"]))
def test_a_changed_page_is_read_or_refused(
    data: st.DataObject, original: tuple[str, str], part: str
) -> None:
    name, text = original
    toml, body, _ = split_front(text, name)
    others = [other for _, other in texts("broadcasting/*.md")]
    if part == "front":
        text = f"+++\n{changed(data, toml)}\n+++\n{body}"
    elif part == "body":
        text = f"+++\n{toml}+++\n{changed(data, body, others)}"
    else:
        text = changed(data, text, others)
    with placed(Path(name).name, text) as path:
        travel(path, text)


@FEW
@given(st.data(), pages())
def test_a_page_of_spoiled_bytes_is_read_or_refused(
    data: st.DataObject, original: tuple[str, str]
) -> None:
    name, text = original
    whole = spoiled(data, text.encode())
    with placed(Path(name).name, whole) as path:
        travel(path, whole.decode(errors="replace"))


@FEW
@given(st.data(), pages("exercises"))
def test_a_changed_exercise_is_read_or_refused(
    data: st.DataObject, original: tuple[str, str]
) -> None:
    text = changed(data, original[1])
    with placed(Path(original[0]).name, text) as path:
        page = travel(path, text)
    if page:
        read(lambda: without_answer(page, page), text)
        for reader in (read_suite, read_answer):
            for test in read(lambda reader=reader: reader(page), text) or ():
                are_sound(test)


def travel(path: Path, text: str) -> Page | None:
    """Read everything of a page that is read before it runs."""
    page = read(lambda: read_page(path), text)
    if page is None:
        return None
    assert page.id == path.stem
    assert page.title
    for fence in page.fences:
        assert 1 <= fence.line <= lines_of(text) + 1
    for heading in page.headings:
        page.section(heading)
    for key in (*_keys(page), "family"):
        assert 1 <= page.line_of("expect", key) <= lines_of(text)
    with in_time():
        are_findings(check_prose(page, catalogue().conventions), text)
    for probe in read(lambda: page.probes, text) or ():
        are_sound(probe)
    for block in page.diffs("minigrad"):
        read(lambda block=block: parse_patch(block.text, path=page.path, line=block.line), text)
    read(lambda: find_exhibit(page), text)
    read(lambda: read_expectation(page), text)
    read(lambda: are_findings(check_names(page, catalogue())[1], text), text)
    return page


def _keys(page: Page) -> list[str]:
    """The keys of the page's tables."""
    expect = page.front.expect if isinstance(page.front, PatchFront) else {}
    diagnostics = page.front.diagnostics if isinstance(page.front, ProbedFront) else {}
    return [*expect, *diagnostics]


def are_findings(findings: Iterable[Finding], text: str) -> None:
    for finding in findings:
        assert finding.problem
        assert finding.remedy
        assert 1 <= finding.line <= lines_of(text) + 1, finding


# ----- Probes, recipes and translations -----


@given(st.data(), originals("probes/*.py"))
def test_a_changed_file_of_probes_is_read_or_refused(
    data: st.DataObject, original: tuple[str, str]
) -> None:
    text = changed(data, original[1])
    for probe in read(lambda: read_probes(text, original[0]), text) or ():
        are_sound(probe)


@FEW
@given(st.data(), originals("probes/*.py"))
def test_a_learners_file_of_spoiled_bytes_is_read_or_refused(
    data: st.DataObject, original: tuple[str, str]
) -> None:
    whole = spoiled(data, original[1].encode())
    with placed("attempt.py", whole) as path:
        probes = read(lambda: read_submission(path), whole.decode(errors="replace"))
    for probe in probes or ():
        are_sound(probe)


def are_sound(probe: Probe) -> None:
    """Check that a probe can be sent to a child and that its leaves can be drawn."""
    assert probe.name
    assert probe.doc or probe.kind == "test"
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(probe), type=Probe).name == probe.name
    msgspec.json.encode(probe.leaves)
    for leaf in probe.leaves:
        if math.prod(leaf.shape or ()) <= LARGEST_DRAWN:
            draw(replace(probe, leaves=(leaf,)))


@FEW
@given(st.data(), originals("recipes/*.py"))
def test_a_changed_recipe_is_read_or_refused(
    data: st.DataObject, original: tuple[str, str]
) -> None:
    path, text = original[0], changed(data, original[1])
    recipe = read(lambda: read_recipe(Path(path).stem, text, path), text)
    assert recipe is None or recipe.text == text


@given(st.data(), st.sampled_from(texts("*/*.es.md")))
def test_a_changed_translation_is_read_or_refused(
    data: st.DataObject, original: tuple[str, str]
) -> None:
    name, text = Path(original[0]).name, changed(data, original[1])
    page = catalogue().page(name.partition(".")[0])
    with placed(name, text) as path, in_time():
        read(lambda: translated(page, path), text)
        are_findings(check_translation(path, page), text)


# ----- Tables -----


@FEW
@given(st.data(), st.sampled_from(["track.toml", "probes/es.toml"]))
def test_a_changed_table_is_read_or_refused(data: st.DataObject, name: str) -> None:
    ((_, original),) = texts(name)
    head = "\n".join(original.split("\n")[:30])  # tomllib reads the rest no other way
    text = changed(data, head)
    with placed(name, text) as path:
        if name == "track.toml":
            track = read(lambda: Catalogue((path.parent,)).track, text)
            assert track is None or all(isinstance(idea, str) for idea in track.values())
            return
        phrases = read(lambda: Catalogue((path.parents[1],)).phrases("es"), text)
    if phrases is not None:
        language = open_language("es").with_translations(phrases)
        for phrase in [*phrases, "a = 1", text[:200]]:
            with in_time():
                assert isinstance(language(phrase), str)


@FEW
@given(st.data())
def test_a_changed_matrix_is_read_or_refused(data: st.DataObject) -> None:
    ((_, original),) = texts("matrix.toml")
    text = changed(data, "\n".join(original.split("\n")[:60]))
    with placed("matrix.toml", text) as path:
        rows = read(lambda: read_committed(path), text)
        if rows is not None:
            # As `write_committed` gets them: the names of pages and diagnostics are ids.
            rows = {name: row for name, row in rows.items() if re.fullmatch(ID, name)}
            rows = {name: row for name, row in rows.items() if is_named(row.caught_by)}
            write_committed(path, rows)
            assert read_committed(path) == rows


def is_named(caught_by: dict[str, list[str]]) -> bool:
    probes = [probe for probes in caught_by.values() for probe in probes]
    return all(re.fullmatch(ID, name) for name in caught_by) and all(map(str.isprintable, probes))


@FEW
@given(st.data(), st.sampled_from(["track.toml", "probes/es.toml", "matrix.toml"]))
def test_a_table_of_spoiled_bytes_is_read_or_refused(data: st.DataObject, name: str) -> None:
    ((_, original),) = texts(name)
    whole = spoiled(data, original[:2000].encode())
    text = whole.decode(errors="replace")
    with placed(name, whole) as path:
        read(lambda: read_table(path), text)
        read(lambda: read_committed(path), text)
