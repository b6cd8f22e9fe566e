"""Replaces the import machinery."""

ENDS = ["any"]


def attack(tensor):
    import builtins
    import sys

    class Finder:
        def find_spec(self, *_):
            raise RuntimeError("not found")

    sys.meta_path[:] = [Finder()]
    sys.path_hooks.clear()
    sys.path_importer_cache.clear()
    builtins.__import__ = builtins.__build_class__ = None
