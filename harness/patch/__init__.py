"""The semantic patch: a page's before and after, applied to an engine's source.

    text of a diff block -> notation -> Patch -> apply -> Patched (sources and sites)

`breaks/README.md` describes the notation, and `tests/harness/patch` shows it by example.
"""

from harness.patch.apply import Patched, apply_at_one, apply_patch
from harness.patch.notation import Hunk, Patch, combine, parse_patch, reverse
from harness.patch.scope import EngineNames

__all__ = [
    "EngineNames",
    "Hunk",
    "Patch",
    "Patched",
    "apply_at_one",
    "apply_patch",
    "combine",
    "parse_patch",
    "reverse",
]
