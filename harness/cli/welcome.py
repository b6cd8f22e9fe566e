"""Bare `harness` on a terminal: what this is, where you are, and what to type next."""

from __future__ import annotations

from harness.cli.session import Session


def show_welcome_page() -> int:
    """Print six lines."""
    from harness.learn.track import Way
    from harness.report.progress import show_welcome

    session = Session(lang=None)
    show_welcome(session.console, Way(session.catalogue, session.journal.progress))
    return 0
