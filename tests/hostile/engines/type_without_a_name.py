"""An exception whose type fails when it is asked for its name."""

ENDS = ["ProcessExit", "Unknown"]


class Nameless(type):
    @property
    def __name__(cls):
        raise RuntimeError("no name")


class Unknown(Exception, metaclass=Nameless):
    pass


def attack(tensor):
    raise Unknown
