"""An engine whose attributes ask for more attributes."""

ENDS = ["RecursionError"]


def attack(tensor):
    def endless(self, name):
        return getattr(self, name + "_")

    type(tensor).__getattr__ = endless
    tensor.nothing
