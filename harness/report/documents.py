"""The generated documents: text from the code and the catalogue between two markers of a file.

    python -m harness.report.documents

updates them; run it in the root of a clone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count, groupby
from pathlib import Path

from harness.core.files import write_file
from harness.diagnostics import DIAGNOSTICS
from harness.learn.clues import BugPool, pool_of
from harness.matrix.committed import Committed, committed_file, read_committed
from harness.pages.catalogue import Catalogue, open_catalogue
from harness.pages.conventions import Unit
from harness.pages.front_matter import Break, TrainingBreak
from harness.pages.page import Page
from harness.report import markdown_table

START, END = "<!-- made by python -m harness.report.documents -->\n", "<!-- end -->\n"


CHECKS = {
    "crash": "it crashes",
    "shape": "a gradient has another shape than its leaf",
    "loss-falls": "the loss does not fall",
    "directional": "one directional derivative differs from a finite difference",
    "torch": "PyTorch gives another result",
}
"""The checks that the README compares, in words, from the one that everybody has."""

FAMILIES = {"broadcasting": "broadcasting bugs", "op-formulas": "wrong formulas of ops"}
"""The families that the README names, in words."""


def shares_of_checks() -> str:
    """Return the share of breaks that some checks notice with any shared probe, by family."""
    committed = read_committed(committed_file(Path("breaks"), None)) or {}
    pages = [page for page in open_catalogue().valid_pages() if page.id in committed]
    groups = [
        (words, [page.id for page in pages if page.front.family == family])
        for family, words in FAMILIES.items()
    ]
    groups.append(("bugs of all kinds", [page.id for page in pages if page.front.kind == "break"]))
    head = ("the check", *(f"{len(ids)} {words}" for words, ids in groups))
    rows = []
    for name, words in CHECKS.items():
        counts = [sum(name in committed[page].caught_by for page in ids) for _, ids in groups]
        shares = (f"{n / len(ids):.0%}" for n, (_, ids) in zip(counts, groups, strict=True))
        rows.append((words, *(share.replace("%", " %") for share in shares)))
    return _table(head, rows)


def diagnostics_table() -> str:
    """Return the table of diagnostics: what each sees, what it is blind to, and its cost."""
    head = ("diagnostic", "sees", "blind to", "cost")
    rows = ((f"`{item.name}`", item.sees, item.blind, item.cost) for item in DIAGNOSTICS)
    return _table(head, rows)


def catalogue_index() -> str:
    """Return the index of all pages: the track, breaks by family, then the other kinds."""
    catalogue = open_catalogue()
    pages = catalogue.valid_pages()
    committed = read_committed(committed_file(Path("breaks"), None)) or {}
    sections = [("The track for beginners", _track(catalogue))]
    breaks = [page for page in pages if page.front.kind == "break"]
    for family, group in groupby(breaks, key=lambda page: page.front.family):
        of_family = list(group)
        if all(isinstance(page.front, TrainingBreak) for page in of_family):
            table = _trainings(catalogue, of_family)
        else:
            table = _breaks(catalogue, of_family, committed)
        sections.append((f"Breaks: {family}", table))
    others = (page for page in pages if page.front.kind != "break")
    for kind, group in groupby(others, key=lambda page: page.front.kind):
        sections.append((f"{kind.capitalize()}s", _others(catalogue, group)))
    return "\n".join(f"## {heading}\n\n{table}" for heading, table in sections)


def _track(catalogue: Catalogue) -> str:
    steps = enumerate(catalogue.track.items(), start=1)
    rows = [(str(i), _link(catalogue, catalogue.page(page)), idea) for i, (page, idea) in steps]
    return _table(("", "page", "the idea"), rows)


def _breaks(catalogue: Catalogue, pages: Iterable[Page], committed: Mapping[str, Committed]) -> str:
    """Return a table of breaks: what catches them (from the matrix), what misses them."""
    rows = []
    for page in pages:
        row = committed.get(page.id)
        rows.append(
            (
                _link(catalogue, page),
                str(page.front.level),
                page.title,
                row.headline if row else "",
                ", ".join(row.caught_by if row else page.claims[None].caught_by),
                ", ".join(page.claims[None].missed_by),
            )
        )
    return _table(("page", "level", "what it does", "headline", "caught by", "blind"), rows)


def _trainings(catalogue: Catalogue, pages: Iterable[Page]) -> str:
    """Return a table of training breaks: which numbers in the log move, and which way."""
    rows = []
    for page in pages:
        expected = page.front_as(TrainingBreak).expect
        moves = ", ".join(f"{metric} {move}" for metric, move in expected.items())
        rows.append((_link(catalogue, page), str(page.front.level), page.title, moves))
    return _table(("page", "level", "what it does", "over 20 seeds"), rows)


def _others(catalogue: Catalogue, pages: Iterable[Page]) -> str:
    rows = [(_link(catalogue, page), str(page.front.level), page.title) for page in pages]
    return _table(("page", "level", "what it is"), rows)


def _link(catalogue: Catalogue, page: Page) -> str:
    """Return a link to the page, followed by links to its translations, for a file in `docs/`."""
    folder = Path("..", "breaks", Path(page.path).parent.name)
    links = [f"[{page.id}]({folder / page.id}.md)"]
    for language, path in sorted(catalogue.translations(page.id).items()):
        links.append(f"[{language}]({folder / path.name})")
    return " ".join(links)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "".join(f"{line}\n" for line in markdown_table(head, rows))


def course() -> str:
    """Return the units of the course, with their pages, exercises and selections."""
    catalogue = open_catalogue()
    units = enumerate(catalogue.course.items(), start=1)
    pools = {level: pool_of(catalogue, level) for level in (1, 2, 3)}
    return "\n".join(
        _unit(catalogue, number, name, unit, _hunt(unit, pools)) for number, (name, unit) in units
    )


def _hunt(unit: Unit, pools: Mapping[int, BugPool]) -> str:
    """Return a hunt for a bug of this unit, of the lowest level that has one; empty if none."""
    for level, pool in pools.items():
        if any(suspect.id in unit.listed for suspect in pool.suspects):
            seed = next(seed for seed in count(1) if pool.choose(seed).id in unit.listed)
            return f"Hunt: `harness hunt --level {level} --seed {seed}`."
    return ""


def _unit(catalogue: Catalogue, number: int, name: str, unit: Unit, hunt: str) -> str:
    parts = {"core": unit.core, "practice": unit.pages, "further": unit.further}
    pages = [
        (part, catalogue.page(page))
        for part, ids in {**parts, "exercise": unit.exercises}.items()
        for page in ids
    ]
    breaks = sum(isinstance(page.front, Break) for _, page in pages)
    rows = [
        (part, _link(catalogue, page), page.front.kind, str(page.front.level), page.title)
        for part, page in pages
    ]
    selection = f"`unit:{name}` selects {breaks} breaks." if breaks else ""
    table = _table(("part", "page", "kind", "level", "title"), rows)
    texts = [f"## {number}. {unit.title}", unit.idea, f"{hunt} {selection}".strip(), table]
    return "\n\n".join(filter(None, texts))


DOCUMENTS: dict[Path, Callable[[], str]] = {
    Path("docs/diagnostics.md"): diagnostics_table,
    Path("docs/catalogue.md"): catalogue_index,
    Path("docs/course.md"): course,
    Path("README.md"): shares_of_checks,
}
"""The function that makes the text between the markers, by file."""


def with_text(page: str, text: str, marker: str = START) -> str:
    """Return the page with the text between its markers. Raises ValueError if it has none."""
    before, start, rest = page.partition(marker)
    _, end, after = rest.partition(END)
    if not (start and end):
        raise ValueError(f"no markers {marker.strip()} and {END.strip()}")
    return before + start + text + end + after


def main() -> None:
    """Update every document."""
    for path, make in DOCUMENTS.items():
        write_file(path, with_text(path.read_text(encoding="utf-8"), make()))


if __name__ == "__main__":
    main()
