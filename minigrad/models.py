"""Operations on whole models: recomputing, averaging and replicating them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from minigrad.functions import grad
from minigrad.modes import no_grad
from minigrad.nn.module import Module
from minigrad.precision import widened
from minigrad.tensor import Tensor, apply
from minigrad.types import Array, Cotangents, Recorded

# ----- Recomputed: activation checkpointing -----


def checkpoint(model: Module, *inputs: Tensor) -> Tensor:
    """`model(*inputs)`, keeping no intermediate results: `torch.utils.checkpoint.checkpoint`.

    The backward pass computes them again, with the same random numbers, and leaves the generators
    and buffers as they were. Source: Chen et al., Training Deep Nets with Sublinear Memory Cost,
    2016.
    """
    before = _states(model)
    parameters = model.parameters()

    def forget(*arrays: Array) -> Recorded:
        with no_grad():
            value = model(*inputs).data

        def recompute(g: Array) -> Cotangents:
            leaves = [Tensor(array, True) for array in arrays[: len(inputs)]]
            with _replay(model, before):
                output = model(*leaves)
            return grad(output, [*leaves, *parameters], g)

        return value, recompute

    return apply(forget, *inputs, *parameters)


def _states(model: Module) -> list[Any]:
    """The states of the model's generators."""
    return [copy.deepcopy(rng.bit_generator.state) for rng in model.generators().values()]


def _restore(model: Module, states: Sequence[Any]) -> None:
    for rng, state in zip(model.generators().values(), states, strict=True):
        rng.bit_generator.state = state


@contextmanager
def _replay(model: Module, states: Sequence[Any]) -> Iterator[None]:
    """Give the generators these states in the block; restore them and the buffers after it."""
    now, buffers = _states(model), model.state_dict()
    _restore(model, states)
    try:
        yield
    finally:
        _restore(model, now)
        model.load_state_dict(buffers)


# ----- Averaged -----


class AveragedModel(Module):
    """A copy of a model whose weights are an exponential moving average of the original's.

    Call `update_parameters` after each step, and evaluate this copy. Weights in float16 are
    averaged in float32, which can hold small changes. Buffers are copied, not averaged. As
    `torch.optim.swa_utils.AveragedModel` with `get_ema_multi_avg_fn(decay)`. Source: Polyak and
    Juditsky, Acceleration of Stochastic Approximation by Averaging, 1992.
    """

    def __init__(self, model: Module, decay: float = 0.999) -> None:
        self.module, self.decay = copy.deepcopy(model), float(decay)
        for parameter in self.module.parameters():
            parameter.data = widened(parameter.data)

    def forward(self, *inputs: Any) -> Any:
        """Compute with the averaged weights."""
        return self.module(*inputs)

    def update_parameters(self, model: Module) -> None:
        """Move the average towards `model` by a fraction 1 - `decay` of the difference."""
        state = model.state_dict()
        for name, average in self.module.named_parameters():
            state[name] = self.decay * average.data + (1 - self.decay) * widened(state[name])
        self.module.load_state_dict(state)


# ----- Replicated: data parallelism -----


def replicate(model: Module, count: int) -> list[Module]:
    """Return `count` copies of the model whose random generators draw different numbers."""
    replicas = [copy.deepcopy(model) for _ in range(count)]
    for name, rng in model.generators().items():
        for replica, spawned in zip(replicas, rng.spawn(count), strict=True):
            replica.generators()[name].bit_generator.state = spawned.bit_generator.state
    return replicas


def data_parallel(
    mean_loss: Callable[..., Tensor], model: Module, shards: Sequence[Sequence[Array]]
) -> float:
    """Add the gradients of `mean_loss(model, *batch)` as several machines would compute them.

    Each of the `shards` of a batch goes to a replica, and the gradients of the replicas are
    averaged, weighted by the number of samples. Returns the mean loss. Buffers of the model, such
    as running statistics, do not change.
    """
    count, total = sum(len(shard[0]) for shard in shards), 0.0
    replicas = replicate(model, len(shards))
    for replica, shard in zip(replicas, shards, strict=True):
        replica_loss = mean_loss(replica, *shard) * (len(shard[0]) / count)
        replica_loss.backward()
        total += replica_loss.item()
    for parameter, *copies in zip(
        model.parameters(), *(replica.parameters() for replica in replicas), strict=True
    ):
        for part in copies:
            if part.grad is not None:
                before = parameter.grad
                parameter.grad = part.grad if before is None else before + part.grad
    return total
