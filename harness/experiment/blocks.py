"""Which of a page's blocks is the patch for an engine.

The blocks `engine=NAME` are for that engine alone. For any other engine but ours the blocks marked
`portable` are tried, in their order; where a page has none, its block for ours is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from harness.core.errors import DoesNotApply, HunkError, PageError
from harness.engines.engine import Engine
from harness.pages.page import Fence, Page
from harness.patch import ABSENT, Patch, Patched, apply_patch, combine, loosen, parse_patch, rename

_KNOWN = re.compile(r"portable|engine=[\w.-]+|sites=[1-9]\d*")


def patches(page: Page, engine: Engine) -> list[Patch]:
    """What to try on this engine; [] where the page says nothing that could be tried.

    Raises HunkError for a block that cannot be read.
    """
    portable = page.portable
    if portable and engine.foreign and not page.diffs_for(engine.name):
        return [loosen(_read(page, [block]), engine.names) for block in portable]
    blocks = page.diffs(engine.name)
    return [rename(_read(page, blocks, engine), engine.names)] if blocks else []


def apply_first(tried: Sequence[Patch], sources: Mapping[str, str]) -> Patched:
    """The first patch that has a site.

    Raises DoesNotApply where none has, with what each looked for; of several, one that is
    ambiguous counts as one that has none.
    """
    problems: list[DoesNotApply | HunkError] = []
    for patch in tried:
        try:
            return apply_patch(patch, sources)
        except (DoesNotApply, HunkError) as error:
            if len(tried) == 1:
                raise
            problems.append(error)
    none = f"none of the {len(problems)} portable blocks has a site in this engine"
    reasons = [each.reason for each in problems if isinstance(each, DoesNotApply)]
    there = [reason for reason in reasons if ABSENT not in reason]
    raise DoesNotApply(
        next(iter([*there, *reasons]), none),
        lambda: ("\n".join([none, *map(str, problems)]), "add a diff block for this engine"),
    )


def check_blocks(page: Page) -> Iterator[PageError]:
    """What is wrong with the blocks for other engines, which no run on ours would find."""
    for block in page.fences:
        if block.info[:1] != ("diff",) or len(block.info) == 1:
            continue
        for word in block.info[1:]:
            if not _KNOWN.fullmatch(word):
                problem = f"`{word}` behind ```diff says nothing"
                remedy = "write `portable`, or `engine=NAME`, or `sites=2` behind that"
                yield PageError(page.path, block.line - 1, problem, remedy)
        try:
            loosen(_read(page, [block]), {})
        except PageError as error:
            yield error


def _read(page: Page, blocks: Sequence[Fence], engine: Engine | None = None) -> Patch:
    """Blocks as one patch, with the number of sites that it promises for that engine."""
    parts = [parse_patch(block.text, path=page.path, line=block.line) for block in blocks]
    stated = [int(w.removeprefix("sites=")) for b in blocks for w in b.info if "sites=" in w]
    ours = engine is not None and not engine.foreign
    sites = sum(stated) if stated else page.sites if ours else None
    return combine(parts, sites)
