"""Raises what generators are closed with."""

ENDS = ["GeneratorExit"]


def attack(tensor):
    raise GeneratorExit
