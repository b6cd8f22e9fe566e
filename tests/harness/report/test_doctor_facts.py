"""What the doctor found out about an engine, in words."""

import json

import msgspec
import pytest

from harness.core.message import verbatim
from harness.doctor.diagnosis import Accumulation, Storage, Unbroadcasting
from harness.doctor.roots import Feature, Use
from harness.engines.survey import Reducer, ShapeChange
from harness.report import to_json
from harness.report.doctor import accumulation, in_json, storage, unbroadcasting, words_of
from tests.harness.report.diagnoses import defect, diagnosis

FOLD = Reducer("engine", "fold", "engine.py", 3, {"add": ["_add"]}, flaws=["(4, 3) to (1, 3)"])


def test_json_has_sentences_where_the_record_has_kinds() -> None:
    table = json.loads(to_json(in_json(diagnosis())))
    assert table["storage"] == ["float64 is stored as float32, and compared in that precision"]
    assert table["accumulation"][0] == "every leaf starts with a buffer of zeros"
    assert table["unbroadcasting"] == ["none was found"]
    assert table.keys() >= {"schema", "speech", "probes", "breaks", "settings", "defects"}
    assert [item["kind"] for item in table["breaks"]] == ["usable", "absent"]


def test_a_defect_without_a_feature_is_named_by_its_probe() -> None:
    one = msgspec.structs.replace(defect(1), feature=None)
    roots = [item["root"] for item in in_json(diagnosis(one, defect(2)))["defects"]]
    assert roots == ["`probe-1`", "`op2`"]


def test_every_use_has_its_words() -> None:
    assert all(words_of(Feature("", use)) for use in Use if use is not Use.SAME)
    uses = (Use.CREATED, Use.STRETCHED, Use.SAME)
    assert [words_of(Feature("add", use)) for use in uses] == [
        *("`add` with a new axis", "`add` with a stretched axis", "`add` of a tensor and itself"),
    ]


def test_changed_shapes_are_listed_with_what_is_stored() -> None:
    found = Storage([ShapeChange((), None), ShapeChange((3,), (1, 3))])
    assert list(storage(diagnosis(kind="functional", storage=found))) == [
        "it differentiates functions: a probe is the function, traced for each of its leaves",
        "shapes are changed: () is refused; (3,) is stored as (1, 3); only probes of the other "
        "ranks can be judged",
    ]


def test_where_a_probe_is_wrong_the_note_about_draws_is_limited_to_right_gradients() -> None:
    found = Storage(draws=True)
    lines = {v: list(storage(diagnosis(verdict=v, storage=found))) for v in ("fits", "bug")}
    start = "it draws from NumPy's global generator, but no"
    assert lines == {
        "fits": [f"{start} gradient depends on what it draws"],
        "bug": [f"{start} right gradient depends on what it draws"],
    }


def test_gradients_that_are_returned_are_not_accumulated() -> None:
    found = Accumulation("zeros", "returned", shares_memory=True)
    assert list(accumulation(diagnosis(accumulation=found))) == [
        "gradients are returned, not stored, so nothing is accumulated"
    ]


@pytest.mark.parametrize(
    ("found", "lines"),
    [
        (Unbroadcasting("scalars"), ["none: a number has no shape"]),
        (
            Unbroadcasting("functions"),
            [
                "`fold` (engine.py) sums ones((4, 3)) to (3,)",
                "each op calls it: add in `_add`",
                "`fold` is wrong: (4, 3) to (1, 3)",
            ],
        ),
        (
            Unbroadcasting("named", ["a", "b"]),
            ["judging by the name, `a`, `b`; no function was observed to sum ones((4, 3)) to (3,)"],
        ),
        (
            Unbroadcasting("inside"),
            ["it un-broadcasts inside its ops, not in a separate function"],
        ),
        (Unbroadcasting("missing", reason=verbatim("{it}")), ["it does not un-broadcast: {it}"]),
        (Unbroadcasting("refused", reason=verbatim("no")), ["it does not broadcast: no"]),
        (Unbroadcasting("unknown"), ["none was found"]),
    ],
)
def test_each_kind_of_unbroadcasting_has_its_words(found: Unbroadcasting, lines: list[str]) -> None:
    shown = unbroadcasting(diagnosis(unbroadcasting=found, reducers=[FOLD]))
    assert list(shown) == lines
