"""Compares the source of each function with the files."""

import inspect

FATE = "survived"


def test():
    use()
    text = "".join(file.read_text() for file in FOLDER.rglob("*.py"))
    for function in (minigrad.Tensor.backward, minigrad.tensor):
        assert inspect.getsource(function) in text
