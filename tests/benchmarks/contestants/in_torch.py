"""In PyTorch, with one thread."""

from typing import Any

import numpy as np
import torch
from torch.nn import functional

from tests.benchmarks.problems import Array, Layer, Training

torch.set_num_threads(1)
torch.set_num_interop_threads(1)


class Classifier:
    """Cross-entropy of an MLP."""

    def __init__(self, problem: Training) -> None:
        w1, _, w2, _ = problem.parameters
        self.model = torch.nn.Sequential(
            torch.nn.Linear(*w1.shape[::-1]), torch.nn.ReLU(), torch.nn.Linear(*w2.shape[::-1])
        )
        for parameter, array in zip(self.model.parameters(), problem.parameters, strict=True):
            parameter.data = torch.tensor(array)
        self.x, self.labels = torch.tensor(problem.x), torch.tensor(problem.targets)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=problem.learning_rate)

    def step(self) -> Any:
        self.optimizer.zero_grad()
        loss = functional.cross_entropy(self.model(self.x), self.labels)
        loss.backward()
        self.optimizer.step()
        return loss

    def computed(self, loss: Any) -> list[Array]:
        return _arrays(loss, self.model.parameters())


class Convolution:
    """`conv2d`, forward and backward."""

    def __init__(self, problem: Layer) -> None:
        self.parameters = [torch.tensor(p, requires_grad=True) for p in problem.parameters]
        self.x = torch.tensor(problem.x, requires_grad=True)
        self.cotangent = torch.tensor(problem.cotangent)

    def forward(self) -> Any:
        return functional.conv2d(self.x, *self.parameters, padding=1)

    def step(self) -> Any:
        for leaf in (self.x, *self.parameters):
            leaf.grad = None
        output = self.forward()
        output.backward(self.cotangent)
        return output

    def computed(self, output: Any) -> list[Array]:
        return _arrays(output, [self.x, *self.parameters])


class Attention(Convolution):
    """Four linear maps around PyTorch's fused attention of four heads."""

    def forward(self) -> Any:
        parameters = self.parameters
        q, k, v = (
            functional.linear(self.x, *parameters[i : i + 2]).unflatten(-1, (4, -1)).transpose(1, 2)
            for i in (0, 2, 4)
        )
        mixed = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return functional.linear(mixed, *parameters[6:])


def _arrays(value: Any, leaves: Any) -> list[Array]:
    return [np.asarray(value.detach()), *(np.asarray(leaf.grad) for leaf in leaves)]
