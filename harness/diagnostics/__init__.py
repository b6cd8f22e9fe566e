"""Every diagnostic, in the order in which a developer would reach for them."""

from __future__ import annotations

from harness.diagnostics.checkpoint import CHECKPOINT
from harness.diagnostics.crash import CRASH
from harness.diagnostics.gradcheck import GRADCHECK
from harness.diagnostics.loss_falls import LOSS_FALLS
from harness.diagnostics.mode import MODE
from harness.diagnostics.shape import SHAPE
from harness.diagnostics.torch import TORCH
from harness.diagnostics.training_log import TRAINING_LOG
from harness.diagnostics.trajectory import TRAJECTORY
from harness.diagnostics.verdict import (
    Alarm,
    Diagnostic,
    Observation,
    Silent,
    Skipped,
    Verdict,
    ask,
)

DIAGNOSTICS: tuple[Diagnostic, ...] = (
    CRASH,
    SHAPE,
    GRADCHECK,
    TORCH,
    TRAJECTORY,
    MODE,
    CHECKPOINT,
    TRAINING_LOG,
    LOSS_FALLS,
)

__all__ = [
    "DIAGNOSTICS",
    "Alarm",
    "Diagnostic",
    "Observation",
    "Silent",
    "Skipped",
    "Verdict",
    "ask",
]
