"""Which bugs of published rules the operators imitate.

The bugs were collected before the operators were written. For each, an operator makes the second
line, which has the pattern of the bug, from the first one.
"""

from pathlib import Path

import pytest

from harness.engines.engine import Dialect, Engine
from harness.grade.rule_mutants import rule_mutants
from harness.pages.front_matter import Operator
from harness.rules import find_rules
from tests.harness.bundled import CATALOGUE

RULE = """
import torch


class Rule(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, b=None):
        y = x * w
        {saved}
        return y

    @staticmethod
    {decorator}
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        {line}
        return gx, gw, None
"""

CONTIGUOUS = "g.contiguous()"
AS_IT_LIES = "torch.as_strided(g, g.size(), torch.empty(g.size()).stride())"
RETURNED = "return gx, gw, None"
WRITTEN = "gradients = gx, gw, None; x.data.zero_(); return gradients"

BUGS = [
    ("Dao-AILab/flash-attention#355", "strides-ignored", CONTIGUOUS, AS_IT_LIES),
    ("pytorch/pytorch#194719", "strides-ignored", CONTIGUOUS, AS_IT_LIES),
    ("ROCm/TransformerEngine#623", "strides-ignored", CONTIGUOUS, AS_IT_LIES),
    ("flagos-ai/FlagAttention#1", "strides-ignored", CONTIGUOUS, AS_IT_LIES),
    ("ROCm/aotriton#236", "strides-ignored", CONTIGUOUS, AS_IT_LIES),
    ("torch/nn#345", "strides-ignored", CONTIGUOUS, AS_IT_LIES),
    ("linkedin/Liger-Kernel#1251", "saved-overwritten", RETURNED, WRITTEN),  # about #272
    ("unslothai/unsloth#5002", "saved-overwritten", RETURNED, WRITTEN),
    ("pytorch/pytorch#194143", "cotangent-overwritten", "g * w", "g.__imul__(w)"),  # about #81417
    ("linkedin/Liger-Kernel#1298", "cotangent-first-element", "g * w", "g.reshape(-1)[0] * w"),
    ("unslothai/unsloth-zoo#892", "added-twice", "w.grad += gw", "w.grad += 2 * gw"),
    ("state-spaces/mamba#885", "output-saved-for-input", "ctx.save_for_backward(x, w)",
     "ctx.save_for_backward(y, w)"),
    *((bug, "needs-input-grad-index", "ctx.needs_input_grad[1]", "ctx.needs_input_grad[0]")
      for bug in ("fbcotter/pytorch_wavelets#65", "cornellius-gp/gpytorch#1322",
                  "mgmalek/efficient_cross_entropy#8")),
    ("state-spaces/mamba#431", "gradient-left-out", RETURNED, "return gx, gw"),
    ("meta-pytorch/torchrec#4363", "", "", ""),  # one gradient too many, which Function accepts
    ("NVIDIA/apex#1188", "", "", ""),  # custom_bwd without custom_fwd: it raises whenever it runs
    ("pytorch/ao#4616", "cast-dropped", "w.to(g.dtype)", "w"),
    ("pytorch/pytorch#87979", "", "", ""),  # in the decorator, not in a rule
    ("fla-org/flash-linear-attention#37", "", "", ""),  # the thread was not found again
    ("fla-org/flash-linear-attention#102", "none-not-expected", "ctx.b is not None", "True"),
    ("fla-org/flash-linear-attention#47", "factor-dropped", "g * w * ctx.scale", "g * w"),
    ("jax-ml/jax#3213", "sign-flipped", "-g", "g"),
    ("pytorch/pytorch#5871", "mark-dirty-dropped", "ctx.mark_dirty(x)", ""),
    ("rusty1s/pytorch_scatter#299", "cotangent-detached", "g * w", "g.detach() * w"),
    ("pytorch/pytorch#58509", "cotangent-detached", "g * w", "g.detach() * w"),
    ("pytorch/pytorch#76185", "once-differentiable-dropped", "@once_differentiable", ""),
    ("pytorch/pytorch#104040", "once-differentiable-dropped", "@once_differentiable", ""),
]  # fmt: skip
"""A thread, an operator, and what it changes; no operator where none imitates the bug."""

IMITATED = [row for row in BUGS if row[1]]


def changes(operator: str, before: str) -> list[tuple[str, str]]:
    """Return what an operator changes in a rule that has a piece of code."""
    is_saved, is_decorator = before.startswith(("ctx.save", "ctx.mark")), before[0] == "@"
    line = "gx, gw = w, x" if is_saved or is_decorator or before == RETURNED else f"gx = {before}"
    text = RULE.format(
        saved=before if is_saved else "ctx.save_for_backward(x, w)",
        decorator=before if is_decorator else "",
        line=before if "+=" in before else line,
    )
    engine = Engine("rule", Dialect("rule"), Path(), {"rule.py": text})
    found = rule_mutants([CATALOGUE.page(operator)], find_rules(engine.sources), engine)
    return [(one.change.before, one.change.after) for one in found if one.change is not None]


@pytest.mark.parametrize(("bug", "operator", "before", "after"), IMITATED)
def test_an_operator_imitates_a_published_bug(
    bug: str, operator: str, before: str, after: str
) -> None:
    assert bug in CATALOGUE.page(operator).front_as(Operator).sources
    assert (before, after) in changes(operator, before)


BWD = ["@custom_bwd", "@custom_bwd(device_type='cpu')", "@amp.custom_bwd",
       "@torch.amp.custom_bwd(device_type='cpu')"]  # fmt: skip
ONCE = ["@once_differentiable", "@torch.autograd.function.once_differentiable"]


@pytest.mark.parametrize("once", ONCE)
@pytest.mark.parametrize("bwd", BWD)
def test_decorators_are_dropped_in_either_order(bwd: str, once: str) -> None:
    for decorators in (f"{bwd}\n    {once}", f"{once}\n    {bwd}"):
        assert changes("custom-bwd-dropped", decorators) == [(bwd, "")]
        assert changes("once-differentiable-dropped", decorators) == [(once, "")]


def test_most_published_bugs_are_imitated() -> None:
    assert (len(IMITATED), len(BUGS)) == (25, 29)
