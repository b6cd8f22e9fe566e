"""The measurement: on a few mutants, and against the committed table."""

import os
from dataclasses import replace

import pytest

from harness.pages.probe import Probe
from harness.runs import cached_runs
from tests.adequacy.__main__ import (
    DOCUMENT,
    differences,
    measure,
    mutants_of,
    survivors,
    table,
    unneeded,
)
from tests.adequacy.cases import all_cases
from tests.adequacy.forks import map_in_forks
from tests.adequacy.modules import find_layers, layer_mutants
from tests.adequacy.mutants import Rule, find_rules, mutants, set_aside
from tests.adequacy.trial import ROOT, Bench, Result
from tests.harness.bundled import CATALOGUE
from tests.strength.mutants import Mutant

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")

RULES = {rule.name: rule for rule in find_rules(ROOT)}
FEW = ("movement.stack", "logits.logsumexp", "selection.minimum")


def some_probes(*names: str) -> list[Probe]:
    return [CATALOGUE.shared_probes[name] for name in names]


def test_every_rule_has_a_row_with_the_number_of_its_mutants() -> None:
    rows = DOCUMENT.read_text(encoding="utf-8").splitlines()
    for rule in (*RULES.values(), *find_layers(ROOT)):
        (row,) = [row for row in rows if row.startswith(f"| `{rule.name}`")]
        assert int(row.split("|")[2]) == len(mutants_of(rule)), "python -m tests.adequacy --update"


@pytest.mark.parametrize(
    ("layer", "probe"),
    [
        ("layers.Linear.forward", "linear-two-outputs"),
        ("layers.LSTMCell.forward", "lstm-three-steps"),
    ],
)
def test_mutants_of_a_layer_are_seen_only_in_the_gradients_of_its_own_leaves(
    monkeypatch: pytest.MonkeyPatch, layer: str, probe: str
) -> None:
    monkeypatch.setattr(cached_runs, "find_spec", lambda _: None)
    (rule,) = [rule for rule in find_layers(ROOT) if rule.name == layer]
    source = (ROOT / rule.path).read_bytes()
    own = [
        item
        for item in layer_mutants(ROOT, rule)
        if b"self.bias" in source[item.start : item.end] and item.operator == "detached"
    ]
    baseline = Bench(some_probes(probe), [])
    assert own
    for result in map_in_forks(lambda mutant: baseline.examine(rule, mutant), own, 1):
        assert result.probes == (probe,)
        assert result.alarm.startswith(f"{probe}: ")


def test_what_the_table_says_of_a_few_rules_is_what_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without oracles, which take seconds to start; other diagnostics raise an alarm as well."""
    monkeypatch.setattr(cached_runs, "find_spec", lambda _: None)
    reaching = ("stack-three", "logsumexp-thrice", "minimum-of-two", "minimum-broadcast")
    ops = tuple(name.partition(".")[2] for name in FEW)
    cases = [case for case in all_cases() if case.name.startswith(ops)]
    rules = [RULES[name] for name in FEW]
    results = measure(rules, probes=some_probes(*reaching), cases=cases)
    assert differences(results) == []
    assert survivors(results) == ""


@pytest.mark.slow
def test_what_the_table_says_of_the_rules_set_aside_is_what_is_found() -> None:
    pytest.importorskip("torch")
    results = measure(set_aside(list(RULES.values())), 2)
    assert differences(results) == []


def change(rule: Rule, after: str) -> Mutant:
    source = (ROOT / rule.path).read_bytes()
    return next(item for item in mutants(ROOT, rule) if after in item.apply(source).decode())


def examine(rule: Rule, mutant: Mutant, *probes: str) -> Result:
    cases = [case for case in all_cases() if case.name.startswith("add")]
    baseline = Bench(some_probes(*probes), cases)
    (result,) = map_in_forks(lambda mutant: baseline.examine(rule, mutant), [mutant], 1)
    return result


def test_a_probe_sees_only_what_it_exercises_and_a_training_runs_last() -> None:
    rule = RULES["elementwise.add"]
    mutant = change(rule, "return (g), unbroadcast(g, b.shape)")
    blind = examine(rule, mutant, "add-same-shape")
    assert (blind.wrong, blind.probes, blind.alarm) == (True, (), "")
    seen = examine(rule, mutant, "train-with-bias", "add-new-axis", "add-same-shape")
    assert (seen.wrong, seen.probes) == (True, ("add-new-axis",))
    assert seen.alarm.startswith("add-new-axis: ")


def test_a_mutant_that_changes_nothing_is_not_seen() -> None:
    rule = RULES["elementwise.add"]
    nothing = Mutant(rule.path, 0, 0, "", "none")
    result = examine(rule, nothing, "add-new-axis", "train-with-bias")
    assert (result.wrong, result.probes, result.alarm) == (False, (), "")


RESULT = Result(RULES["movement.stack"], mutants(ROOT, RULES["movement.stack"])[0], wrong=True)


def test_the_table_counts_what_is_wrong_seen_and_alarmed() -> None:
    results = [
        RESULT,
        replace(RESULT, probes=("a",)),
        replace(RESULT, probes=("a", "b"), alarm="a: shape"),
        replace(RESULT, wrong=False),
    ]
    assert "| `movement.stack` | 4 | 3 | 2 (66.7%) | 1 (33.3%) |\n" in table(results)
    assert "| **all** | 4 | 3 | 2 (66.7%) | 1 (33.3%) |\n" in table(results)
    assert differences(results) == ["movement.stack"]


def test_survivors_are_diffs_with_the_reason() -> None:
    assert survivors([replace(RESULT, probes=("a",), alarm="a: shape")]) == ""
    assert survivors([replace(RESULT, wrong=False)]) == ""
    assert survivors([RESULT]).startswith("# movement.stack, ")
    assert ": not seen\n--- minigrad/movement.py" in survivors([RESULT])
    assert ": no alarm, only seen by a\n" in survivors([replace(RESULT, probes=("a",))])
    odd = replace(RESULT, wrong=False, probes=("a",))
    assert ": equivalent, but a sees it\n" in survivors([odd])


def test_of_two_probes_that_see_the_same_one_is_needed() -> None:
    results = [replace(RESULT, probes=("expand", "pad"))]
    found = unneeded(results)
    assert "add-new-axis" not in found  # a page states it
    assert ("expand" in found) != ("pad" in found)


def test_values_come_back_in_order_from_any_number_of_processes() -> None:
    assert map_in_forks(lambda item: item * 2, [1, 2, 3, 4, 5], 2) == [2, 4, 6, 8, 10]
    assert map_in_forks(lambda _: os.getpid(), [1, 2], 1).count(os.getpid()) == 0


def test_a_process_that_ends_without_a_value_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="without a result"):
        map_in_forks(lambda _: os._exit(3), [1], 1)
