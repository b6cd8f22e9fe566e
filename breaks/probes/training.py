"""Small trainings that keep the log a person would keep."""

import numpy as np


def _regression(samples, features):
    """Inputs and noisy targets of a linear law, the same every time."""
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((samples, features))
    targets = inputs @ rng.standard_normal((features, 1)) + 0.5
    return inputs, targets + 0.3 * rng.standard_normal((samples, 1))


def _train(lib, batches, steps):
    """Train a linear layer by SGD on the batches in turn; yields model and loss at each step."""
    model = lib.nn.Linear(3, 1, rng=np.random.default_rng(1))
    optimizer = lib.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps + 1):
        loss = sum(lib.losses.mse(model(lib.tensor(x)), lib.tensor(y)).item() for x, y in batches)
        yield model, {"loss": loss / len(batches), "weight": model.weight, "bias": model.bias}
        x, y = batches[step % len(batches)]
        optimizer.zero_grad()
        lib.losses.mse(model(lib.tensor(x)), lib.tensor(y)).backward()
        optimizer.step()


def _mini_batches():
    """32 samples of 3 features, cut into 2 mini-batches of 16."""
    inputs, targets = _regression(32, 3)
    return list(zip(np.split(inputs, 2), np.split(targets, 2), strict=True))


def train_with_bias(lib):
    """A regression with a bias: 32 samples, batches of 16, 200 steps."""
    for _, logged in _train(lib, _mini_batches(), steps=200):
        yield logged


def predict_another_batch_size(lib):
    """The same training, then a prediction for 7 new samples."""
    for model, logged in _train(lib, _mini_batches(), steps=200):  # noqa: B007  used after the loop
        yield logged
    inputs, _ = _regression(7, 3)
    prediction = model(lib.tensor(inputs))
    yield {"prediction": prediction}


def _norm(parameters):
    """The norm of all gradients together."""
    squares = [float((p.grad**2).sum()) for p in parameters if p.grad is not None]
    return sum(squares) ** 0.5


def _seeded(lib, seed=0):
    """What minigrad's layers draw their first weights from; PyTorch's take no generator."""
    return {} if hasattr(lib, "manual_seed") else {"rng": np.random.default_rng(seed)}


def _fill(lib, layer, seed):
    """Set a layer's weights independently of the library's initialisation."""
    rng = np.random.default_rng(seed)
    shapes = {name: tuple(part.shape) for name, part in layer.state_dict().items()}
    weights = {name: lib.tensor(rng.standard_normal(shape) / 2) for name, shape in shapes.items()}
    layer.load_state_dict(weights)
    return layer


def train_mlp(lib, w1=(3, 4), b1=(4,), w2=(4, 1), b2=(1,)):
    """An explicit network: 20 steps from fixed weights, the same in every library."""
    inputs, targets = _regression(16, 3)
    x, y = lib.tensor(inputs), lib.tensor(targets)
    optimizer = lib.optim.SGD([w1, b1, w2, b2], lr=0.05)
    for _ in range(20):
        loss = (((x @ w1 + b1).tanh() @ w2 + b2 - y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        norm = _norm([w1, b1, w2, b2])
        yield {"loss": loss, "w1": w1, "b1": b1, "w2": w2, "b2": b2, "grad_norm": norm}
        optimizer.step()


def train_classifier(lib):
    """Three classes with a validation set, and a log of the usual quantities."""
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 3, 80)
    inputs = rng.standard_normal((3, 4))[classes] + 0.5 * rng.standard_normal((80, 4))
    model = lib.nn.Sequential(
        lib.nn.Linear(4, 8, rng=rng), lib.nn.Tanh(), lib.nn.Linear(8, 3, rng=rng)
    )
    optimizer = lib.optim.Adam(model.parameters(), lr=0.05)

    def loss(rows):
        return lib.losses.cross_entropy(model(lib.tensor(inputs[rows])), classes[rows])

    for _ in range(20):
        optimizer.zero_grad()
        value = loss(slice(64))
        value.backward()
        yield {
            "loss": value,
            "validation_loss": loss(slice(64, None)),
            "chance_loss": np.log(3),
            "grad_norm": _norm(model.parameters()),
            **model.state_dict(),
        }
        optimizer.step()


def train_to_zero_residual(lib, w=[[0.0], [0.0]]):
    """Absolute errors that reach exactly 0, one after the other, where the gradient is 0 too.

    All numbers are sums of powers of two, so that there is no rounding.
    """
    x, y = lib.tensor(np.eye(2)), lib.tensor(np.array([[1.0], [2.0]]))
    optimizer = lib.optim.SGD([w], lr=1.0)
    for _ in range(6):
        loss = lib.losses.mae(x @ w, y)
        optimizer.zero_grad()
        loss.backward()
        yield {"loss": loss, "w": w, "grad_norm": _norm([w])}
        optimizer.step()


def train_deep_residual(lib):
    """24 residual blocks: the first gets as much of the gradient as the last."""
    rng = np.random.default_rng(0)
    linears = [lib.nn.Linear(4, 4, rng=rng) for _ in range(24)]
    model = lib.nn.Sequential(
        *(lib.nn.Residual(lib.nn.Sequential(linear, lib.nn.Tanh())) for linear in linears)
    )
    x = lib.tensor(rng.standard_normal((6, 4)))
    optimizer = lib.optim.SGD(model.parameters(), lr=0.001)
    for _ in range(4):
        loss = (model(x) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        first, last = (_norm(linear.parameters()) for linear in (linears[0], linears[-1]))
        yield {"loss": loss, "grad_norm_first": first, "grad_norm_last": last}
        optimizer.step()


def train_embedding(lib, goal=(3, 3)):
    """Vectors for 5 symbols, some repeated in a sequence: their gradients add up."""
    layer = _fill(lib, lib.nn.Embedding(5, 3, dtype=goal.dtype, **_seeded(lib)), 1)
    symbols = lib.tensor(np.array([[0, 1, 1], [2, 1, 4], [3, 3, 3]]))
    optimizer = lib.optim.SGD(layer.parameters(), lr=0.5)
    for _ in range(10):
        loss = ((layer(symbols).mean(1) - goal) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        yield {"loss": loss, "vectors": layer.weight, "grad_norm": _norm([layer.weight])}
        optimizer.step()


def train_lstm(lib, x=(8, 2, 3)):
    """An LSTM that reads 8 time steps and learns to output a number: 6 steps."""
    cell = _fill(lib, lib.nn.LSTMCell(3, 2, dtype=x.dtype, **_seeded(lib)), 2)
    optimizer = lib.optim.SGD(cell.parameters(), lr=0.2)
    for _ in range(6):
        h, c = cell(x[0])
        for time in range(1, 8):
            h, c = cell(x[time], (h, c))
        loss = ((h - 0.5) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        weights = {"weight_ih": cell.weight_ih, "bias_hh": cell.bias_hh}
        yield {"loss": loss, "memory": c, **weights, "grad_norm": _norm(cell.parameters())}
        optimizer.step()


def positions_by_distance(lib):
    """The similarity of two positions depends only on their distance."""
    rows = lib.nn.sinusoidal_positions(12, 8)
    for distance in range(1, 4):
        likeness = (rows[distance:] * rows[:-distance]).sum(1)
        yield {"distance": distance, "distance_error": round(float(np.ptp(likeness)) / 4, 9)}
