"""One module-level graph of numbered nodes, which the backward pass uses up and resets."""

import numpy as np


class Graph:
    def __init__(self):
        self.nodes = []
        self.finished = False

    def add(self, node):
        if self.finished:
            raise RuntimeError("this graph was differentiated already")
        self.nodes.append(node)
        return len(self.nodes) - 1


_graph = Graph()


def reset():
    global _graph
    _graph = Graph()


class Variable:
    def __init__(self, value, edges=()):
        self.value, self.edges = np.asarray(value, dtype=float), edges
        self.grad, self.graph = None, _graph
        self.index = _graph.add(self)

    def _here(self):
        """Enter the current graph again, for a leaf that outlives a backward pass."""
        if self.graph is not _graph:
            self.graph, self.index, self.edges = _graph, _graph.add(self), ()
        return self

    def __add__(self, other):
        a, b = self._here(), lift(other)
        return Variable(a.value + b.value, ((a, lambda g: g), (b, lambda g: g)))

    def __sub__(self, other):
        a, b = self._here(), lift(other)
        return Variable(a.value - b.value, ((a, lambda g: g), (b, lambda g: -g)))

    def __mul__(self, other):
        a, b = self._here(), lift(other)
        edges = ((a, lambda g: g * b.value), (b, lambda g: g * a.value))
        return Variable(a.value * b.value, edges)

    def __matmul__(self, other):
        a, b = self._here(), lift(other)
        edges = ((a, lambda g: g @ b.value.T), (b, lambda g: a.value.T @ g))
        return Variable(a.value @ b.value, edges)

    def sum(self):
        a = self._here()
        return Variable(a.value.sum(), ((a, lambda g: np.broadcast_to(g, a.value.shape)),))


def lift(x):
    return x._here() if isinstance(x, Variable) else Variable(x)


def collapse(g, shape):
    if g.shape == shape:
        return g
    g = g.sum(axis=tuple(range(g.ndim - len(shape))))
    return g.sum(axis=tuple(i for i, n in enumerate(shape) if n == 1), keepdims=True)


def backward(root, seed=None):
    """Differentiate the graph, from the last node to the first."""
    root.graph.finished = True
    sums = {root.index: np.ones_like(root.value) if seed is None else np.asarray(seed, float)}
    for node in reversed(root.graph.nodes[: root.index + 1]):
        g = sums.pop(node.index, None)
        if g is None:
            continue
        for parent, rule in node.edges:
            part = collapse(rule(g), parent.value.shape)
            sums[parent.index] = sums.get(parent.index, 0.0) + part
        if not node.edges:
            node.grad = g if node.grad is None else node.grad + g
    reset()
