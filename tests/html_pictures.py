"""Takes the screenshots of HTML pages in the documents, from real runs in a real browser.

    python -m tests.html_pictures [NAME...]

It needs Chromium and Playwright (`pip install '.[browser]'`). It writes the pages with the commands
of docs/html.md, opens them in windows of fixed sizes, does what a reader would do, and takes the
screenshots; names, such as `lab-step`, select some of them. With an empty cache this takes minutes.
"""

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from tests.harness.command import harness
from tests.harness.report.html.browser import CHROMIUM, FLAGS

DOCUMENTS = Path(__file__).parents[1] / "docs"
ENGINE = Path(__file__).parent / "engines" / "closures.py"
WIDTH = 1180
LARGEST = 150_000
"""The size of the largest picture, in bytes."""

SUITE = """\
import numpy as np
from minigrad import Tensor


def test_add_sums_over_a_created_axis():
    a = Tensor(np.zeros(3), requires_grad=True)
    (a + np.zeros((4, 3))).sum().backward()
    assert (a.grad == 4).all()


def test_mul():
    a = Tensor(np.array([1.0, 2.0]), requires_grad=True)
    (a * np.array([3.0, 4.0])).sum().backward()
    assert (a.grad == [3, 4]).all()
"""


def _mark(page: Any) -> None:
    """Mark the edge where the graphs first differ, and go one step further."""
    page.locator(".stage:visible .broken [data-edge='2.1'] .hit").click(force=True)
    page.locator(".stage:visible .next").click()
    page.locator(".stage:visible").evaluate("stage => stage.scrollIntoView()")


@dataclass(frozen=True)
class Picture:
    """A screenshot: the command that writes the page to `{out}`, and what is shown of it."""

    name: str
    command: str
    height: int
    place: str = ""
    dark: bool = False
    act: Callable[[Any], None] = lambda _: None


SELECTED = "--select family:broadcasting --correct sub-is-add-of-neg"
BREAKS = "html skip-unbroadcast sub-sign --out {out}"
PICTURES = (
    Picture("lab-step", BREAKS, 860, "#skip-unbroadcast&probe=add-inside&step=4", act=_mark),
    Picture("lab-dark", BREAKS, 860, "#skip-unbroadcast", dark=True),
    Picture("lab-matrix", "matrix --family broadcasting --html {out}", 720),
    Picture("lab-doctor", "doctor closures.py:Tensor --html {out}", 900),
    Picture(
        "lab-grade", "grade suite.py --select family:broadcasting --format html --out {out}", 720
    ),
)


def main() -> None:
    """Take the pictures."""
    chosen = [picture for picture in PICTURES if picture.name in sys.argv[1:] or not sys.argv[1:]]
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as playwright:
        folder = Path(temporary)
        (folder / "suite.py").write_text(SUITE, encoding="utf-8")
        (folder / ENGINE.name).write_text(ENGINE.read_text("utf-8"), encoding="utf-8")
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        files: dict[str, Path] = {}
        for picture in chosen:
            if picture.command not in files:
                files[picture.command] = _written(picture, folder)
            _take(picture, files[picture.command], chromium)
        chromium.close()


def _written(picture: Picture, folder: Path) -> Path:
    """Return the file that the picture's command writes."""
    out = folder / f"{picture.name}.html"
    done = harness(*picture.command.format(out=out).split(), cwd=folder)
    if not out.exists():
        sys.exit(done.stderr)
    return out


def _take(picture: Picture, file: Path, chromium: Any) -> None:
    """Take a picture of a file, and print its size."""
    page = chromium.new_page(
        viewport={"width": WIDTH, "height": picture.height},
        color_scheme="dark" if picture.dark else "light",
        reduced_motion="reduce",
    )
    page.goto(f"{file.as_uri()}{picture.place}")
    picture.act(page)
    page.mouse.move(0, 0)
    out = DOCUMENTS / f"{picture.name}.png"
    page.screenshot(path=out)
    page.close()
    size = out.stat().st_size
    print(f"{out}: {size / 1000:.0f} kB")
    assert size <= LARGEST


if __name__ == "__main__":
    main()
