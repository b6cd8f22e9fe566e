"""The one-screen report: the change, the most informative rows, and what comes next."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from harness.core.message import Kind, Message, as_parts, from_parts, message, verbatim
from harness.core.report import (
    EngineReport,
    InPlaceRun,
    PredictionReport,
    Report,
    RunReport,
    SiteReport,
)
from harness.core.vocabulary import LOSSES
from harness.pages.probe import Probe, read_probes
from harness.report.one_screen import show_report, show_surroundings
from harness.report.terminal import Screen
from harness.report.view import brief
from tests.harness.reports import report_with, run_of


def probe(name: str) -> Probe:
    return Probe(name, f"What {name} exercises.", "gradient", (), name, "", "p.py", 1)


def shown(
    report: Report, *, width: int = 80, probes: Sequence[Probe] = (), **details: Any
) -> list[str]:
    console = Screen(record=True, width=width, force_terminal=False, highlight=False)
    names = dict.fromkeys(run.probe for run in report.runs)
    show_report(console, report, probes or [probe(name) for name in names], **details)
    return [line.rstrip() for line in console.export_text().splitlines()]


def row(lines: Sequence[str], label: str) -> str:
    (line,) = [line for line in lines if label in line]
    return " ".join(line.split())


def many(count: int) -> list[RunReport]:
    hidden = [run_of(f"hidden-{i}", None, "disguised-correct") for i in range(count)]
    wrong = [run_of(f"wrong-{i}", None, "silent-corruption", kind="value") for i in range(count)]
    return [*hidden, *wrong, run_of("crashing", None, "crash")]


def test_a_row_has_a_word_for_each_engine_and_what_came_out() -> None:
    evidence = message(
        Kind.SHAPE, array="a.grad", actual="(4, 3)",
        expected="(3,)",
    )  # fmt: skip
    run = run_of("p", "weighted", "silent-corruption", kind="shape", evidence=evidence)
    report = report_with([run], in_place=[InPlaceRun("p", "weighted", "crash", verbatim("no"))])
    assert row(shown(report), "SILENT") == "p ≠ SILENT ✗ crash (4, 3), not (3,)"
    assert row(shown(report_with([run])), "SILENT") == "p ≠ SILENT (4, 3), not (3,)"


def test_the_table_says_how_many_leaves_were_not_compared() -> None:
    evidence = message(Kind.NOT_COMPARED, correct=message(Kind.RIGHT), count=2)
    inside = message(Kind.NOTHING_WRONG)
    run = run_of("p", "weighted", "disguised-correct", evidence=evidence, inside=inside, stage=None)
    assert row(shown(report_with([run])), "= hidden") == "p = hidden right; 2 leaves not compared"


def test_losses_share_a_row_only_if_they_end_alike_on_both_engines() -> None:
    runs = [run_of("p", loss, "crash") for loss in LOSSES]
    in_place = [InPlaceRun("p", loss, "crash", verbatim("no")) for loss in LOSSES]
    alike = shown(report_with(runs, in_place=in_place))
    assert len([line for line in alike if "✗ crash" in line]) == 1
    in_place[0] = InPlaceRun("p", "uniform", "disguised-correct", verbatim("yes"))
    unlike = shown(report_with(runs, in_place=in_place))
    assert row(unlike, "p, uniform") == "p, uniform ✗ crash = hidden what p showed"
    assert row(unlike, "p, weighted") == "p, weighted ✗ crash ✗ crash what p showed"


def test_of_many_probes_the_most_telling_are_rows_and_the_others_are_counted() -> None:
    lines = shown(report_with(many(20)))
    assert len(lines) <= 34
    rows = [line.split()[0] for line in lines if "what" in line and "showed" in line]
    assert "crashing" in rows
    assert rows[0] == "hidden-0"
    assert any(name.startswith("wrong-") for name in rows)
    assert rows == sorted(rows, key=[run.probe for run in many(20)].index)
    (more,) = [line for line in lines if "more, see --full" in line]
    assert more.startswith(f"{41 - len(rows)} more, see --full: ")
    assert "SILENT" in more


def test_a_prediction_that_missed_is_among_the_rows_and_marked() -> None:
    predictions = [
        PredictionReport("a", "hidden-19", None, "crash", "disguised-correct", right=False),
        PredictionReport("a", "crashing", None, "crash", "crash", right=True),
    ]
    lines = shown(report_with(many(20)), predictions=predictions)
    assert row(lines, "hidden-19").startswith("c hidden-19 =")
    assert row(lines, "crashing").startswith("ok crashing")
    assert row(lines, "You ").startswith("You 1 of 2 right; a letter before a row")
    assert not [line for line in shown(report_with(many(2))) if line.startswith("You")]


def test_what_did_not_reach_the_change_is_one_line() -> None:
    runs = [run_of(f"far-{i}", None, "not-reached") for i in range(6)]
    lines = shown(report_with([run_of("near", None, "crash"), *runs]))
    (line,) = [line for line in lines if "far-" in line]
    assert line == "Never run the changed code: far-0, far-1, far-2, far-3, ... (6 in all)"


def test_what_is_left_out_and_what_is_not_available_is_a_line_each() -> None:
    report = report_with(
        [run_of("p", None, "crash")],
        left_out={"q": verbatim("it is random")},
        missing={"torch": verbatim("torch is not installed")},
    )
    lines = shown(report)
    assert "Left out: q, because it is random" in lines
    assert "Not available, see --full: torch" in lines
    many = {name: verbatim("it is random") for name in "qrs"}
    lines = shown(report_with([run_of("p", None, "crash")], left_out=many))
    assert "Left out, see --full: q, r, s" in lines


DIFF = """\
--- a/e.py
+++ b/e.py
@@ -3,7 +3,6 @@
 def f():
     if x:
-        return one
-        return two
+        return three

     return y
@@ -20,2 +19,2 @@
 def g():
-    return 1
+    return 2
"""


def test_the_change_is_its_lines_with_their_places() -> None:
    sites = [SiteReport("e.py", 5, "f"), SiteReport("e.py", 20, "g")]
    lines = shown(report_with([run_of("p", None, "crash")], diff=DIFF, sites=sites))
    assert lines[:8] == [
        *("e.py:5 f", "  - return one", "  - return two", "  + return three"),
        *("e.py:21 g", "  - return 1", "  + return 2", ""),
    ]


def test_a_long_change_is_cut_and_says_so() -> None:
    code = "".join(f"-line {i}\n" for i in range(9))
    diff = f"--- a/e.py\n+++ b/e.py\n@@ -1,9 +1 @@\n{code}{DIFF.split('+++ b/e.py')[1][1:]}"
    sites = [SiteReport("e.py", 1, "f"), SiteReport("e.py", 20, "g")]
    lines = shown(report_with([run_of("p", None, "crash")], diff=diff, sites=sites))
    assert "  ... 3 more lines, see --full" in lines
    assert "and more in f, g, see --full" in lines
    one = diff.replace("-line 0\n-line 1\n", "")
    assert "  ... 1 more line, see --full" in shown(report_with([], diff=one, sites=sites))


def test_caught_counts_silent_probes_and_names_what_could_not_judge_all() -> None:
    runs = [
        run_of("p", None, "silent-corruption", caught_by=["shape"], missed_by=["loss-falls"]),
        run_of("q", None, "silent-corruption", caught_by=["torch"], missed_by=["shape", "crash"]),
        run_of("r", None, "crash", caught_by=["crash"]),
    ]
    lines = shown(report_with(runs))
    assert row(lines, "Caught") == "Caught shape: 1 of 2 silent; torch: 1 of 1 judged"
    assert row(lines, "Missed") == "Missed loss-falls: 1 of 1 judged"
    nothing = [run_of("p", None, "silent-corruption", missed_by=["shape"])]
    assert row(shown(report_with(nothing)), "Caught") == "Caught by nothing"
    assert row(shown(report_with(runs[2:])), "Caught") == "Caught the error itself"
    unseen = run_of("refuse-s", None, "crash", missed_by=["guard"])
    assert row(shown(report_with([unseen])), "Caught") == "Caught by nothing"
    counted = row(shown(report_with([*runs[2:], unseen])), "Caught")
    assert counted == "Caught the error itself: 1 of 2 crashes"


def test_the_check_to_write_says_which_silent_probes_satisfy_it() -> None:
    runs = [run_of("p", None, "silent-corruption"), run_of("q", None, "crash")]
    lines = shown(report_with(runs, invariant="assert a", blind_to=["p"]))
    assert row(lines, "Write") == "Write assert a (blind to: p)"
    assert row(shown(report_with(runs, invariant="assert a")), "Write") == "Write assert a"


def test_a_blank_line_in_a_long_test_does_not_make_it_short() -> None:
    body = "".join(f"    x{i} = {i}\n" for i in range(6))
    test = f"import minigrad as lib\n\n\ndef test_it():\n{body}\n    assert lib"
    report = report_with([run_of("p", None, "crash")], invariant="assert a", test=test)
    lines = shown(report)
    said = "Write the test that `harness show a-break --test` prints"
    assert row(lines, "Write") == said
    assert "    assert lib" not in lines


def test_the_end_says_what_to_type_next() -> None:
    lines = shown(report_with([run_of("p", None, "crash")]), following="harness break b  (2/2)")
    assert lines[-1] == "Next    harness break b  (2/2)"
    assert lines[-2].split() == [
        *("harness", "show", "a-break", "the", "page", "harness", "try", "a-break")
    ]
    assert "harness explain crash" in lines[-3]
    assert not [line for line in shown(report_with([])) if line.startswith("Next")]


def test_what_differs_from_the_page_is_in_its_row_and_in_a_line() -> None:
    run = run_of("p", None, "crash", expected="disguised-correct", agrees=False)
    lines = shown(report_with([run], agrees=False))
    assert row(lines, "✗ crash") == "p ✗ crash the page says hidden"
    assert "Some results are not as the page says." in lines


def test_a_probe_that_one_loss_takes_to_the_change_is_not_one_that_never_runs_it() -> None:
    runs = [
        run_of("p", "uniform", "not-reached"),
        run_of("p", "weighted", "crash"),
        run_of("q", None, "not-reached"),
    ]
    assert "Never run the changed code: q" in shown(report_with(runs))


def test_a_shape_is_called_right_only_if_an_array_is_there() -> None:
    missing = message(
        Kind.NO_GRADIENT, leaf="a_leaf_with_a_very_long_name_that_does_not_fit_in_a_column"
    )
    run = run_of("p", None, "silent-corruption", kind="value", evidence=missing)
    assert "right shape" not in "\n".join(shown(report_with([run])))
    values = message(Kind.ARRAY, array="a" * 40, actual="b" * 40,
                     expected="c" * 40)  # fmt: skip
    wrong = msgspec.structs.replace(run, evidence=values)
    assert "right shape, wrong values" in "\n".join(shown(report_with([wrong])))


def test_runs_that_the_page_does_not_explain_are_counted() -> None:
    runs = [run_of("p", None, "disguised-correct"), run_of("q", None, "crash")]
    lines = shown(report_with(runs, unexplained=(1, 2)))
    assert "Why     Here 1 of 2 runs do not end as the page explains; in all: 1 crash, 1" in lines


def test_another_engine_is_compared() -> None:
    report = msgspec.structs.replace(
        report_with([run_of("p", None, "crash")]),
        engine=EngineReport("theirs", None, foreign=True),
    )
    text = "\n".join(shown(report))
    assert "1 of 1 runs end as the page says" in text


def test_what_another_engine_does_is_shown_although_the_page_says_otherwise() -> None:
    run = run_of("p", None, "crash", expected="disguised-correct", agrees=False)
    engine = EngineReport("an-engine-with-a-name", None, foreign=True)
    lines = shown(report_with([run], engine=engine))
    assert row(lines, "✗ crash") == "p ✗ crash what p showed"
    assert "an-engine-w…" in row(lines, "input")


def test_the_runs_on_another_engine_that_do_not_end_as_the_page_says_are_named() -> None:
    runs = [
        run_of("p", None, "crash", expected="crash", agrees=True),
        run_of("q", None, "crash", expected="disguised-correct", agrees=False),
    ]
    engine = EngineReport("theirs", None, foreign=True)
    text = " ".join(" ".join(shown(report_with(runs, engine=engine))).split())
    assert "1 of 2 runs end as the page says for engines that accumulate" in text
    assert "Not so: q." in text
    agreeing = "\n".join(shown(report_with(runs[:1], engine=engine)))
    assert "Not so" not in agreeing


@pytest.mark.parametrize("width", [40, 60, 80])
def test_no_line_is_wider_than_the_window(width: int) -> None:
    runs = [run_of("a-probe-with-a-long-name", None, "silent-corruption"), *many(3)]
    in_place = [InPlaceRun(run.probe, None, "crash", verbatim("no")) for run in runs]
    lines = shown(report_with(runs, in_place=in_place), width=width)
    assert max(map(len, lines)) <= width
    assert len([line for line in lines if "≠ SILENT" in line]) >= 1


def test_a_narrow_table_cuts_names_before_losses_and_results() -> None:
    wrong = message(
        Kind.ENTRIES,
        array="a.grad[0, 1]", actual="1", expected="2", count="6", size="9",
    )  # fmt: skip
    name = "a-probe-with-a-long-name"
    runs = [
        run_of(name, "uniform", "disguised-correct", evidence=message("right at every step")),
        run_of(name, "weighted", "silent-corruption", kind="value", evidence=wrong),
    ]
    in_place = [InPlaceRun(name, loss, "crash", verbatim("no")) for loss in LOSSES]
    lines = shown(report_with(runs, in_place=in_place), width=60)
    assert row(lines, "= hidden") == "a-probe-with-…, uniform = hidden ✗ crash right at every step"
    assert row(lines, "≠ SILENT").endswith("…, weighted ≠ SILENT ✗ crash 6 of 9 values wrong")
    assert "grad +=" in row(lines, "input")
    assert "with grad +=" not in row(lines, "input")


def test_a_changed_line_that_is_too_wide_is_wrapped_with_a_mark() -> None:
    diff = f"--- a/e.py\n+++ b/e.py\n@@ -1 +1 @@\n-return {'first, ' * 9}last\n+return last\n"
    lines = shown(report_with([run_of("p", None, "crash")], diff=diff, sites=[]), width=60)
    assert lines[1].startswith("  - return first")
    assert lines[2] == "  ↪ first, first, last"
    assert lines[3] == "  + return last"


def test_commands_are_not_wrapped() -> None:
    report = report_with([run_of("p", None, "silent-corruption")], break_="a-break-with-a-long-id")
    for width in (40, 60, 80):
        lines = shown(report, width=width)
        assert len([line for line in lines if "harness explain silent" in line]) == 1
        assert len([line for line in lines if "--full  the whole report" in line]) == 1


def test_a_probe_is_named_by_what_it_computes_unless_another_computes_the_same() -> None:
    text = "def {}(a={}):\n    'Doc.'\n    return a * a\n"
    pair = read_probes(text.format("one", "(3,)") + text.format("two", "[1.0]"), "p.py")
    runs = [run_of(name, None, "crash") for name in ("one", "two")]
    assert row(shown(report_with(runs[:1]), probes=pair[:1]), "crash ").startswith("a * a ✗")
    alike = shown(report_with(runs), probes=pair)
    assert [line.split()[0] for line in alike if "what " in line and "showed" in line] == [
        "one",
        "two",
    ]


def test_a_sentence_without_a_short_form_stays_as_it_is() -> None:
    plain = message("nobody shortened {part}", part=message(Kind.BACKWARD))
    assert str(brief(plain)) == "nobody shortened backward"


def test_a_sentence_from_the_cache_keeps_its_short_form() -> None:
    said = message(Kind.AFTER_STEP, step=3, difference=message(Kind.NO_GRADIENT, leaf="w"))
    data = msgspec.msgpack.encode(said, enc_hook=as_parts)
    cached = msgspec.msgpack.decode(data, type=Message, dec_hook=from_parts)
    assert cached.kind is Kind.AFTER_STEP
    assert str(brief(cached)) == str(brief(said)) == "w has no gradient"


def test_the_code_around_a_change_keeps_its_shape() -> None:
    diff = (
        "--- a/m/ops.py\n+++ b/m/ops.py\n@@ -39,5 +39,5 @@\n \n     def vjp(g):\n"
        "-        return g * b\n+        return g * a\n \n     return a * b\n"
    )
    report = msgspec.structs.replace(report_with([]), diff=diff)
    console = Screen(record=True, width=80, force_terminal=False)
    show_surroundings(console, report)
    assert console.export_text().splitlines() == [
        "m/ops.py:39",
        "    def vjp(g):",
        "  -     return g * b",
        "  +     return g * a",
        "",
        "    return a * b",
        "",
    ]
