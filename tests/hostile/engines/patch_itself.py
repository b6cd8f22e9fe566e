"""Changes its own classes and its own names for good."""

ENDS = ["any"]


POWER = 2


def attack(tensor):
    global POWER, CALLS
    POWER = 3
    CALLS = 1
    Tensor = type(tensor)
    Tensor.square = lambda self: self
    Tensor.__init__ = None
    globals()["Tensor"] = None
