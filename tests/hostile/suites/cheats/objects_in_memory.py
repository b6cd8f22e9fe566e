"""Searches memory for a page, a plan or the id of a break."""

import gc

FATE = "survived"


def test():
    use()
    try:
        items = gc.get_objects()
    except TypeError:
        return
    for item in items:
        assert type(item).__name__ not in ("Page", "Mutant", "GradingPlan", "Catalogue", "Pair")
        if type(item) is dict and "__name__" not in item:
            for value in list(item.values()):
                assert not (isinstance(value, str) and value == "-".join(("sub", "sign")))
