"""All diagnostics, in the order in which a developer would use them."""

from __future__ import annotations

from harness.diagnostics.aliasing import ALIASING
from harness.diagnostics.autograd import AUTOGRAD
from harness.diagnostics.causality import CAUSALITY
from harness.diagnostics.checkpoint import CHECKPOINT
from harness.diagnostics.crash import CRASH
from harness.diagnostics.diagnostic import Diagnostic, Observation, evaluate
from harness.diagnostics.directional import DIRECTIONAL
from harness.diagnostics.dtype import DTYPE
from harness.diagnostics.finite import FINITE
from harness.diagnostics.forward import FORWARD
from harness.diagnostics.gradcheck import GRADCHECK
from harness.diagnostics.guard import GUARD
from harness.diagnostics.loss_falls import LOSS_FALLS
from harness.diagnostics.metamorphic import METAMORPHIC
from harness.diagnostics.mode import MODE
from harness.diagnostics.purity import PURITY
from harness.diagnostics.second_backward import SECOND_BACKWARD
from harness.diagnostics.shape import SHAPE
from harness.diagnostics.torch import TORCH
from harness.diagnostics.training_log import TRAINING_LOG
from harness.diagnostics.trajectory import TRAJECTORY

DIAGNOSTICS: tuple[Diagnostic, ...] = (
    CRASH,
    SHAPE,
    DTYPE,
    FINITE,
    GRADCHECK,
    DIRECTIONAL,
    TORCH,
    AUTOGRAD,
    SECOND_BACKWARD,
    PURITY,
    ALIASING,
    METAMORPHIC,
    FORWARD,
    GUARD,
    TRAJECTORY,
    MODE,
    CHECKPOINT,
    CAUSALITY,
    TRAINING_LOG,
    LOSS_FALLS,
)

__all__ = ["DIAGNOSTICS", "Diagnostic", "Observation", "evaluate"]
