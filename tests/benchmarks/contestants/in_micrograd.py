"""In micrograd, whose values are single numbers."""

from typing import Any

import numpy as np
from micrograd.engine import Value
from micrograd.nn import MLP

from tests.benchmarks.problems import Array, Training


class Moons:
    """Mean hinge loss of an MLP."""

    def __init__(self, problem: Training) -> None:
        self.points, self.labels = problem.x.tolist(), problem.targets[:, 0].tolist()
        self.learning_rate = problem.learning_rate
        self.shapes = [array.shape for array in problem.parameters]
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
