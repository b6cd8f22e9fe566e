"""The place that an answer names: a line or a function, and how near it is."""

from functools import cache

import pytest

from harness.core.errors import UsageError
from harness.engines.engine import find_engine
from harness.experiment.patching import Experiment, prepare
from harness.learn.clues import pool_of
from harness.learn.hunt import changed_lines, judge, read_place
from tests.harness.bundled import CATALOGUE

ENGINE = find_engine()
ELEMENTWISE = ENGINE.sources["minigrad/elementwise.py"].splitlines()


def line(text: str) -> int:
    return next(k for k, row in enumerate(ELEMENTWISE, start=1) if text in row)


@cache
def broken(page: str) -> Experiment:
    return prepare(CATALOGUE.page(page), CATALOGUE, ENGINE)


def near(text: str, page: str = "skip-unbroadcast") -> str:
    return judge(read_place(text, ENGINE), broken(page).broken.sites, ENGINE)


def test_a_line_is_exact_in_its_function_or_neither() -> None:
    add = line("def add(")
    assert near(f"elementwise.py:{add + 4}") == "line"
    assert near(f"minigrad/elementwise.py:{add + 4}") == "line"
    assert near(f"elementwise.py:{add + 1}") == "function"
    assert near(f"elementwise.py:{line('def sub(') + 4}") == "no"
    assert near("elementwise.py:1") == "no"


def test_a_function_is_near_with_or_without_the_functions_around_it() -> None:
    assert (
        near("add") == near("add()") == near("add.vjp") == near("elementwise.py:add") == "function"
    )
    assert near("sub") == near("unbroadcast") == "no"
    assert near("linear") == "function"  # the second of its places
    assert near("Tensor.backward", "no-interior-reset") == "function"


def test_code_that_is_only_added_is_near_the_lines_around_it() -> None:
    (site,) = broken("zero-grad-after-backward").broken.sites
    after = changed_lines(site, ENGINE)[-1]
    assert near(f"{site.file}:{after}", "zero-grad-after-backward") == "line"
    assert near(f"{site.file}:{after - 1}", "zero-grad-after-backward") == "line"
    assert near(f"{site.file}:{after + 2}", "zero-grad-after-backward") != "line"


def test_a_change_of_several_lines_is_on_each_of_them() -> None:
    (site,) = broken("leaky-split").broken.sites
    lines = changed_lines(site, ENGINE)
    text = ENGINE.sources[site.file].splitlines()
    assert [text[k - 1].strip() for k in lines] == [
        row.strip() for row in site.before.strip().splitlines()
    ]
    assert len(lines) > 1


@pytest.mark.slow
@pytest.mark.parametrize("level", [1, 2, 3])
def test_every_bug_of_a_pool_is_on_a_line_that_can_be_named(level: int) -> None:
    for suspect in pool_of(CATALOGUE, level).suspects:
        for site in broken(suspect.id).broken.sites:
            for number in changed_lines(site, ENGINE):
                place = read_place(f"{site.file}:{number}", ENGINE)
                assert judge(place, [site], ENGINE) == "line", (suspect.id, number)


@pytest.mark.parametrize(
    ("text", "problem", "remedy"),
    [
        ("elementwis.py:3", "no file `elementwis.py`", "did you mean `elementwise.py`"),
        (
            f"elementwise.py:{len(ELEMENTWISE) + 1}",
            "has no line",
            f"it has {len(ELEMENTWISE)} lines",
        ),
        ("elementwise.py:0", "has no line 0", "it has"),
        (f"elementwise.py:{'9' * 5000}", "has no line 999", "it has"),
        ("unbrodcast", "no function `unbrodcast`", "did you mean `unbroadcast`"),
        ("vjp", "places are called `vjp`", "`minigrad/elementwise.py:add.vjp`"),
        ("__init__.py:1", "places are called `__init__.py`", "name one of them"),
        ("", "the answer names no function", "`FILE.py:LINE`"),
    ],
)
def test_a_place_that_is_not_there_is_answered_with_the_nearest(
    text: str, problem: str, remedy: str
) -> None:
    with pytest.raises(UsageError) as caught:
        read_place(text, ENGINE)
    assert problem in caught.value.problem
    assert remedy in caught.value.remedy
