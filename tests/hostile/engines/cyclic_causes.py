"""An exception that is its own cause and context, in a group of groups."""

ENDS = ["ExceptionGroup"]


def attack(tensor):
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    one.__context__, other.__context__ = other, one
    group = ExceptionGroup("a group", [one, other])
    for _ in range(500):
        group = ExceptionGroup("a group", [group, one])
    raise group from one
