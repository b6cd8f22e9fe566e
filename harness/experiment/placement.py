"""Whether a patch on a foreign engine is the change that its page describes.

The probes on which the page says that the break does not show are the guards: the patched engine
has to stay right on them. A guard is inconclusive if it works differently on this engine: if the
loss itself runs the changed code, or if single numbers are reused where an array is not. A report
also says if the patch changes only some of the branches that store a gradient.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.answer_key.outcome import Judgement, judge
from harness.core.message import Message, message, verbatim
from harness.core.run import Run
from harness.core.site import Site, line_starts
from harness.engines.engine import Engine
from harness.experiment.baseline import Baseline
from harness.experiment.description import JudgedRun
from harness.experiment.patching import DISGUISED, Experiment
from harness.pages.probe import read_probes
from harness.patch.side import quiet_parse

OUTPUT_ALONE = read_probes(
    'def output_alone(x=(2, 3)):\n    """Nothing but the loss."""\n    return x\n', "(placement)"
)
"""A probe without an op: only the loss is computed and differentiated."""

REUSED = message(
    "this engine of single numbers uses a number several times, where an array is used once"
)
IN_THE_LOSS = message(
    "`backward` takes no cotangent, and the weighted sum that replaces it runs the changed code"
)


def examine(
    experiment: Experiment, baseline: Baseline, judged: Sequence[JudgedRun]
) -> tuple[Message | None, dict[str, Message]]:
    """Return why the patch is misplaced, if it is, and why some guards are inconclusive."""
    guards = {guard.name for guard in experiment.guards}
    shown = [
        item
        for item in judged
        if item.run.probe in guards
        and experiment.expected(*item.pair) == DISGUISED
        and is_wrong(item.judgement)
    ]
    silent: dict[str, Message] = {}
    if shown and _changes_the_loss(experiment, baseline):
        silent = {item.run.probe: IN_THE_LOSS for item in shown}
    elif experiment.clean.dialect.kind == "scalars":
        silent = {item.run.probe: REUSED for item in shown if _mixes(item.clean.run)}
    telling = [item for item in shown if item.run.probe not in silent]
    return _sentence(experiment, telling) if telling else None, silent


def is_wrong(judgement: Judgement) -> bool:
    """Whether a number is wrong or missing; arrays that only share memory hold right numbers."""
    return judgement.outcome in ("silent-corruption", "crash") and judgement.kind != "aliased"


def _changes_the_loss(experiment: Experiment, baseline: Baseline) -> bool:
    """Whether the patch also changes the weighted sum that a backward pass starts from here."""
    dialect = experiment.clean.dialect
    if dialect.kind != "scalars" and "sum" not in f"{dialect.backward} {dialect.pull}":
        return False  # the engine takes the cotangent itself
    clean = baseline.clean(experiment.clean, OUTPUT_ALONE)
    runs = baseline.broken(experiment.clean, experiment.broken, OUTPUT_ALONE)
    return any(is_wrong(judge(run, clean[run.probe, run.loss].run)) for run in runs)


def _mixes(run: Run) -> bool:
    """Whether some leaf has another shape than the output, so that its numbers are reused."""
    shapes = {leaf.shape for leaf in run.leaves.values()}
    return run.output is None or shapes != {run.output.shape}


def _sentence(experiment: Experiment, telling: Sequence[JudgedRun]) -> Message:
    probes = list(dict.fromkeys(item.run.probe for item in telling))
    first = telling[0].judgement
    return message(
        "misplaced: the page says that the break does not show on {probes}, but on {engine} the "
        "outcome is {outcome} ({evidence})",
        probes=", ".join(f"`{name}`" for name in probes),
        engine=experiment.clean.name,
        outcome=verbatim(first.outcome),
        evidence=first.evidence,
    )


# ----- Branches that store a gradient -----
#
# Many engines store the first gradient in one branch, and add later ones in another. A patch may
# match only one of them: then the break shows only for some gradients.

Span = tuple[int, int]


@dataclass(frozen=True)
class ChoiceBranch:
    """A branch of a choice: its statements, and where they are."""

    statements: Sequence[ast.stmt]

    @property
    def targets(self) -> dict[str, str]:
        """What the branch stores into, and what a condition about it names."""
        targets = {}
        for node in self.statements:
            stored = node.targets[:1] if isinstance(node, ast.Assign) else []
            stored += [node.target] if isinstance(node, ast.AugAssign) else []
            for target in stored:
                table = target.value if isinstance(target, ast.Subscript) else target
                targets[ast.unparse(target)] = ast.unparse(table)
        return targets

    @property
    def code(self) -> str:
        """The code without layout."""
        return "\n".join(map(ast.unparse, self.statements))


def partial_change(clean: Engine, sites: Sequence[Site]) -> Message | None:
    """Return how many of the branches that store a gradient are changed, if only some are."""
    for site in sites:
        text = clean.sources[site.file]
        starts = line_starts(text.encode())
        spans = [other.origin for other in sites if other.file == site.file]
        for test, branches in _choices(quiet_parse(text)):
            changed = [any(_overlap(_span(b, starts), span) for span in spans) for b in branches]
            target = _stored(test, branches)
            if target and any(changed) and not all(changed) and not _repeats(site, branches):
                return message(
                    "it changes {changed} of {count} branches that store `{target}` in {scope}",
                    changed=sum(changed),
                    count=len(branches),
                    target=target,
                    scope=site.scope or message("the module"),
                )
    return None


def _choices(tree: ast.Module) -> Iterator[tuple[ast.expr, list[ChoiceBranch]]]:
    """Yield each condition with its branches; what follows an early return is a branch."""
    for node in ast.walk(tree):
        for block in (getattr(node, "body", None), getattr(node, "orelse", None)):
            if isinstance(block, list):
                for index, statement in enumerate(block):
                    if isinstance(statement, ast.If):
                        leaves = isinstance(statement.body[-1], ast.Return | ast.Continue)
                        rest = statement.orelse or (block[index + 1 :] if leaves else [])
                        yield statement.test, [ChoiceBranch(statement.body), ChoiceBranch(rest)]


def _stored(test: ast.expr, branches: Sequence[ChoiceBranch]) -> str | None:
    """Return what all branches store into, if the condition is about it."""
    named = {ast.unparse(node) for node in ast.walk(test) if isinstance(node, ast.expr)}
    for target, table in branches[0].targets.items():
        if {target, table} & named and all(target in branch.targets for branch in branches):
            return target
    return None


def _repeats(site: Site, branches: Sequence[ChoiceBranch]) -> bool:
    """Whether the changed branch now does what another branch does: the patch is complete."""
    try:
        after = ChoiceBranch(quiet_parse(site.after).body).code
    except SyntaxError:
        return False
    return bool(after) and any(after in branch.code.split("\n") for branch in branches)


def _span(branch: ChoiceBranch, starts: Sequence[int]) -> Span:
    if not branch.statements:
        return -1, -1
    first, last = branch.statements[0], branch.statements[-1]
    end_line, end_column = last.end_lineno or last.lineno, last.end_col_offset or 0
    return starts[first.lineno - 1] + first.col_offset, starts[end_line - 1] + end_column


def _overlap(one: Span, other: Span) -> bool:
    return one[0] < other[1] and other[0] < one[1]
