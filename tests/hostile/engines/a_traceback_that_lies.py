"""An exception whose traceback and class are not what they should be."""

ENDS = ["any"]
SLOW = True
LIMITS = {"cpu_seconds": 0.5}


class Place:
    @property
    def tb_next(self):
        return self

    tb_frame = f_code = property(lambda self: self)
    co_filename = "probes.py"
    tb_lineno = 10**30


class Strange(Exception):
    __traceback__ = property(lambda _: Place())
    __class__ = property(lambda _: int)


def attack(tensor):
    raise Strange
