"""The checks of pages that are not about probes: a myth, an exercise and a training break."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace

from harness.check import Finding
from harness.check.controls import rewrites
from harness.check.runner import run_page
from harness.core.errors import PageError
from harness.experiment.baseline import Context
from harness.experiment.lab import run_lab
from harness.experiment.myth import SECTION, Exhibit, MythReport, find_exhibit, lines
from harness.grade.exercise import (
    SuiteFate,
    SuiteTest,
    judge_tests,
    passes,
    read_answer,
    read_suite,
    run_suite,
)
from harness.grade.probes import attack_break, check_soundness, prepare_bare
from harness.pages.front_matter import Exercise, TrainingBreak
from harness.pages.page import Page
from harness.pages.probe import Probe, parse_python
from harness.runs.protocol import Program
from harness.training.comparison import AlarmReport, TrainingReport

# ----- A myth: the program runs, and prints what the page says -----

LONGEST = 25
"""The largest number of lines of a program that can be read at a glance."""

AVAILABLE = {"numpy", "minigrad"} | set(sys.stdlib_module_names)
"""Modules that every program may import."""


def check_myth(page: Page, context: Context) -> Iterator[Finding]:
    """Yield what is wrong with the page's program, and with what the page says that it prints.

    Raises PageError if there are several programs.
    """
    if not page.programs(SECTION):
        return  # the check of the prose reports it
    exhibit = find_exhibit(page)
    yield from _check_source(page, exhibit.program)
    report = run_page(page, context)
    assert isinstance(report, MythReport)
    yield from _check_report(page, exhibit, report)


def _check_report(page: Page, exhibit: Exhibit, report: MythReport) -> Iterator[Finding]:
    line = (exhibit.says or exhibit.program).line
    if report.skipped:
        problem = f"the program was not run: {report.skipped}"
        yield Finding(page.path, exhibit.program.line, problem, "install it, and check again", 0)
    elif report.failure:
        problem = f"the program fails: {report.failure}{_quoted(report.printed)}"
        remedy = "correct the program; it must catch an exception that it wants to show"
        yield Finding(page.path, exhibit.program.line, problem, remedy)
    elif not report.printed:
        yield Finding(page.path, line, "the program prints nothing", "print what it shows")
    elif report.says is None:
        problem = f"the page does not say what the program prints{_quoted(report.printed)}"
        remedy = "once you can explain it, write it as a ```text block directly after the program"
        yield Finding(page.path, line, problem, remedy)
    elif not report.agrees:
        rows = "\n".join(report.differences)
        problem = f"the program does not print what the page says (- page, + program)\n{rows}"
        yield Finding(page.path, line, problem, "find out which of the two is wrong")
    for number, asked in enumerate(report.questions, start=1):
        if asked.answer is None or (asked.choices and asked.answer not in asked.choices):
            answer = asked.answer or "not a word of the output"
            problem = f"the answer to question {number} is {answer}"
            remedy = "set `answer` to the line and the word of one of the choices in the output"
            yield Finding(page.path, page.line_of("ask", number - 1, "answer"), problem, remedy)


def _quoted(printed: str | None) -> str:
    rows = [f"\n  {row}" for row in lines(printed or "")]
    return "".join(["; it printed", *rows]) if rows else ""


def _check_source(page: Page, program: Program) -> Iterator[Finding]:
    length = program.source.count("\n")
    if length > LONGEST:
        problem = f"a program of {length} lines cannot be read at a glance (about {LONGEST})"
        yield Finding(page.path, program.line, problem, "remove what the claim does not need", 0)
    imported = dict(_imports(program))
    for name, line in imported.items():
        if name not in AVAILABLE and name not in program.needs:
            problem = f"the program imports {name}, which may not be installed"
            yield Finding(page.path, line, problem, f'add it to the keys: `needs = ["{name}"]`')
    for name in program.needs:
        if name not in imported:
            problem = f"key `needs` names {name}, which the program does not import"
            yield Finding(page.path, page.line_of("needs"), problem, "remove it")


def _imports(program: Program) -> Iterator[tuple[str, int]]:
    """Yield the top-level modules that the program imports, each with its line in the page."""
    try:
        tree = parse_python(program.source, program.path, program.line, "program")
    except PageError:
        return  # running it reports that
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = getattr(node, "module", None)
            for name in [module] if module else [alias.name for alias in node.names]:
                yield name.partition(".")[0], program.line + node.lineno - 1


# ----- An exercise: the suite is as weak as the page says, and the answer kills -----

ANSWER_SEED = b"the answer of a page"
"""Not secret: a page's answer may be trusted, and what is run again is cached."""


def check_exercise(page: Page, context: Context) -> Iterator[Finding]:
    """Yield what is wrong with the suite and with the answer of an exercise.

    Raises PageError for a suite or an answer that cannot be read.
    """
    front = page.front_as(Exercise)
    yield from _check_blocks(page)
    if not front.breaks:
        return  # the check of the names reports it
    yield from _check_links(page, front, context)
    if any(fence.section == "The suite" for fence in page.fences):
        yield from _check_suite(page, front, context)
    if answer := read_answer(page):
        yield from _check_answer(page, front, answer, context)


def _check_blocks(page: Page) -> Iterator[Finding]:
    for fence in page.fences:
        if fence.info[:1] == ("diff",):
            remedy = "say in words what the break does, and link to its page"
            yield Finding(page.path, fence.line - 1, "a ```diff block on an exercise", remedy)


def _check_links(page: Page, front: Exercise, context: Context) -> Iterator[Finding]:
    """Each break needs a link, so that learners can read on."""
    for name in front.breaks:
        if f"{name}.md)" not in page.section("The break"):
            path = context.catalogue.path(name)
            remedy = f"link to it: `[{name}](../{path.parent.name}/{path.name})`"
            problem = f"the section `The break` does not link to `{name}`"
            yield Finding(page.path, page.body_line, problem, remedy)


def _check_suite(page: Page, front: Exercise, context: Context) -> Iterator[Finding]:
    suite = run_suite(page, context)
    line = read_suite(page)[0].line
    for test in suite:
        if test.failure:
            problem = f"`{test.test}` fails on the unbroken engine: {test.failure}"
            yield Finding(page.path, line, problem, "correct the test: it must pass here")
    for name in front.breaks:
        for test in suite:
            if not (fate := test.on[name]).passes and not test.failure:
                problem = f"`{test.test}` catches `{name}`, which must pass: {fate.why}"
                remedy = "weaken that test as the course did, or move the break to `kills`"
                yield Finding(page.path, line, problem, remedy)
    for name in front.kills:
        if passes(suite, name):
            problem = f"the suite does not catch `{name}`, which is among `kills`"
            yield Finding(page.path, page.line_of("kills"), problem, "remove it, or add the test")
    yield from _check_asserting(page, front, suite, context)


def _check_asserting(
    page: Page, front: Exercise, suite: Sequence[SuiteTest], context: Context
) -> Iterator[Finding]:
    """Each test must fail on `kills` or on an engine that is wrong everywhere.

    Only a failed assertion counts: an exception from the engine would stop any program.
    """
    sabotage = context.catalogue.conventions.controls.sabotage
    sabotaged: dict[str, SuiteFate] = {}
    if sabotage is not None:
        tests = read_suite(page)
        control = context.catalogue.page(sabotage, "control")
        sabotaged = judge_tests(prepare_bare(control, tests, context), context.baseline)
    for test in suite:
        fates = [*(test.on[name] for name in front.kills)]
        fates += [sabotaged[test.test]] if test.test in sabotaged else []
        if not any(fate.by_assertion for fate in fates):
            places = f"`{sabotage}` or on any of `kills`" if sabotage else "any of `kills`"
            problem = f"no assertion of `{test.test}` fails on {places}"
            remedy = "add an assertion, or add a break that it catches to `kills`"
            yield Finding(page.path, read_suite(page)[0].line, problem, remedy)


def _check_answer(
    page: Page, front: Exercise, answer: Sequence[Probe], context: Context
) -> Iterator[Finding]:
    line, missing = answer[0].line, _missing_libraries(context)
    unsound = [result for result in check_soundness(answer, context) if result.problems]
    for result in unsound:
        listed = "; ".join(map(str, result.problems))
        problem = f"the answer `{result.probe}` is not a sound probe: {listed}"
        remedy = "correct the probe: a correct engine passes it"
        yield Finding(page.path, line, problem, remedy)
    if unsound:
        return
    idle = {probe.name for probe in answer}
    for name in front.breaks:
        cache = context.baseline.cache
        attack = attack_break(name, answer, context, ANSWER_SEED, rounds=1, cache=cache)
        idle -= attack.killed_by.keys()
        if not attack.killed_by and missing and attack.stage == "not-revealed":
            problem = f"the answer does not kill `{name}` here; not installed: {missing}"
            yield Finding(page.path, line, problem, f"install {missing} to decide", 0)
        elif not attack.killed_by:
            where = f"{attack.stage}, {attack.why}"
            problem = f"the answer does not kill `{name}`: {where}"
            yield Finding(page.path, line, problem, "add the probe on which a diagnostic alarms")
    for probe in () if missing else sorted(idle):
        problem = f"the answer `{probe}` kills none of `breaks`"
        yield Finding(page.path, line, problem, "remove it, or change it so that it kills one")
    yield from _check_variants(page, answer, context)


def _missing_libraries(context: Context) -> str:
    """Return the libraries that a diagnostic would compare with but that are not installed."""
    missing = context.baseline.missing()
    return ", ".join(
        sorted({str(one.library) for one in context.baseline.diagnostics if one.name in missing})
    )


def _check_variants(page: Page, answer: Sequence[Probe], context: Context) -> Iterator[Finding]:
    """The answer must not raise an alarm on a correct rewrite, or on another choice at a kink."""
    correct = rewrites(context)
    for variant in correct.experiments:
        for run in run_lab(replace(variant, probes=tuple(answer)), correct.baseline).runs:
            for name, alarm in run.alarms.items():
                problem = f"`{name}` raises an alarm on the correct `{variant.page.id}`: {alarm}"
                remedy = f"choose other values in `{run.probe}`: it kills correct engines too"
                yield Finding(page.path, answer[0].line, problem, remedy)


# ----- A training break: its metrics, over many seeds, are as the page states -----


def check_training(page: Page, context: Context) -> Iterator[Finding | TrainingReport]:
    """Yield the report on a training break, and each difference between page and report.

    Raises what `run_page` raises.
    """
    yield from _check_recipe_page(page)
    report = run_page(page, context)
    assert isinstance(report, TrainingReport)
    yield report
    yield from _check_crash(page, report)
    yield from _check_metrics(page, report)
    yield from _check_alarms(page, report.alarms)


def _check_recipe_page(page: Page) -> Iterator[Finding]:
    if page.probes:
        remedy = "remove the section: the recipe takes the place of probes"
        yield Finding(page.path, page.body_line, "probes on a page with a recipe", remedy)
    if not page.front_as(TrainingBreak).expect:
        remedy = '`harness break` shows the metrics; start with `validation_loss = "higher"`'
        yield Finding(page.path, 1, "states nothing about any metric", remedy)


def _check_crash(page: Page, report: TrainingReport) -> Iterator[Finding]:
    crash = report.crash
    if not crash.agrees:
        observed = f"observed: {crash.observed}, {crash.count} of {report.seeds} runs"
        problem = f"says that it crashes {crash.expected}; {observed} {crash.evidence}".rstrip()
        remedy = "correct the patch; or, once you can explain it, "
        remedy += f'write `crash = "{crash.observed}"`' if crash.count else "leave `crash` out"
        yield Finding(page.path, page.line_of("expect", "crash"), problem, remedy)


def _check_metrics(page: Page, report: TrainingReport) -> Iterator[Finding]:
    for metric in report.metrics:
        if metric.agrees is False:
            low, high = metric.interval
            shown = f"A = {metric.effect:.2f} ({low:.2f} to {high:.2f}), p = {metric.p:.2g}"
            problem = f"says {metric.expected} for `{metric.metric}`; "
            problem += f"observed: {metric.verdict}, {shown}"
            remedy = "correct the patch; or, once you can explain it, write what is observed"
            if metric.verdict == "unclear":
                remedy = "leave it out: these runs neither show a difference nor exclude one"
            yield Finding(page.path, page.line_of("expect", metric.metric), problem, remedy)
    judged = {metric.metric for metric in report.metrics}
    for name in page.front_as(TrainingBreak).expect:
        if name not in judged and name != "crash":
            problem = f"states an outcome for `{name}`, but too few broken runs ended to judge it"
            yield Finding(page.path, page.line_of("expect", name), problem, "leave it out")


def _check_alarms(page: Page, alarms: AlarmReport | None) -> Iterator[Finding]:
    """Yield where the invariant does not tell broken runs from correct ones as the page states."""
    front = page.front_as(TrainingBreak)
    if alarms is None:
        if front.alarms:
            problem, remedy = "has `[alarms]`, but no invariant", "write one, or remove `[alarms]`"
            yield Finding(page.path, page.line_of("alarms"), problem, remedy)
        return
    line = page.line_of("alarms") if front.alarms else 1
    if front.no_invariant:
        problem, remedy = "`no_invariant` on a page that has an invariant", "remove one of the two"
        yield Finding(page.path, page.line_of("no_invariant"), problem, remedy)
    if alarms.problem:
        problem = f"the invariant stops before an assertion fails, {alarms.problem}"
        yield Finding(page.path, line, problem, "correct it: its argument is the log of one run")
        return
    if alarms.true <= alarms.false:
        problem = (
            f"the invariant fails on {alarms.false:.0%} of the correct runs, and on only "
            f"{alarms.true:.0%} of the broken ones"
        )
        yield Finding(page.path, line, problem, "assert something that the break violates")
    for name, observed, stated in (
        ("false", alarms.false, alarms.stated_false),
        ("true", alarms.true, alarms.stated_true),
    ):
        if alarms.differs(stated, observed):
            problem = f"says {stated} for alarms.{name}; observed: {observed:.2f}"
            remedy = f"write `{name} = {observed:.2f}` in [alarms]"
            yield Finding(page.path, page.line_of("alarms", name), problem, remedy)
