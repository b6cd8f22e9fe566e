"""A page: one Markdown file that is a break, a variant, a myth or an exercise.

TOML front matter between `+++` lines for machines, Markdown for people, fenced blocks that run.
Reading checks everything that needs only the page itself; every mistake is a `PageError` with file,
line and remedy. The diff blocks stay text here: `harness.patch` parses them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from harness.core import LARGEST, read_text
from harness.core.errors import PageError, Sentence, UsageError, as_message
from harness.core.message import message
from harness.core.vocabulary import Loss, Outcome
from harness.pages.front_matter import (
    Advice,
    Break,
    Claims,
    FrontMatter,
    FrontReader,
    PageFront,
    PatchFront,
    ProbeTable,
    TrainingBreak,
    key_line,
    line_of_error,
)
from harness.pages.probe import Probe, read_probes

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

Front = TypeVar("Front", bound=PageFront)
_Table = TypeVar("_Table")


@dataclass(frozen=True)
class Fence:
    """A fenced block: what follows the backticks, its text, and the line of its first row."""

    info: tuple[str, ...]
    section: str
    text: str
    line: int

    @property
    def is_invariant(self) -> bool:
        """Whether it is a page's invariant: see `harness.pages.checks`."""
        return self.info[:2] == ("python", "invariant")


@dataclass(frozen=True)
class Page:
    """A page that was read and validated, except for its diff."""

    path: str
    front: FrontMatter
    toml: str
    """The text of the front matter; it starts at line 2 of the file."""
    title: str
    body: str
    body_line: int
    """The line of the file at which `body` starts (1-based)."""
    expect: Mapping[str | None, ProbeTable]
    """Expected outcomes, by variant; None is the engine itself."""
    claims: Mapping[str | None, Claims]
    """Claims about diagnostics, by variant; None is the engine itself."""

    @property
    def id(self) -> str:
        """The page's id, which is also its file's name."""
        return self.front.id

    @property
    def sites(self) -> int | None:
        """The number of places that the patch changes; None if the page does not state it."""
        return self.front.sites if isinstance(self.front, PatchFront) else None

    def front_as(self, kind: type[Front]) -> Front:
        """Return the front matter, which must be of this kind. Raises UsageError if it is not."""
        if isinstance(self.front, kind):
            return self.front
        raise self.unlike(kind)

    def unlike(self, kind: type[PageFront]) -> UsageError:
        """Return the error about a page that should be of another kind."""
        return UsageError(
            message(
                "`{page}` is {noun}, not {kind}",
                page=self.id,
                noun=as_message(self.front.noun),
                kind=as_message(kind.noun),
            ),
            "`harness list` shows the kind of each page",
        )

    def expected(self, variant: str | None, probe: str, loss: Loss | None) -> Outcome | None:
        """Return the outcome that the page states for a run.

        A variant's table overrides the engine's, probe by probe.
        """
        for table in (self.expect.get(variant, {}), self.expect[None]):
            if probe in table:
                entry = table[probe]
                return entry.get(loss or "weighted") if isinstance(entry, dict) else entry
        return None

    def advice_on(self, variant: str | None) -> tuple[str | None, Advice]:
        """Return what the page says in the report on a variant, and which engine it is about.

        That is the variant, or the engine itself (None) if the page has no text for the variant.
        """
        if isinstance(self.front, Break) and variant in self.front.advice:
            return variant, self.front.advice[variant]
        if isinstance(self.front, Break | TrainingBreak):
            return None, Advice(self.front.why, self.front.beware)
        return None, Advice()

    @property
    def assertion(self) -> str:
        """The last assertion of the page's invariant; empty if it has none."""
        last = ""
        for fence in self.fences:
            if fence.is_invariant and (assertions := assertions_in(fence.text)):
                last = f"assert {ast.unparse(assertions[-1].test)}"
        return last

    def line_of(self, *key: str | int) -> int:
        """The line of the file where a key of the front matter is, or the table around it."""
        return key_line(self.toml, key)

    def mistake(self, key: tuple[str, ...], problem: Sentence, remedy: Sentence) -> PageError:
        """Return the error about a key of the front matter, at its line."""
        return FrontReader(self.path, self.toml).mistake(key, problem, remedy)

    def diffs(self, engine: str) -> list[Fence]:
        """Return the blocks of the patch: those for this engine if there are any, else all."""
        return self.diffs_for(engine) or [fence for fence in self._diffs if len(fence.info) == 1]

    def diffs_for(self, engine: str) -> list[Fence]:
        """Return the blocks for this engine only."""
        return [fence for fence in self._diffs if f"engine={engine}" in fence.info[1:]]

    def is_about(self, engine: str) -> bool:
        """Whether all blocks name their engine, and some this one: the page is about it."""
        return self._names_engines and bool(self.diffs_for(engine))

    def is_about_another(self, engine: str) -> bool:
        """Whether all blocks name their engine, and none this one."""
        return self._names_engines and not self.diffs_for(engine)

    @property
    def _names_engines(self) -> bool:
        if "engine=" not in self.body:  # reading the blocks is slow
            return False
        names = [any(w.startswith("engine=") for w in fence.info) for fence in self._diffs]
        return bool(names) and all(names)

    @property
    def portable(self) -> list[Fence]:
        """The blocks for engines with another design: the first that fits is the patch."""
        return [fence for fence in self._diffs if "portable" in fence.info[1:]]

    @property
    def patch_texts(self) -> list[tuple[tuple[str, ...], str]]:
        """Each diff block: what follows the backticks, and its text."""
        return [(fence.info, fence.text) for fence in self._diffs]

    @property
    def _diffs(self) -> list[Fence]:
        return [fence for fence in self.fences if fence.info[:1] == ("diff",)]

    @cached_property
    def probes(self) -> tuple[Probe, ...]:
        """The page's own probes: the `python` blocks of its section Probes."""
        return tuple(
            probe
            for fence in self.programs("Probes")
            for probe in read_probes(fence.text, self.path, fence.line)
        )

    def programs(self, section: str) -> list[Fence]:
        """Return the `python` blocks of a section."""
        return [
            fence for fence in self.fences if fence.section == section and fence.info == ("python",)
        ]

    @cached_property
    def fences(self) -> tuple[Fence, ...]:
        """All fenced blocks, in order."""
        return tuple(read_fences(self.body, self.body_line))

    @property
    def headings(self) -> list[str]:
        """The second-level headings."""
        return [heading.rstrip() for heading in re.findall(r"^## (.+)$", self.body, re.M)]

    def section(self, heading: str) -> str:
        """The Markdown below a second-level heading, up to the next; empty if there is none."""
        match = re.search(rf"^## {re.escape(heading)}\s*\n(.*?)(?=^## |\Z)", self.body, re.M | re.S)
        return match.group(1).strip() if match else ""

    def section_like(self, heading: str, original: Page) -> tuple[str, str]:
        """Return the heading and the text of the section that has this heading in the original.

        A translation has other headings, in the same order.
        """
        own, headings = self.headings, original.headings
        if heading not in headings or len(own) != len(headings):
            return heading, original.section(heading)
        title = own[headings.index(heading)]
        return title, self.section(title)


def read_page(path: Path) -> Page:
    """Read and validate the page at `path`; a text that was parsed before is not parsed again.

    Raises PageError for a file that is not text, front matter that does not follow the schema of
    its kind, an id that is not the file's name, and a page without a title.
    """
    return _parse_page(path, read_text(path))


@lru_cache(maxsize=2048)
def _parse_page(path: Path, text: str) -> Page:
    name = str(path)
    toml, body, body_line = split_front(text, name)
    reader = FrontReader(name, toml)
    front = reader.front()
    if front.id != path.stem:
        raise reader.mistake(
            ("id",),
            message("is `{id}`, but the file is `{file}`", id=front.id, file=path.name),
            "give both the same name",
        )
    return Page(
        path=name,
        front=front,
        toml=toml,
        title=read_title(body, name, body_line),
        body=body,
        body_line=body_line,
        expect=reader.expect(front),
        claims=reader.claims(front),
    )


def read_title(body: str, path: str, line: int) -> str:
    """Return the first heading of Markdown at `line` of its file. Raises PageError without one."""
    title = re.search(r"^# +(\S.*)$", body, re.M)
    if title is None:
        raise PageError(path, line, "no title", "start the Markdown with `# The break's name`")
    return title.group(1).rstrip().replace("`", "")


_LONG_KEY = re.compile(r"""^[\s[]*(?:[\w"'-]+[ \t]*\.[ \t]*){100}""", re.M)


def read_toml(
    path: Path, kind: type[_Table], problem: str, remedy: Sentence, most: int = LARGEST
) -> _Table:
    """Read a TOML file of at most `most` bytes.

    Raises PageError, with the line and this problem, if it is not a `kind`.
    """
    text = read_text(path, most)
    try:
        if _LONG_KEY.search(text):  # reading it takes time that grows with the square of its length
            raise ValueError("a key has too many parts")
        return msgspec.toml.decode(text, type=kind)
    except (ValueError, RecursionError) as error:
        line = line_of_error(error)
        raise PageError(
            str(path),
            line,
            message("{problem}: {error}", problem=as_message(problem), error=error),
            remedy,
        ) from None


def read_table(path: Path) -> dict[str, str]:
    """Read a TOML file of strings. Raises PageError, with the line, if it is anything else."""
    problem, remedy = "it is not a TOML table of strings", 'write one `"key" = "text"` per line'
    return read_toml(path, dict[str, str], problem, remedy)


def read_fences(body: str, body_line: int) -> Iterator[Fence]:
    """Yield the fenced blocks of Markdown that starts at line `body_line` of its file, in order."""
    tokens = _parser().parse(body)
    section = ""
    for index, token in enumerate(tokens):
        if token.type == "heading_open" and token.tag == "h2":
            section = tokens[index + 1].content.strip()
        elif token.type == "fence" and token.map:
            line = body_line + token.map[0] + 1
            yield Fence(tuple(token.info.split()), section, token.content, line)


@cache
def _parser() -> MarkdownIt:
    """Return a parser of blocks; the text within them, which takes as long, is left as it is."""
    from markdown_it import MarkdownIt  # slow to import, and not needed to list pages

    return MarkdownIt("commonmark").disable("inline")


def split_front(text: str, path: str) -> tuple[str, str, int]:
    """Return the front matter, the body, and the body's first line (1-based).

    Raises PageError if there is no front matter.
    """
    lines = text.splitlines(keepends=True)
    remedy = "start the page with a line `+++`, TOML, and another line `+++`"
    if not lines or lines[0].strip() != "+++":
        raise PageError(path, 1, "no front matter", remedy)
    for index, line in enumerate(lines[1:], start=1):
        if line.strip() == "+++":
            return "".join(lines[1:index]), "".join(lines[index + 1 :]), index + 2
    raise PageError(path, 1, "the front matter does not end", remedy)


def assertions_in(text: str) -> list[ast.Assert]:
    """Return the assertions in a Python text, in order; none if it is not Python."""
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    found = [node for node in nodes if isinstance(node, ast.Assert)]
    return sorted(found, key=lambda node: node.lineno)
