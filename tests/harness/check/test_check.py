"""The check of a whole page: what it holds against observation, and that it lists everything."""

import dataclasses
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import breaks
from harness.check import expectations as observed
from harness.check.expectations import survivors
from harness.check.pages import PageCheck, check_page, check_pages
from harness.core.errors import UsageError
from harness.core.report import Report
from harness.engines.engine import find_engine
from harness.experiment.baseline import Baseline
from harness.experiment.context import OpenContext
from harness.pages.catalogue import Catalogue, open_catalogue
from harness.runs import oracles
from harness.runs.cache import open_cache
from tests.harness.command import harness
from tests.harness.reports import report_of, report_with, run_of
from tests.harness.sound_page import SOUND, spoilt, write_page

GUIDE = Path(breaks.__file__).parent / "README.md"
BENCH = Baseline(open_cache())


def context_of(catalogue: Catalogue) -> OpenContext:
    return OpenContext(catalogue, find_engine(), BENCH)


def checked(folder: Path, text: str = SOUND, page_id: str = "log-slope-one") -> PageCheck:
    write_page(folder, text, f"{page_id}.md")
    return check_page(page_id, context_of(open_catalogue([folder])))


def told(check: PageCheck) -> list[str]:
    return [f"{finding.line}: {finding.problem}" for finding in check.findings]


def line_of(text: str, words: str) -> int:
    return text[: text.index(words)].count("\n") + 1


def test_a_sound_page_holds_on_the_engine(tmp_path: Path) -> None:
    check = checked(tmp_path)
    assert (told(check), check.exit_status) == ([], 0)
    assert [report.engine.variant for report in check.reports] == [None]


@pytest.mark.parametrize(
    ("old", "new", "at", "words", "status"),
    [
        # outcomes
        (
            'log-of-ones   = "disguised-correct"',
            'log-of-ones   = "crash"',
            "log-of-ones ",
            "says crash for `log-of-ones`; observed: disguised-correct",
            1,
        ),
        (
            'log-of-powers = "silent-corruption"',
            'log-of-powers = { uniform = "silent-corruption", weighted = "not-reached" }',
            "log-of-powers ",
            "says not-reached for `log-of-powers` under the weighted loss; observed: silent-corru",
            1,
        ),
        (
            'log-of-ones   = "disguised-correct"',
            'log-of-ones   = "?"',
            "log-of-ones ",
            "states no outcome for `log-of-ones`; observed: disguised-correct",
            1,
        ),
        (
            'log-of-powers = "silent-corruption"',
            'log-of-powers = { weighted = "silent-corruption" }',
            "log-of-powers ",
            "states no outcome for `log-of-powers` under the uniform loss",
            1,
        ),
        # claims
        ('["gradcheck"]', '["gradcheck", "shape"]', "caught_by", "says caught by shape; obs", 1),
        ('"crash", "shape"', '"gradcheck"', "missed_by", "says missed by gradcheck; obs", 1),
        ('"crash", "shape"', '"loss-fals"', "missed_by", "no diagnostic `loss-fals`", 2),
        ('caught_by = ["gradcheck"]\n', "", "[diagnostics]", "claims no `caught_by`; observed:", 1),
        # names
        ("log-of-ones   =", "log-of-onse   =", "log-of-onse", "no probe `log-of-onse`", 2),
        (
            "\n[diagnostics]",
            '[expect.accumulate-in-plaice]\nlog-of-ones = "crash"\n[diagnostics]',
            "[expect.acc",
            "no variant `accumulate-in-plaice`",
            2,
        ),
        # the patch
        ("-$g / a", "-$g / b", "@@ log", "this hunk matches nothing in this engine", 1),
        ("+$g\n", "+$h\n", "+$h", "`$h` is used on the + side", 2),
        ("+$g\n", "+$g / a\n", "@@ log", "its syntax tree has not changed", 2),
        ('sources = ["std"]', 'sites = 2\nsources = ["std"]', "@@ log", "2 sites", 2),
        # probes
        (
            "a.log()\n\n\ndef",
            "a.lgo()\n\n\ndef",
            "log-of-powers ",
            "fails on the unbroken engine",
            1,
        ),
        ("a=[1.0, 1.0, 1.0]", "a='ones'", "def log_of_ones", "neither a shape nor values", 2),
        # front matter
        ('id     = "log-slope-one"', 'id     = "other"', "id ", "key `id` is `other`", 2),
        (
            "[expect]",
            '[pardon]\nreason = "lazy"\nsentence = "s"\n[expect]',
            "reason",
            "key `pardon.reason` is wrong",
            2,
        ),
        (
            "[expect]",
            '[pardon]\nreason = "statistical"\n[expect]',
            "[pardon]",
            "key `pardon.sentence` is missing",
            2,
        ),
        (
            "[expect]",
            '[pardon]\nreason = "statistical"\nsentence = "s"\n[expect]',
            "[pardon]",
            "has a pardon, but does not need one",
            1,
        ),
    ],
)
def test_each_mistake_is_found_at_its_line_with_its_status(
    tmp_path: Path, old: str, new: str, at: str, words: str, status: int
) -> None:
    text = spoilt(old, new)
    check = checked(tmp_path, text)
    hits = [finding for finding in check.findings if words in finding.problem]
    assert hits, told(check)
    assert hits[0].line == line_of(text, at)
    assert hits[0].exit_status == status
    assert check.exit_status >= status
    assert hits[0].remedy


def test_all_findings_are_listed_in_the_order_of_the_page(tmp_path: Path) -> None:
    text = spoilt('"disguised-correct"', '"crash"').replace('["std"]', '["a blog"]')
    text = text.replace('"crash", "shape"', '"nothing"').replace("Every entry is 1.", "TODO")
    check = checked(tmp_path, text)
    lines = [finding.line for finding in check.findings]
    assert len(lines) == 4
    assert lines == sorted(lines)


def test_an_unknown_name_does_not_hide_what_the_other_probes_show(tmp_path: Path) -> None:
    text = spoilt('log-of-ones   = "disguised-correct"', 'log-of-powers-2 = "crash"').replace(
        'log-of-powers = "silent-corruption"', 'log-of-powers = "crash"'
    )
    problems = "\n".join(told(checked(tmp_path, text)))
    assert "no probe `log-of-powers-2`" in problems
    assert "says crash for `log-of-powers`" in problems


def test_outcomes_and_claims_are_held_on_every_variant_that_the_page_speaks_of(
    tmp_path: Path,
) -> None:
    text = spoilt(
        "\n[diagnostics]\n",
        '[expect.accumulate-in-place]\nlog-of-powers = "crash"\n\n[diagnostics]\n',
    ).replace(
        "+++\n# Hand", '[diagnostics.accumulate-in-place]\ncaught_by = ["shape"]\n+++\n# Hand'
    )
    check = checked(tmp_path, text)
    assert [report.engine.variant for report in check.reports] == [None, "accumulate-in-place"]
    wrong, claim = check.findings
    assert "says crash for `log-of-powers` on accumulate-in-place" in wrong.problem
    assert wrong.line == line_of(text, 'log-of-powers = "crash"')
    assert "[expect.accumulate-in-place]" in wrong.remedy
    assert "says caught by shape on accumulate-in-place" in claim.problem
    assert claim.line == line_of(text, 'caught_by = ["shape"]')


def test_a_claim_for_a_variant_alone_is_held_too(tmp_path: Path) -> None:
    table = '[diagnostics.accumulate-in-place]\nmissed_by = ["gradcheck"]\n+++\n# Hand'
    (finding,) = checked(tmp_path, spoilt("+++\n# Hand", table)).findings
    assert "says missed by gradcheck on accumulate-in-place" in finding.problem


def test_a_claim_about_a_diagnostic_that_declined_or_never_looked_is_a_finding(
    tmp_path: Path,
) -> None:
    nan = spoilt("+$g\n", "+$g * np.nan\n").replace(
        'missed_by = ["crash", "shape"]', 'missed_by = ["second-backward", "trajectory"]'
    )
    _, declined, skipped = checked(tmp_path, nan).findings
    judged = "says missed by second-backward, which judged no probe; it declined: no gradient is"
    assert declined.problem.startswith(judged)
    assert skipped.problem.startswith("says missed by trajectory, which ran on no probe: it req")


# ----- Survivors -----


def test_a_break_survives_where_no_silent_corruption_is_caught() -> None:
    silent, crash = run_of("p", None, "silent-corruption"), run_of("q", None, "crash")
    loud = run_of("q", None, "crash", caught_by=["crash"])
    caught = run_of("r", None, "silent-corruption", caught_by=["shape"])
    assert survivors([report_with([silent])])
    assert survivors([report_with([silent, loud])])
    assert not survivors([report_with([silent, caught])])
    assert not survivors([report_with([loud])])
    assert not survivors([report_with([crash])])


def test_a_break_that_shows_nowhere_survives_and_one_that_a_variant_repairs_does_not() -> None:
    hidden = report_of(("p", None, "disguised-correct"), ("q", None, "not-reached"))
    caught = report_with([run_of("p", None, "silent-corruption", caught_by=["shape"])])
    uncaught = report_of(("p", None, "silent-corruption"))
    assert survivors([hidden, hidden]) == [hidden, hidden]
    assert survivors([caught, hidden]) == []
    assert survivors([caught, uncaught]) == [uncaught]
    assert survivors([report_with([])]) == []


NOWHERE = spoilt("-$g / a", "-return np.log(a), vjp").replace(
    "+$g\n", "+return np.log(1 * a), vjp\n"
)
NOWHERE = NOWHERE.replace('"silent-corruption"', '"disguised-correct"').replace(
    'caught_by = ["gradcheck"]\n', ""
)
PARDON = '[pardon]\nreason = "{}"\nsentence = "One times a is a."\n\n[expect]'


def test_a_survivor_is_found_and_a_pardon_lets_it_live(tmp_path: Path) -> None:
    problems = [finding.problem for finding in checked(tmp_path, NOWHERE).findings]
    assert any(
        "a survivor: no diagnostic catches it on minigrad" in problem for problem in problems
    )
    pardoned = NOWHERE.replace("[expect]", PARDON.format("equivalent"))
    assert told(checked(tmp_path, pardoned)) == []


def test_what_differs_is_not_equivalent(tmp_path: Path) -> None:
    text = spoilt("[expect]", PARDON.format("equivalent"))
    problems = [finding.problem for finding in checked(tmp_path, text).findings]
    assert any("as `equivalent`, but something observable differs" in each for each in problems)


def test_without_a_library_what_it_would_decide_is_only_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oracles, "find_spec", lambda _module: None)
    warnings = [
        finding for finding in checked(tmp_path, NOWHERE).findings if not finding.exit_status
    ]
    assert any("no diagnostic catches it here" in finding.problem for finding in warnings)
    assert any(finding.remedy == "install autograd, torch to decide" for finding in warnings)


@pytest.mark.usefixtures("without_oracles")
def test_a_claim_that_could_be_held_nowhere_is_found(tmp_path: Path) -> None:
    text = spoilt('"crash", "shape"', '"crash", "shape", "loss-falls"').replace(
        "return a.log()", "raise ValueError"
    )
    problems = "\n".join(told(checked(tmp_path, text)))
    assert "says missed by shape, which ran on no probe" in problems


def test_a_false_alarm_on_a_variant_is_found(tmp_path: Path) -> None:
    text = SOUND.replace('kind   = "break"', 'kind   = "variant"')
    problems = "\n".join(told(checked(tmp_path, text)))
    assert "`gradcheck` raises a false alarm on `log-of-powers`" in problems


# ----- Many pages -----


def test_an_accident_with_one_page_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_page(tmp_path)
    write_page(tmp_path, SOUND.replace("log-slope-one", "another"), "another.md")
    write_page(tmp_path, "no page at all", "bad.md")

    def accident(reports: Sequence[Report]) -> list[Report]:
        if reports[0].break_ == "another":
            raise ZeroDivisionError("by nobody")
        return survivors(reports)

    monkeypatch.setattr(observed, "survivors", accident)
    ids = ["another", "bad", "log-slope-one"]
    checks = {
        check.page: check for check in check_pages(context_of(open_catalogue([tmp_path])), ids)
    }
    assert list(checks) == ids
    assert "the check itself failed: ZeroDivisionError: by nobody" in told(checks["another"])[0]
    assert "no front matter" in told(checks["bad"])[0]
    assert told(checks["log-slope-one"]) == []


def test_an_unknown_id_is_refused_before_anything_is_checked(tmp_path: Path) -> None:
    write_page(tmp_path)
    with pytest.raises(UsageError, match="did you mean `log-slope-one`"):
        next(check_pages(context_of(open_catalogue([tmp_path])), ["log-slope-one", "log-slop"]))


def test_translations_are_checked_with_their_page_and_orphans_alone(tmp_path: Path) -> None:
    write_page(tmp_path, '+++\nof = "000000000000"\n+++\n# T\n', "log-slope-one.es.md")
    write_page(tmp_path, "# T", "log-slope-two.es.md")
    problems = "\n".join(told(checked(tmp_path)))
    assert "the original has changed" in problems
    assert "1 sections" in problems or "0 sections" in problems
    catalogue = dataclasses.replace(open_catalogue([tmp_path]), roots=(tmp_path,))
    *_, orphan = check_pages(context_of(catalogue))
    assert "a translation of `log-slope-two`, which does not exist" in told(orphan)[0]
    assert "log-slope-one" in orphan.findings[0].remedy


# ----- The command -----


def test_the_command_prints_a_line_a_page_and_a_summary(tmp_path: Path) -> None:
    write_page(tmp_path)
    done = harness("check", "log-slope-one", "--breaks", str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    first, last = done.stdout.splitlines()
    assert re.fullmatch(r"passed log-slope-one  on minigrad  \d+\.\d s", first)
    assert last.startswith("1 page: passes")


def test_the_command_prints_every_finding_with_place_and_remedy(tmp_path: Path) -> None:
    text = spoilt('"disguised-correct"', '"crash"').replace("Every entry is 1.", "TODO")
    path = write_page(tmp_path, text)
    done = harness("check", "log-slope-one", "--breaks", str(tmp_path))
    assert done.returncode == 1
    assert done.stdout.startswith("FAILED log-slope-one")
    for words in ('log-of-ones   = "crash"', "TODO"):
        assert f"{path}:{line_of(text, words)}" in done.stdout
    assert done.stdout.count("remedy: ") == 2
    assert "1 page: fails, 2 findings" in done.stdout


def test_a_warning_changes_no_exit_status(tmp_path: Path) -> None:
    write_page(tmp_path, spoilt("Every entry is 1.", "Every entry is 1.\n\n" * 60))
    done = harness("check", "log-slope-one", "--breaks", str(tmp_path))
    assert done.returncode == 0
    assert "(a warning)" in done.stdout


def test_json_holds_the_findings_and_the_reports(tmp_path: Path) -> None:
    path = write_page(tmp_path, spoilt("Every entry is 1.", "TODO"))
    done = harness("check", "log-slope-one", "--breaks", str(tmp_path), "--json")
    found = json.loads(done.stdout)
    (page,) = found["pages"]
    assert (done.returncode, found["schema"], page["holds"]) == (1, 1, False)
    assert page["findings"][0]["path"] == str(path)
    assert page["findings"][0].keys() == {"path", "line", "problem", "remedy", "exit_status"}
    assert [report["break"] for report in found["reports"]] == ["log-slope-one"]


def test_naming_the_bundled_folder_once_more_is_not_a_clash() -> None:
    assert harness("check", "no-op", "--breaks", str(GUIDE.parent)).returncode == 0


# ----- The guide -----


def guide_blocks() -> Iterator[str]:
    """The indented examples of the guide, with their indentation taken off."""
    text = GUIDE.read_text(encoding="utf-8")
    for block in re.findall(r"(?:^    .*\n|^\n(?=\n*    ))+", text, re.M):
        yield re.sub(r"^    ", "", block, flags=re.M).strip("\n") + "\n"


def test_the_page_in_the_guide_holds(tmp_path: Path) -> None:
    (page,) = [block for block in guide_blocks() if block.startswith('+++\nid     = "log-')]
    assert told(checked(tmp_path, page)) == []


def test_the_hunks_in_the_guide_apply(tmp_path: Path) -> None:
    hunks = [block for block in guide_blocks() if block.startswith("@@")]
    assert sum(block.count("@@ ") for block in hunks) >= 2
    for block in hunks:
        page = spoilt("@@ log @@\n-$g / a\n+$g\n", block)
        assert not any("hunk" in problem for problem in told(checked(tmp_path, page)))
        assert checked(tmp_path, page).reports[0].sites
