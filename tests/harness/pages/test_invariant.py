"""Reading a page's invariant, and the questions of its front matter."""

from pathlib import Path

import pytest

from harness.core.errors import PageError
from harness.pages.checks import SEEDS, Invariant, invariant_of
from harness.pages.front_matter import Advice, Break, key_line
from harness.pages.page import read_page
from tests.harness.proven_page import INVARIANT, QUESTION, proven
from tests.harness.sound_page import SOUND, write_page


def read(folder: Path, text: str) -> Invariant:
    invariant = invariant_of(read_page(write_page(folder, text)))
    assert invariant
    return invariant


def line_of(text: str, words: str) -> int:
    return text[: text.index(words)].count("\n") + 1


def test_an_invariant_is_one_test_for_each_seed(tmp_path: Path) -> None:
    text = proven()
    tests = read(tmp_path, text).tests()
    assert [test.seed or 0 for test in tests] == list(SEEDS)
    assert len({test.identity for test in tests}) == len(SEEDS)
    first, *others = tests
    assert {(test.kind, test.function, test.takes_lib, test.shared) for test in others} == {
        ("test", "gradient_of_log_is_the_reciprocal", True, False)
    }
    assert first.function == "test_gradient_of_log_is_the_reciprocal"
    line = line_of(text, "def gradient_of_log")
    assert {test.line for test in others} == {line}
    assert first.line + first.source.splitlines().index("    a.log().sum().backward()") == (
        line + others[0].source.splitlines().index("    a.log().sum().backward()")
    )


def test_a_page_without_the_block_has_no_invariant(tmp_path: Path) -> None:
    page = read_page(write_page(tmp_path))
    assert invariant_of(page) is None
    assert page.assertion == ""


def test_the_block_is_not_one_of_the_probes(tmp_path: Path) -> None:
    page = read_page(write_page(tmp_path, proven(info="invariant")))
    assert [probe.name for probe in page.probes] == ["log-of-powers", "log-of-ones"]


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ("    assert lib\n    assert  rng", "assert rng"),
        ("    for _ in 'ab':\n        assert lib, 'a message'", "assert lib"),
        ("    assert (lib\n            and rng)", "assert lib and rng"),
    ],
)
def test_the_last_assertion_is_shown_in_one_line(tmp_path: Path, body: str, shown: str) -> None:
    page = read_page(write_page(tmp_path, proven(f"def f(lib, rng):\n{body}\n")))
    assert page.assertion == shown


def test_helpers_start_with_an_underscore(tmp_path: Path) -> None:
    helped = f"def _size(a):\n    return a.size\n\n\n{INVARIANT}"
    assert read(tmp_path, proven(helped)).function == "gradient_of_log_is_the_reciprocal"


@pytest.mark.parametrize(
    ("block", "at", "problem"),
    [
        ("def f(lib, rng:\n    pass\n", "def f", "the invariant is not Python"),
        ("x = 1\n", "x = 1", "the invariant has 0 functions"),
        ("def f(lib, rng):\n    assert lib\n\n\ndef g():\n    pass\n", "def f", "has 2 functions"),
        ("\ndef f(lib):\n    assert lib\n", "def f", "`def f(lib)` is not an invariant"),
        ("def f(rng, lib):\n    assert lib\n", "def f", "`def f(rng, lib)` is not an invariant"),
        ("def f(lib, rng=0):\n    assert lib\n", "def f", "`def f(lib, rng=0)` is not an invar"),
        ("def f(lib, rng, *more):\n    assert lib\n", "def f", "is not an invariant"),
        ("def f(log):\n    assert log\n", "def f", "`def f(log)` is not an invariant"),
        ("def f(lib, rng):\n    lib\n", "def f", "`f` asserts nothing"),
        (
            "def _g():\n    assert 1\n\n\ndef f(lib, rng):\n    _g()\n",
            "def f",
            "`f` asserts nothing",
        ),
        (f"{'(' * 500}{')' * 500}\n", "((", "the invariant is "),
    ],
)
def test_a_block_that_is_not_an_invariant_is_refused_at_its_line(
    tmp_path: Path, block: str, at: str, problem: str
) -> None:
    text = proven(block)
    with pytest.raises(PageError) as error:
        read(tmp_path, text)
    assert problem in error.value.problem
    assert error.value.line == line_of(text, at)


def test_a_second_block_is_refused(tmp_path: Path) -> None:
    text = proven().replace("## Lesson", f"```python invariant\n{INVARIANT}```\n\n## Lesson")
    with pytest.raises(PageError, match="a second invariant") as error:
        read(tmp_path, text)
    assert text.splitlines()[error.value.line - 1] == "```python invariant"
    assert error.value.line > line_of(text, "```python invariant")


def test_an_invariant_on_a_log_takes_the_log_as_json() -> None:
    log = [{"loss": 0.5}, {"loss": float("nan")}, {"loss": float("inf")}]
    invariant = Invariant("id", "f", "def f(log):\n    seen.extend(log)", "p", 1)
    seen: list[dict[str, float]] = []
    names: dict[str, object] = {"seen": seen}
    test = invariant.on_log("one", log)
    exec(test.source, names)  # noqa: S102  as a trial does
    names[test.function]()  # type: ignore[operator]
    assert str(seen) == str(log)
    assert test.identity != invariant.on_log("one", log[:1]).identity


# ----- Front matter -----


def test_a_page_says_why_and_beware(tmp_path: Path) -> None:
    page = read_page(write_page(tmp_path, proven()))
    why = "The rule passes the upstream gradient on as it came."
    beware = "The slope of the logarithm is 1 at 1, so ones hide it."
    assert page.advice_on(None) == page.advice_on("variant") == (None, Advice(why, beware))
    assert page.assertion == "assert abs(a.grad * a.data - 1).max() < 0.001"


def test_a_question_has_a_probe_a_text_and_an_answer(tmp_path: Path) -> None:
    (question,) = read_page(write_page(tmp_path, proven())).front_as(Break).ask
    assert (question.probe, question.loss, question.answer) == (
        "log-of-powers",
        "uniform",
        "a.grad[0]",
    )


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('answer   = "a.grad[0]"\n', "", "key `ask.answer` is missing"),
        ('"a.grad[0]"', '""', "key `ask.answer` is wrong"),
        ('"a.grad[0]"', f'"a{"[0]" * 40}"', "key `ask.answer` is wrong"),
        ('"uniform"', '"even"', "key `ask.loss` is wrong"),
        ('because  = "', 'becuase  = "', "key `ask.becuase` is unknown"),
        ("because  =", 'choices = ["1"]\nbecuase  =', "key `ask."),
    ],
)
def test_a_mistake_in_the_second_question_is_found_there(
    tmp_path: Path, old: str, new: str, problem: str
) -> None:
    second = QUESTION.replace(old, new)
    assert second != QUESTION
    text = proven(questions=f"{QUESTION}\n{second}")
    with pytest.raises(PageError) as error:
        read_page(write_page(tmp_path, text))
    assert problem in error.value.problem
    assert error.value.line >= text[: text.rindex("[[ask]]")].count("\n") + 1


@pytest.mark.parametrize("front", ["why = 3", "except = { some = '' }", "ask = 'what?'"])
def test_a_key_of_another_type_is_refused(tmp_path: Path, front: str) -> None:
    text = SOUND.replace('["std"]\n', f'["std"]\n{front}\n')
    with pytest.raises(PageError, match=f"key `{front.split()[0]}"):
        read_page(write_page(tmp_path, text))


TABLES = """\
id = "x"
[[ask]]
probe = "a"
answer = "b"
[[ask]]
probe = "c"
answer = "d"
[expect.fast]
add = "crash"
[[ask]]
answer = "e"
"""


@pytest.mark.parametrize(
    ("key", "line"),
    [
        (("ask", 0, "answer"), 5),
        (("ask", 1, "answer"), 8),
        (("ask", 2, "answer"), 12),
        (("ask", 2, "probe"), 11),
        (("ask", 1), 6),
        (("ask",), 3),
        (("expect",), 9),
        (("expect", "fast", "add"), 10),
        (("pardon",), 1),
    ],
)
def test_the_line_of_a_key_in_an_array_of_tables(key: tuple[str | int, ...], line: int) -> None:
    assert key_line(TABLES, key) == line
