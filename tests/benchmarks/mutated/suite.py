"""Its tests, as a careful author would write them; `lib` is the engine."""

import numpy as np

X = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])
Y = np.array([[2.0, 1.0, -3.0], [0.5, 4.0, 1.25]])
G = np.array([[0.3, -0.7, 1.1], [0.9, 0.2, -1.3]])


def _slopes(f, x, g):
    """The gradient of sum(f(x) * g), by central differences."""
    found = np.zeros(x.shape)
    for index in np.ndindex(x.shape):
        step = np.zeros(x.shape)
        step[index] = 1e-6
        found[index] = ((f(x + step) - f(x - step)) * g).sum() / 2e-6
    return found


def _agrees(lib, f, x, g):
    leaf = lib.Tensor(x)
    out = f(leaf)
    assert out.shape == g.shape
    out.backward(g)
    slopes = _slopes(lambda data: f(lib.Tensor(data)).data, x, g)
    np.testing.assert_allclose(leaf.grad, slopes, rtol=1e-5, atol=1e-7, strict=True)


def test_add(lib):
    np.testing.assert_array_equal((lib.Tensor(X) + lib.Tensor(Y)).data, X + Y)
    _agrees(lib, lambda x: x + lib.Tensor(Y), X, G)


def test_add_a_number_on_either_side(lib):
    np.testing.assert_array_equal((lib.Tensor(X) + 2.0).data, X + 2.0)
    np.testing.assert_array_equal((2.0 + lib.Tensor(X)).data, X + 2.0)


def test_add_new_axis(lib):
    _agrees(lib, lambda b: lib.Tensor(X) + b, np.array([1.0, 2.0, 3.0]), G)


def test_add_stretched_axis(lib):
    _agrees(lib, lambda b: lib.Tensor(X) + b, np.array([[1.0], [2.0]]), G)


def test_add_scalar_leaf(lib):
    _agrees(lib, lambda b: lib.Tensor(X) + b, np.array(1.0), G)


def test_sub(lib):
    np.testing.assert_array_equal((lib.Tensor(X) - lib.Tensor(Y)).data, X - Y)
    _agrees(lib, lambda y: lib.Tensor(X) - y, Y, G)


def test_mul(lib):
    np.testing.assert_array_equal((lib.Tensor(X) * lib.Tensor(Y)).data, X * Y)
    _agrees(lib, lambda x: x * lib.Tensor(Y), X, G)
    _agrees(lib, lambda y: lib.Tensor(X) * y, Y, G)


def test_div(lib):
    np.testing.assert_array_equal((lib.Tensor(X) / lib.Tensor(Y)).data, X / Y)
    _agrees(lib, lambda x: x / lib.Tensor(Y), X, G)
    _agrees(lib, lambda y: lib.Tensor(X) / y, Y, G)


def test_pow(lib):
    np.testing.assert_array_equal((lib.Tensor(X) ** 3).data, X**3)
    _agrees(lib, lambda x: x**3, X, G)


def test_neg(lib):
    np.testing.assert_array_equal((-lib.Tensor(X)).data, -X)
    _agrees(lib, lambda x: -x, X, G)


def test_matmul(lib):
    w = np.arange(12.0).reshape(3, 4) / 7
    g = np.arange(8.0).reshape(2, 4) - 3
    np.testing.assert_allclose((lib.Tensor(X) @ lib.Tensor(w)).data, X @ w)
    _agrees(lib, lambda x: x @ lib.Tensor(w), X, g)
    _agrees(lib, lambda w: lib.Tensor(X) @ w, w, g)


def test_index(lib):
    np.testing.assert_array_equal(lib.Tensor(X)[0].data, X[0])
    _agrees(lib, lambda x: x[0], X, G[0])


def test_index_repeated_rows(lib):
    _agrees(lib, lambda x: x[[1, 1, 0]], X, np.vstack([G, G[:1]]))


def test_sum(lib):
    _agrees(lib, lambda x: x.sum(), X, np.array(2.0))


def test_sum_axis(lib):
    np.testing.assert_array_equal(lib.Tensor(X).sum(0).data, X.sum(0))
    _agrees(lib, lambda x: x.sum(0), X, G[0])
    _agrees(lib, lambda x: x.sum(1), X, G[:, 0])


def test_sum_keepdims(lib):
    _agrees(lib, lambda x: x.sum(1, keepdims=True), X, G[:, :1])


def test_mean(lib):
    np.testing.assert_allclose(lib.Tensor(X).mean().data, X.mean())
    _agrees(lib, lambda x: x.mean(), X, np.array(2.0))


def test_mean_axis(lib):
    np.testing.assert_allclose(lib.Tensor(X).mean(1).data, X.mean(1))
    _agrees(lib, lambda x: x.mean(0), X, G[0])


def test_max(lib):
    _agrees(lib, lambda x: x.max(), X, np.array(2.0))


def test_max_shares_a_tie(lib):
    leaf = lib.Tensor([1.0, 3.0, 3.0])
    leaf.max().backward()
    np.testing.assert_array_equal(leaf.grad, [0.0, 0.5, 0.5])


def test_exp(lib):
    np.testing.assert_allclose(lib.Tensor(X).exp().data, np.exp(X))
    _agrees(lib, lambda x: x.exp(), X, G)


def test_log(lib):
    np.testing.assert_allclose(lib.Tensor(X**2).log().data, np.log(X**2))
    _agrees(lib, lambda x: x.log(), X**2, G)


def test_tanh(lib):
    _agrees(lib, lambda x: x.tanh(), X, G)


def test_relu(lib):
    np.testing.assert_array_equal(lib.Tensor(X).relu().data, np.maximum(X, 0))
    _agrees(lib, lambda x: x.relu(), X, G)


def test_reshape_and_transpose(lib):
    _agrees(lib, lambda x: x.reshape(3, 2), X, G.reshape(3, 2))
    _agrees(lib, lambda x: x.transpose(), X, G.T.copy())


def test_softmax(lib):
    np.testing.assert_allclose(lib.softmax(lib.Tensor(X)).data.sum(-1), [1.0, 1.0])
    _agrees(lib, lib.softmax, X, G)


def test_softmax_of_large_scores(lib):
    assert np.isfinite(lib.softmax(lib.Tensor(X * 1000)).data).all()


def test_a_value_that_is_used_twice(lib):
    _agrees(lib, lambda x: x * x + x, X, G)


def test_a_result_that_is_used_twice(lib):
    def skewed(x):
        h = x.exp()
        return h + h * h

    _agrees(lib, skewed, X, G)


def test_gradients_accumulate(lib):
    leaf = lib.Tensor(2.0)
    (leaf * 3.0).backward()
    (leaf * 3.0).backward()
    assert leaf.grad == 6.0


def test_only_a_scalar_needs_no_cotangent(lib):
    try:
        lib.Tensor(X).backward()
    except ValueError:
        return
    raise AssertionError("it was not refused")


def test_training_with_momentum(lib):
    weight, bias = lib.Tensor(np.zeros((3, 1))), lib.Tensor(0.0)
    optimizer = lib.SGD([weight, bias, lib.Tensor(1.0)], lr=0.05, momentum=0.5)
    target = lib.Tensor([[1.0], [-1.0]])
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = lib.mse(lib.Tensor(X) @ weight + bias, target)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.data))
    np.testing.assert_allclose(losses[:2], [1.0, 0.5613], atol=1e-4)
    assert losses[-1] < 1e-3
