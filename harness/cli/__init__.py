"""The command line: one file per command, the options they share, and the session they work in."""

from harness.cli.app import main

__all__ = ["main"]
