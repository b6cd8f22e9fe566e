"""Asks the finder of the engine's modules which of them are changed."""

import sys

FATE = "survived"


def test():
    use()
    assert not any(getattr(finder, "compiled", None) for finder in sys.meta_path)
