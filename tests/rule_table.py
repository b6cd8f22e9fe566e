"""What the usual checks of a backward rule see of the operators' mutants: docs/your-rules.md.

    python -m tests.rule_table          # runs every check on every mutant, 2 minutes

A test compares the table with what a run gives.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

from harness import check_rule
from harness.core.files import write_file
from harness.engines.engine import Dialect, Engine
from harness.grade.mutants import Mutant
from harness.grade.rule_mutants import operators, rule_mutants
from harness.pages.catalogue import open_catalogue
from harness.report import markdown_table
from harness.report.documents import with_text
from harness.rules import find_rules

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "your-rules.md"
RULES = ROOT / "tests" / "rules" / "torch_rules.py"
START = "<!-- made by python -m tests.rule_table -->\n"

EQUIVALENT = {
    "sum-dropped@Affine.backward": "PyTorch itself sums a gradient that has too many axes",
    "sum-dropped@Quotient.unbroadcast": "likewise",
    "unbroadcast-dropped": "likewise",
    "cotangent-detached@Cube.backward": "the rule is declared to be differentiable only once",
    "sign-flipped@Softmax.backward:53#1": "the axes 1 and -1 of a matrix are the same",
}
"""The mutants whose gradients are right, by the operator or the beginning of the id."""

Tensors = tuple[Any, ...]
Function = Callable[..., Any]


def numbers(*shape: int, least: float | None = None) -> Any:
    """Return distinct numbers that require a gradient; if there is a least one, positive."""
    generator = torch.Generator().manual_seed(sum(shape))
    values = torch.randn(shape, generator=generator, dtype=torch.float64)
    return (values if least is None else values.abs() + least).requires_grad_()


@dataclass(frozen=True)
class Case:
    """Inputs of a rule, and the same function without the rule."""

    inputs: Tensors
    reference: Function
    in_place: bool = False
    """Whether the rule writes into its inputs."""


CASES: Mapping[str, Case] = {
    "Affine": Case((numbers(3, 4), numbers(4, 2), numbers(2)), lambda x, w, b: x @ w + b),
    "Lookup": Case((numbers(4, 3), torch.tensor([0, 2, 2])), lambda table, index: table[index]),
    "Softmax": Case((numbers(3, 4),), lambda x: torch.softmax(x, -1)),
    "Clipped": Case((numbers(3, 4),), lambda x: (functional.relu(x), 2 * functional.relu(x))),
    "Power": Case((numbers(3, 2), 3), lambda x, k: x**k),
    "Quotient": Case((numbers(3, 1), numbers(1, 4, least=0.5)), lambda a, b: a / b),
    "ColumnMeans": Case((numbers(3, 4),), lambda x: x.mean(0)),
    "Scaled": Case((numbers(2, 3), numbers(3, 2).detach().T.requires_grad_()),
                   lambda x, w: (x * w, x - w)),
    "Tanh": Case((numbers(2, 3),), torch.tanh),
    "Square": Case((numbers(2, 3),), lambda x: x * x),
    "Cube": Case((numbers(2, 3),), lambda x: x**3),
    "Matmul": Case((numbers(3, 4), numbers(4, 2)), lambda x, w: x @ w),
    "Doubled": Case((numbers(3, 4), numbers(4)), lambda x, shift: 2 * x + shift, in_place=True),
}  # fmt: skip


def is_equivalent(mutant: Mutant) -> bool:
    """Say whether a mutant is listed as equivalent."""
    return any(mutant.id.startswith(name) for name in EQUIVALENT)


@cache
def mutants() -> list[Mutant]:
    """Return the mutants of the rules."""
    engine = Engine("rules", Dialect("rules"), ROOT, {"rules.py": RULES.read_text("utf-8")})
    return rule_mutants(operators(open_catalogue()), find_rules(engine.sources), engine)


def rules_in(text: str) -> dict[str, Any]:
    """Execute a file of rules, and return its names."""
    names = {"__name__": "rules"}
    exec(compile(text, "rules.py", "exec"), names)  # noqa: S102  the text is ours
    return names


def _copied(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return value.detach().clone().requires_grad_(value.requires_grad)


def _leaves(inputs: Tensors) -> Tensors:
    return tuple(v for v in inputs if isinstance(v, torch.Tensor) and v.requires_grad)


def _function(rule: Any, case: Case) -> Function:
    """Return the function of a rule; one that writes into its inputs gets copies."""
    if not case.in_place:
        return rule.apply
    return lambda *inputs: rule.apply(*(v.clone() for v in inputs))


def _gradients(fn: Function, inputs: Tensors, *, random: bool) -> Tensors:
    result = fn(*inputs)
    outputs = result if isinstance(result, tuple) else (result,)
    weights = [numbers(*one.shape).detach() if random else torch.ones_like(one) for one in outputs]
    return torch.autograd.grad(outputs, _leaves(inputs), weights)


def smoke(rule: Any, case: Case) -> bool:
    """Compute gradients, and check that they are finite."""
    return all(
        bool(g.isfinite().all())
        for g in _gradients(_function(rule, case), case.inputs, random=False)
    )


def reference(rule: Any, case: Case, *, random: bool) -> bool:
    """Compare gradients with those of the function without the rule."""
    found = _gradients(_function(rule, case), case.inputs, random=random)
    return all(map(torch.allclose, found, _gradients(case.reference, case.inputs, random=random)))


def of_pytorch(check: Function, rule: Any, case: Case, **options: Any) -> bool:
    """Run a check of PyTorch."""
    return bool(check(_function(rule, case), case.inputs, **options))


_numbers = count()


def opcheck(rule: Any, case: Case) -> bool:
    """Run `torch.library.opcheck` on a custom op with the same rule."""
    kinds = {int: "int", torch.Tensor: "Tensor"}
    names = [f"{kinds[type(value)]} a{n}" for n, value in enumerate(case.inputs)]
    clean = case.reference(*case.inputs)
    results = "(Tensor, Tensor)" if isinstance(clean, tuple) else "Tensor"
    op: Any = torch.library.custom_op(
        f"rule_table::op{next(_numbers)}",
        lambda *inputs: case.reference(*inputs),
        mutates_args=(),
        schema=f"({', '.join(names)}) -> {results}",
    )
    op.register_fake(lambda *inputs: case.reference(*inputs))
    op.register_autograd(
        rule.backward,
        setup_context=lambda ctx, inputs, output: rule.forward(ctx, *inputs),  # noqa: ARG005
    )
    torch.library.opcheck(op, case.inputs)
    return True


CHECKS: Mapping[str, Callable[[Any, Case], bool]] = {
    "a smoke test: `.sum().backward()`, finite gradients": smoke,
    "a reference, with `.sum()` as the loss": partial(reference, random=False),
    "a reference, with a random cotangent": partial(reference, random=True),
    "`gradcheck`": partial(of_pytorch, torch.autograd.gradcheck),
    "`gradcheck(fast_mode=True)`": partial(of_pytorch, torch.autograd.gradcheck, fast_mode=True),
    "`gradgradcheck`": partial(of_pytorch, torch.autograd.gradgradcheck),
    "`opcheck`, on a custom op with the same rule": opcheck,
    "`harness.check_rule`": lambda rule, case: check_rule(rule.apply, case.inputs),
}
"""The checks, each a function that returns False or raises if it notices something."""


def passes(check: Callable[[Any, Case], bool], names: Mapping[str, Any], rule: str) -> bool:
    """Say whether a check passes on a rule, which may write into its inputs."""
    case = replace(CASES[rule], inputs=tuple(map(_copied, CASES[rule].inputs)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return check(names[rule], case)
        except Exception:  # whatever it raises is how it notices
            return False


def rows(checks: Mapping[str, Callable[[Any, Case], bool]]) -> Iterator[Sequence[str]]:
    """Yield the rows of the table: mutants noticed, and operators with no mutant noticed."""
    clean = rules_in(RULES.read_text("utf-8"))
    wrong = [one for one in mutants() if not is_equivalent(one)]
    chosen = [(one, rules_in(one.files.texts["rules.py"])) for one in wrong]
    for title, check in checks.items():
        applies = {rule for rule in CASES if passes(check, clean, rule)}
        tried = [(one, names) for one, names in chosen if _rule(one) in applies]
        killed = [one for one, names in tried if not passes(check, names, _rule(one))]
        print(title, len(killed), len(tried), file=sys.stderr)
        missed = {one.page.id for one, _ in tried} - {one.page.id for one in killed}
        yield title, f"{len(killed)} of {len(tried)}", ", ".join(sorted(missed)) or "none"


def _rule(mutant: Mutant) -> str:
    assert mutant.change is not None
    return mutant.change.rule


def table() -> str:
    """Return the table in Markdown."""
    head = ("check", "mutants noticed", "operators of which it notices no mutant")
    return "\n".join([*markdown_table(head, list(rows(CHECKS))), ""])


def main() -> None:
    """Update the document."""
    text = table()
    write_file(DOCUMENT, with_text(DOCUMENT.read_text("utf-8"), text, START))


if __name__ == "__main__":
    main()
