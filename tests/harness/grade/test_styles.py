"""The styles in which a suite tests."""

import pytest

from harness.grade.styles import Style, styles_of


@pytest.mark.parametrize(
    ("text", "styles"),
    [
        ("def test_a():\n    assert 1 + 1 == 2\n", ["plain"]),
        ("from hypothesis import given", ["properties"]),
        ("import hypothesis.strategies as st", ["properties"]),
        ("def test_a():\n    import torch", ["another library"]),
        ("from autograd import numpy", ["another library"]),
        ("import torches, my_jax", ["plain"]),
        ("slope = (f(x + h) - f(x - h)) / (2 * h)", ["differences"]),
        ("slope = (f(x + h) - f(x)) / h", ["differences"]),
        ("slope = (up - down) / (2 * h)", ["differences"]),
        ("ratio = (a - b) / c", ["plain"]),
        ("@pytest.mark.parametrize('x', [1])\ndef test_a(x): ...", ["parameters"]),
        ("import torch, hypothesis", ["properties", "another library"]),
        ("def broken(:", ["plain"]),
        ("\xff\x00", ["plain"]),
    ],
)
def test_the_syntax_shows_the_style(text: str, styles: list[Style]) -> None:
    assert styles_of({"test_a.py": text.encode("latin-1"), "data.txt": b"import torch"}) == styles
