"""Shapes of the graph: values used several times, and repeated backward passes."""


# ----- A value that is used twice -----


def chain(x=(3,)):
    """Every value is used once: exp, tanh, product with a constant."""
    return x.exp().tanh() * 3.0


def tree(x=(3,), y=(3,)):
    """Two leaves, each used once: exp(x) * tanh(y)."""
    return x.exp() * y.tanh()


def reused_leaf(x=(3,)):
    """A leaf used three times: x * x + x."""
    return x * x + x


def reused_leaf_late(x=(3,)):
    """A leaf used three times, alone on the left: x + x * x."""
    return x + x * x


def reused_interior_node(x=(3,)):
    """A result used three times: h = exp(x), then h + h * h."""
    h = x.exp()
    return h + h * h


def diamond(x=(3,)):
    """Two paths of equal length from h = exp(x): tanh(h) * sigmoid(h)."""
    h = x.exp()
    return h.tanh() * h.sigmoid()


def skewed_diamond(x=(3,)):
    """A short path from h = exp(x) and a long one: sigmoid(h) * tanh(tanh(tanh(h)))."""
    h = x.exp()
    return h.sigmoid() * h.tanh().tanh().tanh()


def reused_product(x=(3,)):
    """A product used three times, with sums and products alone: h = 3x, then h + h * h."""
    h = x * 3.0
    return h + h * h


def product_diamond(x=(3,)):
    """Two paths of equal length from h = 3x, with sums and products alone: 2h * (h + 1)."""
    h = x * 3.0
    return (h * 2.0) * (h + 1.0)


def skewed_product_diamond(x=(3,)):
    """A short path from h = 3x and a long one, with sums and products alone."""
    h = x * 3.0
    return (h + 1.0) * (((h * 2.0) + 1.0) * 0.5)


def nested_sums(x=(3,), y=(3,)):
    """((x + y) + x) + y with equal shapes: additions may pass on the same array."""
    return ((x + y) + x) + y


def constant_first(x=(3,)):
    """Constants on the left of an operator: 2 - 3 * x."""
    return 2.0 - 3.0 * x


# ----- Repeated backward passes -----


def backward_twice(lib, x=[0.5, 1.0, -2.0]):
    """Two backward passes on a retained graph: the leaf gets the gradient twice."""
    h = x.exp()
    loss = (h * h).sum()
    loss.backward(retain_graph=True)
    yield {"gradient": x.grad}
    loss.backward()
    yield {"gradient": x.grad}


def two_losses_one_trunk(lib, x=[0.5, 1.0, -2.0]):
    """Two losses on one result that retains its gradient, each with its own backward pass."""
    trunk = x.exp()
    trunk.retain_grad()
    first, second = trunk.sum(), (trunk * trunk).sum()
    first.backward(retain_graph=True)
    yield {"gradient": x.grad}
    second.backward()
    yield {"gradient": x.grad}


def two_graphs_one_leaf(lib, x=[0.5, 1.0, -2.0]):
    """Two graphs that share only a leaf, as the micro-batches of one step do."""
    x.exp().sum().backward()
    yield {"gradient": x.grad}
    x.tanh().sum().backward()
    yield {"gradient": x.grad}


def product_backward_twice(lib, x=2.0):
    """Two backward passes from x ** 4 on one graph, with products alone: 32, then 64."""
    h = x * x
    loss = h * h
    loss.backward(retain_graph=True)
    yield {"gradient": x.grad}
    loss.backward()
    yield {"gradient": x.grad}


def two_products_one_trunk(lib, x=2.0):
    """Two losses on h = x * x, 3h and h * h, each with its own backward pass."""
    h = x * x
    first, second = h * 3.0, h * h
    first.backward(retain_graph=True)
    yield {"gradient": x.grad}
    second.backward()
    yield {"gradient": x.grad}


def two_products_one_leaf(lib, x=2.0):
    """Two graphs that share only a leaf, with products alone: 2x, then 3x."""
    (x * 2.0).backward()
    yield {"gradient": x.grad}
    (x * 3.0).backward()
    yield {"gradient": x.grad}


def scaled_gradients(lib, x=[0.5, 1.0, -2.0], y=[1.0, 2.0, 3.0]):
    """Two leaves of one sum; then the gradient of the first is scaled in place."""
    (x + y).exp().sum().backward()
    yield {"x": x.grad, "y": y.grad}
    x.grad *= 0.5
    yield {"x": x.grad, "y": y.grad}


def refuse_target_without_cotangent(lib, x=[0.5, 1.0, -2.0]):
    """A backward pass from three numbers without a cotangent."""
    (x * x).backward()
    yield {"gradient": x.grad}


def one_element_target(lib, x=[0.5, 1.0, -2.0]):
    """A target of shape (1,), and one of shape (1, 1), without a cotangent."""
    (x * x).sum().reshape(1).backward()
    yield {"gradient": x.grad}
    (x * x).sum().reshape(1, 1).backward()
    yield {"gradient": x.grad}
