"""Engines and probes small enough to be read, for tests of what runs them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.engines.engine import Dialect, Engine
from harness.experiment.patching import put
from harness.pages.page import read_page
from harness.pages.probe import Probe, read_probes
from harness.runs import isolated
from harness.runs.protocol import Job, JobStep
from harness.sandbox.limits import Limits

TINY = '''\
import numpy as np


class Tensor:
    """Squares itself; the engine that the tests break."""

    def __init__(self, data, requires_grad=False):
        self.data, self.grad, self.parent = data, None, None

    def square(self):
        out = Tensor(self.data**2)
        out.parent = self
        return out

    def backward(self, cotangent):
        self.parent.grad = 2 * self.parent.data * cotangent
'''

PROBES = '''\
def square(a=[1.0, 2.0, 3.0]):
    """A square."""
    return a.square()


def square_again(a=[4.0]):
    """Another square."""
    return a.square()


def steps(lib, a=[1.0]):
    """Three steps."""
    for step in range(3):
        yield {"loss": 1.0 / (step + 1), "a": a}
'''


PAGE = """+++
id = "a"
kind = "break"
family = "f"
+++
# A

```diff
{diff}
```
"""


def tiny_engine(text: str = TINY) -> Engine:
    return Engine("tiny", Dialect(module="tiny"), Path("/nowhere"), {"tiny.py": text})


def patched(engine: Engine, diff: str, folder: Path) -> Engine:
    """The engine with the diff of a page that is written into the folder."""
    (folder / "a.md").write_text(PAGE.format(diff=diff), encoding="utf-8")
    return engine.patched(put(read_page(folder / "a.md"), engine))


def tiny_probes(text: str = PROBES) -> tuple[Probe, ...]:
    return read_probes(text, "probes.py")


@contextmanager
def hosted(forks: bool) -> Iterator[None]:
    """Start children as forks of a host, or as fresh interpreters as on other systems."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(isolated, "HOSTED", forks)
        yield


def tiny_job(
    text: str = TINY,
    probes: str = PROBES,
    measure: tuple[str, ...] = (),
    limits: Limits = Limits(),  # noqa: B008  frozen
) -> Job:
    engine, read = tiny_engine(text), tiny_probes(probes)
    steps = tuple(JobStep(i, loss) for i, probe in enumerate(read) for loss in probe.losses)
    sources = dict(engine.sources)
    return Job(
        engine.dialect, str(engine.root), sources, (), read, steps, measure=measure, limits=limits
    )
