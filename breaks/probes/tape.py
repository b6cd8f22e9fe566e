"""Gradients from a tape; in a library without one, the same gradients from backward()."""


def _gradient(lib, function, source):
    """The gradient of the sum of `function(source)`, from a tape if the library has one."""
    if hasattr(lib, "GradientTape"):
        with lib.GradientTape() as tape:
            target = function(source)
        return tape.gradient(target, source)
    (gradient,) = lib.autograd.grad(function(source).sum(), source)
    return gradient


def tape_scalar_target(lib, w=[[1.0, 2.0], [3.0, 4.0]]):
    """A scalar target and a matrix to differentiate: 3 * sum(w)."""
    yield {"gradient": _gradient(lib, lambda w: 3.0 * w.sum(), w)}


def tape_expanded_target(lib, w=[[1.0, 2.0], [3.0, 4.0]]):
    """A target of shape (1,): 3 * sum(w) with an added axis of length one."""
    yield {"gradient": _gradient(lib, lambda w: (3.0 * w.sum()).reshape(1), w)}


def tape_scalar_target_of_product(lib, w=[[1.0, 2.0], [3.0, 4.0]]):
    """A scalar target computed from a product: sum(w * w)."""
    yield {"gradient": _gradient(lib, lambda w: (w * w).sum(), w)}


def tape_vector_target(lib, w=[[1.0, 2.0], [3.0, 4.0]]):
    """A target of two elements, which a tape sums: the row sums of w * w."""
    yield {"gradient": _gradient(lib, lambda w: (w * w).sum(1), w)}


def tape_target_like_source(lib, w=[[1.0, 2.0], [3.0, 4.0]]):
    """A target of the source's shape: exp(w)."""
    yield {"gradient": _gradient(lib, lambda w: w.exp(), w)}


def tape_unconnected_source(lib, w=[2.0, 3.0], unused=[1.0, 1.0]):
    """A source that the target does not depend on: its gradient is None, not zeros."""
    if hasattr(lib, "GradientTape"):
        with lib.GradientTape() as tape:
            target = (w * w).sum()
        gradients = tape.gradient(target, [w, unused])
    else:
        gradients = lib.autograd.grad((w * w).sum(), [w, unused], allow_unused=True)
    yield {"gradient": gradients[0], "gradients": sum(g is not None for g in gradients)}


def tape_asked_twice(lib, w=[2.0, 3.0]):
    """Two gradients from a persistent tape, one after the other."""
    if hasattr(lib, "GradientTape"):
        with lib.GradientTape(persistent=True) as tape:
            squares = w * w
            total = squares.sum()
        yield {"gradient": tape.gradient(total, w)}
        yield {"gradient": tape.gradient(squares, w)}
    else:
        yield {"gradient": lib.autograd.grad((w * w).sum(), w)[0]}
        yield {"gradient": lib.autograd.grad((w * w).sum(), w)[0]}


def tape_training(lib, w=[2.0, 3.0]):
    """Four steps of descent on sum(w * w), each with a tape of its own."""
    for _ in range(5):
        yield {"loss": (w * w).sum(), "w": w}
        gradient = _gradient(lib, lambda w: (w * w).sum(), w)
        with lib.no_grad():
            w.add_(-0.1 * gradient)
