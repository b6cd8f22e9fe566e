"""An engine with the interface of MiniTorch's scalars: functions, a context, the chain rule."""

import math
from dataclasses import dataclass, field


@dataclass
class Context:
    saved_values: tuple = ()

    def save_for_backward(self, *values):
        self.saved_values = values


class ScalarFunction:
    @classmethod
    def apply(cls, *values):
        scalars = [v if isinstance(v, Scalar) else Scalar(v) for v in values]
        ctx = Context()
        out = cls.forward(ctx, *(s.data for s in scalars))
        return Scalar(out, ScalarHistory(cls, ctx, scalars))


class Add(ScalarFunction):
    @staticmethod
    def forward(ctx, a, b):
        return a + b

    @staticmethod
    def backward(ctx, d_output):
        return d_output, d_output


class Mul(ScalarFunction):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx, d_output):
        a, b = ctx.saved_values
        return d_output * b, d_output * a


class Neg(ScalarFunction):
    @staticmethod
    def forward(ctx, a):
        return -a

    @staticmethod
    def backward(ctx, d_output):
        return (-d_output,)


class Inv(ScalarFunction):
    @staticmethod
    def forward(ctx, a):
        ctx.save_for_backward(a)
        return 1.0 / a

    @staticmethod
    def backward(ctx, d_output):
        (a,) = ctx.saved_values
        return (-d_output / a**2,)


class Exp(ScalarFunction):
    @staticmethod
    def forward(ctx, a):
        out = math.exp(a)
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx, d_output):
        (out,) = ctx.saved_values
        return (d_output * out,)


class ReLU(ScalarFunction):
    @staticmethod
    def forward(ctx, a):
        ctx.save_for_backward(a)
        return a if a > 0 else 0.0

    @staticmethod
    def backward(ctx, d_output):
        (a,) = ctx.saved_values
        return (d_output if a > 0 else 0.0,)


@dataclass
class ScalarHistory:
    last_fn: type | None = None
    ctx: Context | None = None
    inputs: list = field(default_factory=list)


class Scalar:
    def __init__(self, v, back=None):
        self.data, self.derivative = float(v), None
        self.history = back or ScalarHistory()

    def __add__(self, b):
        return Add.apply(self, b)

    def __mul__(self, b):
        return Mul.apply(self, b)

    def __neg__(self):
        return Neg.apply(self)

    def __sub__(self, b):
        return Add.apply(self, -b)

    def __truediv__(self, b):
        return Mul.apply(self, Inv.apply(b))

    __radd__, __rmul__ = __add__, __mul__

    def exp(self):
        return Exp.apply(self)

    def relu(self):
        return ReLU.apply(self)

    @property
    def parents(self):
        return self.history.inputs

    def is_leaf(self):
        return self.history.last_fn is None

    def accumulate_derivative(self, x):
        self.derivative = (self.derivative or 0.0) + x

    def chain_rule(self, d_output):
        h = self.history
        return zip(h.inputs, h.last_fn.backward(h.ctx, d_output), strict=True)

    def backward(self, d_output=None):
        backpropagate(self, 1.0 if d_output is None else d_output)


def topological_sort(variable):
    order, seen = [], set()

    def visit(scalar):
        if id(scalar) not in seen:
            seen.add(id(scalar))
            for parent in scalar.parents:
                visit(parent)
            order.append(scalar)

    visit(variable)
    return order[::-1]


def backpropagate(variable, deriv):
    derivatives = {id(variable): deriv}
    for scalar in topological_sort(variable):
        d = derivatives[id(scalar)]
        if scalar.is_leaf():
            scalar.accumulate_derivative(d)
            continue
        for parent, part in scalar.chain_rule(d):
            derivatives[id(parent)] = derivatives.get(id(parent), 0.0) + part
