"""The command line: the commands by subject, the options they share, and their session."""

from harness.cli.app import main

__all__ = ["main"]
