"""Single-precision floats and integers, and their dtype after operations with others.

A Python number never changes a tensor's dtype, an array may; a gradient has the dtype of its leaf.
"""

import numpy as np


def scale_single(a: np.float32 = (3,)):
    """A leaf of float32, and Python numbers."""
    return 2.0 * a - a / 3 + 1


def mix_single_and_double(a: np.float32 = (3,), b=(3,)):
    """A leaf of float32 times one of float64: each gradient in the dtype of its leaf."""
    return a * b


def single_to_double(lib, a: np.float32 = (3,), b=(3,)):
    """A leaf of float32, converted to float64 before a product."""
    return a.to(getattr(lib, "float64", np.float64)) * b


def refuse_whole_number_leaf(lib):
    """A leaf of integers that requires a gradient; an update would be smaller than 1."""
    w = lib.tensor(np.array([1, 2, 3]), requires_grad=True)
    optimizer = lib.optim.SGD([w], lr=0.25)
    for _ in range(3):
        loss = (w * w).sum()
        optimizer.zero_grad()
        loss.backward()
        yield {"loss": loss.item(), "w": w}
        optimizer.step()


def _linear(lib, dtype):
    """A layer of 3 inputs and 2 outputs, in PyTorch or here."""
    seed = {} if hasattr(lib, "manual_seed") else {"rng": np.random.default_rng(0)}
    layer = lib.nn.Linear(3, 2, dtype=dtype, **seed)
    layer.load_state_dict(
        {
            "weight": lib.tensor(np.array([[1, -2, 3], [0, 1, -1]]) / 4),
            "bias": lib.tensor(np.array([0.5, -0.5])),
        }
    )
    return layer


def _seen(output, x):
    """The output of a layer, which should have the dtype of `x`."""
    return {"output": output, "promoted_error": float(output.dtype != x.dtype)}


def linear_single(lib, x: np.float32 = (2, 3)):
    """A float32 linear layer returns float32 for float32."""
    yield _seen(_linear(lib, x.dtype)(x), x)


def linear_double(lib, x=(2, 3)):
    """A float64 linear layer returns float64 for float64."""
    yield _seen(_linear(lib, x.dtype)(x), x)


def batch_norm_single(lib, x: np.float32 = (6, 3)):
    """Batch normalisation of float32: two batches in training, then one in evaluation."""
    layer = lib.nn.BatchNorm1d(3, dtype=x.dtype)
    yield {"output": layer(x)}
    yield {"output": layer(x)}
    layer.eval()
    yield {"output": layer(x)}


def _descend(optimizer, w, steps):
    for _ in range(steps):
        loss = ((w - 3.0) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        yield {"loss": loss, "w": w}
        optimizer.step()


def adam_single(lib, w: np.float32 = (3,)):
    """Adam on a parameter of float32: 5 steps."""
    yield from _descend(lib.optim.Adam([w], lr=0.1), w, 5)


def sgd_momentum_single(lib, w: np.float32 = (3,)):
    """SGD with momentum on a parameter of float32: 5 steps."""
    yield from _descend(lib.optim.SGD([w], lr=0.1, momentum=0.5), w, 5)


def schedule_by_numpy(lib, w: np.float32 = (3,)):
    """A parameter of float32, and a schedule that returns NumPy numbers: 5 steps."""
    optimizer = lib.optim.SGD([w], lr=0.1)
    make = getattr(lib.optim, "Scheduler", None) or lib.optim.lr_scheduler.LambdaLR
    scheduler = make(optimizer, lambda step: np.cos(np.float64(step) / 10))
    for values in _descend(optimizer, w, 5):
        yield values
        scheduler.step()


def load_double_into_single(lib, x: np.float32 = (2, 3)):
    """A float32 layer loads weights that were saved in float64, and stays float32."""
    layer = _linear(lib, x.dtype)
    yield _seen(layer(x), x) | {"weight": layer.weight}
    saved = {name: np.asarray(part, np.float64) for name, part in layer.state_dict().items()}
    layer.load_state_dict({name: lib.tensor(part) for name, part in saved.items()})
    yield _seen(layer(x), x) | {"weight": layer.weight}


def noise_on_single(lib, x: np.float32 = (2, 3)):
    """Noise on inputs of float32, before a float32 layer."""
    layer = _linear(lib, x.dtype)
    rng = np.random.default_rng(1)
    for _ in range(2):
        noisy = lib.data.add_noise(x.detach().numpy(), 0.1, rng=rng)
        yield _seen(layer(lib.tensor(noisy)), x) | {"x": noisy}
