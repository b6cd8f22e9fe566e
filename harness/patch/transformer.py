"""A break that the notation cannot express, as a LibCST transformer.

LibCST generates the changed code itself, so the sites are whole lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import SequenceMatcher

import libcst as cst
from libcst.metadata import MetadataWrapper

from harness.core.errors import DoesNotApply
from harness.core.site import Site, SiteKind
from harness.patch.apply import Patched, lines_of
from harness.patch.reader import read_source
from harness.patch.tree import Node, Source, scope_of


def apply_transformer(
    transformer: type[cst.CSTTransformer] | cst.CSTTransformer, sources: Mapping[str, str]
) -> Patched:
    """Run a transformer over all sources; a class is instantiated for each file.

    The sites are the changed runs of lines. Raises `DoesNotApply` if nothing changed.
    """
    changed: dict[str, str] = {}
    sites: list[Site] = []
    for file, text in sources.items():
        visitor = transformer() if isinstance(transformer, type) else transformer
        wrapper = MetadataWrapper(cst.parse_module(text), unsafe_skip_copy=True)
        changed[file] = wrapper.visit(visitor).code
        if changed[file] != text:
            sites += _sites(file, text, changed[file])
    if not sites:
        name = getattr(transformer, "__name__", type(transformer).__name__)
        problem = f"the transformer {name} changes nothing in this engine"
        raise DoesNotApply(problem, lambda: (problem, "run it on the engine it was written for"))
    return Patched(changed, tuple(sites), dict(sources))


def _sites(file: str, before: str, after: str) -> list[Site]:
    old, new = lines_of(before), lines_of(after)
    original, source = read_source(before), read_source(after)
    sites = []
    for tag, i, j, k, m in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            start, text = len("".join(new[:k]).encode()), "".join(new[k:m])
            beside = _statement_after(source, start)
            scope = scope_of(beside) if beside else ""
            kind: SiteKind = "statements" if text.strip() else "deletion"
            anchor = beside.start if beside and kind == "deletion" else None
            removed, begin = "".join(old[i:j]), len("".join(old[:i]).encode())
            following = _statement_after(original, begin)
            sites.append(
                Site(
                    file=file,
                    line=k + 1,
                    scope=scope,
                    before=removed,
                    after=text,
                    start=start,
                    end=start + len(text.encode()),
                    kind=kind,
                    anchor=anchor,
                    origin=(begin, begin + len(removed.encode())),
                    origin_anchor=following.start if following else None,
                )
            )
    return sites


def _statement_after(source: Source, offset: int) -> Node | None:
    """Return the first statement that begins at or after an offset, or None."""
    statements = (node for node in source.root.walk() if node.slot == "body")
    following = (node for node in statements if node.start >= offset)
    return min(following, key=lambda node: node.start, default=None)
