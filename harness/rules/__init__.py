"""A user's own backward rules: found by reading source, and changed at one site at a time.

Nothing is imported or executed. A *rule* is the code that computes a gradient by hand, with the
functions of the same file that it calls.
"""

from harness.rules.finding import LOOKED_FOR, find_rules
from harness.rules.mutation import check_scopes, mutations
from harness.rules.rule import Form, Rule, RuleFunction, Side

__all__ = [
    "LOOKED_FOR",
    "Form",
    "Rule",
    "RuleFunction",
    "Side",
    "check_scopes",
    "find_rules",
    "mutations",
]
