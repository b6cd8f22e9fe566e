"""A new page: from the options of `harness new`, with the observed outcomes as comments.

The outcomes stay `"?"` until the author states them. Comments say what to write, and `harness
check` finds every comment that is left.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from harness.check.proposals import Proposal, ask_rows, claim_rows, expect_rows, observe
from harness.check.prose import optional_sections, sections_of
from harness.core.errors import BreaklabError, DoesNotApply, HunkError, UsageError, as_message
from harness.core.files import write_file, write_new
from harness.core.message import message
from harness.core.vocabulary import PageKind
from harness.experiment.baseline import Context
from harness.grade.operator_suites import RECOMMENDED, RULE, WEAK
from harness.grade.rule_mutants import operator_patch
from harness.pages.catalogue import unknown
from harness.pages.front_matter import ID, KINDS, UNSTATED, Claims, PatchFront, ProbedFront
from harness.pages.page import Page, read_page


@dataclass(frozen=True)
class DraftHunk:
    """A hunk before it is written: its scope, the original code and the changed code."""

    scope: str = ""
    before: str = ""
    after: str = ""
    rows: tuple[str, ...] = ()
    """The rows of a hunk with context, in place of both."""

    @property
    def is_written(self) -> bool:
        """Whether there is code to look for."""
        return bool(self.before or self.rows)


@dataclass(frozen=True)
class Draft:
    """The properties of a page before it is written."""

    id: str
    family: str
    kind: PageKind = "break"
    level: int = 1
    hunks: tuple[DraftHunk, ...] = ()
    """The patch; empty if the author will write it."""
    probes: tuple[str, ...] = ()
    engine: str | None = None
    """The engine that the page is about; None for minigrad."""

    def __post_init__(self) -> None:
        """Raise UsageError for an invalid id, family, kind or level."""
        for option, value in (("ID", self.id), ("--family", self.family)):
            if not re.fullmatch(ID, value):
                remedy = "lower-case words joined by hyphens, as in `skip-a-step`"
                raise UsageError(
                    message("{option} is `{value}`", option=option, value=value), remedy
                )
        if self.level not in (1, 2, 3):
            remedy = "1 (first lesson), 2 or 3 (expert)"
            raise UsageError(message("--level is {level}", level=self.level), remedy)
        if self.kind not in get_args(PageKind):
            kinds = message("one of {kinds}", kinds=", ".join(get_args(PageKind)))
            raise UsageError(message("--kind is `{kind}`", kind=self.kind), kinds)


Options = Mapping[str, Any]
"""The options of `harness new`, by the field of the draft; None for an option that is not set."""


def read_draft(page_id: str, options: Options, hunks: Sequence[DraftHunk] = ()) -> Draft:
    """Return the draft for these options, with these hunks or those that the options describe.

    Raises UsageError for a missing or invalid option.
    """
    fields = {name: value for name, value in options.items() if value is not None}
    if "family" not in fields:
        remedy = "name the folder of the page: `--family broadcasting`"
        raise UsageError("--family is missing", remedy)
    scopes, before, after = (fields.pop(name, ()) for name in ("scope", "before", "after"))
    written = tuple(hunks) or _pair_up(scopes, before, after)
    return Draft(page_id, hunks=written, **fields | {"probes": tuple(fields.get("probes", ()))})


def _pair_up(
    scopes: Sequence[str], before: Sequence[str], after: Sequence[str]
) -> tuple[DraftHunk, ...]:
    """Return a hunk for each `--before`, with its `--after`, and its own or the common scope.

    Raises UsageError if the numbers of options do not match.
    """
    if after and not before:
        raise UsageError("--before is missing", "name the code to change: `--before CODE`")
    if len(after) != len(before) and len(before) > 1:
        problem = message(
            "the numbers of --before ({before}) and --after ({after}) differ",
            before=len(before),
            after=len(after),
        )
        raise UsageError(problem, "write both for each hunk; `--after ''` removes the code")
    if len(scopes) > 1 and len(scopes) != len(before):
        problem = message(
            "the numbers of --before ({before}) and --scope ({scopes}) differ",
            before=len(before),
            scopes=len(scopes),
        )
        raise UsageError(problem, "write --scope once for all hunks, or once for each hunk")
    if not before:
        return tuple(DraftHunk(scope) for scope in scopes)
    scopes = scopes if len(scopes) > 1 else [*scopes, ""][:1] * len(before)
    return tuple(map(DraftHunk, scopes, before, after or [""]))


# ----- Writing it -----

UNPATCHED = tuple(kind.kind for kind in KINDS if not issubclass(kind, PatchFront))
"""Kinds of pages without a patch."""


def write_page(draft: Draft, folder: Path, context: Context) -> tuple[Path, BreaklabError | None]:
    """Write `folder/FAMILY/ID.md`, and return its path and what is wrong with its patch.

    Raises UsageError if the id is taken or a probe does not exist; then nothing is written.
    """
    catalogue = context.catalogue
    if draft.id in catalogue.files:
        raise UsageError(
            message(
                "the id `{page}` is taken by {file}", page=draft.id, file=catalogue.files[draft.id]
            ),
            "choose another id, or edit that page; `--again` observes it again",
        )
    for name in draft.probes:
        if name not in catalogue.shared_probes:
            remedy = "`harness list --probes` shows them; add the page's own probes later"
            raise unknown("shared probe", name, catalogue.shared_probes, remedy)
    draft = replace(draft, engine=context.engine.name if context.engine.foreign else None)
    path = folder / draft.family / f"{draft.id}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_new(path, _page(draft, None), as_message("choose another id"))
    if not any(hunk.is_written for hunk in draft.hunks) or draft.kind in ("myth", "exercise"):
        return path, None
    try:
        page = read_page(path)
        if draft.kind == "operator":
            operator_patch(page)
            return path, None
        observed = observe(page, context, draft.probes, propose=not draft.probes)
    except BreaklabError as error:
        return path, error
    write_file(path, _page(draft, observed))
    return path, None


def rewrite_page(
    page_id: str, probes: Sequence[str], folder: Path, context: Context
) -> tuple[Page, BreaklabError | None]:
    """Observe a page again after its patch was edited; return it, and what is wrong with its patch.

    Only the tables `[expect]` and `[diagnostics]` are written; statements that are still true stay.
    Without `probes`, probes that show more are added to those that the page names.

    Raises UsageError for a page that has no patch or is not in the folder, and for a probe that
    does not exist; PageError for a page that cannot be read.
    """
    page = context.catalogue.page(page_id)
    if not isinstance(page.front, ProbedFront):
        raise UsageError(
            message("`{page}` is {noun}", page=page_id, noun=as_message(page.front.noun)),
            "--again is for a page with probes",
        )
    if not Path(page.path).resolve().is_relative_to(folder.resolve()):
        raise UsageError(
            message("{path} is not in {folder}", path=page.path, folder=folder),
            "name its folder with --breaks",
        )
    own = [probe.name for probe in page.probes]
    names = [*page.expect[None], *own, *probes]
    try:
        observed = observe(page, context, names, propose=not probes)
    except (DoesNotApply, HunkError) as error:
        return page, error
    claims = claim_rows(observed, page.claims[None])
    rows = {
        "expect": list(expect_rows(observed, page.expect[None])),
        "diagnostics": [claims[key] for key in _claims_of(page.front.kind)],
    }
    toml = _with_tables(page.toml, rows)
    write_file(Path(page.path), f"+++\n{toml}+++\n{page.body}")
    return page, None


def _claims_of(kind: PageKind) -> tuple[str, ...]:
    return ("caught_by", "missed_by") if kind == "break" else ("missed_by",)


def _with_tables(toml: str, tables: Mapping[str, Sequence[str]]) -> str:
    """Return TOML in which these tables have these rows; everything else stays as it is."""
    rows: list[str] = []
    replaced, inside = set[str](), False
    for row in toml.splitlines():
        if header := re.fullmatch(r"\s*\[{1,2}\s*([^\[\]]+?)\s*\]{1,2}\s*(#.*)?", row):
            inside = header[1] in tables
            replaced |= {header[1]}
            rows += [row, *tables[header[1]], ""] if inside else [row]
        elif not inside:
            rows.append(row)
    for name in tables.keys() - replaced:
        rows += ["", f"[{name}]", *tables[name]]
    return "\n".join(rows).rstrip() + "\n"


def next_steps(
    draft: Draft,
    path: Path,
    folder: Path | None,
    error: BreaklabError | None,
    engine: str | None = None,
) -> str:
    """Return the next steps for a new page; `folder` and `engine` if commands must name them."""
    names = {"--breaks": str(folder) if folder else None, "--engine": engine}
    option = "".join(f" {name} {shlex.quote(value)}" for name, value in names.items() if value)
    steps = {
        f"diff {draft.id}": "what the patch changes in the engine's code",
        f"new {draft.id} --again": "observe again after the patch was edited",
        f"break {draft.id}": "what happens, probe by probe",
        f"myth {draft.id}": "what the program prints",
        f"exercise {draft.id}": "which tests pass, and which fail",
        f"check {draft.id}": "what is left to write, and what is not true",
    }
    own = (draft.kind,) if draft.kind in UNPATCHED else ("diff", "new", "break")
    steps = {step: why for step, why in steps.items() if step.split()[0] in (*own, "check")}
    lines = [f"  harness {step}{option}" for step in steps]
    width = max(map(len, lines))
    listed = (f"{line:{width}}   {why}" for line, why in zip(lines, steps.values(), strict=True))
    wrong = [f"\nThe patch has a mistake; correct it in the page.\n{error}"] if error else []
    return "\n".join([f"wrote {path}", *wrong, "\nNext steps, as often as needed:", *listed])


# ----- The page's text -----


def _page(draft: Draft, observed: Proposal | None) -> str:
    front = "\n".join(_front(draft, observed))
    body = "\n\n".join(_body(draft))
    return f"+++\n{front}\n+++\n{body}\n"


def _front(draft: Draft, observed: Proposal | None) -> Iterator[str]:
    yield f'id     = "{draft.id}"'
    yield f'kind   = "{draft.kind}"'
    yield f'family = "{draft.family}"'
    yield f"level  = {draft.level}"
    if draft.kind != "variant":
        yield "sources = []"
    if draft.kind == "operator":
        yield 'write  = "TODO: the test to write, in one sentence"'
    if draft.kind == "break":
        yield 'why    = ""  # why it crashes here and is silent there, in two sentences'
        yield 'beware = ""  # where it hides, or what it makes look better, in two sentences'
    if draft.kind == "exercise":
        yield "breaks  = []"
        yield "kills   = []"
    if draft.kind in UNPATCHED:
        return
    yield "\n[expect]"
    claims = {key: f"{key} = []" for key in _claims_of(draft.kind)}
    if observed:
        yield from expect_rows(observed, {})
        claims |= claim_rows(observed, Claims())
    else:
        yield from (f'{name} = "{UNSTATED}"' for name in draft.probes)
    if observed and draft.kind == "break":
        yield from ask_rows(observed)
    yield "\n[diagnostics]"
    yield from (claims[key] for key in _claims_of(draft.kind))


def _body(draft: Draft) -> Iterator[str]:
    optional = optional_sections(draft.kind)
    yield f"# {draft.id.replace('-', ' ').capitalize()}"
    yield "<!-- A title of a few words, in a learner's terms. -->"
    for section, hint in sections_of(draft.kind).items():
        if section not in optional:
            yield f"## {section}"
            yield from (block for block in [_block(section, draft)] if block)
            yield f"<!-- {hint} -->"


_RULE = """\
def scale(x, k):
    return k * x


def scale_backward(g, k):
    return g * k
"""

_TEST = """\
def test_something():
    assert scale_backward(np.ones(2), 1.0).shape == (2,)
"""

_IMPORT = "import numpy as np\n\n\n"
"""What most tests and probes need."""

_INVARIANT = """\
def what_is_true(lib, rng):
    a = lib.tensor(rng.normal(size=(2, 3)), requires_grad=True)
    a.sum().backward()
    assert a.grad.shape == a.shape
"""


def _block(section: str, draft: Draft) -> str:
    """Return the block that runs, if the section has one."""
    if section == "The program":
        program = "```python\n# the shortest program that shows what really happens\n```"
        return f"{program}\n\n```text\nits exact output\n```"
    if section == "The suite":
        return f"```python\n{_IMPORT}def test_something(lib):\n    assert lib is not None\n```"
    if section == "Answer":
        probe = 'def answer(x=(3,)):\n    """What it exercises, in one line."""\n    return x'
        return f"```python\n{_IMPORT}{probe}\n```"
    if section == "Diagnostic" and draft.kind == "break":
        return f"```python invariant\n{_INVARIANT}```"
    if section == RULE:
        return f"```python\n{_RULE}```"
    if section in (WEAK, RECOMMENDED):
        return f"```python\nimport numpy as np\nfrom rule import scale_backward\n\n\n{_TEST}```"
    if section not in ("The break", "The slip"):
        return ""
    blank = DraftHunk("rule" if draft.kind == "operator" else "", after="the changed code")
    hunks = [draft_hunk(hunk) for hunk in draft.hunks or [blank]]
    fence = f"```diff engine={draft.engine}" if draft.engine else "```diff"
    return "\n".join([fence, "\n\n".join(hunks), "```"])


def draft_hunk(hunk: DraftHunk) -> str:
    """Return a hunk in the notation of the pages."""
    header = f"@@ {hunk.scope} @@" if hunk.scope else "@@ @@"
    if hunk.rows:
        return "\n".join([header, *hunk.rows])
    before = hunk.before or "the original code, one or more lines"
    removed = [f"-{row}" for row in before.splitlines()]
    added = [f"+{row}" for row in hunk.after.splitlines()]
    return "\n".join([header, *removed, *added])
