"""Pickles a list in lists."""

ENDS = ["RecursionError"]


def attack(tensor):
    import pickle

    deep = []
    for _ in range(10**5):
        deep = [deep]
    pickle.dumps(deep)
