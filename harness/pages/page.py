"""A page: one Markdown file that is a break, a variant, a myth or an exercise.

TOML front matter between `+++` lines for machines, Markdown for people, fenced blocks that run.
Reading checks what can be known from the page alone; every mistake is a `PageError` with file,
line, key and remedy. The diff blocks stay text here: the patch is the next step of the road.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, get_args

import msgspec

from harness.core.errors import PageError
from harness.core.vocabulary import LOSSES, OUTCOMES, Loss, Outcome, PageKind, PardonReason
from harness.pages.probe import Probe, read_probes

PerLoss = dict[Loss, Outcome | None]
ProbeTable = dict[str, Outcome | PerLoss | None]
"""A probe's outcome, or one a loss; None where the author has not stated it yet."""

UNSTATED = "?"
"""In place of an outcome: run this probe, and state nothing yet. `harness check` asks for it."""

ID = "^[a-z0-9]+(-[a-z0-9]+)*$"
MODULE = r"^[A-Za-z_]\w*$"

LARGEST = 64 * 1024
"""Bytes in a file of the catalogue; ten times what is read in five minutes."""

MOST_DOTS = 300
"""In a line of front matter."""

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


class Pardon(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why no diagnostic catches the break, where none does."""

    reason: PardonReason
    sentence: Annotated[str, msgspec.Meta(min_length=1)]


class FrontMatter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The machine's part of a page, as it is written."""

    id: Annotated[str, msgspec.Meta(pattern=ID)]
    kind: PageKind
    family: Annotated[str, msgspec.Meta(pattern=ID)]
    level: Annotated[int, msgspec.Meta(ge=1, le=3)] = 1
    sources: tuple[str, ...] = ()
    sites: Annotated[int, msgspec.Meta(ge=1)] | None = None
    transformer: str | None = None
    expect: dict[str, Any] = {}
    diagnostics: dict[str, Any] = {}
    pardon: Pardon | None = None
    recipe: Annotated[str, msgspec.Meta(pattern=MODULE)] | None = None
    """The training that a break of the training tier changes; see `harness.training`."""
    needs: tuple[Annotated[str, msgspec.Meta(pattern=MODULE)], ...] = ()
    """What a myth's program imports beside NumPy and minigrad; it is not run without."""
    breaks: tuple[str, ...] = ()
    """The breaks that pass an exercise's suite, and that its answer kills."""
    kills: tuple[str, ...] = ()
    """Breaks that the suite of an exercise does catch."""


class Claims(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Diagnostics that the page says catch the break on some probe, or miss it on every one."""

    caught_by: tuple[str, ...] = ()
    missed_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class Fence:
    """A fenced block: what follows the backticks, its text, and the line of its first row."""

    info: tuple[str, ...]
    section: str
    text: str
    line: int


@dataclass(frozen=True)
class Page:
    """A page that was read and found sound, but for its diff."""

    path: str
    front: FrontMatter
    toml: str
    """The front matter as it is written; it starts at line 2 of the file."""
    title: str
    body: str
    body_line: int
    """The line of the file at which `body` starts (1-based)."""
    expect: Mapping[str | None, ProbeTable]
    """Expected outcomes, by the variant that they are stated for (None: the engine itself)."""
    claims: Mapping[str | None, Claims]
    """Claims about diagnostics, likewise."""

    @property
    def id(self) -> str:
        """The page's id, which is also its file's name."""
        return self.front.id

    def expected(self, variant: str | None, probe: str, loss: Loss | None) -> Outcome | None:
        """What the page says of a run; a variant's table overrides the engine's, probe by probe."""
        for table in (self.expect.get(variant, {}), self.expect[None]):
            if probe in table:
                said = table[probe]
                return said.get(loss or "weighted") if isinstance(said, dict) else said
        return None

    def line_of(self, *key: str) -> int:
        """The line of the file where a key of the front matter stands, or the table around it."""
        return _key_line(self.toml, key)

    def diffs(self, engine: str) -> list[Fence]:
        """The blocks that are the patch: those for this engine where there are any, else all."""
        return self.diffs_for(engine) or [fence for fence in self._diffs if len(fence.info) == 1]

    def diffs_for(self, engine: str) -> list[Fence]:
        """The blocks that are for this engine alone."""
        return [fence for fence in self._diffs if f"engine={engine}" in fence.info[1:]]

    @property
    def portable(self) -> list[Fence]:
        """The blocks for engines that are built otherwise: the first that fits is the patch."""
        return [fence for fence in self._diffs if "portable" in fence.info[1:]]

    @property
    def _diffs(self) -> list[Fence]:
        return [fence for fence in self.fences if fence.info[:1] == ("diff",)]

    @cached_property
    def probes(self) -> tuple[Probe, ...]:
        """The page's own probes: the `python` blocks of its section Probes."""
        return tuple(
            probe
            for fence in self.fences
            if fence.info[:1] == ("python",) and fence.section == "Probes"
            for probe in read_probes(fence.text, self.path, fence.line)
        )

    @cached_property
    def fences(self) -> tuple[Fence, ...]:
        """All fenced blocks, in order."""
        return tuple(read_fences(self.body, self.body_line))

    @property
    def headings(self) -> list[str]:
        """The second-level headings, as they are written."""
        return [heading.rstrip() for heading in re.findall(r"^## (.+)$", self.body, re.M)]

    def section(self, heading: str) -> str:
        """The Markdown below a second-level heading, up to the next; empty where there is none."""
        found = re.search(rf"^## {re.escape(heading)}\s*\n(.*?)(?=^## |\Z)", self.body, re.M | re.S)
        return found.group(1).strip() if found else ""


def read_page(path: Path) -> Page:
    """Read and validate the page at `path`.

    Raises PageError for a file that is no text, front matter that is no TOML or does not follow
    the schema, an id that is not the file's name, `needs` on what is no myth, and a page without a
    title.
    """
    name = str(path)
    toml, body, body_line = split_front(read_text(path), name)
    reader = _FrontReader(name, toml)
    front = reader.front()
    if front.id != path.stem:
        raise reader.mistake(
            ("id",), f"is `{front.id}`, but the file is `{path.name}`", "give both the same name"
        )
    if front.needs and front.kind != "myth":
        raise reader.mistake(
            ("needs",),
            f"is a myth's, and this is a {front.kind}",
            "leave it out: other libraries are asked wherever they are installed",
        )
    for key in ("breaks", "kills"):
        if getattr(front, key) and front.kind != "exercise":
            raise reader.mistake((key,), f"on a {front.kind}", "leave it out: exercises have it")
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
    """The first heading of Markdown at `line` of its file. Raises PageError where there is none."""
    title = re.search(r"^# +(\S.*)$", body, re.M)
    if title is None:
        raise PageError(path, line, "no title", "start the Markdown with `# The break's name`")
    return title.group(1).rstrip().replace("`", "")


def read_text(path: Path) -> str:
    """The text of a file of the catalogue. Raises PageError where it is none."""
    try:
        if path.exists() and not path.is_file():  # a pipe would keep us waiting
            raise PageError(str(path), 1, "it is no file", "give it a name that ends in no `.md`")
        if path.stat().st_size > LARGEST:
            size = f"it has {path.stat().st_size} bytes, and {LARGEST} are allowed"
            raise PageError(str(path), 1, size, "a page is read in five minutes")
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError, RuntimeError) as error:
        raise PageError(str(path), 1, f"cannot be read: {error}", "save it as UTF-8 text") from None
    if control := _CONTROL.search(text):
        line = text.count("\n", 0, control.start()) + 1
        said = f"the control character U+{ord(control[0]):04X} is no text"
        raise PageError(str(path), line, said, "take it out")
    return text


def read_table(path: Path) -> dict[str, str]:
    """A TOML file of strings. Raises PageError, with the line, where it is something else."""
    name = str(path)
    try:
        return msgspec.toml.decode(read_text(path), type=dict[str, str])
    except (ValueError, RecursionError) as error:
        found = re.search(r"at line (\d+)", str(error))
        line = int(found.group(1)) if found else 1
        raise PageError(
            name, line, f"it is no TOML of strings: {error}", 'write `"English" = "other"` a line'
        ) from None


def read_fences(body: str, body_line: int) -> Iterator[Fence]:
    """The fenced blocks of Markdown that starts at line `body_line` of its file, in order."""
    from markdown_it import MarkdownIt  # only needed once a page is executed or shown

    tokens = MarkdownIt("commonmark").parse(body)
    section = ""
    for index, token in enumerate(tokens):
        if token.type == "heading_open" and token.tag == "h2":
            section = tokens[index + 1].content.strip()
        elif token.type == "fence" and token.map:
            line = body_line + token.map[0] + 1
            yield Fence(tuple(token.info.split()), section, token.content, line)


def split_front(text: str, path: str) -> tuple[str, str, int]:
    """Front matter, body, and the body's first line (1-based). Raises PageError without any."""
    lines = text.splitlines(keepends=True)
    remedy = "start the page with a line `+++`, TOML, and another line `+++`"
    if not lines or lines[0].strip() != "+++":
        raise PageError(path, 1, "no front matter", remedy)
    for index, line in enumerate(lines[1:], start=1):
        if line.strip() == "+++":
            return "".join(lines[1:index]), "".join(lines[index + 1 :]), index + 2
    raise PageError(path, 1, "the front matter does not end", remedy)


_REMEDIES = {
    "id": "lower-case words joined by hyphens, the file's name without .md: `skip-unbroadcast`",
    "kind": 'one of "break", "variant", "myth", "exercise"',
    "family": "lower-case words joined by hyphens, the folder of the page: `broadcasting`",
    "level": "1 (first lesson), 2 or 3 (expert)",
    "sources": 'a list of strings: `sources = ["project#123"]`',
    "sites": "the number of places that the patch changes, 1 or more; or leave it out",
    "transformer": 'the name of a LibCST transformer: `transformer = "package.module:Class"`',
    "expect": f"`probe-name = outcome`, where the outcome is one of {', '.join(OUTCOMES)}; or "
    f'`probe-name = {{ {LOSSES[0]} = "...", {LOSSES[1]} = "..." }}`',
    "pardon": f'`reason = "..."`, one of {", ".join(get_args(PardonReason))}, and '
    '`sentence = "..."`, which says why no diagnostic can catch it',
    "diagnostics": '`caught_by = ["shape"]` and `missed_by = ["loss-falls"]`',
    "recipe": 'the name of a training that the patch changes: `recipe = "classify"`',
    "needs": 'the modules that a myth\'s program imports beside NumPy: `needs = ["torch"]`',
    "breaks": 'the breaks that pass an exercise\'s suite: `breaks = ["assign-not-accumulate"]`',
    "kills": 'breaks that the suite of an exercise catches: `kills = ["mul-ignore-upstream"]`',
}
_KEYS = ", ".join(_REMEDIES)


class _FrontReader:
    """Turns front matter into typed values, and any mistake in it into a PageError."""

    def __init__(self, path: str, toml: str) -> None:
        self.path, self.toml = path, toml

    def front(self) -> FrontMatter:
        try:
            for at, row in enumerate(self.toml.splitlines(), start=2):
                if (dots := row.count(".")) > MOST_DOTS:  # the time for a key grows fast with them
                    many = f"a line with {dots} dots in the front matter"
                    raise PageError(self.path, at, many, "break it in several")
            table = tomllib.loads(self.toml)
        except (ValueError, RecursionError) as error:  # too long a number, too many brackets
            found = re.search(r"at line (\d+)", str(error))
            line = 1 + (int(found.group(1)) if found else 1)
            raise PageError(
                self.path, line, f"the front matter is not TOML: {error}", "see https://toml.io"
            ) from None
        front: FrontMatter = self._convert(table, FrontMatter, ())
        return front

    def expect(self, front: FrontMatter) -> dict[str | None, ProbeTable]:
        """Split the tables of variants from the engine's own entries."""
        tables: dict[str | None, ProbeTable] = {None: {}}
        if front.recipe:
            return tables  # it speaks of metrics: `harness.training.experiment`
        for key, value in front.expect.items():
            if isinstance(value, dict) and not value.keys() & set(LOSSES):
                tables[key] = {
                    probe: self._said(said, ("expect", key, probe)) for probe, said in value.items()
                }
            else:
                tables[None][key] = self._said(value, ("expect", key))
        return tables

    def claims(self, front: FrontMatter) -> dict[str | None, Claims]:
        """Split the claims for variants from those for the engine itself."""
        own = {
            key: value for key, value in front.diagnostics.items() if not isinstance(value, dict)
        }
        claims: dict[str | None, Claims] = {None: self._convert(own, Claims, ("diagnostics",))}
        for key, value in front.diagnostics.items():
            if isinstance(value, dict):
                claims[key] = self._convert(value, Claims, ("diagnostics", key))
        return claims

    def mistake(self, key: tuple[str, ...], problem: str, remedy: str) -> PageError:
        return PageError(
            self.path, _key_line(self.toml, key), f"key `{'.'.join(key)}` {problem}", remedy
        )

    def _said(self, value: object, key: tuple[str, ...]) -> Outcome | PerLoss | None:
        if isinstance(value, dict):
            return {
                self._convert(loss, Loss, (*key, loss)): self._outcome(one, (*key, loss))
                for loss, one in value.items()
            }
        return self._outcome(value, key)

    def _outcome(self, value: object, key: tuple[str, ...]) -> Outcome | None:
        said: Outcome | None = None if value == UNSTATED else self._convert(value, Outcome, key)
        return said

    def _convert(self, value: object, kind: Any, key: tuple[str, ...]) -> Any:
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            raise self._explain(str(error), key) from None

    def _explain(self, message: str, key: tuple[str, ...]) -> PageError:
        problem, _, place = message.partition(" - at ")
        key = (*key, *re.findall(r"[A-Za-z_]\w*", place))
        unknown = re.search(r"unknown field `(.+?)`", problem)
        missing = re.search(r"missing required field `(.+?)`", problem)
        if unknown:
            key = (*key, unknown.group(1))
            return self.mistake(key, "is unknown", f"the keys are {_KEYS}")
        if missing:
            key = (*key, missing.group(1))
            return self.mistake(key, "is missing", f"add it: {_REMEDIES[key[0]]}")
        return self.mistake(key, f"is wrong: {problem}", f"write {_REMEDIES[key[0]]}")


def _key_line(toml: str, key: tuple[str, ...]) -> int:
    """The line of the file where the key stands; the first line where it does not stand.

    Both spellings count: `[expect.variant]` then `probe = ...`, and `[expect]` then
    `variant.probe = ...`.
    """
    table: tuple[str, ...] = ()
    best, line = 0, 1
    for number, row in enumerate(toml.splitlines(), start=2):
        header = re.match(r"\s*\[\[?([^\]]+)\]", row)
        entry = re.match(r"\s*([\w.\"'-]+)\s*=", row)
        if header:
            table = here = _dotted(header.group(1))
        elif entry:
            here = table + _dotted(entry.group(1))
        else:
            continue
        if len(here) > best and key[: len(here)] == here:
            best, line = len(here), number
    return line


def _dotted(key: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in key.split("."))
