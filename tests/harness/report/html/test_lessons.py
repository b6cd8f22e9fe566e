"""A break's page as a file: its size, and what it shows without JavaScript."""

import re
from html import unescape
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from harness.report.html import lesson
from tests.harness.command import harness
from tests.harness.sound_page import spoilt, write_page

MOST = 300_000
"""Bytes of one page."""

LARGEST = "attn-scale-wrong-dim"
"""The page with the largest pictures, of which only some fit."""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The largest page, written without asking oracles: it does not show them."""
    file = tmp_path_factory.mktemp("large") / "page.html"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("harness.runs.oracles.find_spec", lambda _: None)
        assert harness("break", LARGEST, "--html", str(file)).returncode == 0
    return file.read_text(encoding="utf-8")


def test_the_largest_page_fits(large: str) -> None:
    assert lesson.LARGEST < len(large.encode()) < MOST


def test_each_picture_without_javascript_refers_to_the_steps_so_far(large: str) -> None:
    stage = re.search(r'<section class="stage".*?</section>', large, re.S)
    assert stage
    total = int(re.findall(r'data-steps="(\d+)"', stage[0])[0])
    uses = re.findall(r'<use href="#([^"]+)"/>', stage[0])
    for side in ("clean", "broken"):
        (drawn,) = re.findall(rf'<figure class="side {side}">.*?(<svg.*?</svg>)', stage[0], re.S)
        picture = ET.fromstring(drawn)
        groups = {group.get("id"): group for group in picture.iter("g")}
        nodes = len(picture.findall(".//g[@data-node]"))
        for number, group in enumerate((groups[use] for use in uses if use in groups), 1):
            steps = [step.get("data-step") for step in group.findall(".//g[@data-step]")]
            assert steps == [str(step) for step in range(1, number + 1)]
            assert len(group.findall(".//g[@data-node]")) == nodes > 0
        assert number == total
    assert len(uses) == 2 * total


@pytest.mark.usefixtures("without_oracles")
def test_a_difference_of_two_shapes_is_shown_or_said_not_to_be(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    pages = ("skip-unbroadcast", "late-binding-closure")
    assert harness("html", *pages, "--lang", "es", "--out", str(file)).returncode == 0
    _, explained, unexplained = file.read_text(encoding="utf-8").split("<article")
    assert "<code>obtenido.sum(axis=0) - esperado</code></small><svg" in explained
    said = "Las formas difieren, y ninguna regla sencilla convierte una en la otra."
    assert (explained.count(said), unexplained.count(said)) == (0, 1)


@pytest.mark.usefixtures("without_oracles")
def test_the_change_has_syntax_colours_and_markup_in_it_stays_text(tmp_path: Path) -> None:
    strings = "'</ins><script>alert(1)</script>'", "'<img src=x onerror=alert(2)>'"
    code = f"+[$g, {', '.join(strings)}][0]"
    write_page(tmp_path / "pages", spoilt("+$g", code))
    options = ("--breaks", str(tmp_path / "pages"), "--out", str(tmp_path / "page.html"))
    assert harness("html", "log-slope-one", *options).returncode == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    (old,), (new,) = (re.findall(rf"<{tag}>(.*?)</{tag}>", page) for tag in ("del", "ins"))
    assert old == '<i>-</i><span class="key">return</span> (g / a,)'
    assert [unescape(string) for string in re.findall('<span class="str">(.*?)</span>', new)] == [
        *strings
    ]
    assert "<img" not in page
    assert page.count("<script") == 3
