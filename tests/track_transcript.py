"""Writes docs/track.md: the whole track, done in a real terminal by someone who answers.

    python -m tests.track_transcript
    python -m tests.track_transcript es   # docs/track.es.md

It types the answers below, right ones and wrong ones, at the prompts of the real commands.
"""

import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.core.files import write_file
from tests.harness.cli.terminal import ENTER, Dialogue, dialogue

DOCUMENT = Path(__file__).parents[1] / "docs" / "track.md"

ANSWERS = {
    "mul-swapped-operands": ["s", "s", "d", "?", "s", "3 4 1 2", "d"],
    "mul-ignore-upstream": ["s", "s", "d", "s", "s", "s", "(3, 5)"],
    "gradcheck-passed-engine-right": ["2", "1.5", "1"],
    "assign-not-accumulate": ["d", "d", "s", "s", "s", "s", "s", "1", "s", "s", "s"],
    "recursive-backward-no-topo": ["d", "s", "", "s", "s", "s", "2", "s", "s", "2"],
    "squares-only": [],
    "matmul-no-transpose": ["s", "s", "d", "c", "c", "c"],
    "sum-no-expand": ["c", "c", "c", "d", "s", "d"],
    "skip-unbroadcast": ["d", "c", "1", "c", "s", "s", "s", "s", "0.4", "c", "0.152", "c"],
    "softmax-no-max-shift": ["d", "d", "s", "c", "nan"],
    "mse-target-broadcast": ["c", "0", "0", "d", "d"],
    "no-zero-grad-in-loop": ["n", "s", "s", "1", "24.4", "s", "s", "s", "d"],
    "loss-falls": [],
}
"""What is typed on each page of the track."""

PRIMER = [ENTER, "12\n", "dunno\n", "9\n", "7\n", "b\n"]
"""What is typed on page 0: to begin, and as answers."""

SUBMISSIONS = {
    "squares-only": (
        """\
def test_product(lib):
    x = lib.tensor([3.0, 3.0], requires_grad=True)
    y = lib.tensor([3.0, 3.0], requires_grad=True)
    (x * y).sum().backward()
    assert (x.grad == 3.0).all()
""",
        """\
def test_product(lib):
    x = lib.tensor([3.0, 3.0], requires_grad=True)
    y = lib.tensor([5.0, 7.0], requires_grad=True)
    (x * y).sum().backward()
    assert (x.grad == y.data).all()
""",
    ),
    "loss-falls": (
        """\
def test_bias(lib):
    x = lib.tensor([[1.0], [2.0]])
    b = lib.tensor([0.5], requires_grad=True)
    (x + b).sum().backward()
    assert (b.grad == 2.0).all()
""",
        """\
def test_bias(lib):
    x = lib.tensor([[1.0], [2.0]])
    b = lib.tensor([0.5], requires_grad=True)
    (x + b).sum().backward()
    assert (b.grad == 2.0).all()


def test_tanh(lib):
    x = lib.tensor([-2.0], requires_grad=True)
    y = x.tanh()
    y.sum().backward()
    assert (abs(x.grad - (1 - y.data**2)) < 1e-5).all()
""",
    ),
}
"""What is written for each exercise, first in vain."""

WORDS = {
    "en": (
        """\
# The track, done by someone who answers

A transcript of the whole track for beginners in a terminal of 80 columns: what the program prints,
and, after `>`, what was typed. Some of the answers are right and some are wrong. It is written by
`python -m tests.track_transcript`, which runs the commands.
""",
        "Where to begin",
        "Pages 0 to 6",
        "Pages 7 to 13",
        "What is next",
        "The exercise {page}",
        "What `{name}` contains now:",
    ),
    "es": (
        """\
# El itinerario, hecho por alguien que responde

Una transcripción de todo el itinerario para principiantes en una terminal de 80 columnas, en
español (`LANG=es_ES.UTF-8`): lo que muestra el programa y, después de `>`, lo que se escribió.
Unas respuestas son correctas y otras no. La escribe `python -m tests.track_transcript es`, que
ejecuta las órdenes.
""",
        "Por dónde empezar",
        "Páginas 0 a 6",
        "Páginas 7 a 13",
        "Lo que sigue",
        "El ejercicio {page}",
        "Lo que contiene ahora `{name}`:",
    ),
}
"""What is written around the sessions, by language: the introduction, headings and a sentence."""

SPANISH_LETTERS = {"s": "c", "c": "f"}
"""What is typed in Spanish for a silent corruption and for a crash; other answers are the same."""


def main() -> None:
    """Write the document in one language, by default in English."""
    code = next(iter(sys.argv[1:]), "en")
    file = document(code)
    with tempfile.TemporaryDirectory() as folder:
        introduction, *_ = WORDS[code]
        parts = [introduction, *Transcript(Path(folder), code).sections()]
    write_file(file, "\n".join(parts))
    print(file)


def document(code: str) -> Path:
    """Return the file of the transcript in a language."""
    return DOCUMENT if code == "en" else DOCUMENT.with_suffix(f".{code}.md")


def answers(page: str, code: str = "en") -> list[str]:
    """Return what is typed on a page."""
    letters = SPANISH_LETTERS if code == "es" else {}
    return [f"{letters.get(answer, answer)}\n" for answer in ANSWERS[page]]


@dataclass(frozen=True)
class Transcript:
    """The sessions of one learner, whose files are in a folder."""

    folder: Path
    code: str

    def sections(self) -> Iterator[str]:
        """Yield the sections of the document."""
        _, start, first_half, second_half, after, *_ = WORDS[self.code]
        skip, stop, go_on = "s\n", "q\n", ENTER
        pages = list(ANSWERS)
        first, last = pages.index("squares-only") + 1, len(pages)
        yield _section(start, self._run([]))
        keys = [*PRIMER, skip, *self._keys(pages[:first], go_on)[:-1], stop]
        yield _section(first_half, self._run(["start"], keys))
        yield from self._exercise("squares-only")
        keys = [*self._keys(pages[first:last], go_on)[:-1], skip]
        yield _section(second_half, self._run(["start"], keys))
        yield from self._exercise("loss-falls")
        yield _section(after, self._run(["start"], [skip]), self._run(["progress"]))

    def _keys(self, pages: Sequence[str], between: str) -> list[str]:
        """Return what is typed on these pages, and after each of them."""
        return [key for page in pages for key in (*answers(page, self.code), between)]

    def _exercise(self, page: str) -> Iterator[str]:
        """Yield the section of an exercise: a template, a test that misses the bug, and one that
        does not.
        """
        *_, heading, contains = WORDS[self.code]
        name = f"{page}.py"
        parts = [self._run(["exercise", page, "--start", name])]
        for text in SUBMISSIONS[page]:
            (self.folder / name).write_text(text, encoding="utf-8")
            parts.append(f"{contains.format(name=name)}\n\n```python\n{text}```\n")
            parts.append(self._run(["exercise", page, name]))
        yield _section(heading.format(page=page), *parts)

    def _run(self, arguments: Sequence[str], keys: Sequence[str] = ()) -> str:
        """Return what a command showed, as a block of text."""
        language = {"LANG": "es_ES.UTF-8"} if self.code == "es" else {}
        data = str(self.folder / "data")
        done = dialogue(arguments, keys, cwd=self.folder, BREAKLAB_DATA=data, **language)
        return f"```text\n$ {' '.join(['harness', *arguments])}\n{transcript(done)}\n```\n"


def transcript(done: Dialogue) -> str:
    """Return what stays on the terminal, without empty lines at the end."""
    return done.text.rstrip()


def _section(heading: str, *parts: str) -> str:
    return "\n".join([f"## {heading}\n", *parts])


if __name__ == "__main__":
    main()
