"""An engine whose attributes access further attributes without end."""

ENDS = ["RecursionError"]


def attack(tensor):
    def endless(self, name):
        return getattr(self, name + "_")

    type(tensor).__getattr__ = endless
    tensor.nothing
