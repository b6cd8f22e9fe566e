"""Source code in more parentheses than a parser can bear."""

ENDS = ["RecursionError", "MemoryError", "SIGSEGV"]


def attack(tensor):
    import ast

    ast.parse("-" * 10**6 + "1")
