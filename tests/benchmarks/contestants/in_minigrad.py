"""In minigrad."""

from collections.abc import Iterable

import numpy as np

from minigrad import Tensor, losses, nn, optim
from tests.benchmarks.problems import Array, Layer, Training


class Mlp(nn.Module):
    """Linear layers with relu between them, which start from given parameters."""

    def __init__(self, parameters: tuple[Array, ...]) -> None:
        rng = np.random.default_rng(0)
        weights = parameters[::2]
        self.layers = [nn.Linear(*w.shape[::-1], rng=rng, dtype=w.dtype) for w in weights]
        _set(self.parameters(), parameters)

    def forward(self, x: Tensor) -> Tensor:
        *hidden, last = self.layers
        for layer in hidden:
            x = layer(x).relu()
        output: Tensor = last(x)
        return output


class Classifier:
    """Cross-entropy of an MLP."""

    def __init__(self, problem: Training) -> None:
        self.model = Mlp(problem.parameters)
        self.x, self.targets = Tensor(problem.x), problem.targets
        self.optimizer = optim.SGD(self.model.parameters(), lr=problem.learning_rate)

    def loss(self) -> Tensor:
        return losses.cross_entropy(self.model(self.x), self.targets)

    def step(self) -> Tensor:
        self.optimizer.zero_grad()
        loss = self.loss()
        loss.backward()
        self.optimizer.step()
        return loss

    def computed(self, loss: Tensor) -> list[Array]:
        return [loss.data, *_gradients(self.model.parameters())]


class PlainClassifier(Classifier):
    """The same from plain ops: `x @ w + b`, relu and `log_softmax`."""

    def __init__(self, problem: Training) -> None:
        self.parameters = [Tensor(array.T, True, array.dtype) for array in problem.parameters]
        self.x, self.targets = Tensor(problem.x), problem.targets
        classes = len(problem.parameters[-1])
        self.minus_shares = Tensor(-np.eye(classes)[self.targets] / len(self.x), dtype=self.x.dtype)
        self.optimizer = optim.SGD(self.parameters, lr=problem.learning_rate)

    def loss(self) -> Tensor:
        w1, b1, w2, b2 = self.parameters
        logits = (self.x @ w1 + b1).relu() @ w2 + b2
        return (logits.log_softmax(1) * self.minus_shares).sum()

    def computed(self, loss: Tensor) -> list[Array]:
        return [loss.data, *(gradient.T for gradient in _gradients(self.parameters))]


class Moons(Classifier):
    """Mean hinge loss of an MLP."""

    def loss(self) -> Tensor:
        margins: Tensor = self.targets * self.model(self.x)
        return (1 - margins).relu().mean()


class Convolution:
    """`nn.Conv2d`, forward and backward."""

    layer: nn.Module

    def __init__(self, problem: Layer) -> None:
        out, into, size, _ = problem.parameters[0].shape
        rng, dtype = np.random.default_rng(0), problem.x.dtype
        self.layer = nn.Conv2d(into, out, size, padding=1, rng=rng, dtype=dtype)
        self._take(problem)

    def _take(self, problem: Layer) -> None:
        _set(self.layer.parameters(), problem.parameters)
        self.x = Tensor(problem.x, requires_grad=True)
        self.cotangent = problem.cotangent

    def step(self) -> Tensor:
        for leaf in (self.x, *self.layer.parameters()):
            leaf.grad = None
        output: Tensor = self.layer(self.x)
        output.backward(self.cotangent)
        return output

    def computed(self, output: Tensor) -> list[Array]:
        return [output.data, *_gradients([self.x, *self.layer.parameters()])]


class Attention(Convolution):
    """`nn.MultiHeadAttention` with four heads, forward and backward."""

    def __init__(self, problem: Layer) -> None:
        features, dtype = problem.x.shape[-1], problem.x.dtype
        self.layer = nn.MultiHeadAttention(features, 4, rng=np.random.default_rng(0), dtype=dtype)
        self._take(problem)


def _set(parameters: list[Tensor], arrays: Iterable[Array]) -> None:
    for parameter, array in zip(parameters, arrays, strict=True):
        assert parameter.shape == array.shape
        parameter.data = array.copy()


def _gradients(parameters: list[Tensor]) -> list[Array]:
    return [np.asarray(parameter.grad) for parameter in parameters]
