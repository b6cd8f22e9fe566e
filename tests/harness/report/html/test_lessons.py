"""A break's page as a file: its size, and what it shows without JavaScript."""

import re
from html import unescape
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from harness.core.message import visible
from harness.report.html import lesson
from harness.report.html.document import fill
from tests.harness.command import harness, hide_oracles
from tests.harness.report.html.browser import CHROMIUM, FLAGS, Visit
from tests.harness.sound_page import sound_with, write_page

needs_browser = pytest.mark.skipif(
    CHROMIUM is None or not find_spec("playwright"), reason="needs Chromium and Playwright"
)

MOST = 300_000
"""Bytes of one page."""

LARGEST = "attn-scale-wrong-dim"
"""The page with the largest pictures, of which only some fit."""


INK = "getComputedStyle(document.body).color"

WHOLE = """() => [...document.querySelectorAll('.stage:not([hidden]) .pane')].map(pane =>
    pane.scrollHeight <= pane.clientHeight && pane.scrollWidth <= pane.clientWidth)"""

SCROLLED = """() => [...document.querySelectorAll('.stage:not([hidden]) .pane')].map(pane => {
    const rects = [pane, pane.querySelector('.new')].map(part => part.getBoundingClientRect());
    const [seen, box] = rects;
    const apart = box.bottom < seen.top || box.top > seen.bottom || box.right < seen.left;
    return pane.scrollHeight > 2 * pane.clientHeight && !apart && box.left < seen.right;
})"""
"""Whether each picture, less than half of which is visible, shows what the step adds."""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The largest page, written without running the oracles, which it does not show."""
    file = tmp_path_factory.mktemp("large") / "page.html"
    with pytest.MonkeyPatch.context() as patch:
        hide_oracles(patch)
        assert harness("break", LARGEST, "--html", str(file)).returncode == 0
    return file


def test_the_largest_page_fits(large: Path) -> None:
    assert lesson.LARGEST < large.stat().st_size < MOST


def test_each_picture_without_javascript_refers_to_the_steps_so_far(large: Path) -> None:
    page = large.read_text(encoding="utf-8")
    stage = re.search(r'<section class="stage".*?</section>', page, re.S)
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
    write_page(tmp_path / "pages", sound_with("+$g", code))
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


@needs_browser
def test_a_large_picture_is_scrolled_to_what_a_step_adds_and_printed_as_a_whole(
    large: Path,
) -> None:
    from playwright.sync_api import sync_playwright

    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        with Visit(browser, large, bypass_csp=True, color_scheme="dark") as page:
            page.click(".show-all")
            page.click(".stage:visible .reveal")
            forward = int(page.locator(".stage:visible").get_attribute("data-forward"))
            for step in (1, forward + 1):  # a leaf at the top, and the output at the bottom
                page.locator(".stage:visible input[type=range]").fill(str(step))
                assert page.evaluate(SCROLLED) == [True, True]
            found = axe.run(page).response["violations"]
            assert [each["id"] for each in found if each["impact"] in ("serious", "critical")] == []
            dark = page.evaluate(INK)
            page.emulate_media(media="print", color_scheme="dark")
            assert page.evaluate(INK) != dark
            assert page.evaluate(WHOLE) == [True, True]
        browser.close()


def test_a_page_on_a_variant_says_which_engine_its_text_is_not_about(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    variant = ("--on", "accumulate-in-place", "--probe", "div-stretched-axis")
    with pytest.MonkeyPatch.context() as patch:
        hide_oracles(patch)
        status = harness("break", "skip-unbroadcast-div", *variant, "--html", str(file)).returncode
    assert status == 0
    page = unescape(file.read_text(encoding="utf-8"))
    assert "This text does not describe minigrad with accumulate-in-place; the table" in page
    assert "runs do not end as the page explains; in all: " in page
    assert "<dt>Beware</dt>" not in page


def test_a_file_has_no_character_that_changes_the_direction_of_text() -> None:
    html = fill("shell.html", "a \u202etitle\u202c \u200b")
    assert r"a \u202etitle\u202c \u200b" in html
    assert html == visible(html)
