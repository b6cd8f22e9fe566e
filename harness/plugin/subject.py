"""What a run puts into which code.

`--breaks` puts the catalogue's breaks into an engine, and operators into the rules of an engine of
the user's own. `--breaks-rules` puts operators into other rules.
"""

from __future__ import annotations

import os.path
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.core.errors import UsageError
from harness.engines.engine import Engine, find_engine
from harness.grade.mutants import Mutant, mutants, select
from harness.pages.catalogue import Catalogue
from harness.plugin.baseline import Scope
from harness.rules import Rule, find_rules
from harness.runs.cache import Cache


@dataclass(frozen=True)
class Subject:
    """The engine, or the files with the rules, and what is put into it."""

    engine: Engine
    titles: Mapping[str, str]
    """The titles of the breaks, or of the mutants' operators, by id, in order."""
    load: Callable[[], Sequence[Mutant]]
    """Returns them in that order; slow if they are not cached."""
    claimed: Callable[[str], Sequence[Mutant]]
    """Returns the mutants that a test claims to kill with this id. Raises UsageError."""
    option: str
    """The option that names the engine or the files."""
    scope: Scope
    """Which entries of a baseline a run shows to be needed or not."""
    rules: Sequence[Rule] | None = None
    """The rules that operators are put into; None if only breaks are put into the engine."""

    @property
    def has_breaks(self) -> bool:
        """Whether breaks are put into an engine."""
        return self.option == "--breaks-engine"

    @property
    def noun(self) -> str:
        """What is put into the code: breaks, mutants, or both."""
        if not self.has_breaks:
            return "mutants"
        return "breaks and mutants" if self.rules else "breaks"


def find_subject(config: pytest.Config, catalogue: Catalogue, cache: Cache) -> Subject:
    """Return what the options name. Raises BreaklabError for a mistake in them."""
    if (target := config.getoption("breaks_rules")) is not None:
        if config.getoption("breaks") is not None:
            raise UsageError(
                "--breaks and --breaks-rules cannot be combined",
                "run pytest twice: once for the engine, once for your own rules",
            )
        return _of_rules(target, catalogue)
    pages = select(catalogue, _selection(config, catalogue))
    engine = _engine(config.getoption("breaks_engine"), catalogue, cache)
    is_whole = config.getoption("breaks_engine") is not None and config.getoption("breaks") == "all"
    rules, own = _own_rules(engine, catalogue) if is_whole else (None, ())

    def claimed(name: str) -> list[Mutant]:
        if name in catalogue.files and catalogue.page(name).front.kind == "operator":
            return [mutant for mutant in own if mutant.page.id == name]
        return mutants([catalogue.page(name, "break")], engine, cache)

    return Subject(
        engine,
        {page.id: page.title for page in pages} | {one.id: one.page.title for one in own},
        lambda: [*mutants(pages, engine, cache), *own],
        claimed,
        "--breaks-engine",
        Scope({page.id for page in pages}, catalogue.files, engine.sources if is_whole else ()),
        rules,
    )


def _own_rules(
    engine: Engine, catalogue: Catalogue
) -> tuple[Sequence[Rule] | None, Sequence[Mutant]]:
    """Return the rules of an engine, and their mutants."""
    from harness.engines.rule_files import is_searched
    from harness.grade.rule_mutants import operators, rule_mutants

    files = {file: text for file, text in engine.sources.items() if is_searched(file)}
    rules = find_rules(files)
    return rules, rule_mutants(operators(catalogue), rules, engine)


def _of_rules(target: str, catalogue: Catalogue) -> Subject:
    from harness.engines.rule_files import locate_rules
    from harness.grade.rule_mutants import operators, rule_mutants, rules_of

    located = locate_rules(target)
    rules = rules_of(located)
    found = rule_mutants(operators(catalogue), rules, located.engine)
    if not found:
        listed = ", ".join(rule.name for rule in rules)
        raise UsageError(
            f"no operator has a site in the rules {listed}",
            "name other files; `harness list --kind operator` lists the operators",
        )

    def claimed(name: str) -> list[Mutant]:
        catalogue.path(name)
        return [mutant for mutant in found if mutant.page.id == name]

    titles = {mutant.id: mutant.page.title for mutant in found}
    named = [rule.name for rule in rules] if located.rule else ()
    scope = Scope(files=located.files, rules=named)
    return Subject(located.engine, titles, lambda: found, claimed, "--breaks-rules", scope, rules)


def _selection(config: pytest.Config, catalogue: Catalogue) -> str:
    """Return which breaks are selected. A file name in their place is a file to collect."""
    selection: str = config.getoption("breaks")
    path = Path(config.invocation_params.dir) / selection.partition("::")[0]
    exists = os.path.exists(path)  # noqa: PTH110  a long list of breaks is no file name
    if exists and selection not in catalogue.files:
        given = config.args_source == pytest.Config.ArgsSource.ARGS
        config.args = [*(config.args if given else ()), selection]
        config.option.breaks = selection = "all"
    return selection


def _engine(name: str | None, catalogue: Catalogue, cache: Cache) -> Engine:
    if name is None:
        return find_engine()
    from harness.experiment.exploration import explore  # slow to import

    return explore(name, cache, catalogue.conventions).engine
