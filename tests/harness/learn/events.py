"""Events made by hand, a second apart."""

from datetime import UTC, datetime, timedelta
from typing import Any

from harness.learn.events import (
    AnyEvent,
    Attempt,
    ClueBought,
    Draw,
    Fix,
    Hint,
    HuntAnswer,
    HuntBegun,
    HuntKey,
    PageFinished,
    PredictionMade,
    TestAnswer,
)

START = datetime(2026, 1, 1, tzinfo=UTC)

HUNT = HuntKey(3, 1, pool="0123456789ab")


def prediction(predicted: str, actual: str, page: str = "sub-sign", **rest: Any) -> PredictionMade:
    """A prediction that is right if it says what was observed."""
    fields: dict[str, Any] = {"probe": "sub", "loss": None, "time": START}
    fields |= {"right": predicted == actual, **rest}
    return PredictionMade(page=page, predicted=predicted, actual=actual, **fields)


def one_of_each_kind() -> list[AnyEvent]:
    """Ten events, from the oldest to the newest."""
    times = [START + timedelta(seconds=second) for second in range(10)]
    return [
        prediction("crash", "silent-corruption", time=times[0]),
        PageFinished(page="sub-sign", time=times[1]),
        Attempt(exercise="only-trees", killed=False, time=times[2]),
        Hint(exercise="only-trees", step=1, time=times[3]),
        Draw(before=("sub-sign",), after=("abs-grad-no-sign",), time=times[4]),
        TestAnswer(phase="before", page="sub-sign", right=None, time=times[5]),
        HuntBegun(hunt=HUNT, time=times[6]),
        ClueBought(hunt=HUNT, clue="shape:add-scalar", passes=6, time=times[7]),
        HuntAnswer(hunt=HUNT, family=True, place="no", par=3, time=times[8]),
        Fix(page="sub-sign", right=False, time=times[9]),
    ]
