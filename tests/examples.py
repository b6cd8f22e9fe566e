"""How many examples a property takes that does not take the number of its profile."""

from hypothesis import settings


def examples(full: int) -> settings:
    """Take `full` examples in the profile `full`, and in others in proportion to their number."""
    return settings(max_examples=max(1, full * settings.default.max_examples // 100))
