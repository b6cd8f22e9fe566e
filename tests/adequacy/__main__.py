"""Measure how many wrong mutants of minigrad's backward rules the shared probes see."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from harness.core.files import write_file
from harness.pages.catalogue import open_catalogue
from harness.pages.probe import Probe
from tests.adequacy.cases import all_cases
from tests.adequacy.forks import map_in_forks
from tests.adequacy.modules import find_layers, layer_mutants
from tests.adequacy.mutants import Rule, find_rules, mutants, set_aside
from tests.adequacy.trial import ROOT, Bench, Result
from tests.adequacy.truth import Case
from tests.strength.mutants import Mutant

DOCUMENT = ROOT / "docs" / "adequacy.md"
START, END = "<!-- made by python -m tests.adequacy --update -->\n", "<!-- end -->\n"


def main() -> int:
    """Measure, and print a table and what survives."""
    parser = argparse.ArgumentParser(prog="python -m tests.adequacy", description=__doc__)
    parser.add_argument("rules", nargs="*", help="only these, such as elementwise.sub")
    parser.add_argument("--aside", action="store_true", help="only the rules that were set aside")
    parser.add_argument("--jobs", type=int, default=2, help="how many mutants are run at a time")
    parser.add_argument("--probes", action="store_true", help="also list probes without use")
    parser.add_argument("--check", action="store_true", help="fail if docs/adequacy.md differs")
    parser.add_argument("--update", action="store_true", help="write docs/adequacy.md")
    options = parser.parse_args()
    rules = [*find_rules(ROOT), *find_layers(ROOT)]
    if unknown := set(options.rules) - {rule.name for rule in rules}:
        parser.error(f"no rule {', '.join(sorted(unknown))}")
    if options.update and (options.rules or options.aside):
        parser.error("--update writes the whole table: choose no rules")
    if options.aside:
        rules = set_aside(find_rules(ROOT))
    if options.rules:
        rules = [rule for rule in rules if rule.name in options.rules]
    results = measure(rules, options.jobs, every=options.probes)
    print(table(results), survivors(results), sep="\n", end="")
    if options.probes:
        print("Neither a page nor a mutant needs", ", ".join(unneeded(results)) or "nothing")
    if options.update:
        before, _, rest = DOCUMENT.read_text(encoding="utf-8").partition(START)
        text = before + START + table(results) + END + rest.partition(END)[2]
        write_file(DOCUMENT, text)
    if options.check and (wrong := differences(results)):
        print("docs/adequacy.md has another row for", ", ".join(wrong))
        return 1
    return 0


def measure(
    rules: Sequence[Rule],
    jobs: int = 1,
    *,
    probes: Sequence[Probe] | None = None,
    cases: Sequence[Case] | None = None,
    every: bool = False,
) -> list[Result]:
    """Return the results of all mutants of these rules, in the order of the rules.

    If None, `probes` and `cases` are all that exist; for `every`, see `Bench.examine`.
    """
    shared = list(open_catalogue().shared_probes.values())
    baseline = Bench(shared if probes is None else probes, all_cases() if cases is None else cases)
    tasks = [(rule, mutant) for rule in rules for mutant in mutants_of(rule)]
    return map_in_forks(lambda task: baseline.examine(*task, every=every), tasks, jobs)


def mutants_of(rule: Rule) -> list[Mutant]:
    """Return the mutants of an op's rule or of a layer's method."""
    is_method = "." in rule.function
    return layer_mutants(ROOT, rule) if is_method else mutants(ROOT, rule)


# ----- What is printed -----


def table(results: Sequence[Result]) -> str:
    """Return a Markdown table: a row for each rule, and the sums."""
    aside = {rule.name for rule in set_aside(find_rules(ROOT))}
    rows = ["| rule | mutants | wrong | seen by a probe | alarm of a diagnostic |\n"]
    rows.append("| --- | ---: | ---: | ---: | ---: |\n")
    for name in dict.fromkeys(result.rule.name for result in results):
        own = [result for result in results if result.rule.name == name]
        rows.append(_row(f"`{name}`{', set aside' if name in aside else ''}", own))
    parts = {
        "**set aside**": [result for result in results if result.rule.name in aside],
        "**the others**": [
            result
            for result in results
            if result.rule.name not in aside and "." not in result.rule.function
        ],
        "**the layers' own code**": [result for result in results if "." in result.rule.function],
        "**all**": results,
    }
    return "".join(rows) + "".join(_row(name, own) for name, own in parts.items() if own)


def _row(name: str, results: Sequence[Result]) -> str:
    wrong = [result for result in results if result.wrong]
    seen = sum(bool(result.probes) for result in wrong)
    alarms = sum(bool(result.alarm) for result in wrong)
    cells = [name, len(results), len(wrong), *(_share(n, len(wrong)) for n in (seen, alarms))]
    return f"| {' | '.join(map(str, cells))} |\n"


def _share(count: int, total: int) -> str:
    return str(count) if count == total else f"{count} ({count / total:.1%})"


def survivors(results: Sequence[Result]) -> str:
    """Return the wrong mutants that no probe sees, or no diagnostic, as diffs.

    Also those that are not wrong, although a probe sees them: the truth would lack a case.
    """
    found = []
    for result in results:
        if result.wrong and result.probes and result.alarm:
            continue
        if not result.wrong and not result.probes:
            continue
        if not result.wrong:
            what = f"equivalent, but {result.probes[0]} sees it"
        else:
            what = f"no alarm, only seen by {result.probes[0]}" if result.probes else "not seen"
        diff = result.mutant.diff((ROOT / result.rule.path).read_bytes())
        found.append(f"# {result.rule.name}, {result.mutant.operator}: {what}\n{diff}")
    return "\n".join(found)


def unneeded(results: Sequence[Result]) -> list[str]:
    """Return shared probes that no page states, and without which all mutants are still seen.

    They may be the only ones to see a bug elsewhere than in a rule.
    """
    catalogue = open_catalogue()
    tables = [table for page in catalogue.valid_pages() for table in page.expect.values()]
    rest = [set(result.probes) for result in results if result.wrong and result.probes]
    found = []
    for name in sorted(catalogue.shared_probes.keys() - {n for table in tables for n in table}):
        without = [probes - {name} for probes in rest]
        if all(without):
            rest = without
            found.append(name)
    return found


def differences(results: Sequence[Result]) -> list[str]:
    """Return the rules whose row in the document is another one."""
    document = DOCUMENT.read_text(encoding="utf-8")
    rows = table(results).splitlines(keepends=True)[2:]
    return [row.split("`")[1] for row in rows if row.startswith("| `") and row not in document]


if __name__ == "__main__":
    sys.exit(main())
