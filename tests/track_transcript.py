"""Writes docs/track.md: the whole track, done in a real terminal by someone who answers.

    python -m tests.track_transcript

It types the answers below, right ones and wrong ones, at the prompts of the real commands.
"""

import tempfile
from collections.abc import Iterator, Sequence
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
    "no-zero-grad-in-loop": ["n", "s", "s", "1", "24.4", "s", "s", "d"],
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

INTRODUCTION = """\
# The track, done by someone who answers

A transcript of the whole track for beginners in a terminal of 80 columns: what the program prints,
and, after `>`, what was typed. Some of the answers are right and some are wrong. It is written by
`python -m tests.track_transcript`, which runs the commands.
"""


def main() -> None:
    """Write the document."""
    with tempfile.TemporaryDirectory() as folder:
        parts = [INTRODUCTION, *_sessions(Path(folder))]
    write_file(DOCUMENT, "\n".join(parts))
    print(DOCUMENT)


def _sessions(folder: Path) -> Iterator[str]:
    """Yield the sections of the document."""
    skip, stop, go_on = "s\n", "q\n", ENTER
    pages = list(ANSWERS)
    first, last = pages.index("squares-only") + 1, len(pages)
    yield _section("Where to begin", _run(folder, []))
    keys = [*PRIMER, skip, *_keys(pages[:first], go_on)[:-1], stop]
    yield _section("Pages 0 to 6", _run(folder, ["start"], keys))
    yield from _exercise(folder, "squares-only")
    keys = [*_keys(pages[first:last], go_on)[:-1], skip]
    yield _section("Pages 7 to 13", _run(folder, ["start"], keys))
    yield from _exercise(folder, "loss-falls")
    yield _section("What is next", _run(folder, ["start"], [skip]), _run(folder, ["progress"]))


def _keys(pages: Sequence[str], between: str) -> list[str]:
    """Return what is typed on these pages, and after each of them."""
    return [key for page in pages for key in (*answers(page), between)]


def answers(page: str) -> list[str]:
    """Return what is typed on a page."""
    return [f"{answer}\n" for answer in ANSWERS[page]]


def _exercise(folder: Path, page: str) -> Iterator[str]:
    """Yield the section of an exercise: a template, a test that misses the bug, and one that does
    not.
    """
    name = f"{page}.py"
    parts = [_run(folder, ["exercise", page, "--start", name])]
    for text in SUBMISSIONS[page]:
        (folder / name).write_text(text, encoding="utf-8")
        parts.append(f"What `{name}` contains now:\n\n```python\n{text}```\n")
        parts.append(_run(folder, ["exercise", page, name]))
    yield _section(f"The exercise {page}", *parts)


def _run(folder: Path, arguments: Sequence[str], keys: Sequence[str] = ()) -> str:
    """Return what a command showed, as a block of text."""
    done = dialogue(arguments, keys, cwd=folder, BREAKLAB_DATA=str(folder / "data"))
    return f"```text\n$ {' '.join(['harness', *arguments])}\n{transcript(done)}\n```\n"


def transcript(done: Dialogue) -> str:
    """Return what stays on the terminal, without empty lines at the end."""
    return done.text.rstrip()


def _section(heading: str, *parts: str) -> str:
    return "\n".join([f"## {heading}\n", *parts])


if __name__ == "__main__":
    main()
