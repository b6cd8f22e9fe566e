"""A catalogue of a few pages for the tiny engine, on which a whole matrix takes a moment."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.diagnostics import Diagnostic
from harness.diagnostics.crash import CRASH
from harness.diagnostics.gradcheck import GRADCHECK
from harness.diagnostics.shape import SHAPE
from harness.experiment.baseline import Baseline
from harness.matrix.evaluation import Evaluations
from harness.matrix.plan import Plan, choose, evaluate_all, plan_matrix
from harness.matrix.records import Matrix
from harness.matrix.verdict import judge_matrix
from harness.pages.catalogue import Catalogue
from harness.runs.cache import Cache, open_cache
from tests.harness.tiny import TINY, tiny_engine

ENGINE = f"{TINY}\n\ndef unused():\n    return 1\n"
BY_HAND = "@@ square @@\n-self.data**2\n+self.data * self.data"
RUIN = "@@ backward @@\n-2 * $x\n+(np.ones((2, 1)) if np.size($x) > 1 else [][0])"
PAGES = {
    "no-op": ("control", "f", BY_HAND),
    "sabotage": ("control", "f", RUIN),
    "squared-by-hand": ("variant", "f", BY_HAND),
    "half": ("break", "values", "@@ backward @@\n-2 * $x\n+$x"),
    "flat": ("break", "shapes", "@@ backward @@\n-2 * $x\n+(2 * $x).reshape(1, -1)"),
    "unused": ("break", "values", "@@ unused @@\n-return 1\n+return 2"),
}
SQUARE = '''\
def square(a=[1.0, 2.0, 3.0]):
    """A square."""
    return a.square()
'''
SQUARE_ONE = '''\
def square_one(a=[4.0]):
    """The square of one number."""
    return a.square()
'''
CONVENTIONS = '[controls]\nno_op = "no-op"\nsabotage = "sabotage"\n'
DIAGNOSTICS = (CRASH, SHAPE, GRADCHECK)


def page(name: str, kind: str, family: str, diff: str) -> str:
    front = f'+++\nid = "{name}"\nkind = "{kind}"\nfamily = "{family}"\n+++\n'
    return f"{front}# A title\n\n## The break\n\n```diff\n{diff}\n```\n"


def write_pages(
    root: Path, names: Sequence[str] = tuple(PAGES), probes: str = SQUARE + "\n\n" + SQUARE_ONE
) -> Catalogue:
    (root / "probes").mkdir(parents=True)
    (root / "probes" / "squares.py").write_text(probes, encoding="utf-8")
    for name in names:
        (root / f"{name}.md").write_text(page(name, *PAGES[name]), encoding="utf-8")
    (root / "catalogue.toml").write_text(CONVENTIONS, encoding="utf-8")
    return Catalogue((root,))


def plan(catalogue: Catalogue, engine: str = ENGINE, **selection: Any) -> Plan:
    """A plan for the pages as they are now on the disk."""
    return plan_matrix(
        choose(Catalogue(catalogue.roots), tiny_engine(engine), **selection), Cache(None)
    )


def run(
    made: Plan, diagnostics: tuple[Diagnostic, ...] = DIAGNOSTICS
) -> tuple[Evaluations, Matrix]:
    found = evaluate_all(made, Baseline(open_cache(), diagnostics), processes=1)
    return found, judge_matrix(made, found, 0.0)
