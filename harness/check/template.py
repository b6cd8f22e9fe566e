"""A new page: the template for its kind, with the observed outcomes as comments.

The outcomes stay `"?"` until the author states them. Comments say what to write, and `harness
check` finds every comment that is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from harness.check.draft import Draft
from harness.check.sections import optional_sections, sections_of
from harness.core.errors import BreaklabError, UsageError
from harness.core.report import Report, RunReport
from harness.core.vocabulary import shortened
from harness.diagnostics import DIAGNOSTICS, Diagnostic
from harness.experiment.baseline import Baseline
from harness.experiment.context import Context
from harness.experiment.lab import run_lab
from harness.experiment.patching import prepare
from harness.pages.catalogue import unknown
from harness.pages.front_matter import KINDS, UNSTATED, PatchFront
from harness.pages.page import read_page

UNPATCHED = tuple(kind.kind for kind in KINDS if not issubclass(kind, PatchFront))
"""Kinds of pages without a patch."""


def write_page(draft: Draft, folder: Path, context: Context) -> tuple[Path, BreaklabError | None]:
    """Write `folder/FAMILY/ID.md`, and return its path and what is wrong with its patch.

    Raises UsageError if the id is taken or a probe does not exist; then nothing is written.
    """
    catalogue = context.catalogue
    if draft.id in catalogue.files:
        raise UsageError(
            f"the id `{draft.id}` is taken by {catalogue.files[draft.id]}",
            "choose another id, or edit that page",
        )
    for name in draft.probes:
        if name not in catalogue.shared_probes:
            remedy = "`harness list --probes` shows them; add the page's own probes later"
            raise unknown("shared probe", name, catalogue.shared_probes, remedy)
    path = folder / draft.family / f"{draft.id}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("x", encoding="utf-8") as file:
        file.write(_page(draft, None))
    if draft.kind in UNPATCHED or not draft.before:
        return path, None
    try:
        report = _observe(draft, path, context)
    except BreaklabError as error:
        return path, error
    path.write_text(_page(draft, report), encoding="utf-8")
    return path, None


def _observe(draft: Draft, path: Path, context: Context) -> Report:
    """Return a report on the draft's probes, or on all shared probes if it has none."""
    probes = draft.probes or tuple(context.catalogue.shared_probes)
    diagnostics: Sequence[Diagnostic] = DIAGNOSTICS if draft.probes else ()
    experiment = prepare(read_page(path), context.catalogue, context.engine, probes=probes)
    return run_lab(experiment, Baseline(context.baseline.cache, diagnostics))


def next_steps(draft: Draft, path: Path, extra: bool, error: BreaklabError | None) -> str:
    """Return the next steps for a new page; `extra` if commands must name its folder."""
    option = f" --breaks {path.parent.parent}" if extra else ""
    steps = {
        "diff": "what the patch changes in the engine's code",
        "break": "what happens, probe by probe",
        "myth": "what the program prints",
        "exercise": "which tests pass, and which fail",
        "check": "what is left to write, and what is not true",
    }
    own = (draft.kind,) if draft.kind in UNPATCHED else ("diff", "break")
    steps = {command: steps[command] for command in (*own, "check")}
    lines = [f"  harness {command} {draft.id}{option}" for command in steps]
    width = max(map(len, lines))
    listed = (f"{line:{width}}   {why}" for line, why in zip(lines, steps.values(), strict=True))
    wrong = [f"\nThe patch has a mistake; correct it in the page.\n{error}"] if error else []
    return "\n".join([f"wrote {path}", *wrong, "\nNext steps, as often as needed:", *listed])


# ----- The page's text -----


def _page(draft: Draft, report: Report | None) -> str:
    front = "\n".join(_front(draft, report))
    body = "\n\n".join(_body(draft))
    return f"+++\n{front}\n+++\n{body}\n"


def _front(draft: Draft, report: Report | None) -> Iterator[str]:
    yield f'id     = "{draft.id}"'
    yield f'kind   = "{draft.kind}"'
    yield f'family = "{draft.family}"'
    yield f"level  = {draft.level}"
    if draft.kind != "variant":
        yield "sources = []"
    if draft.kind == "exercise":
        yield "breaks  = []"
        yield "kills   = []"
    if draft.kind in UNPATCHED:
        return
    yield "\n[expect]"
    if draft.probes and report is None:
        yield from (f'{name} = "{UNSTATED}"' for name in draft.probes)
    if report:
        yield from _observed(report, "" if draft.probes else "# ")
    yield "\n[diagnostics]"
    caught, missed = _observed_claims(report) if report and draft.probes else ("", "")
    if draft.kind == "break":
        yield f"caught_by = []{caught}"
    yield f"missed_by = []{missed}"


def _observed(report: Report, mark: str) -> Iterator[str]:
    """Yield a line for each probe that reaches the change; `mark` precedes a proposed one."""
    if all(run.outcome == "not-reached" for run in report.runs):
        yield "# observed: no probe runs the changed code; write one in a section `## Probes`"
    for probe, group in groupby(report.runs, key=lambda run: run.probe):
        runs = list(group)
        if mark and all(run.outcome == "not-reached" for run in runs):
            continue
        value = f'"{UNSTATED}"'
        if len({run.outcome for run in runs}) > 1:
            value = "{ " + ", ".join(f'{run.loss} = "{UNSTATED}"' for run in runs) + " }"
        outcomes = ", ".join(dict.fromkeys(_outcome(run) for run in runs))
        evidence = shortened(" ".join(str(runs[-1].evidence).split()), 100)
        yield f"{mark}{probe} = {value}  # observed: {outcomes}; {evidence}"


def _outcome(run: RunReport) -> str:
    return f"{run.outcome} ({run.kind})" if run.kind else run.outcome


def _observed_claims(report: Report) -> tuple[str, str]:
    """Return comments with the diagnostics that alarm on some probe, and those that never do."""
    caught = dict.fromkeys(name for run in report.runs for name in run.caught_by)
    silent = dict.fromkeys(name for run in report.runs for name in run.missed_by)
    missed = [name for name in silent if name not in caught]
    first, second = (", ".join(names) or "no diagnostic" for names in (caught, missed))
    return f"  # observed: {first}", f"  # observed: {second}"


def _body(draft: Draft) -> Iterator[str]:
    optional = optional_sections(draft.kind)
    yield f"# {draft.id.replace('-', ' ').capitalize()}"
    yield "<!-- A title of a few words, in a learner's terms. -->"
    for section, hint in sections_of(draft.kind).items():
        if section not in optional:
            yield f"## {section}"
            yield from (block for block in [_block(section, draft)] if block)
            yield f"<!-- {hint} -->"


def _block(section: str, draft: Draft) -> str:
    """Return the block that runs, if the section has one."""
    if section == "The program":
        program = "```python\n# the shortest program that shows what really happens\n```"
        return f"{program}\n\n```text\nits exact output\n```"
    if section == "The suite":
        return "```python\ndef test_something(lib):\n    assert lib is not None\n```"
    if section == "Answer":
        probe = 'def answer(x=(3,)):\n    """What it exercises, in one line."""\n    return x'
        return f"```python\n{probe}\n```"
    if section != "The break" or draft.kind in UNPATCHED:
        return ""
    before, after = draft.before, draft.after
    if not before:
        before, after = "the original code, one or more lines", after or "the changed code"
    header = f"@@ {draft.scope} @@" if draft.scope else "@@ @@"
    removed = [f"-{row}" for row in before.splitlines()]
    added = [f"+{row}" for row in after.splitlines()]
    return "\n".join(["```diff", header, *removed, *added, "```"])
