"""The invariant of a page with a recipe: how often it fails on correct and on broken logs."""

from pathlib import Path

import numpy as np
import pytest

from harness.check.pages import PageCheck, check_page
from harness.engines.engine import find_engine
from harness.experiment.baseline import Baseline, OpenContext
from harness.pages.catalogue import open_catalogue
from harness.runs.cache import open_cache
from tests.harness.training.made import SHIFT, instead, write_page

pytest.importorskip("scipy.stats")

LOSS_IS_LOW = "def loss_is_low(log):\n    assert log[-1]['loss'] < 1.5\n"
SOMETIMES = instead("rng.standard_normal() + (1 / 0 if seed % 2 else 3.0)")


def checked(
    folder: Path, invariant: str = LOSS_IS_LOW, keys: str = "", alarms: str = "", diff: str = SHIFT
) -> PageCheck:
    """Check the page of a shifted loss, with this invariant and these alarms."""
    crash = '\ncrash = "sometimes"' if diff == SOMETIMES else ""
    write_page(folder, diff, f'loss = "higher"{crash}')
    path = folder / "moved.md"
    text = path.read_text()
    if invariant:
        text = text.replace('no_invariant = "Those who test it write their own."\n', "")
    text = text.replace("[expect]", f"{keys}\n[expect]")
    text = text.replace("+++\n# A", f"{alarms}\n+++\n# A")
    block = (
        f"## Diagnostic\n\n```python invariant\n{invariant}```\n"
        if invariant
        else "## Diagnostic\n"
    )
    path.write_text(text.replace("## Diagnostic\n", block), encoding="utf-8")
    catalogue = open_catalogue([folder])
    return check_page("moved", OpenContext(catalogue, find_engine(), Baseline(open_cache())))


def findings(check: PageCheck) -> list[str]:
    return [finding.problem for finding in check.findings]


def shares() -> tuple[float, float]:
    """The shares of the 20 seeds with which the last loss is too high, unshifted and shifted."""
    lasts = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        lasts.append([rng.standard_normal() for _ in range(2)][-1])
    return np.mean([x >= 1.5 for x in lasts]), np.mean([x + 3 >= 1.5 for x in lasts])


def stated(false: float, true: float) -> str:
    return f"\n[alarms]\nfalse = {false}\ntrue = {true}\n"


def test_the_alarms_are_counted_over_the_seeds(tmp_path: Path) -> None:
    false, true = shares()
    assert 0 <= false < 0.2 < 0.8 < true
    check = checked(tmp_path, alarms=stated(round(false, 2), round(true, 2)))
    assert findings(check) == []
    (report,) = check.reports
    assert report.alarms
    assert (report.alarms.false, report.alarms.true) == (false, true)
    assert report.invariant == "assert log[-1]['loss'] < 1.5"


def test_shares_may_be_off_by_a_tenth(tmp_path: Path) -> None:
    false, true = shares()
    assert findings(checked(tmp_path, alarms=stated(false + 0.09, true - 0.09))) == []
    assert findings(checked(tmp_path, alarms=stated(false + 0.11, true - 0.11))) == [
        f"says {false + 0.11} for alarms.false; observed: {false:.2f}",
        f"says {true - 0.11} for alarms.true; observed: {true:.2f}",
    ]


def test_alarms_that_are_not_stated_are_findings(tmp_path: Path) -> None:
    false, true = shares()
    assert findings(checked(tmp_path)) == [
        f"says None for alarms.false; observed: {false:.2f}",
        f"says None for alarms.true; observed: {true:.2f}",
    ]


def test_an_invariant_must_fail_more_often_on_broken_runs(tmp_path: Path) -> None:
    always = "def never(log):\n    assert not log\n"
    problem, *_ = findings(checked(tmp_path, always, alarms=stated(1.0, 1.0)))
    assert (
        problem
        == "the invariant fails on 100% of the correct runs, and on only 100% of the broken ones"
    )


def test_an_invariant_sees_no_later_data(tmp_path: Path) -> None:
    looks = "def f(log):\n    assert log[-1]['deployed_loss'] < 1.5\n"
    (problem,) = findings(checked(tmp_path, looks, alarms=stated(0.0, 1.0)))
    assert problem.startswith(
        "the invariant stops before an assertion fails, with seed-0: KeyError"
    )


def test_a_run_that_crashes_is_not_judged(tmp_path: Path) -> None:
    check = checked(tmp_path, alarms=stated(0.1, 1.0), diff=SOMETIMES)
    (report,) = check.reports
    assert report.crash.count == 10
    assert report.alarms
    assert report.alarms.true == pytest.approx(
        np.mean([_last(seed) > -1.5 for seed in range(0, 20, 2)])
    )


def _last(seed: int) -> float:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal() for _ in range(2)][-1]


@pytest.mark.parametrize(
    ("invariant", "keys", "alarms", "problem"),
    [
        ("", "", stated(0.1, 0.9), "has `[alarms]`, but no invariant"),
        (LOSS_IS_LOW, 'no_invariant = "No."', stated(0.1, 0.9), "`no_invariant` on a page that"),
        ("def f(lib, rng):\n    assert lib\n", "", "", "`def f(lib, rng)` is not an invariant"),
        (LOSS_IS_LOW, "", stated(-0.1, 0.9), "key `alarms.false` is wrong"),
        (LOSS_IS_LOW, "", "\n[alarms]\nfalse = 0.1\n", "key `alarms.true` is missing"),
    ],
)
def test_a_page_that_contradicts_itself_is_a_finding(
    tmp_path: Path, invariant: str, keys: str, alarms: str, problem: str
) -> None:
    assert problem in "".join(findings(checked(tmp_path, invariant, keys, alarms)))


def test_a_report_with_false_alarms_is_not_as_the_page_says(tmp_path: Path) -> None:
    false, true = shares()
    (right,) = checked(tmp_path, alarms=stated(round(false, 2), round(true, 2))).reports
    (wrong,) = checked(tmp_path, alarms=stated(round(false, 2) + 0.2, round(true, 2))).reports
    assert (right.agrees, wrong.agrees) == (True, False)
