"""Compares the source of each function with the files."""

import inspect

FATE = "survived"


def test():
    use()
    text = "".join(file.read_text() for file in FOLDER.rglob("*.py"))
    for function in (minigrad.Tensor.backward, minigrad.tensor):
        try:
            source = inspect.getsource(function)
        except TypeError:
            continue
        assert source in text
