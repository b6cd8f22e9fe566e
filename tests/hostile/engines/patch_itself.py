"""Changes its own classes and its own names for good."""

ENDS = ["any"]


POWER = 2


def attack(tensor):
    global POWER
    POWER = 3
    Tensor = type(tensor)
    Tensor.square = lambda self: self
    Tensor.__init__ = None
    globals()["Tensor"] = None
