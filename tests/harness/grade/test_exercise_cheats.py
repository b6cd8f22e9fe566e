"""Files that know nothing of derivatives, and look at the engine's code instead: they earn nothing.

Tests are graded as in `harness grade`, so the cheats are those of `tests/hostile/suites`. A probe
runs in another process, where it can look at the text from which the engine was loaded.
"""

from pathlib import Path

import pytest

from harness.diagnostics import DIAGNOSTICS
from harness.experiment.baseline import Baseline, OpenContext
from harness.grade import processes, survivors
from harness.grade.exercise import ExerciseReport, is_suite_file, run_exercise
from harness.grade.probes import Attack, read_submission
from harness.pages.front_matter import Exercise
from harness.runs.cache import open_cache
from harness.sandbox.limits import Limits
from tests.harness.bundled import CATALOGUE, bundled_pages
from tests.harness.grade.test_twins import ENGINE

pytestmark = pytest.mark.usefixtures("without_oracles")

EXERCISES = [page.id for page in bundled_pages() if isinstance(page.front, Exercise)]
SUITES = Path(__file__).parents[2] / "hostile" / "suites"
CHEATS = sorted(path.stem for path in (SUITES / "cheats").glob("*.py"))
REACHED = "sub-sign"
"""A break of the exercise below that every cheat reaches."""
SEED = b"unknown"

LOOKS = """
import linecache, os
from pathlib import Path


def _is_changed(lib):
    files = Path(lib.__file__).parent.rglob("*.py")
    return any("".join(linecache.getlines(str(file))) != file.read_text() for file in files)
"""


def _probe(name: str, then: str) -> str:
    body = f'    "Looks."\n    if _is_changed(lib):\n        {then}\n    return x\n'
    return f"\n\ndef {name}(lib, x=[1.0, 2.0]):\n{body}"


PROBES = LOOKS + "".join(
    _probe(name, then)
    for name, then in {
        "fails": "raise ValueError",
        "aborts": "os.abort()",
        "scales": "x = x * x.data",
        "stores": "x.data += 1.0",
    }.items()
)


@pytest.fixture(scope="module")
def baseline() -> Baseline:
    alone = [each for each in DIAGNOSTICS if each.name in ("crash", "shape", "gradcheck", "purity")]
    return Baseline(open_cache(), alone, Limits(seconds=120, cpu_seconds=60))


def attempt(folder: Path, exercise: str, text: str, baseline: Baseline) -> ExerciseReport:
    file = folder / "mine.py"
    file.write_text(text, encoding="utf-8")
    context, page = OpenContext(CATALOGUE, ENGINE, baseline), CATALOGUE.page(exercise)
    if is_suite_file(file):
        return run_exercise(page, context, seed=SEED, suite_file=file)
    return run_exercise(page, context, read_submission(file), SEED)


def assert_earns_nothing(report: ExerciseReport) -> None:
    assert not any(result.problems for result in report.probes)
    assert (report.killed, report.score) == (False, 0)
    for attack in report.attacks:
        assert attack.killed_by == {}
        assert attack.stage != "revealed"


def attack_with(name: str, folder: Path, baseline: Baseline, honest: str = "") -> Attack:
    """What a cheat does to the break that it reaches."""
    texts = ((SUITES / "prelude.py"), (SUITES / "cheats" / f"{name}.py"))
    text = "".join(path.read_text() for path in texts) + honest
    report = attempt(folder, "grad-is-there", text, baseline)
    if not honest:
        assert_earns_nothing(report)
    (attack,) = (attack for attack in report.attacks if attack.break_ == REACHED)
    return attack


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == "linecache_and_disk" else pytest.mark.slow)
        for name in CHEATS
        if name not in ("abort", "hash_of_the_code")  # below
    ],
)
def test_a_test_that_looks_at_the_code_kills_nothing(
    tmp_path: Path, name: str, baseline: Baseline, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (processes, survivors):
        monkeypatch.setattr(module, "PATIENCE", 5.0 if name == "hang" else 300.0)
    assert attack_with(name, tmp_path, baseline).stage != "not-reached"


def test_a_test_that_recognises_code_is_named(tmp_path: Path, baseline: Baseline) -> None:
    attack = attack_with("hash_of_the_code", tmp_path, baseline)
    assert attack.recognised == ["test"]
    assert "recognises code, not behaviour" in str(attack.why)


def test_the_end_of_the_process_is_not_a_kill(tmp_path: Path, baseline: Baseline) -> None:
    attack = attack_with("abort", tmp_path, baseline)
    how = "the process ended with SIGABRT"
    assert attack.ended == {"test": how}
    assert str(attack.why) == f"`test` ends its process, which is not a kill: {how}"


# What "scales" computes meets that break, too: some diagnostics alarm only on the broken engine.
@pytest.mark.parametrize(
    "exercise",
    [
        pytest.param(name, marks=() if name == "checker-that-skips" else pytest.mark.slow)
        for name in EXERCISES
    ],
)
def test_a_probe_that_looks_at_the_code_kills_nothing(
    tmp_path: Path, exercise: str, baseline: Baseline
) -> None:
    report = attempt(tmp_path, exercise, PROBES, baseline)
    assert_earns_nothing(report)
    for attack in report.attacks:
        assert set(attack.recognised) == {"fails", "scales", "stores"}
        assert attack.ended.keys() == {"aborts"}


def test_what_is_written_for_behaviour_kills_beside_a_cheat(
    tmp_path: Path, baseline: Baseline
) -> None:
    honest = """

def test_difference(lib):
    a, b = (lib.tensor([x], requires_grad=True) for x in (2.0, 5.0))
    (a - b).sum().backward()
    assert b.grad[0] == -1.0
"""
    attack = attack_with("hash_of_the_code", tmp_path, baseline, honest)
    assert (attack.killed_by, attack.stage) == ({"test_difference": ["test"]}, "revealed")
