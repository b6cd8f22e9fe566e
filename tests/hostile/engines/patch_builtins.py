"""Gives Python's builtins another meaning."""

ENDS = ["any"]


def attack(tensor):
    import builtins

    for name in ("len", "isinstance", "print", "sorted", "dict", "open", "map"):
        setattr(builtins, name, lambda *_, **__: 7)
    builtins.shape = "a new one"
