"""The lab: a page and an engine in, a report out.

The public API is `check_rule`, which checks a backward rule of PyTorch, the exception `RuleError`
that it raises, and `show_break`, which shows a break in a notebook. Each is imported when it is
first used, so `import harness` imports neither PyTorch nor the rest of the harness.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.gradients import RuleError, check_rule
    from harness.report.notebook import show_break

__all__ = ["RuleError", "check_rule", "show_break"]

_ROOMS = {
    "RuleError": "harness.gradients",
    "check_rule": "harness.gradients",
    "show_break": "harness.report.notebook",
}


def __getattr__(name: str) -> object:
    """Import a name of the public API."""
    if name not in _ROOMS:
        raise AttributeError(f"module 'harness' has no attribute {name!r}")
    return getattr(import_module(_ROOMS[name]), name)
