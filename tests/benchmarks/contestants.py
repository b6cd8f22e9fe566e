"""The problems as a user of each library would write them.

A contestant is made from a problem. `step()` is what is timed, and returns what costs nothing to
return. `computed(step())` is what is compared between contestants: the loss or the output, then the
gradients, as arrays in the order and layout of the problem.

A process measures two libraries, and must not load the others. So PyTorch, HIPS autograd and
micrograd are imported when their first contestant is made.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from minigrad import Tensor, losses, nn, optim
from tests.benchmarks.problems import Array, Layer, Training

# ----- minigrad -----


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


class Moons(Classifier):
    """Mean hinge loss of an MLP."""

    def loss(self) -> Tensor:
        margins: Tensor = self.targets * self.model(self.x)
        return (1 - margins).relu().mean()


class Convolution:
    """`nn.Conv2d`, forward and backward."""

    def __init__(self, problem: Layer) -> None:
        self.layer = self.make(problem, np.random.default_rng(0))
        _set(self.layer.parameters(), problem.parameters)
        self.x = Tensor(problem.x, requires_grad=True)
        self.cotangent = problem.cotangent

    def make(self, problem: Layer, rng: np.random.Generator) -> nn.Module:
        out, into, size, _ = problem.parameters[0].shape
        return nn.Conv2d(into, out, size, padding=1, rng=rng, dtype=problem.x.dtype)

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

    def make(self, problem: Layer, rng: np.random.Generator) -> nn.Module:
        return nn.MultiHeadAttention(problem.x.shape[-1], 4, rng=rng, dtype=problem.x.dtype)


def _set(parameters: list[Tensor], arrays: Iterable[Array]) -> None:
    for parameter, array in zip(parameters, arrays, strict=True):
        assert parameter.shape == array.shape
        parameter.data = array.copy()


def _gradients(parameters: list[Tensor]) -> list[Array]:
    return [np.asarray(parameter.grad) for parameter in parameters]


# ----- NumPy by hand -----


class ClassifierByHand:
    """Linear, relu, linear, softmax cross-entropy, the chain rule on paper, and the update."""

    def __init__(self, problem: Training) -> None:
        self.x, self.labels = problem.x, problem.targets
        self.parameters = [array.copy() for array in problem.parameters]
        self.learning_rate = problem.learning_rate

    def step(self) -> list[Array]:
        w1, b1, w2, b2 = self.parameters
        rows = np.arange(len(self.x))
        hidden = np.maximum(self.x @ w1.T + b1, 0)
        logits = hidden @ w2.T + b2
        logits -= logits.max(axis=1, keepdims=True)
        exponentials = np.exp(logits)
        sums = exponentials.sum(axis=1, keepdims=True)
        loss = (np.log(sums[:, 0]) - logits[rows, self.labels]).mean()

        d_logits = exponentials / sums
        d_logits[rows, self.labels] -= 1
        d_logits /= len(self.x)
        d_hidden = d_logits @ w2
        d_hidden[hidden <= 0] = 0
        gradients = [
            d_hidden.T @ self.x,
            d_hidden.sum(axis=0),
            d_logits.T @ hidden,
            d_logits.sum(axis=0),
        ]
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter -= self.learning_rate * gradient
        return [loss, *gradients]

    def computed(self, result: list[Array]) -> list[Array]:
        return [np.asarray(array) for array in result]


# ----- HIPS autograd -----


class AutogradClassifier:
    """With the shift of the softmax outside of the graph."""

    def __init__(self, problem: Training) -> None:
        from autograd import numpy, value_and_grad

        self.numpy = numpy
        self.x, labels = problem.x, problem.targets
        self.parameters = [array.copy() for array in problem.parameters]
        self.learning_rate = problem.learning_rate
        self.one_hot = np.eye(len(problem.parameters[-1]), dtype=self.x.dtype)[labels]
        self.value_and_gradients = value_and_grad(self.loss)

    def loss(self, parameters: list[Any]) -> Any:
        from autograd.tracer import getval

        w1, b1, w2, b2 = parameters
        dot, total = self.numpy.dot, self.numpy.sum
        logits = dot(self.numpy.maximum(dot(self.x, w1.T) + b1, 0), w2.T) + b2
        shifted = logits - getval(logits).max(axis=1, keepdims=True)  # a constant: no gradient
        sums = total(self.numpy.exp(shifted), axis=1)
        return self.numpy.mean(self.numpy.log(sums) - total(shifted * self.one_hot, axis=1))

    def step(self) -> tuple[Any, list[Array]]:
        loss, gradients = self.value_and_gradients(self.parameters)
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter -= self.learning_rate * gradient
        return loss, gradients

    def computed(self, result: tuple[Any, list[Array]]) -> list[Array]:
        loss, gradients = result
        return [np.asarray(loss), *gradients]


# ----- micrograd, whose values are single numbers -----


class MicrogradMoons:
    """Mean hinge loss of an MLP."""

    def __init__(self, problem: Training) -> None:
        from micrograd.engine import Value
        from micrograd.nn import MLP

        self.points, self.labels = problem.x.tolist(), problem.targets[:, 0].tolist()
        self.learning_rate = problem.learning_rate
        weights, biases = problem.parameters[::2], problem.parameters[1::2]
        self.model = MLP(weights[0].shape[1], [len(bias) for bias in biases])
        for layer, weight, bias in zip(self.model.layers, weights, biases, strict=True):
            for neuron, row, offset in zip(layer.neurons, weight, bias, strict=True):
                neuron.w, neuron.b = [Value(float(w)) for w in row], Value(float(offset))

    def step(self) -> Any:
        self.model.zero_grad()
        scores = [self.model(point) for point in self.points]
        hinges = [(1 - y * score).relu() for y, score in zip(self.labels, scores, strict=True)]
        loss = sum(hinges) / len(hinges)
        loss.backward()
        for parameter in self.model.parameters():
            parameter.data -= self.learning_rate * parameter.grad
        return loss

    def computed(self, loss: Any) -> list[Array]:
        gradients = []
        for layer in self.model.layers:
            gradients.append(np.array([[w.grad for w in neuron.w] for neuron in layer.neurons]))
            gradients.append(np.array([neuron.b.grad for neuron in layer.neurons]))
        return [np.asarray(loss.data), *gradients]


# ----- PyTorch, with one thread -----


class TorchClassifier:
    """Cross-entropy of an MLP."""

    def __init__(self, problem: Training) -> None:
        import torch

        torch.set_num_threads(1)
        w1, _, w2, _ = problem.parameters
        self.model = torch.nn.Sequential(
            torch.nn.Linear(*w1.shape[::-1]), torch.nn.ReLU(), torch.nn.Linear(*w2.shape[::-1])
        )
        for parameter, array in zip(self.model.parameters(), problem.parameters, strict=True):
            parameter.data = torch.tensor(array)
        self.x, self.labels = torch.tensor(problem.x), torch.tensor(problem.targets)
        self.cross_entropy = torch.nn.functional.cross_entropy
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=problem.learning_rate)

    def step(self) -> Any:
        self.optimizer.zero_grad()
        loss = self.cross_entropy(self.model(self.x), self.labels)
        loss.backward()
        self.optimizer.step()
        return loss

    def computed(self, loss: Any) -> list[Array]:
        return _torch_arrays(loss, self.model.parameters())


class TorchConvolution:
    """`conv2d`, forward and backward."""

    def __init__(self, problem: Layer) -> None:
        import torch

        torch.set_num_threads(1)
        self.functional = torch.nn.functional
        self.parameters = [torch.tensor(p, requires_grad=True) for p in problem.parameters]
        self.x = torch.tensor(problem.x, requires_grad=True)
        self.cotangent = torch.tensor(problem.cotangent)

    def forward(self) -> Any:
        return self.functional.conv2d(self.x, *self.parameters, padding=1)

    def step(self) -> Any:
        for leaf in (self.x, *self.parameters):
            leaf.grad = None
        output = self.forward()
        output.backward(self.cotangent)
        return output

    def computed(self, output: Any) -> list[Array]:
        return _torch_arrays(output, [self.x, *self.parameters])


class TorchAttention(TorchConvolution):
    """Four linear maps around PyTorch's fused attention of four heads."""

    def forward(self) -> Any:
        linear, parameters = self.functional.linear, self.parameters
        q, k, v = (
            linear(self.x, *parameters[i : i + 2]).unflatten(-1, (4, -1)).transpose(1, 2)
            for i in (0, 2, 4)
        )
        mixed = self.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return linear(mixed, *parameters[6:])


def _torch_arrays(value: Any, leaves: Any) -> list[Array]:
    return [np.asarray(value.detach()), *(np.asarray(leaf.grad) for leaf in leaves)]


CONTESTANTS: dict[tuple[str, str], Any] = {
    ("minigrad", "Classifier"): Classifier,
    ("minigrad", "Moons"): Moons,
    ("minigrad", "Convolution"): Convolution,
    ("minigrad", "Attention"): Attention,
    ("numpy", "Classifier"): ClassifierByHand,
    ("autograd", "Classifier"): AutogradClassifier,
    ("micrograd", "Moons"): MicrogradMoons,
    ("torch", "Classifier"): TorchClassifier,
    ("torch", "Convolution"): TorchConvolution,
    ("torch", "Attention"): TorchAttention,
}
