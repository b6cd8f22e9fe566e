"""`no_grad`: nothing is recorded inside, and only there."""

import threading

import numpy as np
import pytest

from minigrad import Tensor, no_grad


def leaf() -> Tensor:
    return Tensor(np.ones(()), requires_grad=True)


def test_no_grad_records_nothing_and_ends() -> None:
    a = leaf()
    with no_grad():
        inside = a * 2.0
    assert not inside.requires_grad
    assert inside.parents == ()
    assert (a * 2.0).requires_grad


def test_no_grad_ends_after_an_exception() -> None:
    with pytest.raises(ZeroDivisionError), no_grad():
        raise ZeroDivisionError
    assert (leaf() * 2.0).requires_grad


def test_no_grad_decorates() -> None:
    @no_grad()
    def double(a: Tensor) -> Tensor:
        return a * 2.0

    assert not double(leaf()).requires_grad
    assert not double(leaf()).requires_grad
    assert (leaf() * 2.0).requires_grad


def test_no_grad_is_a_matter_of_one_thread() -> None:
    observed: list[Tensor] = []
    with no_grad():
        thread = threading.Thread(target=lambda: observed.append(leaf() * 2.0))
        thread.start()
        thread.join()
    assert observed[0].requires_grad


def test_what_needs_no_gradient_keeps_no_graph() -> None:
    result = Tensor(1.0) + Tensor(2.0)
    assert result.parents == ()
    assert result.vjp is None
