"""Tensors, and the pass over the graph; the ops are in `ops`."""

import numpy


class Op:
    def __call__(self, *args):
        return Tensor.make_from_op(self, args)

    def compute(self, *args):
        raise NotImplementedError

    def gradient(self, out_grad, node):
        raise NotImplementedError


class Tensor:
    def __init__(self, array, *, dtype=None, requires_grad=True):
        self.op, self.inputs, self.grad = None, (), None
        self.cached_data = numpy.array(array, dtype=dtype or numpy.float64)
        self.requires_grad = requires_grad

    @staticmethod
    def make_from_op(op, inputs):
        out = Tensor(op.compute(*(x.cached_data for x in inputs)))
        out.op, out.inputs = op, inputs
        return out

    @property
    def shape(self):
        return self.cached_data.shape

    def numpy(self):
        return self.cached_data

    def backward(self, out_grad=None):
        out_grad = out_grad or Tensor(numpy.ones(self.shape))
        compute_gradient_of_variables(self, out_grad)

    def __add__(self, other):
        from needle import ops

        if isinstance(other, Tensor):
            return ops.EWiseAdd()(self, other)
        return ops.AddScalar(other)(self)

    def __mul__(self, other):
        from needle import ops

        if isinstance(other, Tensor):
            return ops.EWiseMul()(self, other)
        return ops.MulScalar(other)(self)

    def __matmul__(self, other):
        from needle import ops

        return ops.MatMul()(self, other)

    def __neg__(self):
        return self * -1

    def __sub__(self, other):
        return self + -other

    def sum(self, axes=None):
        from needle import ops

        return ops.Summation(axes)(self)

    def reshape(self, shape):
        from needle import ops

        return ops.Reshape(shape)(self)

    def broadcast_to(self, shape):
        from needle import ops

        return ops.BroadcastTo(shape)(self)

    def transpose(self, axes=None):
        from needle import ops

        return ops.Transpose(axes)(self)

    __radd__, __rmul__ = __add__, __mul__


def compute_gradient_of_variables(output_tensor, out_grad):
    node_to_grads = {output_tensor: [out_grad]}
    for node in reversed(find_topo_sort([output_tensor])):
        grads = node_to_grads[node]
        node.grad = grads[0]
        for grad in grads[1:]:
            node.grad = node.grad + grad
        if node.op is None:
            continue
        parts = node.op.gradient(node.grad, node)
        parts = parts if isinstance(parts, tuple) else (parts,)
        for source, part in zip(node.inputs, parts, strict=True):
            node_to_grads.setdefault(source, []).append(part)


def find_topo_sort(node_list):
    visited, order = set(), []
    for node in node_list:
        topo_sort_dfs(node, visited, order)
    return order


def topo_sort_dfs(node, visited, topo_order):
    if node in visited:
        return
    visited.add(node)
    for source in node.inputs:
        topo_sort_dfs(source, visited, topo_order)
    topo_order.append(node)
