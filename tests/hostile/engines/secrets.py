"""Looks for what the environment says about the user."""

ENDS = [None]


def attack(tensor):
    import os

    found = {name: value for name, value in os.environ.items() if "SECRET" in name + value}
    if found:
        raise ValueError(str(found))
    if os.environ["HOME"] != os.getcwd() or os.path.expanduser("~") != os.getcwd():
        raise ValueError(os.environ["HOME"])
