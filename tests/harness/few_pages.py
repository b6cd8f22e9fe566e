"""A folder with a few of the bundled pages and some of the shared probes.

A command that runs every shared probe on a foreign engine forks hundreds of times, which takes
seconds of processor time; with this folder as the catalogue, it takes a tenth as long.
"""

import ast
import shutil
from pathlib import Path

from tests.harness.bundled import CATALOGUE

BREAKS = ("skip-unbroadcast", "visited-missing", "relu-identity-grad", "adam-shared-moments")
PROBES = ("powers", "mul-stretched-axis", "sum-rows", "tanh")
"""Probes besides those for which the pages state an outcome."""

(ROOT,) = CATALOGUE.roots


def write_few_pages(folder: Path) -> None:
    """Copy the breaks, the controls, the variants that they name, and the shared probes on them."""
    breaks = [CATALOGUE.page(name) for name in (*BREAKS, "no-op", "sabotage")]
    variants = {name for page in breaks for name in page.expect if name}
    pages = [*breaks, *(CATALOGUE.page(name) for name in sorted(variants))]
    for page in pages:
        _write(Path(page.path), Path(page.path).read_text(encoding="utf-8"), folder)
    names = {probe.name for page in pages for probe in CATALOGUE.probes_for(page)}
    shared = CATALOGUE.shared_probes
    functions = {shared[name].function for name in (names | {*PROBES}) & shared.keys()}
    for path, text in CATALOGUE.probe_texts.items():
        _write(path, _without_others(text, functions), folder)
    shutil.copy(ROOT / "catalogue.toml", folder)


def _write(path: Path, text: str, folder: Path) -> None:
    target = folder / path.relative_to(ROOT)
    target.parent.mkdir(exist_ok=True)
    target.write_text(text, encoding="utf-8")


def _without_others(text: str, probes: set[str]) -> str:
    """Remove every probe but these from a file of probes."""
    module = ast.parse(text)
    module.body = [
        node
        for node in module.body
        if not isinstance(node, ast.FunctionDef) or node.name.startswith("_") or node.name in probes
    ]
    return ast.unparse(module) + "\n"
