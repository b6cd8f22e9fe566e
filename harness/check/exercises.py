"""The check of an exercise: its suite is as weak as the page says, and its answer is an answer."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from weakref import WeakKeyDictionary

from harness.core.errors import BreaklabError, DoesNotApply
from harness.core.finding import Finding, finding_from
from harness.engines.engine import Engine
from harness.experiment.baseline import Bench
from harness.experiment.lab import Experiment, run_lab
from harness.grade.exercise import (
    Fate,
    SuiteTest,
    fates,
    passes,
    read_answer,
    read_suite,
    run_suite,
)
from harness.grade.submission import attack, bare, try_clean
from harness.pages.catalogue import Catalogue
from harness.pages.page import Page
from harness.pages.probe import Probe

FOREIGN_KEYS = ("sites", "transformer", "expect", "diagnostics", "pardon")
"""Keys of the front matter that say something about a patch; an exercise has none."""

CONTROL = "sabotage"
"""The page that makes the engine wrong everywhere: what passes there as well cannot fail."""


def check_exercise(
    page: Page, catalogue: Catalogue, engine: Engine, bench: Bench
) -> Iterator[Finding]:
    """What is wrong with an exercise beside its prose.

    Raises PageError for a suite or an answer that cannot be read.
    """
    yield from _check_front(page)
    unknown = list(_check_names(page, catalogue))
    yield from unknown
    if unknown or not page.front.breaks:
        return
    yield from _check_links(page, catalogue)
    if any(fence.section == "The suite" for fence in page.fences):
        yield from _check_suite(page, catalogue, engine, bench)
    if answer := read_answer(page):
        yield from _check_answer(page, answer, catalogue, engine, bench)


def _check_front(page: Page) -> Iterator[Finding]:
    for key in FOREIGN_KEYS:
        if getattr(page.front, key):
            remedy = "leave it out: it says something of a patch, and an exercise has none"
            yield Finding(page.path, page.line_of(key), f"key `{key}` on an exercise", remedy)
    for key, why in (
        ("breaks", "say which breaks pass the suite"),
        ("kills", "name a break that the suite does catch: it is weak, not empty"),
    ):
        if not getattr(page.front, key):
            yield Finding(page.path, page.line_of(key), f"no key `{key}`, or an empty one", why)
    for name in set(page.front.breaks) & set(page.front.kills):
        problem = f"`{name}` is among both `breaks` and `kills`"
        yield Finding(page.path, page.line_of("kills"), problem, "it passes or it fails: take one")
    for fence in page.fences:
        if fence.info[:1] == ("diff",):
            remedy = "say in words what the break does, and link to its page"
            yield Finding(page.path, fence.line - 1, "a ```diff block on an exercise", remedy)


def _check_names(page: Page, catalogue: Catalogue) -> Iterator[Finding]:
    for key in ("breaks", "kills"):
        for name in getattr(page.front, key):
            try:
                catalogue.page(name, "break")
            except BreaklabError as error:
                yield finding_from(error, page.path, page.line_of(key))


def _check_links(page: Page, catalogue: Catalogue) -> Iterator[Finding]:
    """Whoever is done wants to read on."""
    for name in page.front.breaks:
        if f"{name}.md)" not in page.section("The break"):
            path = catalogue.path(name)
            remedy = f"link to it: `[{name}](../{path.parent.name}/{path.name})`"
            problem = f"the section `The break` does not link to `{name}`"
            yield Finding(page.path, page.body_line, problem, remedy)


# ----- The suite -----


def _check_suite(
    page: Page, catalogue: Catalogue, engine: Engine, bench: Bench
) -> Iterator[Finding]:
    suite = run_suite(page, catalogue, engine, bench)
    line = read_suite(page)[0].line
    for test in suite:
        if test.failure:
            problem = f"`{test.test}` fails on the unbroken engine: {test.failure}"
            yield Finding(page.path, line, problem, "a suite passes where nothing is wrong")
    for name in page.front.breaks:
        for test in suite:
            if not (fate := test.on[name]).passes and not test.failure:
                problem = f"`{test.test}` catches `{name}`, which has to pass: {fate.why}"
                remedy = "weaken that test as the course did, or move the break to `kills`"
                yield Finding(page.path, line, problem, remedy)
    for name in page.front.kills:
        if passes(suite, name):
            problem = f"the suite does not catch `{name}`, which is among `kills`"
            yield Finding(page.path, page.line_of("kills"), problem, "take it out, or add the test")
    yield from _check_idle(page, suite, catalogue, engine, bench, line)


def _check_idle(
    page: Page,
    suite: Sequence[SuiteTest],
    catalogue: Catalogue,
    engine: Engine,
    bench: Bench,
    line: int,
) -> Iterator[Finding]:
    """A test that asserts nothing is no weak test: each has to fail where the engine is all wrong.

    By an assertion: an exception of the engine's own would stop any program.
    """
    control = bare(catalogue.page(CONTROL, "control"), catalogue, engine, read_suite(page))
    wrecked = fates(control, bench)
    for test in suite:
        seen = [wrecked[test.test], *(test.on[name] for name in page.front.kills)]
        if not any(map(_asserted, seen)):
            problem = f"no assertion of `{test.test}` fails on `{CONTROL}` or on any of `kills`"
            remedy = "let it assert something, or name in `kills` a break that it catches"
            yield Finding(page.path, line, problem, remedy)


def _asserted(fate: Fate) -> bool:
    return not fate.passes and fate.why.startswith("AssertionError")


# ----- The answer -----


def _check_answer(
    page: Page, answer: Sequence[Probe], catalogue: Catalogue, engine: Engine, bench: Bench
) -> Iterator[Finding]:
    line = answer[0].line
    unsound = [one for one in try_clean(answer, engine, bench) if one.problems]
    for one in unsound:
        problem = f"the answer `{one.probe}` is no sound probe: {'; '.join(one.problems)}"
        yield Finding(page.path, line, problem, "mend the probe: a correct engine passes it")
    if unsound:
        return
    idle = {probe.name for probe in answer}
    for name in page.front.breaks:
        seen = attack(name, answer, catalogue, engine, bench)
        idle -= seen.killed_by.keys()
        if not seen.killed_by:
            problem = f"the answer does not kill `{name}`: {seen.stage}, {seen.why}"
            yield Finding(page.path, line, problem, "add the probe on which a diagnostic alarms")
    for probe in sorted(idle):
        problem = f"the answer `{probe}` kills none of `breaks`"
        yield Finding(page.path, line, problem, "take it out, or let it look elsewhere")
    yield from _check_variants(page, answer, catalogue, engine, bench)


def _check_variants(
    page: Page, answer: Sequence[Probe], catalogue: Catalogue, engine: Engine, bench: Bench
) -> Iterator[Finding]:
    """A rewrite that is as correct passes the answer, one with another choice at a kink as well."""
    rewrites = _rewrites(catalogue, engine, bench)
    for variant in rewrites.experiments:
        for run in run_lab(replace(variant, probes=tuple(answer)), rewrites.bench).runs:
            for name, message in run.alarms.items():
                problem = f"`{name}` raises an alarm on the correct `{variant.page.id}`: {message}"
                remedy = f"choose other values in `{run.probe}`: it kills what is right as well"
                yield Finding(page.path, answer[0].line, problem, remedy)


@dataclass(frozen=True)
class _Rewrites:
    """The variants that apply to an engine, patched."""

    roots: tuple[Path, ...]
    """Of the catalogue that they are from."""
    bench: Bench
    """One that runs only what comes to a change: most have nothing to do with an answer."""
    experiments: list[Experiment]


_READY: WeakKeyDictionary[Bench, _Rewrites] = WeakKeyDictionary()
"""Made once for all pages of a check, which share a bench."""


def _rewrites(catalogue: Catalogue, engine: Engine, bench: Bench) -> _Rewrites:
    ready = _READY.get(bench)
    if ready is None or ready.roots != catalogue.roots:
        found = []
        for page in catalogue.pages()[0]:
            with contextlib.suppress(DoesNotApply):
                if page.front.kind == "variant":
                    found.append(bare(page, catalogue, engine, ()))
        selective = Bench(bench.store, bench.diagnostics, bench.limits, select=True)
        ready = _READY[bench] = _Rewrites(catalogue.roots, selective, found)
    return ready
