"""An exception that fails when it is asked what it says."""

ENDS = ["Wordless"]


class Wordless(Exception):
    def __str__(self):
        raise self


def attack(tensor):
    raise Wordless
