"""The course as a static site: its files, its folder, and its pages in a browser."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest

from harness.core.errors import UsageError
from harness.pages.catalogue import open_catalogue
from harness.report.html.site import Site, require_folder, write_changed
from harness.report.language import ENGLISH, open_language
from tests.harness.bundled import CATALOGUE
from tests.harness.command import harness, hide_oracles
from tests.harness.report.html.browser import CHROMIUM, Visit, answer_by_clicking
from tests.harness.report.html.contrast import low_contrasts
from tests.harness.report.html.test_spanish import english_in

PAGES = "skip-unbroadcast", "sub-sign"
FILES = {
    *("breaklab.css", "breaklab.js", "index.html", "es/index.html"),
    *(f"{folder}{page}.html" for page in PAGES for folder in ("", "es/")),
}

needs_browser = pytest.mark.skipif(
    CHROMIUM is None or not find_spec("playwright"), reason="needs Chromium and Playwright"
)
pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site with two breaks."""
    folder = tmp_path_factory.mktemp("host") / "course"
    with pytest.MonkeyPatch.context() as patch:
        hide_oracles(patch)
        written = harness("html", *PAGES, "--site", str(folder))
    assert (written.returncode, written.stderr) == (0, "")
    assert written.stdout.splitlines()[-1] == "8 files, 8 of them new or changed"
    return folder


def files_in(folder: Path) -> dict[str, bytes]:
    """The content of all files, by name."""
    found = (file for file in folder.rglob("*") if file.is_file())
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in found}


# ----- Files -----


def test_a_page_is_one_file_in_each_language_and_every_link_leads_to_a_file(site: Path) -> None:
    files = files_in(site)
    assert files.keys() == FILES
    for name in files:
        if not name.endswith(".html"):
            continue
        text = files[name].decode()
        targets = re.findall(r'(?:href|src)="([^"#]+)', text)
        inside = {urljoin(name, target) for target in targets if not urlsplit(target).scheme}
        assert inside <= FILES  # from any folder: no link begins with a slash
        assert {"breaklab.css", "breaklab.js"} <= inside
        other = name.removeprefix("es/") if name.startswith("es/") else f"es/{name}"
        assert other in inside
        assert "<style" not in text
    assert english_in(files["es/index.html"].decode()) == []


@pytest.mark.usefixtures("without_oracles")
def test_a_second_run_writes_only_what_changed_and_keeps_the_files_of_others(site: Path) -> None:
    (site / ".git").mkdir(exist_ok=True)
    (site / "CNAME").write_text("course.example")
    before = {name: (site / name).stat().st_mtime_ns for name in FILES}
    (site / "es" / "sub-sign.html").write_text('<meta name="generator" content="breaklab">')
    written = harness("html", *PAGES, "--site", str(site))
    assert written.stdout.splitlines()[-1] == "8 files, 1 of them new or changed"
    after = {name: (site / name).stat().st_mtime_ns for name in FILES}
    assert {name for name in FILES if before[name] != after[name]} == {"es/sub-sign.html"}
    assert (site / "CNAME").read_text() == "course.example"


def test_a_folder_with_other_files_is_refused_before_anything_is_run(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    refused = harness("html", "--site", str(tmp_path))
    assert (refused.returncode, refused.stdout) == (2, "")
    assert f"{tmp_path} contains files that breaklab did not write" in refused.stderr
    assert "name a folder that is new or empty, or contains an earlier site" in refused.stderr
    assert files_in(tmp_path) == {"thesis.tex": b"mine"}


@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_a_file_that_breaklab_did_not_write_is_never_replaced(kind: str, tmp_path: Path) -> None:
    write_changed(tmp_path / "breaklab.css", "/* breaklab */")
    mine = tmp_path / "sub-sign.html"
    if kind == "file":
        mine.write_text("mine")
    elif kind == "folder":
        mine.mkdir()
    else:
        mine.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match=r"sub-sign\.html was not written by breaklab"):
        require_folder(tmp_path, ["index.html", "sub-sign.html"])


@pytest.mark.parametrize("taken", ["", "es"])
def test_a_file_in_the_place_of_a_folder_is_refused(taken: str, tmp_path: Path) -> None:
    folder = tmp_path / "site"
    if taken:
        write_changed(tmp_path / "breaklab.css", "/* breaklab */")
        folder = tmp_path
    (folder / taken).write_text("mine")
    with pytest.raises(UsageError, match=rf"{folder / taken} is not a folder"):
        require_folder(folder, ["index.html", "es/index.html"])
    assert (folder / taken).read_text() == "mine"


@pytest.mark.parametrize("option", [("--all",), ("--out", "lab.html")])
def test_options_of_a_single_file_are_refused(option: tuple[str, ...], tmp_path: Path) -> None:
    refused = harness("html", "--site", str(tmp_path / "new"), *option)
    assert (refused.returncode, list(tmp_path.iterdir())) == (2, [])
    assert f"{option[0]} cannot be combined" in refused.stderr


def test_a_break_without_probes_has_no_file_and_is_refused(tmp_path: Path) -> None:
    refused = harness("html", "clip-infinite", "--site", str(tmp_path / "new"))
    assert (refused.returncode, list(tmp_path.iterdir())) == (2, [])
    assert "`clip-infinite` has no probes" in refused.stderr


@pytest.mark.parametrize("page", ["index", "page-0"])
def test_a_page_cannot_replace_the_first_files_of_a_site(page: str, tmp_path: Path) -> None:
    text = Path(CATALOGUE.page("sub-sign").path).read_text(encoding="utf-8")
    own = tmp_path / "own"
    own.mkdir()
    (own / f"{page}.md").write_text(text.replace('"sub-sign"', f'"{page}"', 1), encoding="utf-8")
    catalogue = open_catalogue([own])
    site = Site(catalogue, catalogue.valid_pages(), True, {"en": ENGLISH})
    with pytest.raises(UsageError, match=rf"two files of the site .* {page}\.html"):
        require_folder(tmp_path / "new", site.names)
    assert not (tmp_path / "new").exists()


def test_a_list_says_how_many_pages_it_has() -> None:
    pages = [
        CATALOGUE.page(page) for page in ("sub-sign", "skip-unbroadcast", "mul-ignore-upstream")
    ]
    site = Site(CATALOGUE, pages, False, {"en": ENGLISH})
    (index,) = site.first_files("en", site.titles("en", pages)).values()
    assert "1 page<" in index
    assert "1 pages" not in index


def test_the_whole_site_lists_the_track_the_units_and_every_page() -> None:
    pages = [page for page in CATALOGUE.valid_pages() if page.front.kind in ("break", "myth")]
    site = Site(CATALOGUE, pages, True, {"en": open_language("en"), "es": open_language("es")})
    index, page_0 = site.first_files("es", site.titles("es", pages)).values()
    listed = re.findall('data-done="([^"]+)"', index)
    assert set(listed) == {"page-0", *(page.id for page in pages)}
    headings = re.findall(r"<h2>(?:<span[^>]*>)?([^<]+)", index)
    assert headings[:2] == ["El itinerario", "Derivadas locales"]
    (first, *_), group = CATALOGUE.course.values(), index.partition("Derivadas locales")[2]
    breaks = [page for page in first.listed if CATALOGUE.page(page).front.kind == "break"]
    in_unit = re.findall('data-done="([^"]+)"', group.partition("<h2>")[0])
    assert [page for page in in_unit if page in breaks] == breaks
    assert "<code>harness myth gradcheck-passed-engine-right</code>" in index
    assert f'<a class="following" href="{next(iter(CATALOGUE.track))}.html"' in page_0


# ----- In a browser -----


@needs_browser
def test_a_break_is_found_answered_and_read_in_the_other_language(browser: Any, site: Path) -> None:
    with Visit(browser, site / "index.html", site=site) as page:
        page.fill("#search", "unbroadcast add")
        assert page.locator(".pages li:visible").count() == 1
        page.click(".pages a:visible")
        lesson = page.locator("#skip-unbroadcast")
        assert not lesson.locator(".results").is_visible()
        answer_by_clicking(lesson)
        assert lesson.locator(".results").is_visible()
        lesson.locator(".stage:visible .next").click()
        lesson.get_by_role("tab", name="add-inside").click()
        lesson.locator(".stage:visible .next").click()
        assert page.url.endswith("/skip-unbroadcast.html#probe=add-inside&step=1")
        page.click("a.language")
        page.wait_for_url("**/es/skip-unbroadcast.html#probe=add-inside&step=1")
        assert page.locator(".stage:visible").get_attribute("data-probe") == "add-inside"
        page.click(".brand")
        page.wait_for_url("**/es/index.html")
        assert "hecho" in page.locator("[data-done=skip-unbroadcast]").first.inner_text()


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address at which a folder is served."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@needs_browser
@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_an_address_on_a_host_opens_the_probe_and_the_step(
    browser: Any, site: Path, width: int, scheme: str
) -> None:
    place = "course/es/skip-unbroadcast.html#probe=add-inside&step=2"
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    with served(site.parent) as host:
        page = context.new_page()
        problems: list[str] = []
        page.on("console", lambda message: problems.append(message.text))
        page.goto(f"{host}/{place}")
        stage = page.locator(".stage:visible")
        assert stage.get_attribute("data-probe") == "add-inside"
        assert stage.locator("input[type=range]").input_value() == "2"
        assert page.evaluate("document.documentElement.scrollWidth") == width
        clean, broken = (stage.locator(f".side.{side}") for side in ("clean", "broken"))
        assert (clean.is_visible(), broken.is_visible()) == (True, width > 390)
        if width == 390:
            top = clean.bounding_box()["y"]
            stage.locator(".swap").click()
            assert (clean.is_visible(), broken.is_visible()) == (False, True)
            assert abs(broken.bounding_box()["y"] - top) <= 1
        assert low_contrasts(page) == {}
        page.goto(f"{host}/course/index.html")
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert low_contrasts(page) == {}
    context.close()
    assert [problem for problem in problems if "favicon" not in problem] == []
