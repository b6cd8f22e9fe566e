"""Page 0 in a file: its steps, with the graph of its first program as a picture."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from harness.core.run import TraceStep, pack
from harness.learn.primer import FIRST, Pass
from harness.learn.progress import PRIMER
from harness.report import primer
from harness.report.html.graph import Picture, draw, make_scene
from harness.report.html.lesson import highlight
from harness.report.language import ENGLISH, Language
from harness.report.primer import SILENT, Graph, Part, SlipPages, Step


@dataclass(frozen=True)
class PrimerLesson:
    """Page 0 with everything that is shown of it."""

    pages: SlipPages
    say: Language = ENGLISH

    id = PRIMER

    @property
    def title(self) -> str:
        """Its title."""
        return primer.title(self.say)

    @property
    def introduction(self) -> str:
        """What it is about, in Markdown."""
        return primer.introduction(self.say)

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """What to read and to answer."""
        return primer.steps(self.pages, self.say)

    def kind(self, part: Part) -> str:
        """Return what a part of a step is: `prose`, `code`, `table` or `graph`."""
        return type(part).__name__.lower()

    def lines(self, code: str) -> list[str]:
        """Return lines of Python as HTML."""
        return highlight(code.rstrip().splitlines())

    def changed(self, diff: str) -> list[tuple[str, str]]:
        """Return changed lines: the sign of each, and its HTML."""
        return [(line[0], highlight([line[2:]])[0]) for line in diff.splitlines()]

    def is_wrong(self, cell: str) -> bool:
        """Whether a cell of a table is a wrong result."""
        return cell.startswith(SILENT)

    def picture(self, graph: Graph) -> tuple[Picture, str]:
        """Return the picture of a graph, and what is drawn into its nodes."""
        steps = _trace(graph.run)
        scene = make_scene(steps, steps, {"x": pack(float(graph.run["x"].data))})
        picture, _ = draw(scene, f"{PRIMER}-{'backward' if graph.gradients else 'forward'}")
        shown = scene.steps if graph.gradients else scene.forward - graph.hides_output
        return picture, "".join(picture.steps[:shown])


def _trace(run: Pass) -> list[TraceStep]:
    """Return the backward pass as an engine would record it: the output first."""
    code = {line.partition(" ")[0]: line for line in FIRST.code.splitlines()}
    index = {node.name: number for number, node in enumerate(run.nodes)}
    return [
        TraceStep(
            index[node.name],
            code[node.name] if node.parents else "",
            tuple(index[parent] for parent in node.parents),
            pack(float(node.data)),
            pack(float(node.grad)),
            tuple(pack(float(gradient)) for gradient in node.sent),
        )
        for node in reversed(run.nodes)
    ]
