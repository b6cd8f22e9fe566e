"""A check of a backward rule that is written for PyTorch, to be called in a user's own tests.

This room imports PyTorch and nothing else of ours, so that the import is as cheap as PyTorch's.
"""

from harness.gradients.checking import CHECKS, check_rule
from harness.gradients.trial import RuleError

__all__ = ["CHECKS", "RuleError", "check_rule"]
