"""Layers, with PyTorch's own beside them: the same weights, arranged as each library keeps them."""

import numpy as np


def _attention(lib, x, heads, causal=False):
    """Multi-head attention of x with itself; the weights come from a fixed seed."""
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
    """Self-attention in sequences of one position: every softmax is of one score."""
    return _attention(lib, x, heads=2)


def causal_two_heads(lib, x=(2, 4, 4)):
    """Causal self-attention over 4 positions, 2 heads: no position sees a later one."""
    return _attention(lib, x, heads=2, causal=True)


def attend_rows_alike(lib, x=[[[0.5, -1, 2, 0.25], [0.5, -1, 2, 0.25], [0.5, -1, 2, 0.25]]]):
    """Self-attention over 3 positions that hold the same numbers: every score is the same."""
    return _attention(lib, x, heads=2)


def _layer_norm(lib, x):
    """A new layer normalisation: the scale is 1 and the shift 0."""
    return lib.nn.LayerNorm(x.shape[-1], dtype=getattr(lib, "float64", np.float64))(x)


def norm_random_rows(lib, x=(3, 4)):
    """Layer normalisation of 3 rows of random numbers."""
    return _layer_norm(lib, x)


def norm_rows_of_small_spread(lib, x=(3, 4)):
    """Layer normalisation of rows that spread by about a thousandth."""
    return _layer_norm(lib, 1e-3 * x)


def norm_row_of_equal_numbers(lib, x=[[1.0, 2.0, 3.0, 4.0], [5.0, 5.0, 5.0, 5.0]]):
    """Layer normalisation where one of two rows holds the same number four times."""
    return _layer_norm(lib, x)
