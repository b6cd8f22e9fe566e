"""unittest: classes with setUp, for the optimizers and the losses."""

import unittest

import numpy as np

from minigrad import losses, optim, tensor


class Optimizers(unittest.TestCase):
    def setUp(self):
        self.weight = tensor(np.array([1.0, -2.0]), requires_grad=True)

    def _step(self, optimizer, times=1):
        for _ in range(times):
            optimizer.zero_grad()
            (self.weight * np.array([1.0, 3.0])).sum().backward()
            optimizer.step()

    def test_sgd(self):
        self._step(optim.SGD([self.weight], lr=0.1))
        np.testing.assert_allclose(self.weight.data, [0.9, -2.3])

    def test_momentum(self):
        self._step(optim.SGD([self.weight], lr=0.1, momentum=0.9), times=2)
        np.testing.assert_allclose(self.weight.data, [0.71, -2.87])

    def test_the_first_step_of_adam_has_the_learning_rate(self):
        self._step(optim.Adam([self.weight], lr=0.1))
        np.testing.assert_allclose(self.weight.data, [0.9, -2.1], atol=1e-6)

    def test_zero_grad(self):
        optimizer = optim.SGD([self.weight], lr=0.0)
        self._step(optimizer, times=2)
        np.testing.assert_allclose(self.weight.grad, [1.0, 3.0])


class Losses(unittest.TestCase):
    def test_mse(self):
        prediction = tensor(np.array([1.0, 3.0]), requires_grad=True)
        loss = losses.mse(prediction, np.array([0.0, 1.0]))
        loss.backward()
        self.assertEqual(loss.item(), 2.5)
        np.testing.assert_allclose(prediction.grad, [1.0, 2.0])

    def test_cross_entropy_of_equal_scores(self):
        scores = tensor(np.zeros((2, 4)), requires_grad=True)
        loss = losses.cross_entropy(scores, np.array([0, 3]))
        loss.backward()
        self.assertAlmostEqual(loss.item(), np.log(4))
        np.testing.assert_allclose(scores.grad.sum(axis=1), [0.0, 0.0], atol=1e-12)
        np.testing.assert_allclose(scores.grad[0], [-0.375, 0.125, 0.125, 0.125])

    def test_large_scores(self):
        loss = losses.cross_entropy(tensor(np.array([[1000.0, 0.0]])), np.array([0]))
        self.assertAlmostEqual(loss.item(), 0.0)
