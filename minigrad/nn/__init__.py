"""Layers, and the `Module` that they are built on."""

from minigrad.nn import initialisers
from minigrad.nn.attention import MultiHeadAttention, causal_mask, sinusoidal_positions
from minigrad.nn.layers import (
    GELU,
    AvgPool2d,
    Conv2d,
    Dropout,
    Embedding,
    Linear,
    LowRankAdapter,
    LSTMCell,
    MaxPool2d,
    ReLU,
    Sigmoid,
    Tanh,
)
from minigrad.nn.module import Module, Residual, Sequential
from minigrad.nn.normalisation import BatchNorm1d, LayerNorm, RMSNorm

__all__ = [
    "GELU",
    "AvgPool2d",
    "BatchNorm1d",
    "Conv2d",
    "Dropout",
    "Embedding",
    "LSTMCell",
    "LayerNorm",
    "Linear",
    "LowRankAdapter",
    "MaxPool2d",
    "Module",
    "MultiHeadAttention",
    "RMSNorm",
    "ReLU",
    "Residual",
    "Sequential",
    "Sigmoid",
    "Tanh",
    "causal_mask",
    "initialisers",
    "sinusoidal_positions",
]
