"""By hand in NumPy: forward, the chain rule on paper, and the update."""

import numpy as np

from tests.benchmarks.problems import Array, Training


class Classifier:
    """Linear, relu, linear, softmax cross-entropy, gradient descent."""

    def __init__(self, problem: Training) -> None:
        self.x, self.labels = problem.x, problem.targets
        self.parameters = [array.copy() for array in problem.parameters]
        self.learning_rate = problem.learning_rate

    def step(self) -> list[Array]:
        w1, b1, w2, b2 = self.parameters
        each = np.arange(len(self.x))
        hidden = np.maximum(self.x @ w1.T + b1, 0)
        logits = hidden @ w2.T + b2
        logits -= logits.max(axis=1, keepdims=True)
        exponentials = np.exp(logits)
        sums = exponentials.sum(axis=1, keepdims=True)
        loss = (np.log(sums[:, 0]) - logits[each, self.labels]).mean()

        d_logits = exponentials / sums
        d_logits[each, self.labels] -= 1
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


PlainClassifier = Classifier
