"""The track: where a learner is, and what comes next."""

from harness.learn.events import AnyEvent, Attempt, Draw, Fix, PageFinished, TestAnswer
from harness.learn.progress import PRIMER, LearnerProgress, Misses, Way, first_step, next_steps
from tests.harness.bundled import CATALOGUE
from tests.harness.learn.events import prediction

TRACK = tuple(CATALOGUE.track)


def done(*pages: str) -> list[AnyEvent]:
    """The events of a learner who did these pages."""
    exercises = [page for page in pages if CATALOGUE.page(page).front.kind == "exercise"]
    return [
        *(PageFinished(page=page) for page in pages if page not in exercises),
        *(Attempt(exercise=page, killed=True) for page in exercises),
    ]


def way(*events: AnyEvent) -> Way:
    return Way(CATALOGUE, LearnerProgress(events))


def test_the_next_page_is_the_first_that_is_not_done() -> None:
    assert way().next_id == TRACK[0]
    learner = way(*done(TRACK[0], TRACK[2], "sub-sign"))
    assert (learner.next_id, learner.done) == (TRACK[1], 2)
    assert next(learner.after(TRACK[1])) == TRACK[3]
    assert way(*done(*TRACK)).next_id is None


def test_on_the_track_the_next_step_is_its_next_page() -> None:
    (step,) = next_steps(way(*done(*TRACK[:4])))
    assert step.command == "harness start"
    assert str(step.why) == f"page 5 of {len(TRACK)}: {TRACK[4]}"
    assert first_step(way(*done(*TRACK[:3])).with_done(TRACK[3])) == step
    ahead = way(PageFinished(page=PRIMER)).with_done(TRACK[4])
    assert str(first_step(ahead).why) == f"page 1 of {len(TRACK)}: {TRACK[0]}"


def test_at_the_beginning_come_page_0_and_the_questions_that_are_left() -> None:
    drawn = Draw(before=("sub-sign", "log-slope-one"), after=("abs-grad-no-sign",))
    answered = TestAnswer(phase="before", page="sub-sign", right=False)
    assert str(first_step(way()).why).startswith("page 0")
    read = PageFinished(page=PRIMER)
    assert str(first_step(way(read)).why).startswith("page 1 of")
    assert str(first_step(way(read, drawn, answered)).why) == "1 question of the self-test"
    assert str(first_step(way(*done(*TRACK[:2]), drawn, answered)).why).startswith("page 3 of")


def test_after_the_track_come_the_families_with_wrong_predictions() -> None:
    learner = way(
        *done(*TRACK),
        prediction("crash", "silent-corruption", "skip-unbroadcast", probe="a"),
        prediction("crash", "silent-corruption", "skip-unbroadcast", probe="b"),
        prediction("crash", "silent-corruption", "sub-sign"),
        prediction("crash", "crash", "no-zero-grad-in-loop"),
        prediction("crash", "silent-corruption", "removed-since"),
    )
    assert learner.misses == [Misses("broadcasting", 2, 2), Misses("op-formulas", 1, 1)]
    commands = [step.command for step in next_steps(learner)]
    assert commands == [
        "harness list --todo --family broadcasting",
        "harness list --todo --family op-formulas",
        "harness list --todo --kind break --level 2",
        "harness list --todo --kind exercise",
        "harness fix mul-swapped-operands",
        "harness hunt",
        "harness doctor FILE.py:CLASS",
    ]


def test_the_breaks_of_the_track_are_offered_for_repair_one_after_the_other() -> None:
    breaks = [page for page in TRACK if CATALOGUE.page(page).front.kind == "break"]
    assert way().next_repair == breaks[0]
    first, second = (Fix(page=page, right=True) for page in breaks[:2])
    assert way(first).next_repair == breaks[1]
    assert way(first, second).next_repair == breaks[2]
    assert way(first).done == 1
    assert way(Fix(page=breaks[0], right=False)).next_repair == breaks[0]
    assert way(*(Fix(page=page, right=True) for page in breaks)).next_repair is None


def test_exercises_that_are_left_do_not_hide_what_comes_after_the_track() -> None:
    exercises = [page for page in TRACK if CATALOGUE.page(page).front.kind == "exercise"]
    learner = way(*done(*(page for page in TRACK if page not in exercises)))
    assert learner.is_read
    commands = [step.command for step in next_steps(learner)]
    assert (commands[0], commands[-1]) == ("harness start", "harness doctor FILE.py:CLASS")
    assert not way(*done(*exercises)).is_read


def test_after_the_track_come_the_questions_that_are_open() -> None:
    drawn = Draw(before=("sub-sign",), after=("abs-grad-no-sign",))
    skipped = TestAnswer(phase="before", page="sub-sign", right=None)
    answered = TestAnswer(phase="before", page="sub-sign", right=False)
    assert next_steps(way(*done(*TRACK), drawn, skipped))[0].command != "harness start"
    assert next_steps(way(*done(*TRACK), drawn, answered))[0].command == "harness start"


def test_pages_are_counted_by_kind() -> None:
    count, total = way(*done("sub-sign", "only-trees", TRACK[0])).count("break")
    assert (count, total > 200) == (2, True)
    assert way(*done("only-trees")).count("exercise")[0] == 1
    ids = {page.id for page in way(*done("only-trees")).todo("exercise")}
    assert "squares-only" in ids
    assert "only-trees" not in ids
