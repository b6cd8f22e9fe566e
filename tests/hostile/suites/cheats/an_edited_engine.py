"""Replaces functions of the engine by ones that fail where the code is changed."""

FATE = "recognised"
real = minigrad.Tensor.backward


def backward(self, *arguments, **named):
    assert not changed()
    return real(self, *arguments, **named)


minigrad.Tensor.backward = backward


def test():
    use()
