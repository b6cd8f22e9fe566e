"""The doctor's summary: at most 15 lines at 80 columns, and what to type next."""

from typing import Any

import pytest
from msgspec.structs import replace

from harness.doctor.diagnosis import Diagnosis
from harness.engines.survey import doubt_of
from harness.report.doctor import MOST_LINES, show_diagnosis
from harness.report.terminal import Screen
from tests.harness.report.diagnoses import defect, diagnosis


def shown(
    found: Diagnosis, argument: str | None = "e.py:T", width: int = 80, **options: Any
) -> str:
    console = Screen(record=True, width=width, force_terminal=False, highlight=False)
    show_diagnosis(console, found, argument, **options)
    return "".join(f"{line.rstrip()}\n" for line in console.export_text().splitlines())


def doubtful(found: Diagnosis, outcomes: dict[str, str], kind: str = "arrays") -> Diagnosis:
    """The diagnosis of an engine on which the simplest probes ended like this."""
    doubt = doubt_of(outcomes, kind)
    alike = [item.break_ for defect in found.defects for item in defect.alike] if doubt else []
    defects = [] if doubt else found.defects
    return replace(found, kind=kind, one_op=outcomes, doubt=doubt, defects=defects, alike=alike)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 20])
def test_it_has_at_most_15_lines(count: int) -> None:
    found = diagnosis(*(defect(number, True, "long " * 60) for number in range(count)))
    text = shown(found)
    assert len(text.splitlines()) <= MOST_LINES
    assert max(map(len, text.splitlines())) <= 80
    assert ("and 17 more: see --all" in text) == (count == 20)
    assert ("op2" in text) == (count > 2)


def test_breaks_like_findings_that_do_not_fit_are_named() -> None:
    """A finding that comes last may be the cause of the others."""
    names = ("sub-sign", "skip-unbroadcast-mul", "no-interior-reset", "forward-order", "no-seed")
    found = [
        replace(item, alike=[replace(alike, break_=name) for alike in item.alike])
        for number, name in enumerate(("sub-sign", "sub-sign", *names))
        for item in [defect(number, True, "long " * 60)]
    ]
    (line,) = [line for line in shown(diagnosis(*found)).splitlines() if "see --all" in line]
    assert line == ("  and 4 more, like `skip-unbroadcast-mul`, `no-interior-reset`: see --all")


def test_a_sound_engine_is_said_to_be_one_and_a_break_comes_next() -> None:
    assert shown(diagnosis()) == (
        "engine.tensor:Tensor, 2 files\n"
        "Calls       Tensor(data); t.grad; b\n"
        "Gradients   every leaf starts with a buffer of zeros; a second backward pass\n"
        "            adds into the same array\n"
        "Looks wrong nothing\n"
        "Breaks      1 of 2 can be tried; 1 of 2 probes judge them\n"
        "Next        harness break mine --engine e.py:T\n"
        "More        harness doctor e.py:T --all\n"
    )


def test_a_defect_has_its_place_its_numbers_and_the_break_like_it() -> None:
    text = shown(diagnosis(defect(1, alike=True), defect(2)), None)
    assert "Looks wrong 2 findings, the most basic first\n" in text
    assert "  `op1` (engine/tensor.py:12) behaves like `sub-sign`\n" in text
    assert "    probe-1 (and 2 more): value: a.grad is 1, expected 2\n" in text
    assert "  `op2` (engine/tensor.py:12)\n" in text
    assert "Next        harness show sub-sign\n" in text
    assert text.endswith("More        harness doctor --all\n")


def test_commands_can_be_copied_from_a_narrow_terminal() -> None:
    text = shown(diagnosis(), "a folder/engine.py:Tensor", width=40)
    assert "harness break mine --engine 'a folder/engine.py:Tensor'\n" in text


def test_nothing_judged_is_said() -> None:
    found = diagnosis(verdict="lacks")
    assert not found.judged
    assert not found.is_sound
    assert diagnosis().is_sound
    assert not diagnosis(verdict="bug").is_sound
    text = shown(found)
    assert "Looks wrong" not in text
    assert "Nothing was judged.\n" in text
    assert "none can be tried: none of 2 probes gives the right result" in text
    everything = shown(found, everything=True)
    assert "Nothing was judged.\n" in everything
    assert "No bug was found" not in everything
    assert "No bug was found" in shown(diagnosis(), everything=True)


def test_no_op_is_blamed_if_nothing_came_out_right() -> None:
    found = doubtful(diagnosis(defect(1, alike=True)), {"t * t": "empty", "t + t": "filled"})
    text = shown(found)
    assert "Calls       Tensor(data); t.grad; b; nothing came out right\n" in text
    assert "Alike       `sub-sign`\n" in text
    assert "`op1`" not in text
    assert "Next        harness show sub-sign\n" in text
    everything = shown(found, everything=True)
    assert "the gradient of every op" in everything
    assert "`op1`" not in everything
    assert "No bug was found" not in everything


def test_an_exception_of_the_simplest_probes_casts_doubt_on_the_calls() -> None:
    outcomes = {"t * t": "TypeError", "t + t": "TypeError", "-t": "right"}
    text = shown(doubtful(diagnosis(defect(1)), outcomes))
    assert "nothing came out right" not in text
    assert "even the backward pass of `t * t` raises TypeError" in text
    assert "write leaf, data, backward and grad in harness.toml" in " ".join(text.split())
    assert "`op1`" not in text
    assert "`op1`" in shown(doubtful(diagnosis(defect(1)), outcomes | {"t / u": "scaled"}))


def test_everything_is_behind_an_option() -> None:
    found = diagnosis(defect(1, alike=True))
    summary, everything = shown(found), shown(found, everything=True)
    for words in ("no such thing", "float64 is stored", "and-another", "The sign of", "[engine]"):
        assert words not in summary
        assert words in everything


def test_a_wrong_product_of_numbers_explains_the_other_findings() -> None:
    outcomes = {"t * u": "filled", "t * 3.0": "filled", "t + u": "right"}
    assert "`op1`" in shown(doubtful(diagnosis(defect(1)), outcomes))
    text = shown(doubtful(diagnosis(defect(1)), outcomes, "scalars"))
    assert "Looks wrong the gradient of `t * u`;" in text
    assert "`op1`" not in text


def test_methods_that_no_operator_calls_are_shown() -> None:
    text = shown(replace(diagnosis(), misnamed={"__div__": "__truediv__"}))
    assert "Never runs  `__div__`: name it `__truediv__`\n" in text
    assert len(text.splitlines()) <= MOST_LINES
