"""Layers compared with PyTorch's, and the parts of a module."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from minigrad import Tensor, layer_ops, nn
from minigrad.tensor import topological_order
from tests.minigrad.against_torch import assert_same_as_torch, compare
from tests.minigrad.modules import DTYPES, assert_same_layer, normal, public_names, rng

Case = tuple[Callable[[Any], nn.Module], Callable[[], torch.nn.Module], np.ndarray[Any, Any]]


class TorchDropout(torch.nn.Module):
    """With the masks of a NumPy generator."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p, self.rng = p, rng(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = torch.from_numpy(self.rng.random(tuple(x.shape)) >= self.p)
        return torch.where(mask, x, 0) / (1 - self.p)


class TorchAttention(torch.nn.Module):
    """PyTorch's attention, with our four layers of weights."""

    def __init__(self, features: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.projections = torch.nn.ModuleList(
            torch.nn.Linear(features, features) for _ in range(4)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        *inward, outward = self.projections
        x = x.transpose(0, 1)
        later = torch.ones(len(x), len(x), dtype=torch.bool).triu(1) if self.causal else None
        output, _ = torch.nn.functional.multi_head_attention_forward(
            *(x, x, x, x.shape[2], self.heads),
            torch.cat([layer.weight for layer in inward]),
            torch.cat([layer.bias for layer in inward]),
            *(None, None, False, 0.0, outward.weight, outward.bias),
            attn_mask=later,
            need_weights=False,
        )
        return output.transpose(0, 1)


class TorchAdapter(torch.nn.Module):
    """A frozen layer, drawn as ours is, and two factors scaled by alpha / rank."""

    def __init__(self) -> None:
        super().__init__()
        base = nn.Linear(3, 4, rng=rng())
        assert base.bias is not None
        self.down = torch.nn.Parameter(torch.zeros(2, 3))
        self.up = torch.nn.Parameter(torch.zeros(4, 2))
        self.weight, self.bias = base.weight.data, base.bias.data

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight, bias = (torch.from_numpy(part).to(x.dtype) for part in (self.weight, self.bias))
        return x @ weight.T + bias + x @ self.down.T @ self.up.T * (6 / 2)


def adapter(dtype: Any) -> nn.Module:
    base = nn.Linear(3, 4, rng=rng(), dtype=dtype)
    return moved(nn.LowRankAdapter(base, 2, 6, rng=rng(1)))


class TorchResidual(torch.nn.Sequential):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + super().forward(x)


class Recurrent(nn.Module):
    """Three steps of an LSTM along the middle axis."""

    def __init__(self, cell: nn.LSTMCell) -> None:
        self.cell = cell

    def forward(self, x: Tensor) -> Any:
        h, c = self.cell(x[:, 0])
        for t in (1, 2):
            h, c = self.cell(x[:, t], (h, c))
        return h, c


class TorchRecurrent(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = torch.nn.LSTMCell(3, 4)

    def forward(self, x: torch.Tensor) -> Any:
        h, c = self.cell(x[:, 0])
        for t in (1, 2):
            h, c = self.cell(x[:, t], (h, c))
        return h, c


def moved(layer: nn.Module) -> nn.Module:
    """With parameters that are not 0 and 1, as at the start."""
    for seed, parameter in enumerate(layer.parameters()):
        noise = normal(*parameter.shape, seed=seed).astype(parameter.dtype)
        parameter.data = parameter.data + 0.3 * noise
    return layer


def drawn(name: str, *options: Any, on: np.ndarray[Any, Any]) -> Case:
    ours, twin = getattr(nn, name), getattr(torch.nn, name)
    return lambda dtype: ours(*options, rng=rng(), dtype=dtype), lambda: twin(*options), on


def fixed(name: str, *options: Any, on: np.ndarray[Any, Any]) -> Case:
    ours, twin = getattr(nn, name), getattr(torch.nn, name)
    return lambda dtype: moved(ours(*options, dtype=dtype)), lambda: twin(*options), on


def plain(name: str, *options: Any, on: np.ndarray[Any, Any]) -> Case:
    ours, twin = getattr(nn, name), getattr(torch.nn, name)
    return lambda _: ours(*options), lambda: twin(*options), on


def evaluated(case: Case) -> Case:
    ours, twin, x = case
    return lambda dtype: ours(dtype).eval(), lambda: twin().eval(), x


def attention(causal: bool, batch: int, length: int) -> Case:
    return (
        lambda d: nn.MultiHeadAttention(6, 2, causal, rng=rng(), dtype=d),
        lambda: TorchAttention(6, 2, causal),
        normal(batch, length, 6),
    )


SYMBOLS = np.array([[0, 3, 3], [2, 0, 3]])
TIES = np.array([[[[2.0, 2.0, 1.0], [0.0, 2.0, 1.0], [1.0, 1.0, 1.0]]]])
DROPOUT: Case = (lambda _: nn.Dropout(0.3, rng=rng(3)), lambda: TorchDropout(0.3), normal(20, 5))

CASES: dict[str, Case] = {
    "Linear": drawn("Linear", 3, 2, on=normal(5, 3)),
    "Linear, square": drawn("Linear", 3, 3, on=normal(4, 3)),
    "Linear, no bias": drawn("Linear", 3, 2, False, on=normal(2, 5, 3)),
    "Embedding": drawn("Embedding", 4, 3, on=SYMBOLS),
    "Embedding, padding": drawn("Embedding", 4, 3, 3, on=SYMBOLS),
    "Embedding, padding 0": drawn("Embedding", 4, 3, 0, on=SYMBOLS),
    "Embedding, padding from the end": drawn("Embedding", 4, 3, -1, on=SYMBOLS),
    "Conv2d": drawn("Conv2d", 2, 3, 3, on=normal(2, 2, 6, 7)),
    "Conv2d, padded": drawn("Conv2d", 2, 3, 3, 1, 1, on=normal(2, 2, 5, 4)),
    "Conv2d, strides that leave a rest": drawn("Conv2d", 2, 3, 2, 3, on=normal(2, 2, 7, 6)),
    "Conv2d, strided and padded": drawn("Conv2d", 2, 3, 3, 2, 2, on=normal(2, 2, 6, 7)),
    "Conv2d, kernel of one": drawn("Conv2d", 3, 3, 1, on=normal(1, 3, 3, 3)),
    "Conv2d, kernel of the whole image": drawn("Conv2d", 1, 2, 4, on=normal(2, 1, 4, 4)),
    "MaxPool2d": plain("MaxPool2d", 2, on=normal(2, 3, 6, 5)),
    "MaxPool2d, overlapping": plain("MaxPool2d", 3, 1, on=normal(2, 3, 5, 6)),
    "MaxPool2d, gaps": plain("MaxPool2d", 2, 3, on=normal(1, 1, 7, 8)),
    "MaxPool2d, ties": plain("MaxPool2d", 2, 1, on=TIES),
    "AvgPool2d": plain("AvgPool2d", 2, on=normal(2, 3, 6, 5)),
    "AvgPool2d, overlapping": plain("AvgPool2d", 3, 1, 1, on=normal(2, 3, 5, 6)),
    "AvgPool2d, strided and padded": plain("AvgPool2d", 3, 2, 1, on=normal(1, 2, 6, 7)),
    "AvgPool2d, padding not counted": (
        lambda _: nn.AvgPool2d(3, 2, 1, count_include_pad=False),
        lambda: torch.nn.AvgPool2d(3, 2, 1, count_include_pad=False),
        normal(2, 2, 5, 6),
    ),
    "LowRankAdapter": (adapter, TorchAdapter, normal(5, 3)),
    "Dropout": DROPOUT,
    "Dropout, eval": evaluated((DROPOUT[0], lambda: torch.nn.Dropout(0.3), DROPOUT[2])),
    "LSTMCell": (
        lambda d: Recurrent(nn.LSTMCell(3, 4, rng=rng(), dtype=d)),
        TorchRecurrent,
        normal(2, 3, 3),
    ),
    "LayerNorm": fixed("LayerNorm", 3, on=normal(5, 3)),
    "LayerNorm, square": fixed("LayerNorm", 3, on=normal(3, 3)),
    "LayerNorm, sequence": fixed("LayerNorm", 3, on=normal(2, 4, 3)),
    "LayerNorm, large eps": fixed("LayerNorm", 4, 0.5, on=0.1 * normal(5, 4)),
    "RMSNorm": (
        lambda d: moved(nn.RMSNorm(4, dtype=d)),
        lambda: torch.nn.RMSNorm(4, 1e-6),
        normal(5, 4),
    ),
    "RMSNorm, large eps": fixed("RMSNorm", 4, 0.5, on=0.1 * normal(2, 5, 4)),
    "BatchNorm1d": fixed("BatchNorm1d", 3, on=normal(6, 3)),
    "BatchNorm1d, two rows": fixed("BatchNorm1d", 4, on=normal(2, 4)),
    "BatchNorm1d, large eps and momentum": fixed("BatchNorm1d", 3, 0.5, 0.6, on=normal(5, 3)),
    "BatchNorm1d, eval": evaluated(fixed("BatchNorm1d", 3, on=normal(6, 3))),
    "MultiHeadAttention": attention(causal=False, batch=2, length=5),
    "MultiHeadAttention, causal": attention(causal=True, batch=2, length=5),
    "MultiHeadAttention, causal, one long": attention(causal=True, batch=1, length=1),
    "MultiHeadAttention, causal, as long as wide": attention(causal=True, batch=6, length=6),
    "ReLU": plain("ReLU", on=normal(4, 3)),
    "Tanh": plain("Tanh", on=normal(4, 3)),
    "Sigmoid": plain("Sigmoid", on=normal(4, 3)),
    "GELU": plain("GELU", on=normal(4, 3)),
    "GELU, tanh": (
        lambda _: nn.GELU("tanh"),
        lambda: torch.nn.GELU(approximate="tanh"),
        normal(4, 3),
    ),
    "Residual": (
        lambda d: nn.Residual(nn.Linear(3, 3, rng=rng(), dtype=d)),
        lambda: TorchResidual(torch.nn.Linear(3, 3)),
        normal(4, 3),
    ),
    "Sequential": (
        lambda d: nn.Sequential(nn.Linear(3, 4, rng=rng(), dtype=d), nn.Tanh(), Tensor.relu),
        lambda: torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.ReLU()),
        normal(4, 3),
    ),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CASES)
def test_a_layer_agrees_with_torch(name: str, dtype: Any) -> None:
    make, twin, x = CASES[name]
    assert_same_layer(make(dtype), twin(), x, dtype)


def test_every_layer_has_a_case() -> None:
    covered = {type(part) for make, _, _ in CASES.values() for part in make(float).modules()}
    layers = {value for value in vars(nn).values() if inspect.isclass(value)}
    assert layers - covered == {nn.Module}


def test_every_public_name_is_exported_and_every_op_used() -> None:
    modules = (nn.module, nn.layers, nn.normalisation, nn.attention)
    assert set(nn.__all__) == {"initialisers"}.union(*map(public_names, modules))
    assert public_names(layer_ops) == {
        "avg_pool2d",
        "conv2d",
        "cross_entropy",
        "dropout",
        "linear",
        "max_pool2d",
        "softplus",
    }


# ----- Layers: what torch does not tell -----


@pytest.mark.parametrize("dtype", DTYPES)
def test_batch_norm_keeps_the_running_statistics_of_torch(dtype: Any) -> None:
    ours, theirs = nn.BatchNorm1d(3, dtype=dtype), torch.nn.BatchNorm1d(3)
    theirs = theirs.to(torch.float64 if dtype is np.float64 else torch.float32)
    for seed in range(4):
        x = (2.0 + 3.0 * normal(5, 3, seed=seed)).astype(dtype)
        ours(Tensor(x))
        theirs(torch.from_numpy(x))
        compare("mean", ours.running_mean, theirs.running_mean.numpy())
        compare("variance", ours.running_var, theirs.running_var.numpy())
    x = normal(4, 3).astype(dtype)
    output = theirs.eval()(torch.from_numpy(x)).detach().numpy()
    before = ours.running_mean.copy()
    compare("output", ours.eval()(Tensor(x)).data, output)
    np.testing.assert_array_equal(ours.running_mean, before)


def test_dropout_drops_a_share_of_p_and_keeps_the_mean() -> None:
    layer = nn.Dropout(0.2, rng=rng())
    y = layer(Tensor(np.ones(100_000))).data
    assert abs((y == 0).mean() - 0.2) < 0.005
    assert set(np.unique(y)) == {0.0, 1.25}
    assert (layer(Tensor(np.ones(100_000))).data != y).any()


def test_dropout_is_back_after_an_evaluation() -> None:
    layer, x = nn.Dropout(0.5, rng=rng()), Tensor(np.ones(50))
    first = layer(x).data
    assert layer.eval()(x) is x
    assert (first == 0).any()
    assert (layer.train()(x).data == 0).any()


def test_dropout_leaves_an_infinite_cotangent_of_what_is_kept_alone() -> None:
    x = Tensor(np.ones(4), requires_grad=True)
    kept = rng(3).random(4) >= 0.5
    with np.errstate(invalid="ignore"):
        nn.Dropout(0.5, rng=rng(3))(x).backward(np.where(kept, np.inf, 1.0))
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad, np.where(kept, np.inf, 0.0))


def test_a_causal_output_does_not_depend_on_what_comes_later() -> None:
    layer, x = nn.MultiHeadAttention(6, 3, causal=True, rng=rng()), normal(1, 5, 6)
    before = layer(Tensor(x)).data
    x[0, 3:] += 1.0
    after = layer(Tensor(x)).data
    np.testing.assert_array_equal(after[0, :3], before[0, :3])
    assert (after[0, 3:] != before[0, 3:]).all()


def test_attention_survives_large_scores() -> None:
    layer = nn.MultiHeadAttention(4, 1, rng=rng())
    assert np.isfinite(layer(Tensor(1e4 * normal(1, 3, 4))).data).all()


def test_a_cached_sequence_continues_as_if_it_were_whole() -> None:
    layer = nn.MultiHeadAttention(4, 2, causal=True, rng=rng())
    x, cache = Tensor(normal(2, 6, 4)), dict[str, Tensor]()
    parts = [layer(x[:, start:end], cache).data for start, end in ((0, 3), (3, 4), (4, 6))]
    np.testing.assert_allclose(np.concatenate(parts, 1), layer(x).data, 1e-12)
    np.testing.assert_allclose(cache["k"].shape, (2, 2, 6, 2))


def test_positions_can_start_later() -> None:
    whole = nn.sinusoidal_positions(7, 4)
    np.testing.assert_array_equal(nn.sinusoidal_positions(3, 4, start=4), whole[4:])


def test_the_padding_vector_starts_at_zero() -> None:
    assert not nn.Embedding(4, 3, 0, rng=rng()).weight.data[0].any()
    assert nn.Embedding(4, 3, rng=rng()).weight.data.all()


def test_an_adapter_starts_as_its_base_and_merges_into_it() -> None:
    base, x = nn.Linear(3, 4, rng=rng()), Tensor(normal(5, 3))
    layer, before = nn.LowRankAdapter(base, 2, 6, rng=rng(1)), base(x).data
    np.testing.assert_array_equal(layer(x).data, before)
    assert [name for name, _ in layer.named_parameters()] == ["down", "up"]
    layer.up.data = normal(4, 2)
    adapted = layer(x).data
    for _ in range(2):
        layer.merge()
        np.testing.assert_allclose(layer(x).data, adapted, 1e-12)
    np.testing.assert_allclose(base(x).data, adapted, 1e-12)


def test_the_causal_mask_is_torchs() -> None:
    theirs = torch.nn.Transformer.generate_square_subsequent_mask(4)
    np.testing.assert_array_equal(nn.causal_mask(4), theirs.isinf().numpy(), strict=True)


@pytest.mark.parametrize("features", [6, 5])
def test_the_sinusoidal_positions_are_those_of_the_paper(features: int) -> None:
    table = nn.sinusoidal_positions(7, features)
    assert table.shape == (7, features)
    for position, row in enumerate(table):
        for i in range(0, features, 2):
            angle = position / 10_000 ** (i / features)
            expected = [np.sin(angle), np.cos(angle)][: features - i]
            np.testing.assert_allclose(row[i : i + 2], expected, 1e-12, 1e-15)


def test_softplus_is_torchs_far_from_zero_too() -> None:
    far = np.array([-800.0, -30.0, -0.0, 0.0, 30.0, 800.0])
    assert_same_as_torch(
        lambda x: nn.layers.apply(layer_ops.softplus, x),
        far,
        torch_program=lambda x: -torch.nn.functional.logsigmoid(-x),
    )


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: nn.Dropout(1.0, rng=rng()), ValueError, "p is 1.0: dropout needs a probability"),
        (lambda: nn.MultiHeadAttention(6, 4, rng=rng()), ValueError, "6 features .* 4 heads"),
        (
            lambda: nn.Embedding(4, 2, rng=rng())(np.array([0, -1])),
            IndexError,
            "symbols from -1 to 0, but only 0 to 3 have a vector",
        ),
        (lambda: nn.Embedding(4, 2, rng=rng())(np.array([4])), IndexError, "from 4 to 4"),
        (
            lambda: nn.LayerNorm(3)(Tensor(np.ones((2, 1)))),
            ValueError,
            r"an input of shape \(2, 1\), but the layer has 3 features",
        ),
        (lambda: nn.RMSNorm(3)(Tensor(np.ones((2, 1)))), ValueError, "the layer has 3 features"),
        (lambda: nn.BatchNorm1d(3)(Tensor(np.ones((2, 1)))), ValueError, "has 3 features"),
        (
            lambda: nn.BatchNorm1d(3).eval()(Tensor(np.ones((2, 4, 3)))),
            ValueError,
            r"an input of shape \(2, 4, 3\): reshape it to \(batch, features\)",
        ),
        (
            lambda: nn.BatchNorm1d(3)(Tensor(np.ones((1, 3)))),
            ValueError,
            r"a batch of one row has no variance: take more rows, or call eval\(\)",
        ),
        (
            lambda: nn.Residual(nn.Linear(3, 1, rng=rng()))(Tensor(np.ones((2, 3)))),
            ValueError,
            r"inner must keep the shape \(2, 3\), and made \(2, 1\)",
        ),
        (lambda: nn.initialisers.he_normal((3,), rng=rng()), ValueError, r"\(3,\) has no fans"),
    ],
)
def test_a_layer_refuses(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("layer", [nn.BatchNorm1d(3).eval(), nn.LayerNorm(3), nn.RMSNorm(3)])
def test_one_row_that_is_constant_stays_finite(layer: nn.Module) -> None:
    x = Tensor(np.zeros((1, 3)), requires_grad=True)
    layer(x).backward(normal(1, 3))
    assert x.grad is not None
    assert np.isfinite(x.grad).all()


# ----- Initialisers -----

SHAPE = (60, 40, 3, 3)
TORCH_INIT: dict[str, Any] = {
    "xavier_uniform": torch.nn.init.xavier_uniform_,
    "xavier_normal": torch.nn.init.xavier_normal_,
    "he_uniform": lambda w: torch.nn.init.kaiming_uniform_(w, nonlinearity="relu"),
    "he_normal": lambda w: torch.nn.init.kaiming_normal_(w, nonlinearity="relu"),
    "uniform_fan_in": lambda w: torch.nn.init.kaiming_uniform_(w, a=5**0.5),
    "zeros": torch.nn.init.zeros_,
}


@pytest.mark.parametrize("name", TORCH_INIT)
def test_an_initialiser_draws_from_torchs_distribution(name: str) -> None:
    initialise = getattr(nn.initialisers, name)
    options = {"fan_in": 360} if name == "uniform_fan_in" else {}
    ours = initialise(SHAPE, **options, **({} if name == "zeros" else {"rng": rng()}))
    theirs = TORCH_INIT[name](torch.empty(SHAPE, dtype=torch.float64)).numpy()
    assert ours.shape == SHAPE
    assert abs(ours.mean()) <= 0.02 * theirs.std()
    np.testing.assert_allclose(ours.std(), theirs.std(), rtol=0.02)
    tail = 0.25 if "normal" in name else 1e-3
    np.testing.assert_allclose(np.abs(ours).max(), np.abs(theirs).max(), rtol=tail)


def test_every_initialiser_has_a_case() -> None:
    assert public_names(nn.initialisers) == {*TORCH_INIT, "fans"}
    assert nn.initialisers.fans(SHAPE) == (360, 540)


# ----- Parts, modes, states -----


class Tree(nn.Module):
    """A module with parts everywhere."""

    def __init__(self) -> None:
        self.first = nn.Linear(2, 2, rng=rng(1))
        self.several = [nn.BatchNorm1d(2), (nn.Dropout(0.5, rng=rng(2)),)]
        self.named = {"last": nn.Linear(2, 1, rng=rng(3))}
        self.tied = self.named["last"]
        self.frozen = Tensor([1.0])
        self.size = 2

    def forward(self, x: Tensor) -> Any:
        norm, (dropout,) = self.several
        return self.tied(dropout(norm(self.first(x)))) + self.frozen


PARAMETERS = [
    *("first.weight", "first.bias", "several.0.weight", "several.0.bias"),
    *("named.last.weight", "named.last.bias"),
]


def test_parts_are_found_in_containers_and_shared_ones_once() -> None:
    model = Tree()
    names = dict(model.named_parameters())
    assert list(names) == PARAMETERS
    assert names["named.last.weight"] is model.tied.weight
    assert model.parameters() == list(names.values())
    assert list(model.generators()) == ["several.1.0.rng"]
    assert [type(part) for part in model.modules()] == [
        *(Tree, nn.Linear, nn.BatchNorm1d, nn.Dropout, nn.Linear)
    ]


def test_a_module_that_knows_its_owner_is_no_endless_loop() -> None:
    model = Tree()
    model.first.owner = model  # type: ignore[attr-defined]
    assert len(model.parameters()) == 6


def test_the_mode_reaches_every_module_and_comes_back() -> None:
    model = Tree()
    assert [part.training for part in model.modules()] == [True] * 5
    assert model.eval() is model
    assert [part.training for part in model.modules()] == [False] * 5
    assert model.train() is model
    assert [part.training for part in model.modules()] == [True] * 5
    assert nn.Dropout(rng=rng()).training


def test_a_state_goes_into_another_model_buffers_included() -> None:
    model, other = Tree(), Tree()
    model(Tensor(normal(8, 2)))
    moved(model)
    model.frozen.data = np.array([5.0])
    state = model.state_dict()
    assert sorted(state) == sorted(
        [*PARAMETERS, "frozen", "several.0.running_mean", "several.0.running_var"]
    )
    other.load_state_dict(state)
    x = Tensor(normal(4, 2))
    np.testing.assert_array_equal(other.eval()(x).data, model.eval()(x).data)


def test_a_state_shares_no_memory_with_either_model() -> None:
    model, other = Tree(), Tree()
    state = model.state_dict()
    other.load_state_dict(state)
    for array in state.values():
        array[...] = 7.0
    for one in (model, other):
        for name, array in one.state_dict().items():
            assert (array != 7.0).all(), name


def test_a_state_is_cast_to_the_models_dtype() -> None:
    model = nn.BatchNorm1d(3, dtype=np.float32)
    model.load_state_dict(nn.BatchNorm1d(3).state_dict())
    assert {array.dtype for array in model.state_dict().values()} == {np.dtype(np.float32)}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda s: s.pop("bias"), KeyError, "the state has no bias: it was saved by something el"),
        (lambda s: s.update(scale=s["bias"]), KeyError, "nothing here takes scale from the state"),
        (
            lambda s: s.update(bias=np.ones(1)),
            ValueError,
            r"bias has shape \(2,\) here, but shape \(1,\) in the state",
        ),
    ],
)
def test_a_state_that_does_not_fit_changes_nothing(
    change: Any, error: type[Exception], message: str
) -> None:
    model = nn.Linear(3, 2, rng=rng())
    before, state = model.state_dict(), nn.Linear(3, 2, rng=rng(1)).state_dict()
    change(state)
    with pytest.raises(error, match=message):
        model.load_state_dict(state)
    for name, array in model.state_dict().items():
        np.testing.assert_array_equal(array, before[name])


def test_layers_build_the_same_graph_in_either_mode_but_for_what_the_mode_is_for() -> None:
    model = Tree()
    x = Tensor(normal(4, 2))
    assert "dropout" in {node.op for node in topological_order(model(x))}
    assert "dropout" not in {node.op for node in topological_order(model.eval()(x))}
