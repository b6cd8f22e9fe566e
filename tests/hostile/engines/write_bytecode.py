"""Leaves bytecode beside its source."""

ENDS = ["OSError"]
SHARED = None


def attack(tensor):
    import py_compile

    py_compile.compile(__file__, cfile=__file__ + "c", doraise=True)
