"""Imports the engine again after the collection, and compares both copies."""

import importlib

from harness.grade import confined

FATE = "survived"
real = confined._run_in_fork
COPIES = []


def gradients(library):
    a = library.tensor(np.ones(3), requires_grad=True)
    (a + np.ones((4, 3))).sum().backward()
    (1 - a).sum().backward()
    return a.grad.tolist()


def copying(suite, run, line):
    if not COPIES:
        names = [name for name in sys.modules if name.partition(".")[0] == "minigrad"]
        modules = {name: sys.modules.pop(name) for name in names}
        COPIES.append(importlib.import_module("minigrad"))
        sys.modules.update(modules)
    return real(suite, run, line)


confined._run_in_fork = copying


def test():
    use()
    assert not COPIES or gradients(COPIES[0]) == gradients(minigrad)
