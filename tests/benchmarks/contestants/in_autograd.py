"""In HIPS autograd."""

from typing import Any

import numpy as np
from autograd import numpy as anp
from autograd import value_and_grad
from autograd.tracer import getval

from tests.benchmarks.problems import Array, Training


class Classifier:
    """Cross-entropy of an MLP."""

    def __init__(self, problem: Training) -> None:
        self.x, labels = problem.x, problem.targets
        self.parameters = [array.copy() for array in problem.parameters]
        self.learning_rate = problem.learning_rate
        self.one_hot = np.eye(len(problem.parameters[-1]), dtype=self.x.dtype)[labels]
        self.value_and_gradients = value_and_grad(self.loss)

    def loss(self, parameters: list[Any]) -> Any:
        w1, b1, w2, b2 = parameters
        logits = anp.dot(anp.maximum(anp.dot(self.x, w1.T) + b1, 0), w2.T) + b2
        shifted = logits - getval(logits).max(axis=1, keepdims=True)  # a constant: no gradient
        sums = anp.sum(anp.exp(shifted), axis=1)
        return anp.mean(anp.log(sums) - anp.sum(shifted * self.one_hot, axis=1))

    def step(self) -> tuple[Any, list[Array]]:
        loss, gradients = self.value_and_gradients(self.parameters)
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter -= self.learning_rate * gradient
        return loss, gradients

    def computed(self, result: tuple[Any, list[Array]]) -> list[Array]:
        loss, gradients = result
        return [np.asarray(loss), *gradients]
