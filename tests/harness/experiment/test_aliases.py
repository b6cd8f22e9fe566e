"""Functions are found under every name and alias that an engine's code uses."""

import pytest

from harness.experiment.exploration import adds_in_place, likely_names, spellings


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("g = sum_to(g, shape)", ("sum_to",)),
        ("g = Tensor.sum_to(g, shape)\nh = cls.sum_to(h, shape)", ("Tensor.sum_to", "cls.sum_to")),
        ("from utils import sum_to as shrink\ng = shrink(g, shape)", ("shrink",)),
        ("from utils import sum_to\nshrink = sum_to\ng = shrink(g, s)", ("shrink",)),
        (
            "import utils\nshrink = utils.sum_to\ng = shrink(g, s)\nh = utils.sum_to(h, s)",
            ("shrink", "utils.sum_to"),
        ),
        ("g = rules[0].sum_to(g, shape)", ()),
        ("g = sum_to_zero(g)", ()),
        ("def broken(:", ()),
    ],
)
def test_calls_are_found_under_their_names_and_aliases(text: str, result: tuple[str, ...]) -> None:
    assert spellings({"engine.py": text}, {"sum_to"}) == result


def test_an_alias_applies_only_to_its_file() -> None:
    texts = {"a.py": "from u import sum_to as f\nf(g, s)", "b.py": "f(g, s)\nf.sum_to(g, s)"}
    assert spellings(texts, {"sum_to"}) == ("f", "f.sum_to")
    assert spellings({"b.py": "f(g, s)"}, {"sum_to"}) == ()


@pytest.mark.parametrize("name", ["unbroadcast", "_un_broadcast", "sum_to_shape", "reduce_to"])
def test_usual_names_are_recognised(name: str) -> None:
    assert likely_names({"engine.py": f"class T:\n    def {name}(self, g): return g"}) == {name}


@pytest.mark.parametrize("name", ["broadcast_to", "summed", "reduce", "broadcast"])
def test_other_names_are_not_recognised(name: str) -> None:
    assert likely_names({"engine.py": f"def {name}(g): return g"}) == set()


@pytest.mark.parametrize(
    ("text", "in_place"),
    [
        ("self.grad += g", True),
        ("p._grad += g", True),
        ("self.grad = self.grad + g", False),
        ("self.grad -= g", False),
        ("total += g", False),
    ],
)
def test_adding_in_place_is_detected(text: str, in_place: bool) -> None:
    assert adds_in_place({"engine.py": text}) == in_place
