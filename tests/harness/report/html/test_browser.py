"""The file in a real browser: Chromium, without a network."""

import json
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from harness.learn.progress import PRIMER
from harness.report.html.document import document
from harness.report.html.primer import PrimerLesson
from harness.report.language import open_language
from tests.harness.bundled import CATALOGUE
from tests.harness.command import harness
from tests.harness.report.html.browser import CHROMIUM, Visit, answer_by_clicking
from tests.harness.report.html.contrast import low_contrasts
from tests.harness.sound_page import SOUND

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium"),
    pytest.mark.skipif(not find_spec("playwright"), reason="needs Playwright"),
    pytest.mark.xdist_group("browser"),
]

HOSTILE = (
    SOUND.replace("log-slope-one", "hostile-page")
    .replace("# Hand the cotangent of log on as it came", "# <script>alert(1)</script> `<b>`")
    .replace(
        "Every entry is 1.",
        "<img src=x onerror=alert(2)> [link](javascript:alert(3)) ![p](https://example.org/p.png)"
        "\n\n<svg onload=alert(4)></svg>",
    )
    .replace('"The logarithm of powers of two."', '"</code><script>alert(5)</script>"')
)
STILL: dict[str, Any] = {"reduced_motion": "reduce", "viewport": {"width": 900, "height": 600}}
"""Less to draw in tests with many steps."""
FIRST, SECOND = "skip-unbroadcast", "hostile-page"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("html")
    (folder / "pages").mkdir()
    (folder / "pages" / f"{SECOND}.md").write_text(HOSTILE, encoding="utf-8")
    out = folder / "lab.html"
    options = ("--breaks", str(folder / "pages"), "--out", str(out))
    written = harness("html", FIRST, SECOND, *options)
    assert (written.returncode, written.stderr) == (0, "")
    assert written.stdout.strip() == str(out)
    return out


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with three pages."""
    return written(tmp_path_factory, "sub-sign", FIRST, "sum-no-expand")


@pytest.fixture(scope="module")
def track(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file with the whole track."""
    return written(tmp_path_factory)


def written(tmp_path_factory: pytest.TempPathFactory, *ids: str) -> Path:
    out = tmp_path_factory.mktemp("track") / "lab.html"
    done = harness("html", *ids, "--out", str(out))
    assert (done.returncode, done.stderr) == (0, "")
    return out


def wait_for(page: Any, place: str) -> Any:
    """What a followed link leads to; the page shows it in an event after the click."""
    shown = page.locator(f"#{place}:visible")
    shown.wait_for()
    return shown


def visible_steps(page: Any, side: str) -> int:
    shown = "groups => groups.filter(group => group.style.display === '').length"
    count: int = page.locator(f".stage:visible .{side} .step").evaluate_all(shown)
    return count


def test_a_page_is_predicted_stepped_through_and_marked_by_clicking(
    browser: Any, file: Path
) -> None:
    with Visit(browser, file) as page:
        page.fill("#search", "unbroadcast add")
        assert page.locator(".pages li:visible").count() == 1
        page.click(f"a[href='#{FIRST}']")
        lesson = wait_for(page, FIRST)
        assert not lesson.locator(".results").is_visible()
        fields = lesson.locator("fieldset")
        for i in range(fields.count()):
            field = fields.nth(i)
            if field.locator("input[type=radio]").count():
                field.locator("input[type=radio]").first.check()
            else:
                field.locator("input[type=text]").fill("1.2")
                field.locator(".typed button").click()
            assert field.locator(".answer").is_visible()
        assert f"of {fields.count()} right" in lesson.locator(".score").inner_text()
        assert lesson.locator(".results").is_visible()
        page.get_by_role("tab", name="add-inside").click()
        stage = page.locator(".stage:visible")
        for _ in range(4):
            stage.locator(".next").click()
        assert (visible_steps(page, "clean"), visible_steps(page, "broken")) == (4, 3)
        assert not stage.locator(".divergence").is_visible()
        stage.locator(".broken [data-edge='2.1'] .hit").click(force=True)
        assert stage.locator(".verdict").inner_text() == "Yes, this is where they first differ."
        assert stage.locator(".divergence").is_visible()
        assert visible_steps(page, "broken") == 4
        assert page.url.endswith(f"#{FIRST}&probe=add-inside&step=4")


def test_a_page_can_be_used_with_the_keyboard_alone(browser: Any, file: Path) -> None:
    with Visit(browser, file, f"#{FIRST}&probe=add-new-axis&step=2") as page:
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        assert (visible_steps(page, "clean"), visible_steps(page, "broken")) == (4, 3)
        page.locator(".stage:visible .clean [data-node]").first.focus()
        page.keyboard.press("Enter")
        assert "they first differ" in page.locator(".stage:visible .verdict").inner_text()
        page.keyboard.press("ArrowLeft")
        assert page.url.endswith("&step=3")


def pages_in(page: Any) -> list[str]:
    """The ids of the pages in the file."""
    ids: list[str] = page.locator("article.lesson").evaluate_all("all => all.map(each => each.id)")
    return ids


def summary_of(page: Any) -> dict[str, int]:
    """The counts in the summary, by predicted and actual outcome."""
    cells = page.locator("#summary td").evaluate_all(
        "cells => cells.map(cell => [cell.dataset.predicted, cell.dataset.actual, cell.innerText])"
    )
    return {f"{predicted} {actual}": int(n) for predicted, actual, n in cells if n != "·"}


def answers_of(lesson: Any) -> list[str]:
    """The predicted and the actual outcome, for each one that the page asked for."""
    answers: list[str] = lesson.locator("fieldset[data-kind=outcome]").evaluate_all(
        "fields => fields.map(field => "
        "`${field.querySelector(':checked').value} ${field.dataset.answer}`)"
    )
    return answers


@pytest.mark.parametrize("pages", ["three", pytest.param("track", marks=pytest.mark.slow)])
def test_every_page_is_done_by_clicking(
    browser: Any, pages: str, request: pytest.FixtureRequest
) -> None:
    answers: list[str] = []
    with Visit(browser, request.getfixturevalue(pages), **STILL) as page:
        page.locator(".pages a").first.click()
        for shown in pages_in(page):
            lesson = wait_for(page, shown)
            assert page.locator(".lesson:visible").count() == 1
            assert not lesson.locator(".results").is_visible()
            answer_by_clicking(lesson)
            answers += answers_of(lesson)
            if shown == PRIMER:
                lesson.locator(".following").click()
                continue
            stage = page.locator(".stage:visible")
            if stage.get_attribute("data-parts") != "-1":
                stage.locator(".broken [data-edge] .hit").first.click(force=True)
                assert "they first differ" in stage.locator(".verdict").inner_text()
            total = int(stage.get_attribute("data-steps"))
            for _ in range(total - int(stage.locator("input[type=range]").input_value())):
                stage.locator(".next").click()
            assert stage.locator(".next").is_disabled()
            assert visible_steps(page, "broken") == visible_steps(page, "clean") == total
            lesson.locator(".following").click()
        wait_for(page, "summary")
        assert summary_of(page) == Counter(answers)
        done = page.locator(".pages .done").all_text_contents()
        assert done == [" ✓ done"] * len(pages_in(page))


def tab_to(page: Any, selector: str, most: int = 100) -> None:
    """Press Tab until an element that matches has the focus."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    pytest.fail(f"{selector} is not reached from {page.url}")


def answer_with_the_keyboard(page: Any, lesson: str) -> None:
    """Answer everything: the first, the second, the third choice in turn."""
    done = "lesson => document.querySelectorAll(`${lesson} fieldset.done`).length"
    for number in range(page.locator(f"{lesson} fieldset").count()):
        tab_to(page, f"{lesson} fieldset:not(.done) input")
        if page.evaluate("document.activeElement.type") == "text":
            page.keyboard.type("1.5")
            page.keyboard.press("Enter")
            continue
        for _ in range(number % 3):
            page.keyboard.press("ArrowDown")
        assert page.evaluate(done, lesson) == number  # the arrows only move
        page.keyboard.press(["Space", "Enter", "Tab"][number % 3])


@pytest.mark.slow
def test_the_track_is_done_with_the_keyboard_alone(browser: Any, track: Path) -> None:
    answers: list[str] = []
    with Visit(browser, track, **STILL) as page:
        breaks = [name for name in CATALOGUE.track if CATALOGUE.page(name).front.kind == "break"]
        assert pages_in(page) == [PRIMER, *breaks]
        tab_to(page, ".pages a")
        page.keyboard.press("Enter")
        for shown in (PRIMER, *breaks):
            lesson = f"#{shown}"
            wait_for(page, shown)
            answer_with_the_keyboard(page, lesson)
            if shown == PRIMER:
                tab_to(page, f"{lesson} .following")
                page.keyboard.press("Enter")
                continue
            answers += answers_of(page.locator(lesson))
            stage = page.locator(".stage:visible")
            page.keyboard.press("ArrowRight")
            if stage.get_attribute("data-parts") != "-1":
                tab_to(page, f"{lesson} .broken [data-edge]")
                page.keyboard.press("Enter")
                assert "they first differ" in stage.locator(".verdict").inner_text()
            total = int(stage.get_attribute("data-steps"))
            for _ in range(total):
                page.keyboard.press("ArrowRight")
            assert visible_steps(page, "broken") == visible_steps(page, "clean") == total
            tab_to(page, f"{lesson} .following")
            page.keyboard.press("Enter")
        wait_for(page, "summary")
        assert summary_of(page) == Counter(answers)
        assert page.evaluate("document.activeElement.parentElement.id") == "summary"


def test_the_keyboard_can_choose_every_answer_and_skip_to_the_content(
    browser: Any, file: Path
) -> None:
    with Visit(browser, file, f"#{FIRST}") as page:
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        assert page.locator(f"#{FIRST}").is_visible()  # and not the index
        answer_with_the_keyboard(page, f"#{FIRST}")
        fields = page.locator(f"#{FIRST} fieldset[data-kind=outcome]")
        chosen = fields.evaluate_all("fields => fields.map(f => f.querySelector(':checked').value)")
        assert set(chosen) == {"crash", "silent-corruption", "disguised-correct"}


def test_answers_stay_in_the_browser_and_can_be_imported(
    browser: Any, file: Path, tmp_path: Path
) -> None:
    with Visit(browser, file, f"#{FIRST}", accept_downloads=True) as page:
        field = page.locator(f"#{FIRST} fieldset").first
        field.locator("input[value=disguised-correct]").check()
        page.reload()
        assert field.locator("input[value=disguised-correct]").is_checked()
        page.click(f"#{FIRST} .show-all")
        page.click(".brand")
        wait_for(page, "summary")
        agreed = "[data-predicted=disguised-correct][data-actual=disguised-correct]"
        assert page.locator(f"#summary {agreed}").inner_text() == "1"
        with page.expect_download() as download:
            page.click("#export")
        download.value.save_as(tmp_path / "mine.json")
    events = json.loads((tmp_path / "mine.json").read_text())["events"]
    assert [event["kind"] for event in events] == ["prediction", "finished"]
    data = {"BREAKLAB_DATA": str(tmp_path / "data")}
    assert harness("progress", "--import", str(tmp_path / "mine.json"), **data).returncode == 0
    assert "1" in harness("progress", **data).stdout


def test_without_javascript_everything_is_shown(browser: Any, file: Path) -> None:
    with Visit(browser, file, java_script_enabled=False) as page:
        frames = page.locator(f"#{FIRST} .frames figure")
        assert frames.count() == 6
        assert frames.first.is_visible()
        assert page.locator(f"#{FIRST} .results").is_visible()
        assert page.locator(".js-only:visible").count() == 0


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (390, "dark"),
        (1280, "light"),
        pytest.param(390, "light", marks=pytest.mark.slow),
        pytest.param(1280, "dark", marks=pytest.mark.slow),
    ],
)
def test_it_fits_a_phone_and_a_desk_and_is_accessible(
    browser: Any, file: Path, width: int, scheme: str
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    options = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme}
    with Visit(
        browser, file, f"#{FIRST}&probe=add-inside&step=4", bypass_csp=True, **options
    ) as page:
        for _ in ("unanswered", "answered"):
            assert page.evaluate("document.documentElement.scrollWidth") == width
            serious = [
                f"{found['id']}: {found['nodes'][0]['html'][:200]}"
                for found in axe.run(page).response["violations"]
                if found["impact"] in ("serious", "critical")
            ]
            assert serious == []
            if page.locator(f"#{FIRST} fieldset.done").count() == 0:
                answer_by_clicking(page.locator(f"#{FIRST}"))


def test_what_a_page_brings_stays_text(browser: Any, file: Path) -> None:
    with Visit(browser, file, f"#{SECOND}") as page:
        page.click(f"#{SECOND} .show-all")
        page.locator(f"#{SECOND} summary").last.click()
        lesson = page.locator(f"#{SECOND}")
        assert lesson.locator("h1").inner_text() == "<script>alert(1)</script> <b>"
        assert "<img src=x onerror=alert(2)>" in lesson.inner_text()
        assert lesson.locator("script, img, svg[onload], a[href^='javascript']").count() == 0
        assert page.evaluate("document.scripts.length") == 3


# ----- Page 0 -----


@pytest.fixture(scope="module", params=["en", "es"])
def page_0(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with page 0 and one break, in each language."""
    say = open_language(request.param)
    file = tmp_path_factory.mktemp("page-0") / "lab.html"
    file.write_text(document("lab", [], say, PrimerLesson(CATALOGUE.page_0, say)), "utf-8")
    return file


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1280, "dark")])
def test_page_0_is_read_step_by_step(browser: Any, page_0: Path, width: int, scheme: str) -> None:
    options = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme}
    with Visit(browser, page_0, f"#{PRIMER}", **options) as page:
        screens = page.locator(f"#{PRIMER} .screen")
        for number, typed in enumerate(("12", "6", "7"), start=1):
            assert page.locator(f"#{PRIMER} .screen:visible").count() == number
            field = screens.nth(number - 1).locator("fieldset")
            field.locator("input").fill("dunno")
            field.locator(".typed button").click()
            assert field.locator(".remedy").inner_text() != ""
            assert not field.locator(".answer").is_visible()
            field.locator("input").fill(typed)
            page.keyboard.press("Enter")
            assert field.locator(".answer").is_visible()
            assert field.locator("[data-typed]:visible").count() == (typed == "6")
        assert not page.locator(f"#{PRIMER} .results").is_visible()
        page.locator(f"#{PRIMER} input[value=a]").check()
        assert page.locator(f"#{PRIMER} .results").is_visible()
        assert page.locator(f"#{PRIMER} .explained .bad:visible").all_inner_texts() == [
            *("≠ 3", "≠ 2, 5", "≠ 9", "≠ 57", "≠ 15")
        ]
        assert "3" in page.locator(f"#{PRIMER} .score").inner_text()
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert low_contrasts(page) == {}


def test_on_a_phone_the_two_engines_are_swapped_in_place(browser: Any, file: Path) -> None:
    phone = {"viewport": {"width": 390, "height": 800}}
    with Visit(browser, file, f"#{FIRST}&probe=add-inside&step=2", **phone) as page:
        stage = page.locator(".stage:visible")
        clean, broken = (stage.locator(f".side.{side}") for side in ("clean", "broken"))
        assert (clean.is_visible(), broken.is_visible()) == (True, False)
        top = clean.bounding_box()["y"]
        stage.locator(".swap").click()
        assert (clean.is_visible(), broken.is_visible()) == (False, True)
        assert abs(broken.bounding_box()["y"] - top) <= 1
        assert page.locator(".top").bounding_box()["height"] < 60


def test_a_typed_answer_counts_only_if_it_can_be_one(browser: Any, file: Path) -> None:
    with Visit(browser, file, f"#{FIRST}") as page:
        field = page.locator(f"#{FIRST} fieldset:has(input[type=text])").first
        field.locator("input").fill("dunno")
        field.locator("button").click()
        assert field.locator(".remedy").inner_text() == "Type a number."
        field.locator("input").fill("6/5")
        field.locator("button").click()
        assert field.get_attribute("data-right") == "true"
