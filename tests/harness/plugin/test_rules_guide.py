"""docs/your-rules.md: its example runs, and its options and operators exist."""

import re
from pathlib import Path

import pytest

from harness.grade.rule_mutants import operators
from harness.pages.catalogue import open_catalogue
from harness.plugin import entry
from harness.plugin.baseline import read_baseline
from harness.report.documents import END
from tests.harness.plugin.test_rules import Result, run

ROOT = Path(__file__).parents[3]
GUIDE = (ROOT / "docs" / "your-rules.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", GUIDE, re.M | re.S)
RULE, FIRST, SECOND, CHECK = (text for language, text in BLOCKS if language == "python")
SUMMARIES = [text for language, text in BLOCKS if language == "text"]


def result_of(suite: str, folder: Path) -> Result:
    package = folder / "package"
    package.mkdir()
    (package / "ops.py").write_text(RULE)
    (package / "test_ops.py").write_text(suite)
    return run(package, "--breaks-rules=ops.py")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("suite", "shown"),
    [(FIRST, SUMMARIES[0]), (SECOND, SUMMARIES[1]), (FIRST, SUMMARIES[2])],
    ids=["step 2", "step 3", "the call to paste"],
)
def test_the_summary_is_as_the_guide_shows_it(suite: str, shown: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    text = re.sub(r"in [\d.]+ s", "in 1.0 s", result_of(suite, tmp_path).summary)
    for line in re.sub(r"in [\d.]+ s", "in 1.0 s", shown).splitlines():
        assert line in text


@pytest.mark.slow
def test_check_rule_kills_what_the_test_of_step_3_kills(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    text = result_of(CHECK, tmp_path).summary
    assert SUMMARIES[1].partition(" in ")[0] in text
    assert "the same 15 mutants" in GUIDE


@pytest.mark.slow
def test_the_table_of_checks_is_what_a_run_gives() -> None:
    pytest.importorskip("torch")
    from tests import rule_table  # it needs PyTorch

    _, _, rest = GUIDE.partition(rule_table.START)
    assert rest.partition(END)[0] == rule_table.table()


def test_the_options_exist() -> None:
    source = Path(entry.__file__).read_text(encoding="utf-8")
    assert {o for o in re.findall(r"--breaks[\w-]*", GUIDE) if f'"{o}"' not in source} == set()


def test_the_operators_exist() -> None:
    ids = {page.id for page in operators(open_catalogue())}
    named = set(re.findall(r"harness show ([a-z-]+)", GUIDE))
    named |= set(re.findall(r"^ +ops.py:\d+ +([a-z-]+)  ", GUIDE, re.M))
    assert named
    assert named <= ids
    assert "applies 35 bug" in GUIDE
    assert len(ids) == 35


def test_the_entry_of_a_baseline_is_valid(tmp_path: Path) -> None:
    (text,) = (text for language, text in BLOCKS if language == "toml")
    (tmp_path / "known.toml").write_text(text)
    (entry,) = read_baseline(tmp_path / "known.toml", may_be_missing=False)
    code = SUMMARIES[1].splitlines()[-1].partition("sum-dropped  ")[2]
    assert f"{entry.before} -> {entry.after}" == code
    assert entry.equivalent
