"""Pages on a terminal: the text of one, lists of them, and what a check of them found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.text import Text

from harness.core.message import shortened
from harness.core.report import EngineReport, Report
from harness.core.vocabulary import PageKind
from harness.pages.page import Page
from harness.pages.probe import Probe
from harness.report.language import ENGLISH, Language
from harness.report.terminal import (
    Screen,
    columns,
    counted,
    highlighted,
    outcome_text,
    show_code,
)
from harness.report.view import engine_name, surroundings_of

if TYPE_CHECKING:  # these rooms are slow to import
    from harness.check import Finding
    from harness.check.pages import PageCheck
    from harness.experiment.myth import MythReport
    from harness.experiment.patching import PatchedEngine
    from harness.pages.catalogue import Catalogue

# ----- The text of a page -----


def show_title(console: Screen, page: Page, place: str = "") -> None:
    """Print the title of a page, and its place on the track."""
    title, where = Text(page.title, "bold"), Text(place)
    if place and title.cell_len + where.cell_len + 2 <= console.width:
        title.append(" " * (console.width - title.cell_len - where.cell_len)).append_text(where)
        where = Text()
    console.print(title)
    if where.plain:
        console.print(where)


def show_engine(console: Screen, page: Page, engine: EngineReport) -> None:
    """Print which page is put into which engine, unless it is minigrad itself."""
    if engine.foreign or engine.variant:
        where = engine_name(engine, console.say)
        line = console.say("{page}, on {engine}", page=page.id, engine=where)
        console.print(Text(f"{line}\n"))


def show_first_words(
    console: Screen, page: Page, place: str = "", *, hypothesis: bool = True
) -> None:
    """Print what is known before anything is computed: the title.

    If questions follow, also print the hypothesis and, of a page for experts, its patch: the others
    show the engine's own code (`harness.report.one_screen.show_surroundings`).
    """
    show_title(console, page, place)
    if not hypothesis:
        return
    console.print()
    show_first_section(console, page)
    changes = page.diffs("minigrad")
    if changes and page.front.level >= EXPERT:
        show_code(console, "\n".join(change.text.rstrip() for change in changes), "diff")


EXPERT = 3
"""The level of pages whose readers know the notation of patches."""


def show_first_section(console: Console, page: Page) -> None:
    """Print the first section of a page, in any language."""
    if heading := next(iter(page.headings), None):
        show_section(console, heading, page.section(heading))


def show_section(console: Console, heading: str, markdown: str) -> None:
    """Print a section: its heading, and its Markdown indented."""
    console.print(Text(heading, "bold"))
    show_markdown(console, markdown, 2)


def show_markdown(console: Console, text: str, indent: int, below: int = 1) -> None:
    """Print Markdown indented, and the number of empty lines `below` it."""
    console.print(Padding(_markdown(text), (0, 0, below, indent)))


def show_section_like(console: Console, heading: str, page: Page, original: Page) -> None:
    """Print the section of a page that has this heading in the original; nothing if it is empty."""
    title, text = page.section_like(heading, original)
    if text:
        show_section(console, title, text)


def _markdown(text: str) -> RenderableType:
    """Return Markdown as it is shown; of a link to a file only the text, since nothing opens it."""
    from rich.markdown import CodeBlock, Markdown  # slow to import, and not needed by most commands

    class Code(CodeBlock):
        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            yield highlighted(str(self.text).rstrip(), self.lexer_name)

    class Shown(Markdown):
        elements: ClassVar = {**Markdown.elements, "fence": Code, "code_block": Code}

    shown = Shown(text)
    for token in shown.parsed:
        kept, closed = [], set[int]()
        for child in token.children or ():
            to_file = not str(child.attrs.get("href", "https:")).startswith(("https:", "http:"))
            if child.type == "link_open" and to_file:
                closed.add(child.level)
            elif child.type == "link_close" and child.level in closed:
                closed.discard(child.level)
            else:
                kept.append(child)
        token.children = kept if token.children is not None else None
    return shown


def show_page(console: Screen, page: Page, *, translated: bool = False) -> None:
    """Print a whole page; if the language is not English, say if it is not translated."""
    say, front = console.say, page.front
    about = say(
        "{page}  {kind}, {family}, level {level}",
        page=page.id,
        kind=say(front.kind),
        family=front.family,
        level=front.level,
    )
    console.print(Text(about, "dim"))
    if say.code != ENGLISH.code and not translated:
        console.print(Text(say("This page is not translated."), "dim"))
    console.print(_markdown(page.body))


def without_notation(page: Page, original: Page, change: PatchedEngine) -> Page:
    """Return a page with the engine's own code in place of its patch, and without the patches for
    other engines.
    """
    body = page.body
    heading, _ = page.section_like("On other engines", original)
    body, _, _ = body.partition(f"\n## {heading}\n")
    blocks = original.diffs("minigrad")
    code = "\n".join(
        "\n".join([f"@@ {one.file}:{one.line} {one.scope}".rstrip(), *one.code])
        for one in surroundings_of(change)
    )
    for number, block in enumerate(blocks):
        body = body.replace(block.text.rstrip("\n"), "" if number else code, 1)
    return replace(page, body=body.rstrip("\n") + "\n")


def show_opening(console: Screen, page: Page, original: Page, section: str = "") -> None:
    """Print the title and the kind of a myth or an exercise, in any language, and a section."""
    say = console.say
    if page.front.kind == "myth":
        kind = say("{page}, a myth", page=page.id)
    else:
        kind = say("{page}, an exercise", page=page.id)
    console.print(Text.assemble((page.title, "bold"), f"\n{kind}\n"))
    if section:
        show_section_like(console, section, page, original)


# ----- A myth -----

DIFFERENCES = {"-": "red", "+": "green", " ": ""}
"""The style of a line by its sign."""


def show_program(console: Screen, program: str) -> None:
    """Print the program of a myth."""
    console.print(Text(console.say("The program"), "bold"))
    show_code(console, program, "python", indent=2)


def show_myth(console: Screen, report: MythReport, *, page: Page, original: Page) -> None:
    """Print what follows the claim and the program."""
    _show_printed(console, report)
    for heading in ("What happens", "When it would be true", "Lesson"):
        show_section_like(console, heading, page, original)


def _show_printed(console: Screen, report: MythReport) -> None:
    say = console.say
    if report.skipped:
        console.print(Text(say("Not run: {reason}", reason=report.skipped), "yellow"))
        console.print(Text(say("What it prints, according to the page"), "bold"))
    elif report.agrees:
        agreement = say(", as the page says")
        console.print(Text.assemble((say("What it printed"), "bold"), (agreement, "green")))
    else:
        line = say("Not as the page says: - the page, + what it printed")
        console.print(Text(line, "bold red"))
    agrees = report.skipped or report.agrees
    stated = (report.says or "").rstrip("\n").splitlines()
    for row in stated if agrees else report.differences:
        console.print(Text(f"  {row}", "" if agrees else DIFFERENCES[row[0]]), soft_wrap=True)
    console.print()
    if not agrees and report.failure:
        failed = say("It failed: {failure}", failure=report.failure)
        console.print(Text(f"{failed}\n", "bold red"))


# ----- Lists -----

PLURALS: Mapping[PageKind, str] = {
    "break": "{count} breaks",
    "variant": "{count} variants",
    "myth": "{count} myths",
    "exercise": "{count} exercises",
    "operator": "{count} operators",
    "control": "{count} controls",
}
"""The number of pages of a kind, if there are several."""

DONE = "✓"
"""Marks what the learner has done."""


def show_list(console: Screen, pages: Sequence[Page], done: Collection[str] = ()) -> None:
    """Print pages by kind and family, one row each, with their counts.

    On a terminal, a row is not longer than the window.
    """
    say = console.say
    for (kind, family), group in groupby(pages, key=_group):
        console.print(Text(f"{say(kind)}, {family}" if family else say(kind), "bold"))
        _show_rows(console, list(group), done)
    for line in _totals(pages, say):
        console.print(Text(line))
    if count := sum(page.id in done for page in pages):
        line = console.say(
            "{mark} done: {count} of {total}", mark=DONE, count=count, total=len(pages)
        )
        console.print(Text(line))


def _group(page: Page) -> tuple[PageKind, str]:
    """Return the kind and the family; no family if the kind has only one."""
    kind, family = page.front.kind, page.front.family
    return kind, "" if family == f"{kind}s" else family


def _show_rows(console: Screen, pages: Sequence[Page], done: Collection[str]) -> None:
    width = max(len(page.id) for page in pages)
    for page in pages:
        mark = DONE if page.id in done else " "
        start = f"{mark} {page.id:{width}}  {page.front.level}  "
        room = console.size.width - len(start)
        title = shortened(page.title, max(room, 1)) if console.is_terminal else page.title
        console.print(Text(start + title), soft_wrap=True)
    console.print()


def _totals(pages: Sequence[Page], say: Language) -> Iterator[str]:
    kinds = Counter(page.front.kind for page in pages)
    yield ", ".join(_counted(count, kind, say) for kind, count in kinds.items())
    families = Counter(page.front.family for page in pages if page.front.kind == "break")
    if len(families) > 1:
        listed = ", ".join(f"{family} {n}" for family, n in sorted(families.items()))
        yield say("breaks: {families}", families=listed)


def _counted(count: int, kind: PageKind, say: Language) -> str:
    return f"1 {say(kind)}" if count == 1 else say(PLURALS[kind], count=count)


def show_track(
    console: Screen, pages: Sequence[Page], ideas: Mapping[str, str], done: Collection[str] = ()
) -> None:
    """Print the pages of the track in order, each with its idea."""
    for number, page in enumerate(pages, start=1):
        mark = DONE if page.id in done else " "
        console.print(Text.assemble(f"{mark} {number:2} ", (page.id, "bold")))
        console.print(Padding(Text(console.say(ideas[page.id])), (0, 0, 0, 5)))
    if pages:
        start = console.say("Start or continue with: {command}", command="harness start")
        console.print(Text(f"\n{start}"))


def show_probes(console: Screen, probes: Sequence[Probe]) -> None:
    """Print the shared probes by file, and what each exercises."""
    for path, group in groupby(probes, key=lambda probe: probe.path):
        table = columns(2)
        table.add_column(style="bold", no_wrap=True)
        table.add_column(style="dim", no_wrap=True)
        table.add_column(ratio=1)
        for probe in group:
            table.add_row(probe.name, probe.kind, console.say(probe.doc.splitlines()[0]))
        console.print(Text(path, "dim"), soft_wrap=True)
        console.print(table, "")


# ----- The check of pages -----


def show_check(console: Console, check: PageCheck) -> None:
    """Print the check of one page."""
    verdicts = {
        True: ("passed ", "green"),
        False: ("FAILED ", "bold red"),
        None: ("not checked ", "yellow"),
    }
    engines = dict.fromkeys(report.engine.variant or report.engine.name for report in check.reports)
    line = Text.assemble(
        verdicts[check.holds],
        (check.page, "bold"),
        f"  on {', '.join(engines)}" if engines else "",
        (f"  {check.seconds:.1f} s", "dim"),
    )
    console.print(line, soft_wrap=True)
    for finding in check.findings:
        _show_finding(console, finding)


def show_comparison(console: Screen, report: Report, findings: Sequence[Finding]) -> None:
    """Print a break's headline on a foreign engine, its agreement with the page, and findings."""
    same, stated = report.agreement
    line = outcome_text(report.headline)
    if report.unjudged:
        line = Text("not judged on the inputs that show it", "yellow")
    line.append(f"  {report.break_}", "bold")
    if report.sites:
        line.append(f"  {counted(len(report.sites), 'site')}", "dim")
    if stated:
        line.append(f"  {same} of {stated} runs as the page says")
        others = dict.fromkeys(run.probe for run in report.runs if run.agrees is False)
        line.append(f", not {', '.join(others)}" if others else "")
    elif report.left_out:
        line.append(f"  {next(iter(report.left_out.values()))}", "dim")
    console.print(line, soft_wrap=True)
    if report.partial:
        console.print(Text(f"    in part: {report.partial}", "yellow"), soft_wrap=True)
    for finding in findings:
        _show_finding(console, finding)


def show_absent(console: Console, count: int) -> None:
    """Print how many breaks have no site in a foreign engine."""
    have = "break has" if count == 1 else "breaks have"
    console.print(Text(f"{count} {have} no site in this engine.", "dim"))


def show_nothing_judged(console: Console, engine: str) -> None:
    """Print that none of the breaks could be judged on a foreign engine."""
    text = f"Nothing was judged: on {engine}, no probe of these pages gives the right result "
    console.print(Text(text + "and runs the changed code.", "bold red"))


def _show_finding(console: Console, finding: Finding) -> None:
    here, path = Path.cwd(), Path(finding.path)
    place = path.relative_to(here) if path.is_relative_to(here) else finding.path
    warning = "  (a warning)" if finding.exit_status == 0 else ""
    console.print(Text(f"  {place}:{finding.line}{warning}"), soft_wrap=True)
    first, *more = finding.problem.splitlines()
    console.print(Padding(Text(first), (0, 0, 0, 4)))
    for row in more:  # the nearest code, which must not be wrapped
        console.print(Text(f"    {row}"), soft_wrap=True)
    console.print(Padding(Text(f"remedy: {finding.remedy}", "cyan"), (0, 0, 0, 4)))


def show_left_out(console: Console, catalogue: Catalogue, only: Sequence[Path]) -> None:
    """Print that pages which need many seeds were left out, and the command that checks them."""
    left_out = catalogue.many_seeded & (catalogue.ids_in(only) if only else catalogue.files.keys())
    if count := len(left_out):
        text = f"{count} pages that need many seeds are left out: harness check --training"
        console.print(Text(text, "dim"))


def show_summary(console: Console, checks: Sequence[PageCheck], seconds: float) -> None:
    """Print how many pages pass, in the last line."""
    failed = sum(check.holds is False for check in checks)
    unchecked = sum(check.holds is None for check in checks)
    findings = sum(len(check.findings) for check in checks)
    pages = counted(len(checks), "page")
    verdict = f"{failed} of them fail" if failed else "all pass"
    if unchecked:
        verdict = f"{failed} of them fail, and {unchecked} could not be checked"
    if len(checks) == 1:
        verdict = "fails" if failed else "could not be checked" if unchecked else "passes"
    listed = f", {counted(findings, 'finding')}" if findings else ""
    style = "bold red" if failed else "yellow" if unchecked else "green"
    console.print(Text(f"{pages}: {verdict}{listed}", style), end="")
    console.print(Text(f"  {seconds:.1f} s", "dim"))
