"""The contrast of the texts of a page with what is behind them, as Chromium paints them."""

from typing import Any

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
