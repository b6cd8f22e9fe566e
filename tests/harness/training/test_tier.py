"""A page of the training tier: what it changes, what is reported, and what is refused."""

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

from harness.check.pages import PageCheck, check_page, check_pages
from harness.core.errors import EnvironmentProblem, HunkError, PageError, UsageError
from harness.core.run import Run
from harness.engines.engine import find_engine
from harness.experiment import baseline as bench_module
from harness.experiment.baseline import OpenContext
from harness.matrix.plan import choose
from harness.pages.catalogue import Catalogue, open_catalogue
from harness.runs import cached_runs
from harness.runs.cache import Cache, open_cache
from harness.runs.isolated import run_isolated
from harness.runs.protocol import Job
from harness.sandbox.limits import Limits
from harness.training import lab
from harness.training import recipe as recipe_module
from harness.training.lab import run_training
from harness.training.recipe import prepare_training
from tests.harness.command import harness
from tests.harness.training.made import (
    NOISE,
    SHIFT,
    UP,
    experiment,
    instead,
    metric,
    report_on,
    write_page,
)

pytest.importorskip("scipy.stats")


@pytest.fixture(autouse=True)
def _one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starting another process takes longer than all runs of these recipes."""
    monkeypatch.setattr(lab, "available_cores", lambda: 1)


def context_of(catalogue: Catalogue) -> OpenContext:
    return OpenContext(catalogue, find_engine(), bench_module.Baseline(open_cache()))


def checked(folder: Path, diff: str = SHIFT, expect: str = UP, **more: str) -> PageCheck:
    catalogue = write_page(folder, diff, expect, **more)
    return check_page("moved", context_of(catalogue))


def problems_of(check: PageCheck) -> str:
    return "\n".join(f"{one.line}: {one.problem} | {one.remedy}" for one in check.findings)


# ----- What is seen -----


def test_a_shift_is_seen_metric_by_metric(tmp_path: Path) -> None:
    report = report_on(write_page(tmp_path))
    assert (report.agrees, report.headline, report.recipe) == (True, "silent-corruption", "noise")
    assert {one.metric: one.verdict for one in report.metrics} == {
        "loss": "higher",
        "accuracy": "higher",
        "steps": "same",
        "deployed_loss": "same",
    }
    moved = metric(report, "loss")
    assert moved.broken.median == pytest.approx(moved.clean.median + 3)
    assert moved.effect > 0.9
    assert report.one_run_tells > 0.5 > report.one_run_accuses


def test_a_metric_is_the_last_value_under_its_name(tmp_path: Path) -> None:
    lasts = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        lasts.append([rng.standard_normal() for _ in range(2)][-1])
    band = metric(report_on(write_page(tmp_path), range(6)), "loss").clean
    assert (band.low, band.high) == (min(lasts), max(lasts))


def test_better_than_correct_needs_an_improvement_that_a_developer_sees(
    tmp_path: Path,
) -> None:
    text = NOISE.replace('"deployed_loss": rng.standard_normal()', '"deployed_accuracy": draw')
    report = report_on(write_page(tmp_path, text=text))
    assert {one.verdict for one in report.metrics} == {"higher", "same"}
    better = {one.metric: one.better_than_correct for one in report.metrics}
    assert better == {"loss": False, "accuracy": True, "steps": False, "deployed_accuracy": False}


def test_several_metrics_are_several_chances_of_a_false_alarm(tmp_path: Path) -> None:
    """All 8 pairs go up, which has p = 2 / 2**8; of four metrics it is the first."""
    report = report_on(write_page(tmp_path), range(8))
    assert metric(report, "loss").p == pytest.approx(4 * 2 / 2**8)


def test_a_deployed_metric_is_in_no_log_and_does_not_help_a_reader_of_logs(tmp_path: Path) -> None:
    text = NOISE.replace('"deployed_loss": rng.standard_normal()', '"deployed_loss": draw + shift')
    text = text.replace('{"loss": draw / divisor, "accuracy": draw / divisor, "steps": 7}', "{}")
    text = text.replace("yield {}", 'yield {"loss": rng.standard_normal()}')
    report = report_on(write_page(tmp_path, expect='deployed_loss = "higher"', text=text))
    assert (metric(report, "deployed_loss").verdict, report.runs_needed) == ("higher", None)
    assert report.one_run_tells == report.one_run_accuses


def test_runs_are_paired_by_seed(tmp_path: Path) -> None:
    """A shift of a tenth, far inside the spread: shown, since each pair shows it, and too small."""
    report = report_on(write_page(tmp_path, instead("rng.standard_normal() + 0.1"), ""))
    assert metric(report, "loss").p < 0.01
    assert metric(report, "loss").verdict == "same"


def test_a_patch_of_the_engine_runs_below_the_recipe(tmp_path: Path) -> None:
    text = NOISE.replace('"steps": 7', '"steps": lib.tensor([3.0]).relu().item()')
    diff = "@@ elementwise.py::relu @@\n-np.maximum(a, 0)\n+np.minimum(a, 0)"
    report = report_on(write_page(tmp_path, diff, 'steps = "lower"\nloss = "same"', text=text))
    assert report.agrees
    assert [site.file for site in report.sites] == ["minigrad/elementwise.py"]


def test_a_hunk_without_a_file_is_for_the_recipe_alone(tmp_path: Path) -> None:
    catalogue = write_page(
        tmp_path, "@@ @@\n-np.random.default_rng($a)\n+np.random.default_rng(1)", ""
    )
    assert {site.file for site in experiment(catalogue).sites} == {"recipes/noise.py"}


def test_the_break_can_be_put_into_a_variant_of_the_engine(tmp_path: Path) -> None:
    catalogue = write_page(tmp_path, text=NOISE.replace("7", "lib.tensor([1.0]).data.itemsize"))
    variant = catalogue.page("float32-data", "variant")
    prepared = prepare_training(catalogue.page("moved"), catalogue, find_engine(), variant=variant)
    report = run_training(prepared, Cache(None), range(8))
    assert report.engine.variant == "float32-data"
    assert metric(report, "steps").clean.median == 4


def test_the_same_seeds_give_the_same_report_from_any_number_of_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = experiment(write_page(tmp_path))
    one = run_training(prepared, Cache(None))
    monkeypatch.setattr(lab, "available_cores", lambda: 2)
    assert run_training(prepared, Cache(None)).metrics == one.metrics


def test_cached_runs_are_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, prepared = Cache(None), experiment(write_page(tmp_path))
    first = run_training(prepared, store, range(4))
    ran: list[int] = []

    def counted(job: Job) -> list[Run]:
        ran.append(len(job.steps))
        return run_isolated(job)

    monkeypatch.setattr(cached_runs, "run_isolated", counted)
    assert run_training(prepared, store, range(4)).metrics == first.metrics
    assert ran == []
    run_training(prepared, store, range(6))
    assert sum(ran) == 4  # two more seeds, on two sides


# ----- Runs that do not end well -----


def test_a_crash_with_some_seeds_leaves_the_others_to_be_compared(tmp_path: Path) -> None:
    diff = instead("3.0 + rng.standard_normal() / (seed != 3)")
    check = checked(tmp_path, diff, UP + '\ncrash = "sometimes"')
    assert problems_of(check) == ""
    (report,) = check.reports
    assert (report.crash.count, report.seeds) == (1, 20)
    assert "ZeroDivisionError" in report.crash.evidence
    assert not report_on(write_page(tmp_path, diff)).agrees


def test_a_crash_that_the_page_does_not_state_is_a_finding(tmp_path: Path) -> None:
    check = checked(tmp_path, instead("1 / 0"), 'steps = "same"')
    assert "says that it crashes never; observed: always, 20 of 20 runs" in problems_of(check)
    assert 'write `crash = "always"`' in problems_of(check)
    assert "too few broken runs ended" in problems_of(check)
    assert not check.reports[0].agrees


def test_a_stated_metric_that_nothing_is_left_to_judge_by_does_not_agree(tmp_path: Path) -> None:
    diff = instead("1 / 0")
    assert report_on(write_page(tmp_path, diff, 'crash = "always"')).agrees
    assert not report_on(write_page(tmp_path, diff, 'crash = "always"\nsteps = "same"')).agrees


def test_a_crash_that_does_not_come_is_a_finding(tmp_path: Path) -> None:
    check = checked(tmp_path, expect=UP + '\ncrash = "always"')
    assert "says that it crashes always; observed: never" in problems_of(check)


def test_a_recipe_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "LIMITS", Limits(cpu_seconds=1))
    diff = "@@ noise @@\n-range(entries)\n+iter(int, 1)"
    diff += "\n\n@@ noise @@\n-rng.standard_normal() + shift\n+[0 for _ in iter(int, 1)]"
    prepared = experiment(write_page(tmp_path, diff))
    clean, broken = lab.run_both(prepared, [0], Cache(None))
    assert clean[0].failure is None
    assert broken[0].failure is not None
    assert broken[0].failure.type == "ProcessorTimeLimit"


def test_a_metric_that_is_not_a_number_is_infinitely_bad_and_never_a_gain(tmp_path: Path) -> None:
    diff = instead('float("nan")')
    report = report_on(write_page(tmp_path, diff, 'loss = "higher"\naccuracy = "lower"'))
    assert report.agrees
    assert metric(report, "loss").broken.low == math.inf
    assert metric(report, "accuracy").broken.high == -math.inf
    assert not any(one.better_than_correct for one in report.metrics)
    assert report.one_run_tells == 1


def test_a_metric_that_is_never_logged_counts_as_no_number(tmp_path: Path) -> None:
    diff = SHIFT.replace("3.0, 1.0, 2", "0.0, 1.0, 0")
    assert metric(report_on(write_page(tmp_path, diff, "")), "loss").verdict == "higher"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("entries = 0.0, 1.0, 2", "entries = 0.0, 0.0, 2", "ZeroDivisionError"),
        ("    for _ in", "    return\n    for _ in", "it logs nothing"),
        ('"steps": 7', '"steps": [7, 8]', r"logs `steps` of shape \(2,\)"),
    ],
)
def test_a_recipe_that_fails_unpatched_is_an_environment_problem(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    text = NOISE.replace("rng.standard_normal() + shift", "1 + shift").replace(old, new)
    diff = "@@ noise @@\n-rng.standard_normal()\n+5.0"
    with pytest.raises(EnvironmentProblem, match=words):
        report_on(write_page(tmp_path, diff, "", text=text), range(2))


# ----- What is refused -----


def test_a_patch_that_never_runs_is_refused_and_one_without_effect_is_not(tmp_path: Path) -> None:
    text = NOISE.replace("    for _", "    if seed < 0:\n        shift = 1.0\n    for _")
    never = "@@ noise @@\n-shift = 1.0\n+shift = 2.0"
    with pytest.raises(PageError, match="never runs the changed code"):
        report_on(write_page(tmp_path, never, "", text=text))
    idle = "@@ noise @@\n-range(entries)\n+range(0, entries)"
    report = report_on(write_page(tmp_path, idle, 'loss = "same"'))
    assert (report.headline, report.agrees, report.runs_needed) == ("disguised-correct", True, None)
    assert report.one_run_tells == report.one_run_accuses


def test_one_seed_shows_no_spread(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--seeds is 1"):
        report_on(write_page(tmp_path), range(1))


def test_two_seeds_never_show_a_difference(tmp_path: Path) -> None:
    assert metric(report_on(write_page(tmp_path), range(2)), "loss").verdict == "unclear"


@pytest.mark.parametrize(
    ("expect", "line", "words"),
    [
        ('loss = "up"', 11, "Invalid enum value 'up'"),
        ('loss = { weighted = "higher" }', 11, "key `expect.loss` is wrong"),
        ('crash = "often"', 11, "key `expect.crash` is wrong"),
        ('los = "higher"', 11, "did you mean `loss`"),
    ],
)
def test_a_wrong_expectation_names_its_line(
    tmp_path: Path, expect: str, line: int, words: str
) -> None:
    check = checked(tmp_path, expect=expect)
    assert f"{line}: " in problems_of(check)
    assert words in problems_of(check)
    assert check.exit_status == 2


def test_an_unknown_recipe_names_the_nearest(tmp_path: Path) -> None:
    check = checked(tmp_path, recipe="nois")
    assert "5: key `recipe` names `nois`" in problems_of(check)
    assert "did you mean `noise`" in problems_of(check)


def test_a_folder_of_one_s_own_has_the_first_word_on_a_recipe(tmp_path: Path) -> None:
    catalogue = write_page(
        tmp_path, "@@ classify @@\n-0.0\n+3.0", 'loss = "higher"', recipe="classify"
    )
    own = NOISE.replace("def noise", "def classify")
    (tmp_path / "recipes" / "classify.py").write_text(own, encoding="utf-8")
    assert experiment(catalogue).recipe.text == own


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("def noise", "def nose", "has no function `noise`"),
        ("(lib, seed=0)", "(lib, sed=0)", r"takes \(lib, sed\)"),
        ("yield {", "_ = {", "yields no log"),
        ('    """No training', '    # """No training', "has no docstring"),
        ("for _ in", "for in", "is not Python"),
    ],
)
def test_a_text_that_is_not_a_recipe_is_refused(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    catalogue = write_page(tmp_path, text=NOISE.replace(old, new))
    with pytest.raises(PageError, match=words):
        experiment(catalogue)


def test_a_patch_that_does_not_fit_the_recipe_names_the_page(tmp_path: Path) -> None:
    check = checked(tmp_path, "@@ noise @@\n-no_such_thing\n+0")
    assert "matches nothing" in problems_of(check)
    write_page(tmp_path, SHIFT)
    path = tmp_path / "moved.md"
    path.write_text(path.read_text().replace("recipe  =", "sites = 3\nrecipe  ="))
    catalogue = open_catalogue([tmp_path])
    with pytest.raises(HunkError, match="states 3 sites"):
        experiment(catalogue)


def test_without_scipy_the_remedy_is_named_and_nothing_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recipe_module, "find_spec", lambda _: None)
    check = checked(tmp_path)
    assert "pip install 'breaklab[training]'" in problems_of(check)
    assert (check.exit_status, check.reports) == (3, [])


# ----- The check -----


def test_a_sound_page_holds(tmp_path: Path) -> None:
    check = checked(tmp_path)
    assert (problems_of(check), check.exit_status) == ("", 0)


@pytest.mark.parametrize(
    ("expect", "words"),
    [
        ('loss = "lower"', "says lower for `loss`; observed: higher, A = "),
        ('steps = "higher"', "says higher for `steps`; observed: same, A = 0.50"),
        ("", "states nothing about any metric"),
    ],
)
def test_a_page_that_is_not_so_fails(tmp_path: Path, expect: str, words: str) -> None:
    check = checked(tmp_path, expect=expect)
    assert words in problems_of(check)
    assert check.exit_status == 1


def test_the_check_of_all_pages_runs_one_tier_or_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue = write_page(tmp_path)
    monkeypatch.setattr(
        "harness.check.pages.check_page", lambda name, _: PageCheck(name, "", [], [], 0)
    )
    monkeypatch.setattr("harness.check.pages._prepare_baseline", lambda *_: None)
    many = {check.page for check in check_pages(context_of(catalogue), training=True)}
    others = {check.page for check in check_pages(context_of(catalogue))}
    assert "moved" in many
    assert "skip-unbroadcast" in others
    assert not many & others
    assert many | others >= catalogue.files.keys()


def test_the_matrix_leaves_the_tier_out(tmp_path: Path) -> None:
    catalogue = write_page(tmp_path)
    with pytest.raises(UsageError, match="no family `training`"):
        choose(catalogue, find_engine(), family="training")


# ----- The command line -----


def test_the_command_shows_the_table_and_what_one_run_would_have_told(tmp_path: Path) -> None:
    write_page(tmp_path)
    shown = harness("break", "moved", "--breaks", str(tmp_path), "--seeds", "12", "--no-cache")
    assert (shown.returncode, shown.stderr) == (0, "")
    for words in (
        "Predict the loss",
        "+    shift, divisor, entries = 3.0, 1.0, 2",
        "12 seeds",
        "↑ higher",
        "= same",
        "better than correct",
        "deployed_loss*",
        "of the broken logs",
        "Train more than once.",
        "The loss in the run with seed 0",
        "Everything is as the page says.",
    ):
        assert words in shown.stdout
    lines = re.findall(r"^  (correct|broken) +([▁-█]{2})  (\S+) to (\S+)\s*$", shown.stdout, re.M)
    assert [line[0] for line in lines] == ["correct", "broken"]


def test_in_a_narrow_window_no_number_of_the_table_is_cut(tmp_path: Path) -> None:
    write_page(tmp_path)
    arguments = ("break", "moved", "--breaks", str(tmp_path), "--seeds", "8")
    wide, narrow = (harness(*arguments, COLUMNS=columns).stdout for columns in ("80", "60"))
    assert "(" in wide.split("8 seeds")[1].split("median")[0]
    table = narrow.split("8 seeds")[1].split("median; * not in the log")[0]
    assert "(" not in table
    assert "…" not in table
    assert max(map(len, table.splitlines())) <= 60


def test_the_command_says_where_page_and_observation_part(tmp_path: Path) -> None:
    write_page(tmp_path, expect='loss = "lower"')
    shown = harness("break", "moved", "--breaks", str(tmp_path), "--seeds", "8", "--no-cache")
    assert shown.returncode == 1
    assert "the page says lower" in shown.stdout
    assert "Some results are not as the page says." in shown.stdout


def test_json_is_schema_1_with_the_keys_of_every_break(tmp_path: Path) -> None:
    write_page(tmp_path)
    shown = harness("break", "moved", "--breaks", str(tmp_path), "--json", "--seeds", "8")
    report = json.loads(shown.stdout)
    assert report.keys() >= {"schema", "break", "kind", "engine", "sites", "diff", "headline"}
    assert (report["schema"], report["break"], report["seeds"]) == (1, "moved", 8)
    assert report["metrics"][0].keys() >= {"metric", "clean", "broken", "verdict", "expected", "p"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("break", "moved", "--seeds", "1"), "--seeds is 1"),
        (("break", "moved", "--seeds", "9" * 20), "use at most 10000"),
        (("break", "moved", "--probe", "add-new-axis"), "has no probes"),
        (("break", "skip-unbroadcast", "--seeds", "5"), "does not need many seeds"),
        (("check", "moved", "--training"), "leave --training out"),
        (("matrix", "moved"), "diagnostics look at single runs"),
    ],
)
def test_a_wrong_command_is_one_message_with_its_remedy(
    tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    write_page(tmp_path)
    shown = harness(*arguments, "--breaks", str(tmp_path))
    assert (shown.returncode, shown.stdout) == (2, "")
    assert words in shown.stderr
    assert "remedy:" in shown.stderr


def test_list_and_diff_know_the_page(tmp_path: Path) -> None:
    write_page(tmp_path)
    assert "moved" in harness("list", "--breaks", str(tmp_path)).stdout
    shown = harness("diff", "moved", "--breaks", str(tmp_path)).stdout
    assert "recipes/noise.py" in shown
    assert "+    shift, divisor, entries = 3.0, 1.0, 2" in shown
