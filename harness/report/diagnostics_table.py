"""The table of all diagnostics in `docs/diagnostics.md`, made from the registry.

    python -m harness.report.diagnostics_table

writes it anew, in the root of a clone.
"""

from __future__ import annotations

from pathlib import Path

from harness.diagnostics import DIAGNOSTICS

PAGE = Path("docs/diagnostics.md")
START, END = "<!-- the table starts -->\n", "<!-- the table ends -->\n"


def diagnostics_table() -> str:
    """A Markdown table: name, what it sees, what it is blind to, and its cost."""
    rows = [
        ("diagnostic", "sees", "blind to", "cost"),
        ("---",) * 4,
        *((f"`{each.name}`", each.sees, each.blind, each.cost) for each in DIAGNOSTICS),
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def with_table(page: str) -> str:
    """The page with the table between its markers. Raises ValueError where it has no markers."""
    before, start, rest = page.partition(START)
    _, end, after = rest.partition(END)
    if not (start and end):
        raise ValueError(f"no markers for the table: {START.strip()} and {END.strip()}")
    return before + start + diagnostics_table() + end + after


def main() -> None:
    """Write the table into the page."""
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
