"""The self-test: two halves of the same kinds, from pages outside the track."""

import random
from collections import Counter

import pytest

from harness.engines.engine import find_engine
from harness.experiment.baseline import Baseline, OpenContext
from harness.learn.self_test import HARDEST, QUESTIONS, draw, read_question
from harness.pages.front_matter import Break
from harness.runs.cache import open_cache
from tests.harness.bundled import CATALOGUE

SEEDS = range(20)


def kind_of(page_id: str) -> tuple[str, int, str]:
    """The family and the level of a page, and what its first question asks for."""
    front = CATALOGUE.page(page_id).front
    assert isinstance(front, Break)
    answer = front.ask[0].answer
    asked = next((name for name in ("outcome", "shape", "dtype") if answer.endswith(name)), "")
    return front.family, front.level, asked or str(answer.startswith("log"))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_questions_before_and_after_are_of_the_same_kinds(seed: int) -> None:
    drawn = draw(CATALOGUE, random.Random(seed))
    assert len(drawn.before) == len(drawn.after) == QUESTIONS == 8
    assert list(map(kind_of, drawn.before)) == list(map(kind_of, drawn.after))


@pytest.mark.parametrize("seed", SEEDS)
def test_no_page_is_asked_about_twice_or_is_on_the_track(seed: int) -> None:
    drawn = draw(CATALOGUE, random.Random(seed))
    pages = (*drawn.before, *drawn.after)
    assert len(set(pages)) == len(pages)
    assert not CATALOGUE.track.keys() & set(pages)
    assert all(CATALOGUE.page(page).front.level <= HARDEST for page in pages)


def test_the_pages_are_of_the_lowest_level_that_has_two() -> None:
    asking = [page.front for page in CATALOGUE.pages[0] if page.id not in CATALOGUE.track]
    kinds = Counter(kind_of(f.id) for f in asking if isinstance(f, Break) and f.ask)
    for page in draw(CATALOGUE, random.Random(0)).before:
        family, level, asked = kind_of(page)
        assert [low for low in range(1, level) if kinds[family, low, asked] > 1] == []


def test_every_family_of_the_track_is_asked_about() -> None:
    on_the_track = [CATALOGUE.page(page).front for page in CATALOGUE.track]
    families = {front.family for front in on_the_track if isinstance(front, Break)}
    drawn = draw(CATALOGUE, random.Random(0))
    assert {CATALOGUE.page(page).front.family for page in drawn.before} == families


def test_either_page_of_a_pair_may_come_first() -> None:
    halves = [draw(CATALOGUE, random.Random(seed)) for seed in range(80)]
    assert {page for half in halves for page in half.before} == {
        page for half in halves for page in half.after
    }


def test_the_answer_is_looked_up_in_a_run() -> None:
    item = read_question(CATALOGUE, "abs-grad-no-sign")
    assert item
    context = OpenContext(CATALOGUE, find_engine(), Baseline(open_cache()))
    question = item.answer(context)
    assert (question.problem, question.question) == (None, item.question.question)
    assert question.answer


@pytest.mark.slow
def test_every_question_that_may_be_drawn_has_an_answer() -> None:
    context = OpenContext(CATALOGUE, find_engine(), Baseline(open_cache()))
    pages = {
        page
        for seed in range(200)
        for half in [draw(CATALOGUE, random.Random(seed))]
        for page in half.before
    }
    items = [read_question(CATALOGUE, page) for page in sorted(pages)]
    assert [item.page.id for item in items if item and not item.answer(context).answer] == []


def test_a_page_that_is_gone_has_no_question() -> None:
    assert read_question(CATALOGUE, "no-such-page") is None
    assert read_question(CATALOGUE, "labels-noisy") is None
