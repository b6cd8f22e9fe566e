"""The check of a whole page: what it holds against observation, and that it lists everything."""

import dataclasses
import json
import os
import re
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import msgspec
import pytest

import breaks
from harness.check import Finding, pages, static
from harness.check import expectations as observed
from harness.check.expectations import survivors
from harness.check.pages import PageCheck, check_page, check_pages
from harness.check.static import check_uniqueness
from harness.core.errors import PageError, UsageError
from harness.core.report import Report
from harness.engines.engine import find_engine
from harness.experiment.baseline import Baseline, Context, OpenContext
from harness.pages.catalogue import Catalogue, open_catalogue
from harness.runs import cached_runs
from harness.runs.cache import open_cache
from harness.training import recipe as training
from tests.harness.bundled import CATALOGUE
from tests.harness.command import harness
from tests.harness.reports import report_of, report_with, run_of
from tests.harness.sound_page import SOUND, VARIANT, sound_with, write_page

pytestmark = pytest.mark.usefixtures("without_oracles")

GUIDE = Path(breaks.__file__).parent / "README.md"
BASELINE = Baseline(open_cache())


@pytest.fixture
def with_oracles(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the few tests of this module that need an oracle's verdict."""
    request.getfixturevalue("without_oracles")  # first, since this fixture undoes it
    monkeypatch.setattr(cached_runs, "find_spec", find_spec)


def context_of(catalogue: Catalogue) -> OpenContext:
    return OpenContext(catalogue, find_engine(), BASELINE)


def checked(folder: Path, text: str = SOUND, page_id: str = "log-slope-one") -> PageCheck:
    write_page(folder, text, f"{page_id}.md")
    return check_page(page_id, context_of(open_catalogue([folder])))


def problems_of(check: PageCheck) -> list[str]:
    return [f"{finding.line}: {finding.problem}" for finding in check.findings]


def line_of(text: str, words: str) -> int:
    return text[: text.index(words)].count("\n") + 1


ILL = SOUND.replace("a=[0.5, 2.0, 4.0]", "a=[100000001.0, 100000002.0, 100000006.0]").replace(
    "    return a.log()", "    return a.var() * 1.0 + a.log()", 1
)
"""The variance of numbers near 1e8 loses half of their digits."""


def test_an_ill_conditioned_probe_is_refused_unless_the_page_says_why(tmp_path: Path) -> None:
    (finding,) = checked(tmp_path, ILL).findings
    assert finding.line == line_of(ILL, "log-of-powers")
    assert "the probe `log-of-powers` is ill-conditioned: rounding can hide" in finding.problem
    assert "`ill_conditioned = { log-of-powers = " in finding.remedy
    reason = 'ill_conditioned = { log-of-powers = "It is about rounding." }\n\n[expect]'
    assert problems_of(checked(tmp_path, ILL.replace("[expect]", reason))) == []


def test_a_probe_that_is_not_ill_conditioned_need_not_be_stated(tmp_path: Path) -> None:
    stated = 'ill_conditioned = { log-of-powers = "No.", other = "No." }\n\n[expect]'
    text = SOUND.replace("[expect]", stated)
    line = line_of(text, "ill_conditioned")
    assert problems_of(checked(tmp_path, text)) == [
        f"{line}: says that `log-of-powers` is ill-conditioned, but it is not",
        f"{line}: says that `other` is ill-conditioned, which is not a probe of the page",
    ]


def test_a_sound_page_holds_on_the_engine(tmp_path: Path) -> None:
    check = checked(tmp_path)
    assert (problems_of(check), check.exit_status) == ([], 0)
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
    text = sound_with(old, new)
    check = checked(tmp_path, text)
    hits = [finding for finding in check.findings if words in finding.problem]
    assert hits, problems_of(check)
    assert hits[0].line == line_of(text, at)
    assert hits[0].exit_status == status
    assert check.exit_status >= status
    assert hits[0].remedy


def test_all_findings_are_listed_in_the_order_of_the_page(tmp_path: Path) -> None:
    text = sound_with('"disguised-correct"', '"crash"').replace('["std"]', '["a blog"]')
    text = text.replace('"crash", "shape"', '"nothing"').replace("Every entry is 1.", "TODO")
    check = checked(tmp_path, text)
    lines = [finding.line for finding in check.findings]
    assert len(lines) == 4
    assert lines == sorted(lines)


def test_an_unknown_name_does_not_hide_what_the_other_probes_show(tmp_path: Path) -> None:
    text = sound_with('log-of-ones   = "disguised-correct"', 'log-of-powers-2 = "crash"').replace(
        'log-of-powers = "silent-corruption"', 'log-of-powers = "crash"'
    )
    problems = "\n".join(problems_of(checked(tmp_path, text)))
    assert "no probe `log-of-powers-2`" in problems
    assert "says crash for `log-of-powers`" in problems


def test_outcomes_and_claims_are_held_on_every_variant_that_the_page_speaks_of(
    tmp_path: Path,
) -> None:
    text = sound_with(
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
    (finding,) = checked(tmp_path, sound_with("+++\n# Hand", table)).findings
    assert "says missed by gradcheck on accumulate-in-place" in finding.problem


@pytest.mark.usefixtures("with_oracles")
def test_a_claim_about_a_diagnostic_that_declined_or_never_looked_is_a_finding(
    tmp_path: Path,
) -> None:
    nan = sound_with("+$g\n", "+$g * np.nan\n").replace(
        'missed_by = ["crash", "shape"]', 'missed_by = ["second-backward", "trajectory"]'
    )
    _, declined, skipped = checked(tmp_path, nan).findings
    judged = "says missed by second-backward, which judged no probe; it declined: no gradient is"
    assert declined.problem.startswith(judged)
    assert skipped.problem.startswith("says missed by trajectory, which ran on no probe: it req")


HIDDEN, DECLINED, MISSED = (
    ("+$g\n", "{}", "[1.0, 1.0]", "training-log"),
    ("+$g * np.where(a == 1, 1, np.nan)\n", "{}", "[1.0, 1.0]", "second-backward"),
    ("+$g\n", '{"slope": a.grad}', "[0.5, 2.0]", "training-log"),
)
"""What log hands on, what a training logs beside the loss, its leaf, and what is said to miss it.

`training-log` judges nothing but trainings, and `second-backward` declines if a gradient is NaN.
"""


@pytest.mark.parametrize(
    "planted", [HIDDEN, DECLINED, MISSED], ids=["hidden", "declined", "missed"]
)
def test_only_a_run_that_is_wrong_can_be_missed(tmp_path: Path, planted: tuple[str, ...]) -> None:
    patch, logged, leaf, diagnostic = planted
    training = f"""

def train_log(lib, a={leaf}):
    "Two steps that change nothing."
    for _ in range(3):
        a.grad = None
        a.log().sum().backward()
        yield {{"loss": a.log().sum(), **{logged}}}
```

## What happens"""
    outcome = "silent-corruption" if planted is MISSED else "disguised-correct"
    text = (
        sound_with("+$g\n", patch)
        .replace('missed_by = ["crash", "shape"]', f'missed_by = ["{diagnostic}"]')
        .replace("\n[diagnostics]", f'train-log = "{outcome}"\n\n[diagnostics]')
        .replace("```\n\n## What happens", training)
    )
    problems = [finding.problem for finding in checked(tmp_path, text).findings]
    found = [problem for problem in problems if "loss-falls: the loss goes" not in problem]
    nothing = f"says missed by {diagnostic}; observed: nothing is wrong in any run that it judged"
    assert found == ([] if planted is MISSED else [nothing])


# ----- Probes and patches that cannot be used -----


def test_a_probe_that_draws_without_a_seed_is_the_only_finding(tmp_path: Path) -> None:
    """The patch changes nothing observable, so every difference comes from the probe."""
    text = sound_with("-$g / a\n+$g\n", "-$g / a\n+$g * (1 / a)\n")
    unseeded = "    return a.log() * np.random.default_rng().random()\n"
    text = text.replace("    return a.log()\n", unseeded, 1)
    text = text.replace("def log_of_powers", "import numpy as np\n\n\ndef log_of_powers")
    check = checked(tmp_path, text)
    (finding,) = check.findings
    assert "the probe `log-of-powers` cannot be judged: it gives different" in finding.problem
    assert finding.line == line_of(text, "log-of-powers ")
    assert "default_rng(0)" in finding.remedy
    (report,) = check.reports
    assert isinstance(report, Report)
    assert {run.probe for run in report.runs} == {"log-of-ones"}
    assert not report.agrees
    seeded = text.replace("default_rng()", "default_rng(0)")
    assert not any("different" in problem for problem in problems_of(checked(tmp_path, seeded)))


def test_a_probe_that_fails_without_the_break_is_one_finding(tmp_path: Path) -> None:
    check = checked(tmp_path, sound_with("return a.log()", "return a.lgo()"))
    assert len(check.findings) == 1
    (told_so,) = problems_of(check)
    assert "the probe `log-of-powers` cannot be judged: it fails on the unbroken engine" in told_so
    assert "AttributeError in the forward pass, at `return a.lgo()`" in told_so


def test_a_probe_that_alarms_without_the_break_is_one_finding(tmp_path: Path) -> None:
    check = checked(tmp_path, sound_with("return a.log()", "a.data[0] += 1.0\n    return a.log()"))
    noisy = [
        text for text in problems_of(check) if "raises an alarm on the unbroken engine" in text
    ]
    assert len(noisy) == 1
    assert "with the probe `log-of-powers`: " in noisy[0]
    assert "purity: the run changed a" in noisy[0]


@pytest.mark.parametrize(
    ("added", "name", "near"),
    [
        ("unbrodcast($g, a.shape)", "unbrodcast", "`unbroadcast`"),
        ("np.onse(3) * $g", "onse", "`ones`"),
        ("$g.reshap(3)", "reshap", "`reshape`"),
    ],
)
def test_a_misspelt_name_in_the_patch_is_the_only_finding(
    tmp_path: Path, added: str, name: str, near: str
) -> None:
    text = sound_with("+$g\n", f"+{added}\n")
    (finding,) = checked(tmp_path, text).findings
    assert f"`{name}` on the + side is defined nowhere" in finding.problem
    assert finding.line == line_of(text, f"+{added}")
    assert near in finding.remedy


@pytest.mark.parametrize(
    "added",
    ["raise ZeroDivisionError", "import itertools\n+return itertools.zip_longest($g, $g, $g)[0]"],
)
def test_a_crash_that_is_not_a_misspelling_is_told_as_such(tmp_path: Path, added: str) -> None:
    text = sound_with("-$g / a\n+$g\n", f"-return ($g / a,)\n+{added}\n")
    problems = "\n".join(problems_of(checked(tmp_path, text)))
    assert "defined nowhere" not in problems
    assert "observed: crash" in problems


def test_a_probe_with_the_name_of_a_shared_one_is_an_error(tmp_path: Path) -> None:
    text = SOUND.replace("log_of_ones", "add_new_axis").replace("log-of-ones  ", "add-new-axis")
    (finding,) = checked(tmp_path, text).findings
    assert "`add-new-axis` is also defined in" in finding.problem
    assert (finding.line, finding.exit_status) == (line_of(text, "def log_of_powers"), 2)
    assert "another name" in finding.remedy


def test_a_shared_probe_of_another_folder_does_not_concern_a_page(tmp_path: Path) -> None:
    write_page(tmp_path / "one")
    write_page(tmp_path / "two", 'def log_of_ones(a=[1.0]):\n    "x"\n    return a', "probes/p.py")
    page = "log-slope-one"
    catalogue = open_catalogue([tmp_path / "one", tmp_path / "two"])
    assert len(catalogue.probes_for(catalogue.page(page))) == 2
    write_page(tmp_path / "one", 'def log_of_ones(a=[1.0]):\n    "x"\n    return a', "probes/p.py")
    catalogue = open_catalogue([tmp_path / "one"])
    with pytest.raises(PageError, match="is also defined in"):
        catalogue.probes_for(catalogue.page(page))


def test_equal_patches_under_two_ids_are_found_however_they_are_written(tmp_path: Path) -> None:
    literal = SOUND.replace(
        "-$g / a\n+$g\n", " def vjp($g):\n-    return ($g / a,)\n+    return ($g,)\n"
    )
    write_page(tmp_path, literal.replace("log-slope-one", "another"), "another.md")
    (finding,) = checked(tmp_path, SOUND).findings
    assert "its patch is the same as that of `another`" in finding.problem
    assert finding.line == line_of(SOUND, "```diff")


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


NOWHERE = sound_with("-$g / a", "-return np.log(a), vjp").replace(
    "+$g\n", "+return np.log(1 * a), vjp\n"
)
NOWHERE = NOWHERE.replace('"silent-corruption"', '"disguised-correct"').replace(
    'caught_by = ["gradcheck"]\nmissed_by = ["crash", "shape"]\n', ""
)
PARDON = '[pardon]\nreason = "{}"\nsentence = "One times a is a."\n\n[expect]'


@pytest.mark.usefixtures("with_oracles")
def test_a_survivor_is_found_and_a_pardon_lets_it_live(tmp_path: Path) -> None:
    problems = [finding.problem for finding in checked(tmp_path, NOWHERE).findings]
    assert any(
        "a survivor: no diagnostic catches it on minigrad" in problem for problem in problems
    )
    pardoned = NOWHERE.replace("[expect]", PARDON.format("equivalent"))
    assert problems_of(checked(tmp_path, pardoned)) == []


def test_what_differs_is_not_equivalent(tmp_path: Path) -> None:
    text = sound_with("[expect]", PARDON.format("equivalent"))
    problems = [finding.problem for finding in checked(tmp_path, text).findings]
    assert any("as `equivalent`, but something observable differs" in each for each in problems)


def test_without_a_library_what_it_would_decide_is_only_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cached_runs, "find_spec", lambda _module: None)
    warnings = [
        finding for finding in checked(tmp_path, NOWHERE).findings if not finding.exit_status
    ]
    assert any("no diagnostic catches it here" in finding.problem for finding in warnings)
    assert any(finding.remedy == "install autograd, torch to decide" for finding in warnings)


def test_a_claim_that_could_be_held_nowhere_is_found(tmp_path: Path) -> None:
    text = sound_with('"crash", "shape"', '"crash", "shape", "checkpoint"')
    problems = "\n".join(problems_of(checked(tmp_path, text)))
    assert "says missed by checkpoint, which ran on no probe" in problems


@pytest.mark.usefixtures("few_pages")
def test_a_false_alarm_on_a_variant_is_found(tmp_path: Path) -> None:
    problems = "\n".join(problems_of(checked(tmp_path, VARIANT)))
    assert "`gradcheck` raises a false alarm on `log-of-powers`" in problems


HIDDEN = """\
+++
id     = "stretched-axes-forgotten"
kind   = "variant"
family = "variants"

[expect]
add-new-axis   = "disguised-correct"
add-same-shape = "disguised-correct"

[diagnostics]
missed_by = ["shape"]
+++
# Forget the stretched axes

## Hypothesis

Predict which probe shows it.

## The break

```diff
@@ unbroadcast @@
{patch}
```

## What happens

Nothing.

## Diagnostic

There is nothing to find.

## Lesson

None.
"""


@pytest.mark.usefixtures("few_pages")
def test_a_variant_must_be_correct_on_the_shared_probes_that_it_does_not_name(
    tmp_path: Path,
) -> None:
    bundled = CATALOGUE.page("unbroadcast-lead-only")
    patch = bundled.diffs("minigrad")[0].text.split("@@ unbroadcast @@")[1].strip("\n")
    check = checked(tmp_path, HIDDEN.format(patch=patch), "stretched-axes-forgotten")
    (finding,) = [item for item in check.findings if "differs on the shared" in item.problem]
    assert "`add-stretched-axis`" in finding.problem
    assert finding.exit_status == 1


# ----- Many pages -----


def test_an_accident_with_one_page_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_page(tmp_path)
    another = SOUND.replace("log-slope-one", "another").replace("+$g\n", "+2 * $g\n")
    write_page(tmp_path, another, "another.md")
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
    assert (
        "the check itself failed: ZeroDivisionError: by nobody" in problems_of(checks["another"])[0]
    )
    assert "no front matter" in problems_of(checks["bad"])[0]
    assert problems_of(checks["log-slope-one"]) == []


def test_an_unknown_id_is_refused_before_anything_is_checked(tmp_path: Path) -> None:
    write_page(tmp_path)
    with pytest.raises(UsageError, match="did you mean `log-slope-one`"):
        next(check_pages(context_of(open_catalogue([tmp_path])), ["log-slope-one", "log-slop"]))


def test_translations_are_checked_with_their_page_and_orphans_alone(tmp_path: Path) -> None:
    write_page(tmp_path, '+++\nof = "000000000000"\n+++\n# T\n', "log-slope-one.es.md")
    write_page(tmp_path, "# T", "log-slope-two.es.md")
    problems = "\n".join(problems_of(checked(tmp_path)))
    assert "the original has changed" in problems
    assert "1 sections" in problems or "0 sections" in problems
    catalogue = dataclasses.replace(open_catalogue([tmp_path]), roots=(tmp_path,))
    *_, orphan = check_pages(context_of(catalogue))
    assert "a translation of `log-slope-two`, which does not exist" in problems_of(orphan)[0]
    assert "log-slope-one" in orphan.findings[0].remedy


def test_many_pages_are_checked_by_forks_with_the_findings_of_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_page(tmp_path, sound_with('"crash", "shape"', '"gradcheck"'))
    write_page(tmp_path, SOUND.replace("log-slope-one", "another"), "another.md")
    original, main = pages.check_page, os.getpid()

    def with_process(page_id: str, context: Context) -> PageCheck:
        check = original(page_id, context)
        return msgspec.structs.replace(check, seconds=0, path=f"{check.path} {os.getpid() == main}")

    def check_by(pages_a_process: int) -> list[PageCheck]:
        monkeypatch.setattr(pages, "PAGES_A_PROCESS", pages_a_process)
        context = context_of(open_catalogue([tmp_path]))
        return list(check_pages(context, only=[tmp_path]))

    monkeypatch.setattr(pages, "check_page", with_process)
    monkeypatch.setattr(pages, "available_cores", lambda: 2)
    alone, together = check_by(8), check_by(1)
    assert [check.page for check in together] == ["another", "log-slope-one"]
    assert [check.path.endswith("True") for check in alone + together] == [True] * 2 + [False] * 2
    assert [check.findings for check in alone] == [check.findings for check in together]
    assert any("says missed by gradcheck" in problem for problem in problems_of(together[1]))
    assert [len(check.reports) for check in together] == [1, 1]


# ----- The command -----


def test_the_command_prints_a_line_a_page_and_a_summary(tmp_path: Path) -> None:
    write_page(tmp_path)
    done = harness("check", "log-slope-one", "--breaks", str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    first, last = done.stdout.splitlines()
    assert re.fullmatch(r"passed log-slope-one  on minigrad  \d+\.\d s", first)
    assert last.startswith("1 page: passes")


def test_the_command_prints_every_finding_with_place_and_remedy(tmp_path: Path) -> None:
    text = sound_with('"disguised-correct"', '"crash"').replace("Every entry is 1.", "TODO")
    path = write_page(tmp_path, text)
    done = harness("check", "log-slope-one", "--breaks", str(tmp_path))
    assert done.returncode == 1
    assert done.stdout.startswith("FAILED log-slope-one")
    for words in ('log-of-ones   = "crash"', "TODO"):
        assert f"{path}:{line_of(text, words)}" in done.stdout
    assert done.stdout.count("remedy: ") == 2
    assert "1 page: fails, 2 findings" in done.stdout


def test_a_warning_changes_no_exit_status(tmp_path: Path) -> None:
    write_page(tmp_path, sound_with("Every entry is 1.", "Every entry is 1.\n\n" * 60))
    done = harness("check", "log-slope-one", "--breaks", str(tmp_path))
    assert done.returncode == 0
    assert "(a warning)" in done.stdout


def test_what_needs_a_missing_library_is_not_checked_and_is_status_3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "find_spec", lambda _module: None)
    trained = open_catalogue().many_seeded
    name = min(trained)
    done = harness("check", name)
    assert done.returncode == 3
    assert done.stdout.startswith(f"not checked {name}")
    assert "1 page: could not be checked, 1 finding" in done.stdout
    assert "breaklab[training]" in done.stdout
    (page,) = json.loads(harness("check", name, "--json").stdout)["pages"]
    assert page["holds"] is None
    write_page(tmp_path, sound_with("Every entry is 1.", "TODO"))
    done = harness("check", name, "log-slope-one", "--breaks", str(tmp_path))
    assert done.returncode == 1
    assert "2 pages: 1 of them fail, and 1 could not be checked" in done.stdout


def test_json_holds_the_findings_and_the_reports(tmp_path: Path) -> None:
    path = write_page(tmp_path, sound_with("Every entry is 1.", "TODO"))
    done = harness("check", "log-slope-one", "--breaks", str(tmp_path), "--json")
    found = json.loads(done.stdout)
    (page,) = found["pages"]
    assert (done.returncode, found["schema"], page["holds"]) == (1, 1, False)
    assert page["findings"][0]["path"] == str(path)
    assert page["findings"][0].keys() == {"path", "line", "problem", "remedy", "exit_status"}
    assert [report["break"] for report in found["reports"]] == ["log-slope-one"]


def test_only_the_pages_of_a_folder_are_checked_with_the_catalogue_beside_them(
    tmp_path: Path,
) -> None:
    text = SOUND.replace("log-of-ones  ", "add-new-axis")  # a shared probe
    text = text.replace("[diagnostics]", "[expect.accumulate-in-place]\n\n[diagnostics]")
    write_page(tmp_path, text.replace("disguised-correct", "not-reached"), "f/log-slope-one.md")
    write_page(tmp_path, '+++\nof = "000000000000"\n+++\n# T\n', "log-slope-two.es.md")
    done = harness("check", "--only", str(tmp_path), "--json")
    pages = json.loads(done.stdout)["pages"]
    assert [page["page"] for page in pages] == ["log-slope-one", "log-slope-two"]
    assert (pages[0]["holds"], pages[1]["holds"]) == (True, False)
    assert [engine["variant"] for engine in pages[0]["engines"]] == [None, "accumulate-in-place"]
    done = harness("check", "log-slope-one", "--only", str(tmp_path))
    assert (done.returncode, "--only cannot be combined with a page" in done.stderr) == (2, True)
    (tmp_path / "empty").mkdir()
    done = harness("check", "--only", str(tmp_path / "empty"))
    assert (done.returncode, "no page to check in" in done.stderr) == (2, True)


def test_only_a_part_of_the_catalogue_is_checked() -> None:
    part = GUIDE.parent / "controls"
    done = harness("check", "--only", str(part), "--json")
    ids = [page["page"] for page in json.loads(done.stdout)["pages"]]
    assert ids == sorted(path.stem for path in part.glob("*.md") if "." not in path.stem)


def test_naming_the_bundled_folder_once_more_is_not_a_clash() -> None:
    assert harness("check", "no-op", "--breaks", str(GUIDE.parent)).returncode == 0


# ----- The guide -----


def guide_blocks() -> Iterator[str]:
    """The indented examples of the guide, with their indentation taken off."""
    text = GUIDE.read_text(encoding="utf-8")
    for block in re.findall(r"(?:^    .*\n|^\n(?=\n*    ))+", text, re.M):
        yield re.sub(r"^    ", "", block, flags=re.M).strip("\n") + "\n"


@pytest.mark.usefixtures("with_oracles")
def test_the_page_in_the_guide_holds(tmp_path: Path) -> None:
    (page,) = [block for block in guide_blocks() if block.startswith('+++\nid     = "log-')]
    assert problems_of(checked(tmp_path, page)) == []


def test_the_hunks_in_the_guide_apply(tmp_path: Path) -> None:
    blocks = [block for block in guide_blocks() if block.startswith("@@")]
    hunks = [block for block in blocks if "@@ rule" not in block]  # those are for rules
    assert sum(block.count("@@ ") for block in hunks) >= 2
    for block in hunks:
        page = sound_with("@@ log @@\n-$g / a\n+$g\n", block)
        assert not any("hunk" in problem for problem in problems_of(checked(tmp_path, page)))
        assert checked(tmp_path, page).reports[0].sites


def test_patches_that_were_compared_before_are_not_applied_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def findings() -> list[Finding]:
        context = OpenContext(open_catalogue([tmp_path]), find_engine(), Baseline(open_cache()))
        page = context.catalogue.page("log-slope-one")
        return list(check_uniqueness(page, context))

    write_page(tmp_path)
    write_page(tmp_path, SOUND.replace("log-slope-one", "twin"), "twin.md")
    first = findings()
    assert ["`twin`" in finding.problem for finding in first] == [True]
    monkeypatch.setattr(static, "put", None)
    assert findings() == first
