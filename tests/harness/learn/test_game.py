"""The state of a hunt and its score, from the events."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from harness.learn.events import (
    AnyEvent,
    ClueBought,
    HuntAnswer,
    HuntBegun,
    HuntKey,
    PlaceFound,
    decode,
    encode,
)
from harness.learn.hunt import Hunt, hunts_in, label_of, open_hunt, seed_of
from tests.harness.learn.events import HUNT, START


def answer(
    key: HuntKey = HUNT, *, family: bool = True, place: PlaceFound = "line", par: float = 6
) -> HuntAnswer:
    return HuntAnswer(hunt=key, family=family, place=place, par=par)


def bought(clue: str, passes: float, key: HuntKey = HUNT, later: int = 0) -> ClueBought:
    return ClueBought(hunt=key, clue=clue, passes=passes, time=START + timedelta(seconds=later))


def only(*events: AnyEvent) -> Hunt:
    (hunt,) = hunts_in(events)
    return hunt


def test_a_clue_costs_once_and_nothing_after_the_answer() -> None:
    hunt = only(
        HuntBegun(hunt=HUNT),
        bought("shape:add", 6),
        bought("log:adam", 6),
        bought("shape:add", 6, later=1),
        answer(family=False),
        bought("shape:sub", 6),
        answer(),
    )
    assert list(hunt.bought) == ["shape:add", "log:adam"]
    assert (hunt.passes, hunt.is_solved, hunt.score) == (12, False, 0)


@pytest.mark.parametrize(
    ("passes", "family", "place", "score"),
    [
        (6, True, "line", 100),
        (3, True, "function", 100),
        (12, True, "function", 90),
        (48, True, "line", 70),
        (48, True, "no", 35),
        (6, False, "line", 0),
        (6 * 2**11, True, "line", 0),
    ],
)
def test_each_doubling_of_the_par_costs_ten_points(
    passes: float, family: bool, place: PlaceFound, score: int
) -> None:
    hunt = only(bought("shape:add", passes), answer(family=family, place=place))
    assert hunt.score == score
    assert hunt.is_solved == (family and place != "no")


def test_the_last_hunt_that_has_not_ended_goes_on() -> None:
    keys = [msgspec.structs.replace(HUNT, seed=seed) for seed in range(3)]
    hunts = hunts_in([*(HuntBegun(hunt=key) for key in keys), answer(keys[2])])
    going = open_hunt(hunts, lambda key: key in keys)
    assert going
    assert going.key == keys[1]
    assert open_hunt(hunts, lambda key: key == keys[2]) is None


def test_the_hunt_of_a_day_is_called_by_its_date() -> None:
    day = seed_of(datetime(2026, 11, 22, 23, 59, tzinfo=UTC))
    assert str(label_of(day)) == "2026-11-22"


@pytest.mark.parametrize("seed", [0, 3, 20261340, 2**53 - 1])
def test_a_seed_that_is_no_day_is_a_seed(seed: int) -> None:
    assert str(label_of(seed)) == f"seed {seed}"


def test_an_event_of_a_hunt_survives_the_file_and_names_no_bug() -> None:
    for event in (HuntBegun(hunt=HUNT), bought("log:adam", 6), answer()):
        assert decode(encode(event)) == event
    assert set(msgspec.json.decode(encode(answer()))) == {
        *("kind", "time", "hunt", "family", "place", "par")
    }
    assert decode(encode(answer()).replace(b'"level":1', b'"level":4')) is None
