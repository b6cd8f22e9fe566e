"""Code with its syntax marked."""

import re
from html import unescape

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness.report.html.lesson import CLASSES, highlight

TAG = re.compile(r'<span class="(?:{})">|</span>'.format("|".join(name for _, name in CLASSES)))

LINES = st.lists(st.text(st.characters(exclude_characters="\n")), min_size=1)


@pytest.mark.parametrize(
    ("code", "html"),
    [
        ("return g", '<span class="key">return</span> g'),
        ("not x", '<span class="key">not</span> x'),
        ("x * 2.5  # twice", 'x * <span class="lit">2.5</span>  <span class="com"># twice</span>'),
        (
            "len('<b>')",
            '<span class="def">len</span>(<span class="str">&#x27;&lt;b&gt;&#x27;</span>)',
        ),
        ("def f(x):", '<span class="key">def</span> <span class="def">f</span>(x):'),
    ],
)
def test_the_parts_of_python_are_marked(code: str, html: str) -> None:
    assert highlight([code]) == [html]


def test_a_string_of_several_lines_is_marked_in_each() -> None:
    assert highlight(['x = """a', "", 'b"""']) == [
        'x = <span class="str">&quot;&quot;&quot;a</span>',
        "",
        '<span class="str">b&quot;&quot;&quot;</span>',
    ]


@given(LINES)
@example(
    ["<script>alert(1)</script>", "'</span><img src=x onerror=alert(2)>", '"""</pre>', "\ufeffx\r"]
)
@example(["# <b>", "&lt;", "$x = $...args", "f'{<svg onload=alert(1)>}'"])
def test_whatever_the_code_is_it_stays_text(lines: list[str]) -> None:
    html = highlight(lines)
    assert [unescape(TAG.sub("", line)) for line in html] == lines
    for line in html:
        assert not re.search(r"[<>\"']", TAG.sub("", line))
        assert line.count("<span") == line.count("</span")
