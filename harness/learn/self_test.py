"""The self-test: eight questions before the track, and eight others of the same kinds after it.

A question is the first one of a page outside the track. Two questions are of the same kind if their
pages are in one family and of one level, and if they ask for the same thing: an outcome, a shape, a
number of a training, another number. Which of the two comes before the track is drawn, so that over
many learners neither half is the easier one.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.core.report import QuestionReport
from harness.experiment.baseline import Context
from harness.experiment.lab import run_lab
from harness.experiment.patching import prepare
from harness.learn.events import Draw
from harness.pages.catalogue import Catalogue
from harness.pages.front_matter import Break, Question
from harness.pages.page import Page
from harness.pages.probe import Probe

QUESTIONS = 8
"""The number of questions before the track, and of those after it."""

HARDEST = 2
"""The highest level of their pages."""

QuestionKind = tuple[str, str]
"""A family, and what its questions ask for."""


@dataclass(frozen=True)
class SelfTestQuestion:
    """A question of the self-test, with its page and its probe."""

    page: Page
    question: Question
    probe: Probe

    def answer(self, context: Context) -> QuestionReport:
        """Run the probe on the broken engine, and return the observed answer."""
        baseline = context.baseline.bare()
        names = [self.probe.name]
        experiment = prepare(self.page, context.catalogue, context.engine, probes=names)
        report = run_lab(replace(experiment, questions=(self.question,)), baseline)
        return report.questions[0]


def read_question(catalogue: Catalogue, page_id: str) -> SelfTestQuestion | None:
    """Return the question that a page contributes; None if it has none, or there is no such page.

    Raises PageError for a page that cannot be read.
    """
    page = catalogue.page(page_id) if page_id in catalogue.files else None
    if page is None or not isinstance(page.front, Break) or not page.front.ask:
        return None
    question = page.front.ask[0]
    (probe,) = catalogue.probes_for(page, [question.probe])
    return SelfTestQuestion(page, question, probe)


def draw(catalogue: Catalogue, generator: random.Random | None = None) -> Draw:
    """Draw the questions: at each position, two pages of the same kind.

    There are fewer if the catalogue has not enough pages.
    """
    generator = generator or random.Random()
    fronts = [catalogue.page(page).front for page in catalogue.track]
    families = list(dict.fromkeys(front.family for front in fronts if isinstance(front, Break)))
    pairs = [generator.sample(pages, 2) for _, pages in _strongest(_groups(catalogue), families)]
    return Draw(before=tuple(a for a, _ in pairs), after=tuple(b for _, b in pairs))


def _groups(catalogue: Catalogue) -> dict[QuestionKind, list[str]]:
    """Return the pages that can be drawn, by family and by what is asked for.

    They are of one level in each group: the lowest one with two pages.
    """
    by_level: dict[QuestionKind, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
    for page in catalogue.pages[0]:
        front = page.front
        if isinstance(front, Break) and front.ask and page.id not in catalogue.track:
            group = (front.family, _asked_for(front.ask[0].answer))
            by_level[group][front.level].append(page.id)
    groups = {}
    for group, levels in by_level.items():
        enough = [n for n, pages in levels.items() if n <= HARDEST and len(pages) > 1]
        if enough:
            groups[group] = levels[min(enough)]
    return groups


def _asked_for(answer: str) -> str:
    """Return what an expression asks for; it is an `answer` of `[[ask]]`."""
    if answer == "outcome":
        return "outcome"
    attribute = re.search(r"\.(shape|dtype|size|ndim)$", answer)
    return attribute[1] if attribute else "log" if answer.startswith("log") else "number"


def _strongest(
    groups: Mapping[QuestionKind, list[str]], families: Sequence[str]
) -> Iterator[tuple[QuestionKind, list[str]]]:
    """Yield at most eight groups: first one of each family, the largest, then its second one."""
    ranked = {
        family: sorted(
            (group for group in groups if group[0] == family),
            key=lambda group: (-len(groups[group]), group),
        )
        for family in families
    }
    rounds = max(map(len, ranked.values()), default=0)
    order = [own[k] for k in range(rounds) for own in ranked.values() if k < len(own)]
    return ((group, groups[group]) for group in order[:QUESTIONS])
