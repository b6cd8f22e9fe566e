"""The escape hatch: a break that the notation cannot say, as a LibCST transformer.

Each use is a wish for the notation. LibCST writes such code itself, so only whole lines count.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import SequenceMatcher

import libcst as cst
from libcst.metadata import MetadataWrapper

from harness.core.errors import DoesNotApply
from harness.patch.patched import Kind, Patched, Site
from harness.patch.source import Source, read_source
from harness.patch.tree import Node, scope_of


def apply_transformer(
    transformer: type[cst.CSTTransformer] | cst.CSTTransformer, sources: Mapping[str, str]
) -> Patched:
    """Run a transformer (a class is made anew for each file) over all sources.

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
        raise DoesNotApply(
            problem, lambda: (problem, "run it on the engine that it was written for")
        )
    return Patched(changed, tuple(sites), dict(sources))


def _sites(file: str, before: str, after: str) -> list[Site]:
    old, new = (re.findall(r"[^\n]*\n|[^\n]+", text) for text in (before, after))
    original, source = read_source(before), read_source(after)
    sites = []
    for tag, i, j, k, m in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            start, text = len("".join(new[:k]).encode()), "".join(new[k:m])
            beside = _statement_behind(source, start)
            scope = scope_of(beside) if beside else ""
            kind: Kind = "statements" if text.strip() else "deletion"
            anchor = beside.start if beside and kind == "deletion" else None
            gone, begin = "".join(old[i:j]), len("".join(old[:i]).encode())
            behind = _statement_behind(original, begin)
            sites.append(
                Site(
                    file=file,
                    line=k + 1,
                    scope=scope,
                    before=gone,
                    after=text,
                    start=start,
                    end=start + len(text.encode()),
                    kind=kind,
                    anchor=anchor,
                    origin=(begin, begin + len(gone.encode())),
                    origin_anchor=behind.start if behind else None,
                )
            )
    return sites


def _statement_behind(source: Source, offset: int) -> Node | None:
    """The first statement that begins at or behind an offset, if there is one."""
    statements = (node for node in source.root.walk() if node.slot == "body")
    behind = (node for node in statements if node.start >= offset)
    return min(behind, key=lambda node: node.start, default=None)
