"""`--breaks-baseline`: a run fails only on what is not in the file."""

import tomllib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest

from harness.core.errors import PageError
from harness.grade.suite import BreakResult, Fate, RuleChange, SuiteReport
from harness.plugin.baseline import Entry, Scope, compare, normalized, read_baseline, write_baseline
from tests.harness.plugin.process import ALONE, Result
from tests.harness.plugin.test_breaks import run_with_plugins
from tests.harness.plugin.test_rules import ENGINE, example, run, written
from tests.harness.report.published import Sarif

USE = "--breaks-baseline=known.toml"
UPDATE = (USE, "--breaks-baseline-update")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return example(tmp_path, "engine.py", "engine_suite.py")


def entries_of(folder: Path) -> list[dict[str, Any]]:
    mutants: list[dict[str, Any]] = tomllib.loads((folder / "known.toml").read_text())["mutant"]
    return mutants


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


# ----- In a run -----


def test_a_run_fails_on_new_survivors_only(folder: Path) -> None:
    first = run(folder, *ENGINE, *UPDATE)
    assert first.status == 0
    missed = sum(fate != "killed" for fate in first.fates.values())
    assert f"wrote known.toml: {missed} entries, {missed} of them new; 0 removed" in first.text
    engine = folder / "engine.py"
    engine.write_text("# a line that moves everything\n\n" + engine.read_text())
    again = run(folder, *ENGINE, USE)
    assert again.status == 0
    assert f"In the baseline, and not listed: {missed}" in again.summary
    assert "Survivors (" not in again.summary
    edit(folder / "engine_suite.py", "def test_matmul", "def no_test_matmul")
    weaker = run(folder, *ENGINE, USE)
    assert weaker.status == 1
    new = [entry for entry in weaker.report["breaks"] if entry.get("baseline") == "new"]
    assert new
    assert all("matmul" in entry["break"] for entry in new)
    assert f"ERROR: {len(new)} are not killed and not in known.toml" in weaker.text


def test_an_equivalent_mutant_does_not_count_and_the_formats_say_why(folder: Path) -> None:
    run(folder, *ENGINE, *UPDATE)
    before = len(entries_of(folder))
    line = 'id = "added-twice@Tensor.relu._backward"\n'
    edit(folder / "known.toml", line, line + 'equivalent = "it is \\"scaled\\" away"\n')
    files = [f"--breaks-{form}={folder.parent / form}" for form in ("junit", "sarif")]
    result = run(folder, *ENGINE, *UPDATE, *files)
    assert "Equivalent, as the baseline says, and not counted: 1" in result.summary
    assert len(result.report["breaks"]) - result.report["of"] == 1
    assert len(entries_of(folder)) == before
    reasons = [one["equivalent"] for one in entries_of(folder) if "equivalent" in one]
    (log,) = msgspec.json.decode((folder.parent / "sarif").read_bytes(), type=Sarif).runs
    assert {one.baselineState for one in log.results} == {"unchanged"}
    shown = [one.justification for result in log.results for one in result.suppressions]
    assert reasons == shown == ['it is "scaled" away']
    cases = list(ElementTree.parse(folder.parent / "junit").iter("testcase"))
    assert [case for case in cases if case.find("failure") is not None] == []
    skipped = [found for case in cases if (found := case.find("skipped")) is not None]
    assert len(skipped) == before
    messages = [one.get("message", "") for one in skipped]
    assert 'equivalent, as the baseline says: it is "scaled" away' in messages


def test_entries_that_are_not_needed_are_named_and_removed(folder: Path) -> None:
    run(folder, *ENGINE, *UPDATE)
    with (folder / "known.toml").open("a") as file:
        file.write('[[mutant]]\nid = "sum-dropped@Gone.backward"\nfile = "engine.py"\n')
        file.write('[[mutant]]\nid = "sum-dropped@Other.backward"\nfile = "other.py"\n')
        file.write('[[break]]\nid = "unbroadcast-mean"\n')
    result = run(folder, *ENGINE, USE)
    assert result.status == 0
    assert "No longer needed in known.toml (1): sum-dropped@Gone.backward;" in result.text
    run(folder, *ENGINE, *UPDATE)
    kept = read_baseline(folder / "known.toml", may_be_missing=False)
    others = {one.id for one in kept if one.file != "engine.py"}
    assert others == {"unbroadcast-mean", "sum-dropped@Other.backward"}


def test_breaks_of_the_catalogue_with_workers(tmp_path: Path) -> None:
    file = tmp_path / "known.toml"
    selection = "--breaks=sub-sign,unbroadcast-mean,tanh-uses-input"
    options = (selection, f"--breaks-baseline={file}", "-n2", "-p", "no:hypothesispytest")
    written = run_with_plugins(tmp_path, *options, "--breaks-baseline-update")
    assert written.status == 0
    known = read_baseline(file, may_be_missing=False)
    assert [one.id for one in known] == ["tanh-uses-input", "unbroadcast-mean"]
    file.write_text('[[break]]\nid = "unbroadcast-mean"\nequivalent = "the mean is meant"\n')
    result = run_with_plugins(tmp_path, selection, f"--breaks-baseline={file}", *ALONE)
    assert result.status == 1
    assert result.report["score"] == 50.0
    assert f"1 is not killed and not in {file}" in result.text


def test_a_suite_that_fails_writes_no_baseline(folder: Path) -> None:
    with (folder / "engine_suite.py").open("a") as file:
        file.write("\n\ndef test_fails():\n    assert False\n")
    result = run(folder, *ENGINE, *UPDATE)
    assert result.status == 1
    assert not (folder / "known.toml").exists()
    assert "known.toml was not written, since no mutant or break was tried" in result.text


BAD = {
    "[[mutant]\n": "it is not a baseline",
    '[[mutant]]\nid = "a@b"\nfile = "f.py"\nreason = "x"\n': "unknown field `reason`",
    '[[mutant]]\nid = "sub-sign"\n': "`sub-sign` is not a valid entry of [[mutant]]",
    '[[break]]\nid = "a@B.backward"\n': "`a@B.backward` is not a valid entry of [[break]]",
    '[[mutant]]\nid = "a@b"\nfile = "f.py"\nnumber = 0\n': ">= 1",
    '[[mutant]]\nfile = "f.py"\n': "missing required field `id`",
}


@pytest.mark.parametrize(("text", "problem"), BAD.items())
def test_an_invalid_file(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "known.toml"
    file.write_text(text)
    with pytest.raises(PageError, match=r"known\.toml:\d+: ") as raised:
        read_baseline(file, may_be_missing=True)
    assert problem in str(raised.value)
    assert "--breaks-baseline-update" in str(raised.value)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--breaks-baseline-update"], "--breaks-baseline-update needs a baseline"),
        ([USE], "no baseline known.toml"),
        (["--breaks-baseline=.", "--breaks-baseline-update"], "it is a folder"),
        (["--breaks-baseline=."], ".:1: it is not a regular file"),
    ],
)
def test_a_mistake_in_the_options(folder: Path, options: list[str], problem: str) -> None:
    result: Result = run(folder, *ENGINE, *options)
    assert result.status == 4
    assert problem in result.text
    assert "remedy: " in result.text
    assert "Traceback" not in result.text


def test_a_run_in_which_all_mutants_are_equivalent(tmp_path: Path) -> None:
    rule = "def scale(x, k):\n    def vjp(g):\n        return -g\n    return -x, vjp\n"
    test = "import ops\n\ndef test_scale():\n    assert ops.scale(1.0, 2.0)[1](0.0) == 0.0\n"
    folder = written(tmp_path, ops=rule, test_ops=test)
    run(folder, "--breaks-rules=ops.py", *UPDATE)
    (entry,) = entries_of(folder)
    line = f'id = "{entry["id"]}"\n'
    edit(folder / "known.toml", line, line + 'equivalent = "zero has no sign"\n')
    result = run(folder, "--breaks-rules=ops.py", USE)
    assert result.status == 0
    assert "Equivalent, as the baseline says, and not counted: 1" in result.summary
    assert "was tried" not in result.summary
    assert "Nothing can be said" not in result.summary
    assert "equivalent" in result.report["reason"]


# ----- The comparison -----


def mutant(line: int, before: str, fate: Fate = "survived", rule: str = "Mul") -> BreakResult:
    return BreakResult(
        break_=f"sum-dropped@{rule}.backward:{line}",
        family="sums",
        level=1,
        fate=fate,
        by=[],
        reached_by=[],
        path=None,
        seconds=0.0,
        file="ops.py",
        line=line,
        change=RuleChange("sum-dropped", rule, "class", "backward", before, "g", "write it"),
    )


def report(*results: BreakResult) -> SuiteReport:
    return SuiteReport(1, [], "ops.py", True, "", 1, list(results), {}, 0.0)


ALL = Scope(files=["ops.py"])


@pytest.mark.parametrize(
    ("written", "formatted"),
    [
        ("g.sum( 0 )", "g.sum(0)"),
        ("x['a']", 'x["a"]'),
        ("np.sum(g, axis=0)", "np.sum(; g,; axis=0,; )"),
        ("return g", "return (g)"),
        ("else: return g", "else:  return g"),
    ],
)
def test_a_formatter_does_not_make_a_mutant_new(written: str, formatted: str) -> None:
    assert normalized(written) == normalized(formatted)


def test_mutants_that_look_the_same_are_numbered() -> None:
    first = report(mutant(3, "g.sum(0)"), mutant(5, "g.sum(0)", "killed"))
    entries = compare(first, [], ALL).entries
    assert [one.number for one in entries] == [1]
    second = report(mutant(3, "g.sum(0)", "killed"), mutant(5, "g.sum(0)"))
    compared = compare(second, entries, ALL)
    assert list(compared.new) == ["sum-dropped@Mul.backward:5"]
    assert list(compared.stale) == ["sum-dropped@Mul.backward"]


def test_an_entry_for_a_rule_that_was_not_run_is_kept() -> None:
    entries = compare(report(mutant(3, "g.sum(0)", rule="Add")), [], ALL).entries
    scope = Scope(files=["ops.py"], rules=["Mul", "Old.Mul"])
    compared = compare(report(mutant(9, "g.sum(1)")), entries, scope)
    assert list(compared.stale) == []
    kept = {one.id for one in compared.entries}
    assert kept == {"sum-dropped@Add.backward", "sum-dropped@Mul.backward"}


def test_an_entry_is_stale_for_any_of_the_rules_with_a_name() -> None:
    missed = report(*(mutant(3, "g.sum(0)", rule=rule) for rule in ("Add", "Mul", "Old.Mul")))
    entries = compare(missed, [], ALL).entries
    compared = compare(report(), entries, Scope(files=["ops.py"], rules=["Mul", "Old.Mul"]))
    assert list(compared.stale) == ["sum-dropped@Mul.backward", "sum-dropped@Old.Mul.backward"]


def test_a_site_that_was_rewritten_is_new() -> None:
    entries = compare(report(mutant(3, "g.sum(0)")), [], ALL).entries
    compared = compare(report(mutant(3, "g.sum(1)")), entries, ALL)
    assert len(compared.new) == len(compared.stale) == 1


def test_any_code_can_be_written_and_read(tmp_path: Path) -> None:
    codes = ['"\\n"', "x = 'é\x7f\t\u2028\x01'", '"""a"""', "a\\b", ""]
    entries = [Entry(f"cast-dropped@R{i}", "ops.py", code, code) for i, code in enumerate(codes)]
    write_baseline(tmp_path / "known.toml", entries)
    assert read_baseline(tmp_path / "known.toml", may_be_missing=False) == entries
