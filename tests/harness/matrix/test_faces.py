"""The matrix shown: on a terminal, as Markdown, as HTML, as JSON."""

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from rich.console import Console

from harness.matrix.committed import Committed
from harness.matrix.records import FalseAlarm, Matrix
from harness.matrix.verdict import build_matrix
from harness.report import to_json
from harness.report.html.reports import matrix_page
from harness.report.matrix import show_accepted, show_matrix, to_markdown
from tests.harness.matrix.made import diagnostic, evaluation, evaluations, everything, seen

MISSING = {"torch": "torch is not installed: get it"}


def without_torch() -> Matrix:
    controls = (
        evaluation("no-op", seen(outcome="disguised-correct", skipped=MISSING)),
        evaluation("sabotage", seen(by="shape gradcheck", skipped=MISSING)),
    )
    return build_matrix(
        evaluations(evaluation("b", seen(by="shape", skipped=MISSING)), controls=controls)
    )


def shown(matrix: Matrix, *, verbose: bool = False) -> str:
    console = Console(record=True, width=80, force_terminal=False, highlight=False)
    show_matrix(console, matrix, verbose=verbose)
    return console.export_text()


# ----- Terminal ------------------------------------------------------------------------------


def test_what_is_wrong_comes_first() -> None:
    text = shown(everything())
    order = [
        "This matrix does not count: a control fails",
        "gradcheck on small, uniform: noise",
        "shape on small, weighted: shape on small",
        "Controls passed: no-op, sabotage, asked",
        "Not as committed",
        "- shape no longer catches it with train",
        "Survivors",
        "Never reached",
        "Without a site",
        "Which diagnostic catches which break",
        "the control `clean` fails: gradcheck on small, uniform: noise",
    ]
    places = [text.index(words) for words in order]
    assert places == sorted(places)


def test_a_line_a_break_has_a_letter_for_each_that_catches_it() -> None:
    text = shown(everything())
    assert "a shape   b gradcheck   c torch" in text
    assert "≠ caught    ab·\n" in text
    assert "≠ alone     ·B·\n" in text
    assert "≠ lost      ···\n" in text
    assert "- elsewhere\n" in text
    assert "f: 1 of 4 caught" in text


def test_who_was_not_asked_is_blank_and_said_with_the_reason() -> None:
    text = shown(without_torch())
    assert "Skipped: torch, because torch is not installed: get it" in text
    assert "≠ b A·\n" in text
    assert "torch       skipped" in text


def test_who_declined_has_a_sign_of_its_own() -> None:
    run = seen(by="shape", declined={"torch": "no such op"})
    matrix = build_matrix(evaluations(evaluation("b", run)))
    assert "≠ b A·?\n" in shown(matrix)
    assert "torch declined: no such op" in shown(matrix, verbose=True)
    assert "| ★ | · | ? |" in to_markdown(matrix)


def test_survivors_say_why_and_who_fired_for_the_wrong_reason() -> None:
    text = shown(everything())
    assert (
        "≠ lost (g)\n      why small\n      gradcheck also raises an alarm on the clean engine"
        in text
    )
    assert "pardoned, equivalent: Equivalent | here." in text


def test_details_name_probes_messages_and_the_least_that_shows_it() -> None:
    text = shown(everything(), verbose=True)
    assert "shape with small, large: shape on small" in text
    smallest = "smallest that shows it: large (40 elements) and gradcheck, 7 orders of"
    assert f"{smallest}\n    magnitude above noise" in text
    assert "smallest that shows it" not in shown(everything())


def test_it_says_that_all_is_well_only_where_it_is() -> None:
    good = evaluations(evaluation("b", seen(by="shape")))
    then = {"b": Committed("silent-corruption", survived=False)}
    same = build_matrix(good, committed=then, differences=[])
    assert "As committed; no false alarm." in shown(same)
    fresh = shown(build_matrix(good))
    assert "No matrix is committed; `harness matrix --accept`" in fresh
    assert "No break survives; no false alarm." in fresh
    assert "no false alarm." not in shown(everything())


def test_a_large_matrix_is_readable_in_80_columns() -> None:
    """120 breaks with long names, 20 diagnostics, long messages."""
    names = [f"diagnostic-{i}" for i in range(20)]
    breaks = [
        evaluation(
            f"break-{i:03}-with-a-name-of-a-good-length-that-goes-on-and-on",
            seen("small", " ".join(names[: i % 20])),
            family=f"family-{i % 7}",
        )
        for i in range(120)
    ]
    matrix = build_matrix(
        evaluations(*breaks, diagnostics=tuple(diagnostic(name) for name in names), controls=())
    )
    lines = shown(matrix, verbose=True).splitlines()
    assert max(map(len, lines)) <= 80
    assert not any(line != line.rstrip() for line in lines if line.startswith(("≠", "  ")))
    (line,) = (line for line in lines if line.startswith("≠ break-019-"))
    assert line.endswith(" abcde fghij klmno pqrs")
    (line,) = (line for line in lines if line.startswith("≠ break-001-"))
    assert line.endswith(" A")


def test_the_legend_cuts_no_entry_in_two() -> None:
    names = [f"a-diagnostic-{i}" for i in range(20)]
    text = shown(build_matrix(evaluations(diagnostics=tuple(diagnostic(name) for name in names))))
    for letter, name in zip("abcdefghijklmnopqrst", names, strict=True):
        assert f"{letter} {name}" in text
    assert "\N{NO-BREAK SPACE}" not in text


def test_accepted_files_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console(width=80)
    show_accepted(console, [Path("breaks/matrix.toml")])
    show_accepted(console, [])
    out = capsys.readouterr().out
    assert "accepted: breaks/matrix.toml\n" in out
    assert "nothing to accept" in out


# ----- Markdown ------------------------------------------------------------------------------


def test_markdown_has_a_table_a_family_that_parses_as_one() -> None:
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(to_markdown(everything()))
    tables = [token for token in tokens if token.type == "table_open"]
    headings = [
        following.content for token, following in pairwise(tokens) if token.type == "heading_open"
    ]
    assert headings == [
        "Kill matrix of `minigrad`",
        "Problems",
        "Differences from the committed matrix",
        "Not caught",
        "Family f",
        "Family g",
        "Diagnostics",
    ]
    assert len(tables) == 3
    assert "`alone`" in [token.content for token in tokens if token.type == "inline"]


def test_markdown_marks_sole_catchers_and_leaves_out_who_was_not_asked() -> None:
    text = to_markdown(everything())
    assert "| `alone` | silent-corruption | · | ★ | · | `large`, gradcheck |" in text
    assert "| `caught` | silent-corruption | ● | ● | · | `small`, shape |" in text
    assert "Pardoned (equivalent): Equivalent | here." in text
    text = to_markdown(without_torch())
    assert "| break | outcome | shape | gradcheck | smallest that shows it |" in text
    assert "- `torch`: torch is not installed: get it" in text


def test_markdown_does_not_control_a_terminal() -> None:
    rude = FalseAlarm("clean", "shape", "small", None, "\x1b]0;title\x07 \u202e")
    assert r"\x1b]0;title\x07 \u202e" in to_markdown(build_matrix(evaluations(clean=(rude,))))


# ----- HTML ----------------------------------------------------------------------------------


def test_html_marks_what_each_diagnostic_says_and_names_those_that_could_not_run() -> None:
    page = matrix_page(everything())
    assert '<td class="sole"><details><summary aria-label="★: alone, gradcheck">★</summary>' in page
    assert '<td class="missed">·</td>' in page
    assert "skipped" not in page
    (row,) = re.findall(r"<code>torch</code></th>(.*?)</tr>", matrix_page(without_torch()))
    assert row == '<td>P</td><td colspan="3">skipped: torch is not installed: get it</td>'


# ----- JSON ----------------------------------------------------------------------------------


def test_the_json_has_the_keys_of_schema_1() -> None:
    said = json.loads(to_json(everything()))
    assert said["schema"] == 1
    assert said["engine"] == {"name": "minigrad", "variant": None}
    assert said["diagnostics"][0].keys() >= {"name", "cost"}
    row = next(row for row in said["breaks"] if row["break"] == "alone")
    assert {key: row[key] for key in ("family", "headline", "caught_by", "survived")} == {
        "family": "g",
        "headline": "silent-corruption",
        "caught_by": {"gradcheck": ["large"]},
        "survived": False,
    }
    assert [variant["variant"] for variant in said["variants"]] == ["variant"]
    assert said["variants"][0]["alarms"][0]["diagnostic"] == "shape"
    assert said["seconds"] == 0.0
