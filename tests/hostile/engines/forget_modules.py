"""Forgets modules that were imported, and puts others in their place."""

ENDS = ["any"]


def attack(tensor):
    import sys

    sys.modules["os"] = sys.modules["harness.core.run"] = None
    del sys.modules["numpy"], sys.modules["random"]
    sys.path.clear()
    sys.meta_path.clear()
