"""What the style sheet does to the pages, as Chromium computes it."""

import re
from collections import defaultdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.grade.feedback import disclose
from harness.report.html.document import fill
from harness.report.html.reports import diagnosis_page, grade_page, matrix_page
from harness.report.html.tiles import tile
from tests.harness.command import harness
from tests.harness.grade.results import MIXED
from tests.harness.matrix.made import everything
from tests.harness.report import diagnoses
from tests.harness.report.html.browser import CHROMIUM, Visit, answer_by_clicking

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium"),
    pytest.mark.skipif(not find_spec("playwright"), reason="needs Playwright"),
    pytest.mark.xdist_group("browser"),
    pytest.mark.usefixtures("without_oracles"),
]

PAGE = "skip-unbroadcast"
PALETTE = {
    "light": {"ink": "#1d2329", "soft": "#59636e", "right": "#0a5ca8", "wrong": "#b03a06"},
    "dark": {"ink": "#e6e9ed", "soft": "#9fabb7", "right": "#7cbcff", "wrong": "#ff9d6c"},
}
COMPONENTS = (
    *(".top", ".index", "fieldset", ".diff", ".tile", ".graph", ".curves", ".gradients"),
    *(
        ".outcomes",
        ".stage",
        ".cards",
        ".advice",
        ".grid",
        ".finding",
        ".judged",
        ".term",
        ".following",
    ),
)
"""What a page consists of."""
SHARED = {"wrap", "js-only", "prose", "scroll", "lead", "crumb", "plain"}
"""Classes that are for elements of several components."""


@pytest.fixture(scope="module", params=["en", "es"])
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with two pages, in each language."""
    out: Path = tmp_path_factory.mktemp(request.param) / "lab.html"
    done = harness("html", PAGE, "sub-sign", "--lang", request.param, "--out", str(out))
    assert (done.returncode, done.stderr) == (0, "")
    return out


def look_of(element: Any) -> tuple[str, int]:
    """The computed colour of an element's text, as `#rrggbb`, and its weight."""
    color, weight = element.evaluate(
        "element => [getComputedStyle(element).color, getComputedStyle(element).fontWeight]"
    )
    red, green, blue = (int(number) for number in color[4:-1].split(","))
    return f"#{red:02x}{green:02x}{blue:02x}", int(weight)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_an_answer_has_the_colour_of_right_or_wrong(browser: Any, lab: Path, scheme: str) -> None:
    ink, soft, right, wrong = PALETTE[scheme].values()
    with Visit(browser, lab, f"#{PAGE}", color_scheme=scheme) as page:
        fields = page.locator(f"#{PAGE} fieldset[data-kind=outcome]")
        for number, answered in enumerate((False, True, True)):
            field = fields.nth(number)
            correct = field.get_attribute("data-answer")
            chosen = "silent-corruption" if number == 1 else "crash"  # right, then wrong
            if answered:
                field.locator(f"input[value={chosen}]").check()
            is_right = chosen == correct
            for choice in field.locator(".choice").all():
                value = choice.locator("input").get_attribute("value")
                color = ink
                if answered:
                    color = right if value == correct else wrong if value == chosen else soft
                assert look_of(choice.locator("b")) == (color, 700)
                assert look_of(choice.locator("small")) == (soft, 400)
            assert look_of(field.locator("legend code")) == (ink, 600)
            assert look_of(field.locator(".answer p")) == (ink, 400)
            if answered:
                assert is_right == (number == 1)
                assert look_of(field.locator(".mark")) == (right if is_right else wrong, 700)
        typed = page.locator(f"#{PAGE} fieldset:has(input[type=text])").first
        typed.locator("input").fill("1.5")
        typed.locator("button").click()
        assert look_of(typed.locator(".mark")) == (wrong, 700)
        assert look_of(typed.locator(".answer div p")) == (ink, 400)


def test_a_page_that_is_done_is_marked_in_the_index(browser: Any, lab: Path) -> None:
    with Visit(browser, lab, f"#{PAGE}") as page:
        page.click(f"#{PAGE} .show-all")
        page.click(".brand")
        mark = page.locator(f"[data-done={PAGE}]")
        mark.wait_for()
        assert look_of(mark) == ("#12805c", 600)


CONTRASTS = """root => {
  const read = text => {
    const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number);
    return [r, g, b, a];
  };
  const over = ([r, g, b, a], under) => [r, g, b].map((part, i) => a * part + (1 - a) * under[i]);
  const light = color => {
    const [r, g, b] = color.map(part => part / 255).map(
      part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const painted = element => {
    const style = getComputedStyle(element);
    const isShape = element instanceof SVGElement && !element.matches('svg, g, text');
    const text = isShape ? style.fill : style.backgroundColor;
    if (text === 'none') return [0, 0, 0, 0];
    const [r, g, b, a] = read(text);
    return [r, g, b, isShape ? a * Number(style.fillOpacity) : a];
  };
  const found = [];
  for (const element of root.querySelectorAll('*')) {
    const own = [...element.childNodes].filter(node => node.nodeType === 3 && node.data.trim());
    if (!own.length || !element.checkVisibility({ visibilityProperty: true })) continue;
    element.scrollIntoView({ block: 'center', inline: 'center', behavior: 'instant' });
    const range = document.createRange();
    range.selectNodeContents(own[0]);
    const box = [...range.getClientRects()].find(rect => rect.width && rect.height);
    if (!box) continue;
    const stack = document.elementsFromPoint(box.left + box.width / 2, box.top + box.height / 2);
    const at = stack.indexOf(element);
    if (at < 0) continue;
    const style = getComputedStyle(element);
    const behind = stack.slice(at + (element instanceof SVGElement)).map(painted);
    const ground = behind.reduceRight((under, paint) => over(paint, under), [255, 255, 255]);
    const opacity = [...function* () {
      for (let e = element; e; e = e.parentElement) yield Number(getComputedStyle(e).opacity);
    }()].reduce((one, other) => one * other);
    const ink = read(element instanceof SVGElement ? style.fill : style.color);
    ink[3] *= opacity;
    const [one, other] = [light(over(ink, ground)), light(ground)].sort((a, b) => b - a);
    const name = `${element.closest('[class]').className.baseVal ?? element.className} `
      + `${element.localName}: ${own[0].data.trim()}`;
    found.push([name, (one + 0.05) / (other + 0.05)]);
  }
  return found;
}"""
"""The visible texts, and the contrast (WCAG 2.2) of each with what is painted behind it."""


def low_contrasts(page: Any) -> dict[str, float]:
    """The texts whose contrast is less than 4.5, the least that WCAG 2.2 allows."""
    texts = page.evaluate(f"({CONTRASTS})(document.body)")
    assert len(texts) > 10
    return {name: round(contrast, 2) for name, contrast in texts if contrast < 4.5}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_of_every_state_has_enough_contrast(
    browser: Any, lab: Path, scheme: str
) -> None:
    small = {"viewport": {"width": 900, "height": 700}, "color_scheme": scheme}
    with Visit(browser, lab, f"#{PAGE}", **small) as page:
        lesson = page.locator(f"#{PAGE}")
        assert low_contrasts(page) == {}, "unanswered"
        chosen = lesson.locator("fieldset[data-kind=outcome] input").first
        chosen.focus()
        page.keyboard.press("ArrowDown")
        assert lesson.locator("fieldset.done").count() == 0
        assert low_contrasts(page) == {}, "chosen"
        answer_by_clicking(lesson)
        assert lesson.locator("fieldset[data-right=true]").count() > 0
        assert lesson.locator("fieldset[data-right=false]").count() > 0
        page.locator(".stage:visible .reveal").click()
        page.locator(".stage:visible input[type=range]").fill("100")
        assert low_contrasts(page) == {}, "answered"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_number_has_enough_contrast_on_every_shade(
    browser: Any, tmp_path: Path, scheme: str
) -> None:
    shades = tile(np.array([[5, 4, 3, 2, 1], [-1, -2, -3, -4, -5]]) / 5, 1, 9, 25)
    node = '<g class="node {}"><rect width="200" height="90"/></g>'
    file = tmp_path / "tiles.html"
    html = fill("shell.html", "").partition('<main id="main">')
    graphs = (f'<svg class="graph">{node.format(kind)}{shades}</svg>' for kind in ("op", "leaf"))
    figure = f'<div class="gradients"><figure><svg>{shades}</svg></figure></div>'
    file.write_text(f"{html[0]}{figure}{''.join(graphs)}{html[2]}", encoding="utf-8")
    with Visit(browser, file, color_scheme=scheme) as page:
        assert page.locator(".num text").count() == 30
        assert low_contrasts(page) == {}


MATCHES = """components => {
  const found = [];
  const visit = rules => {
    for (const rule of rules) {
      if (rule.cssRules && !rule.selectorText) visit(rule.cssRules);
      for (const selector of (rule.selectorText || '').split(',')) {
        const plain = selector.trim().replace(/:(hover|focus-visible|focus)/g, '');
        for (const element of plain ? document.querySelectorAll(plain) : []) {
          const part = element.closest(components);
          const name = part && components.split(', ').find(name => part.matches(name));
          found.push([selector.trim(), name || element.localName]);
        }
      }
    }
  };
  visit(document.styleSheets[0].cssRules);
  return found;
}"""


@pytest.mark.parametrize("lab", ["en"], indirect=True)
def test_a_class_is_styled_in_one_component_only(browser: Any, lab: Path, tmp_path: Path) -> None:
    pages = {
        "matrix": matrix_page(everything()),
        "grade": grade_page(disclose(MIXED)),
        "diagnosis": diagnosis_page(diagnoses.diagnosis(diagnoses.defect(1, alike=True))),
    }
    components = defaultdict[str, set[str]](set)
    with Visit(browser, lab, f"#{PAGE}") as page:
        answer_by_clicking(page.locator(f"#{PAGE}"))
        for number in (0, 1):
            page.locator(".stage:visible .broken [data-edge] .hit").nth(number).click(force=True)
        for selector, component in page.evaluate(MATCHES, ", ".join(COMPONENTS)):
            components[selector].add(component)
    for name, text in pages.items():
        (tmp_path / f"{name}.html").write_text(text, encoding="utf-8")
        with Visit(browser, tmp_path / f"{name}.html") as page:
            for selector, component in page.evaluate(MATCHES, ", ".join(COMPONENTS)):
                components[selector].add(component)
    assert len(components) > 100
    leaking = {
        selector: found
        for selector, found in components.items()
        if len(found) > 1 and set(re.findall(r"\.([\w-]+)", selector)) - SHARED
    }
    assert leaking == {}
