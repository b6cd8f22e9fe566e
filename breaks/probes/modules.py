"""Layers in minigrad and PyTorch with the same weights, in each library's own layout."""

import numpy as np


def _attention(lib, x, heads, causal=False):
    """Multi-head self-attention, with weights from a fixed seed."""
    features, rng = x.shape[-1], np.random.default_rng(0)
    parts = ["query", "key", "value", "output"]
    weight = {part: rng.standard_normal((features, features)) for part in parts}
    bias = {part: rng.standard_normal(features) for part in parts}
    if hasattr(lib.nn, "MultiHeadAttention"):
        layer = lib.nn.MultiHeadAttention(features, heads, causal, rng=rng)
        state = {f"{part}.weight": weight[part] for part in parts}
        layer.load_state_dict(state | {f"{part}.bias": bias[part] for part in parts})
        return layer(x)
    layer = lib.nn.MultiheadAttention(features, heads, batch_first=True, dtype=lib.float64)
    inner = parts[:3]
    layer.load_state_dict(
        {
            "in_proj_weight": lib.tensor(np.concatenate([weight[part] for part in inner])),
            "in_proj_bias": lib.tensor(np.concatenate([bias[part] for part in inner])),
            "out_proj.weight": lib.tensor(weight["output"]),
            "out_proj.bias": lib.tensor(bias["output"]),
        }
    )
    length = x.shape[1]
    mask = lib.ones(length, length, dtype=lib.bool).triu(1) if causal else None
    return layer(x, x, x, attn_mask=mask, need_weights=False)[0]


def attend_two_heads(lib, x=(2, 3, 4)):
    """Self-attention: 2 sequences of 3 positions with 4 features, 2 heads of 2 features."""
    return _attention(lib, x, heads=2)


def attend_one_feature_a_head(lib, x=(2, 3, 4)):
    """Self-attention with heads of a single feature, where the scale is 1."""
    return _attention(lib, x, heads=4)


def attend_one_position(lib, x=(2, 1, 4)):
    """Self-attention in sequences of one position: every softmax has a single score."""
    return _attention(lib, x, heads=2)


def causal_two_heads(lib, x=(2, 4, 4)):
    """Causal self-attention over 4 positions, 2 heads: no position sees a later one."""
    return _attention(lib, x, heads=2, causal=True)


def attend_rows_alike(lib, x=[[[0.5, -1, 2, 0.25], [0.5, -1, 2, 0.25], [0.5, -1, 2, 0.25]]]):
    """Self-attention over 3 equal positions: every score is the same."""
    return _attention(lib, x, heads=2)


def _layer_norm(lib, x):
    """A new layer normalisation: the scale is 1 and the shift 0."""
    return lib.nn.LayerNorm(x.shape[-1], dtype=getattr(lib, "float64", np.float64))(x)


def norm_random_rows(lib, x=(3, 4)):
    """Layer normalisation of 3 rows of random numbers."""
    return _layer_norm(lib, x)


def norm_rows_of_small_spread(lib, x=(3, 4)):
    """Layer normalisation of rows with a standard deviation of about 0.001."""
    return _layer_norm(lib, 1e-3 * x)


def norm_row_of_equal_numbers(lib, x=[[1.0, 2.0, 3.0, 4.0], [5.0, 5.0, 5.0, 5.0]]):
    """Layer normalisation where one of two rows holds the same number four times."""
    return _layer_norm(lib, x)


def _fill(lib, layer):
    """Set a layer's weights independently of the library's initialisation."""
    rng = np.random.default_rng(1)
    state = {name: rng.standard_normal(tuple(p.shape)) for name, p in layer.state_dict().items()}
    layer.load_state_dict({name: lib.tensor(values) for name, values in state.items()})
    return layer


def _layer(lib, kind, *sizes, dtype):
    """A layer by PyTorch's name; minigrad's takes the generator of its initial weights."""
    seed = {} if hasattr(lib, "manual_seed") else {"rng": np.random.default_rng(0)}
    return _fill(lib, getattr(lib.nn, kind)(*sizes, dtype=dtype, **seed))


def linear_two_outputs(lib, x=(4, 3)):
    """A linear layer of 3 inputs and 2 outputs."""
    return _layer(lib, "Linear", 3, 2, dtype=x.dtype)(x)


def linear_of_leaves(lib, x=(2, 2, 3), w=(4, 3), b=(4,)):
    """A linear layer on a batch of sequences; its weight and its bias are leaves."""
    if hasattr(lib, "manual_seed"):  # PyTorch
        return lib.nn.functional.linear(x, w, b)
    layer = lib.nn.Linear(3, 4, rng=np.random.default_rng(0))
    layer.weight, layer.bias = w, b
    return layer(x)


def linear_one_output(lib, x=(4, 3)):
    """A linear layer of 3 inputs and a single output."""
    return _layer(lib, "Linear", 3, 1, dtype=x.dtype)(x)


def linear_without_bias(lib, x=(4, 3)):
    """A linear layer of 3 inputs and 2 outputs without a bias."""
    return _layer(lib, "Linear", 3, 2, False, dtype=x.dtype)(x)


def convolve_wide(lib, x=(2, 2, 3, 6)):
    """Two images of 2 channels to 3: the output is 1 high and 4 wide."""
    return _layer(lib, "Conv2d", 2, 3, 3, dtype=x.dtype)(x)


def convolve_as_wide_as_channels(lib, x=(2, 2, 3, 5)):
    """The same, with an output as wide as its number of channels, 3."""
    return _layer(lib, "Conv2d", 2, 3, 3, dtype=x.dtype)(x)


def rms_norm_rows(lib, x=(3, 4)):
    """Root mean square normalisation of 3 rows of random numbers, with a learned scale."""
    return _fill(lib, lib.nn.RMSNorm(4, 1e-6, dtype=x.dtype))(x)


def adapter_with_two_factors(lib, x=(4, 3)):
    """A low-rank adapter of 3 inputs and 2 outputs, whose factors are not 0."""
    rng = np.random.default_rng(0)
    layer = lib.nn.LowRankAdapter(lib.nn.Linear(3, 2, rng=rng), 2, 4.0, rng=rng)
    layer.up.data = rng.standard_normal((2, 2)).astype(layer.up.data.dtype)
    return layer(x)


def embed_with_padding(lib, x=(3,)):
    """Two steps of SGD on the vectors of 4 symbols, two of which are the padding, times a row."""
    symbols = lib.tensor(np.array([[0, 1], [1, 4]]))
    layer = _layer(lib, "Embedding", 5, 3, 1, dtype=x.dtype)
    optimizer = lib.optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(3):
        vectors = layer(symbols)
        loss = (vectors * vectors * x * x).mean()
        yield {"loss": loss, "vectors": vectors}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def embed_repeated_symbols(lib, x=(3,)):
    """The vectors of 4 symbols, one of them repeated, times a row."""
    symbols = lib.tensor(np.array([[0, 1], [1, 4]]))
    return _layer(lib, "Embedding", 5, 3, dtype=x.dtype)(symbols) * x


def lstm_three_steps(lib, x=(3, 2, 3)):
    """The last output of a recurrent cell after 3 steps of two sequences."""
    cell = _layer(lib, "LSTMCell", 3, 2, dtype=x.dtype)
    h, c = cell(x[0])
    for time in (1, 2):
        h, c = cell(x[time], (h, c))
    return h


def lstm_thirty_steps(lib, x=(2, 3)):
    """The state of a recurrent cell after reading the same step 30 times."""
    cell = _layer(lib, "LSTMCell", 3, 2, dtype=x.dtype)
    h, c = cell(x)
    for _ in range(29):
        h, c = cell(x, (h, c))
    yield {"memory": c}


def train_layers_in_a_list(lib):
    """A model with its two hidden layers in a list, and its head as an attribute: 20 steps."""
    rng = np.random.default_rng(0)

    class Stack(lib.nn.Module):
        def __init__(self):
            self.hidden = [lib.nn.Linear(3, 4, rng=rng), lib.nn.Linear(4, 4, rng=rng)]
            self.head = lib.nn.Linear(4, 1, rng=rng)

        def forward(self, x):
            for layer in self.hidden:
                x = layer(x).tanh()
            return self.head(x)

    model = Stack()
    x, y = rng.standard_normal((16, 3)), rng.standard_normal((16, 1))
    optimizer = lib.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(21):
        loss = ((model(lib.tensor(x)) - y) ** 2).mean()
        weights = {"first": model.hidden[0].weight, "head": model.head.weight}
        yield {"loss": loss, "parameters": len(model.parameters()), **weights}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
