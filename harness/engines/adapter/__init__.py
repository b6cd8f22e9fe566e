"""Foreign engines under PyTorch's names, so that probes run on them unchanged.

A probe gets a `Tensor` that wraps one of the engine's own tensors and forwards every operator,
method and function to it. Nothing is computed here: an operation that the engine lacks raises
`Unsupported`.
"""
