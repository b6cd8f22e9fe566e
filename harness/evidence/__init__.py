"""The evidence: what a wrong array looks like, where the walk first went wrong, and by how much."""

from harness.evidence.divergence import first_divergence
from harness.evidence.fingerprint import fingerprint
from harness.evidence.margin import agree, deviation, margin

__all__ = ["agree", "deviation", "fingerprint", "first_divergence", "margin"]
