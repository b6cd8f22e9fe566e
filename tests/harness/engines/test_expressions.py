"""Expressions of settings: which names they see, and what replaces a name in them."""

import pytest

from harness.engines.library import function_of, names_in, substituted


def test_a_keyword_that_is_not_passed_is_none() -> None:
    function = function_of("(t, before)", ("t", "before"), {}, "<test>")
    assert function(t=1) == (1, None)


@pytest.mark.parametrize("text", ["t + one", "[t + one for _ in 'x'][0]", "(lambda: t + one)()"])
def test_names_are_visible_in_nested_scopes(text: str) -> None:
    assert function_of(text, ("t",), {"one": 1}, "<test>")(t=2) == 3


def test_an_argument_hides_a_name_of_the_engine() -> None:
    assert function_of("t", ("t",), {"t": "the engine's"}, "<test>")(t="given") == "given"


@pytest.mark.parametrize("text", ["", "x = 1", "(t"])
def test_what_is_not_an_expression_is_a_syntax_error(text: str) -> None:
    with pytest.raises(SyntaxError):
        function_of(text, (), {}, "<test>")
    assert names_in(text) == set()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Tensor(data, keep=True)", "Tensor(c, keep=True)"),
        ("Var(data=data.tolist())", "Var(data=c.tolist())"),
        ("Tensor(np.data)", "Tensor(np.data)"),
    ],
)
def test_only_the_name_is_replaced(before: str, after: str) -> None:
    assert substituted(before, "data", "c") == after
