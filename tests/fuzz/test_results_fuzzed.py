"""Untrusted results: real runs with a few changes, all the way from the frame to the reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.check.runner import run_page
from harness.core.run import Failure, Run
from harness.core.vocabulary import Phase
from harness.engines.engine import find_engine
from harness.experiment.baseline import Baseline, OpenContext
from harness.experiment.lab import record
from harness.experiment.patching import prepare
from harness.pages.catalogue import Catalogue, open_catalogue
from harness.report import show, to_json
from harness.report.full import show_full
from harness.report.html.document import document
from harness.report.html.lesson import Lesson
from harness.report.language import ENGLISH
from harness.report.terminal import open_console
from harness.runs import isolated
from harness.runs.cache import Cache
from harness.runs.protocol import Job, Recorded, decode_reply, encode_reply, is_possible
from harness.sandbox.frames import Frame
from tests.examples import examples
from tests.fuzz.sound import in_time, read

PAGE = """\
+++
id     = "wrong"
kind   = "break"
family = "f"
level  = 1
sources = ["std"]
why    = "One."
beware = "Two."

[expect]
wrong-product = "silent-corruption"
wrong-kink    = "silent-corruption"
resume-wrong  = "silent-corruption"
causal-wrong  = "silent-corruption"
module-wrong  = "silent-corruption"

[[ask]]
probe = "wrong-product"
loss = "uniform"
question = "What is it?"
answer = "a.grad[0, 0]"

[diagnostics]
caught_by = ["gradcheck"]
missed_by = ["crash"]
+++
# A product

## The break

```diff
@@ mul @@
-unbroadcast(g * b, a.shape)
+unbroadcast(g, a.shape)
```

## Probes

```python
import numpy as np

def wrong_product(a=(2, 3), b=(2, 3)):
    "A product."
    return a * b

def wrong_kink(a=[0.0, 1.0, -1.0]):
    "A kink."
    return (a * 2.0).relu()

def causal_wrong(a=(1, 3, 2)):
    "Every time alone."
    return a * a

def resume_wrong(lib, resume_at=2):
    "Steps."
    w = lib.tensor(np.ones(3), requires_grad=True)
    for step in range(4):
        w.grad = None
        loss = (w * w).sum()
        loss.backward()
        norm = np.linalg.norm(w.grad)
        w = lib.tensor(w.data - 0.1 * w.grad, requires_grad=True)
        yield {"loss": loss, "w": w, "grad_norm": norm}

def module_wrong(lib, x=(4, 3)):
    "A layer."
    return lib.nn.BatchNorm1d(3)
```

## What happens

It is wrong.

## Lesson

Look.
"""


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory: pytest.TempPathFactory) -> Catalogue:
    folder = tmp_path_factory.mktemp("pages")
    (folder / "f").mkdir()
    (folder / "f" / "wrong.md").write_text(PAGE)
    return open_catalogue([folder])


Runs = Callable[[Job], list[Run]]


class Recorder:
    """Real runs of each job, and those runs with changes, as a child could have sent them."""

    def __init__(self, real: Runs) -> None:
        self.real, self.known = real, dict[bytes, list[Run]]()
        self.data: st.DataObject | None = None

    def __call__(self, job: Job) -> list[Run]:
        key = msgspec.msgpack.encode(job)
        if key not in self.known:
            self.known[key] = self.real(job)
        runs = self.known[key]
        if self.data is None:
            return runs
        change = self.data.draw(st.lists(st.booleans(), min_size=len(runs), max_size=len(runs)))
        pairs = zip(runs, change, strict=True)
        return [self.sent(job, i, run) if c else run for i, (run, c) in enumerate(pairs)]

    def sent(self, job: Job, position: int, run: Run) -> Run:
        """Return what the main process makes of the run after a change."""
        assert self.data is not None
        index, loss = job.steps[position]
        plain = msgspec.msgpack.decode(encode_reply(run).payload)
        filled = sorted(
            name for name, value in plain.items() if isinstance(value, dict | list) and value
        )
        fields = st.sampled_from(filled) if filled else st.nothing()
        for _ in range(self.data.draw(st.sampled_from([1, 1, 2]), label="changes")):
            name = self.data.draw(fields | st.sampled_from(sorted(plain)), label="field")
            plain[name] = spoiled(self.data, plain[name])
        reply = decode_reply(Frame(b"R", msgspec.msgpack.encode(plain)))
        probe, empty = job.probes[index], job.records is not Recorded.RESULTS or bool(job.sites)
        if isinstance(reply, Run) and is_possible(
            reply, probe, loss, job.measure, may_be_empty=empty
        ):
            return reply
        return Run(probe.name, loss, failure=Failure(Phase.RUN, "ForgedResult", "refused"))


NUMBERS = st.sampled_from([0, -1, 1, 7, 2**31, 2**63 - 1, -(2**63), 1e308, -1e308, 5e-324])
SCALARS = st.one_of(
    NUMBERS,
    st.floats(),
    st.sampled_from([None, True, "", "loss", "a", "a.grad", "torch", "<f8", "<c16", "|b1", "<i8"]),
)


def spoiled(data: st.DataObject, value: Any) -> Any:
    """Return a record with one change: somewhere in it, something else is there, or missing."""
    if (
        isinstance(value, dict)
        and {"dtype", "shape", "data"} == value.keys()
        and data.draw(st.booleans())
    ):
        with suppress(TypeError, ValueError):  # one of its fields has been changed already
            return another_array(data, value)
    descend = data.draw(st.integers(0, 9), label="descend") > 0
    if isinstance(value, dict) and value and descend:
        key = data.draw(st.sampled_from(sorted(value)))
        return {**value, key: spoiled(data, value[key])}
    if isinstance(value, dict):
        return another_table(data, value)
    if isinstance(value, list) and value and descend:
        at = data.draw(st.integers(0, len(value) - 1))
        return [*value[:at], spoiled(data, value[at]), *value[at + 1 :]]
    if isinstance(value, list):
        return data.draw(st.sampled_from([[], value * 2, value[:-1], value[::-1]]))
    return data.draw(SCALARS)


def another_table(data: st.DataObject, table: dict[str, Any]) -> dict[str, Any]:
    """Return a table with a key removed, renamed or copied from another."""
    names = sorted(table) or ["a"]
    key, other = data.draw(st.sampled_from(names)), data.draw(st.sampled_from([*names, "new", ""]))
    change = data.draw(st.sampled_from(["remove", "copy", "empty"]))
    rest = {name: item for name, item in table.items() if name != key}
    if change == "copy" and key in table:
        return {**table, other: table[key]}
    return {} if change == "empty" else rest


def another_array(data: st.DataObject, array: dict[str, Any]) -> dict[str, Any]:
    """Return an array of another dtype or shape, or with other numbers in it."""
    dtypes = st.sampled_from([array["dtype"]] * 2 + ["<c16"] * 3 + ["<f4", "<f2", "|b1", "<i8"])
    shapes = st.sampled_from([array["shape"]] * 3 + [[], [0], [3], [1, 3], [3, 1], [2, 3, 1]])
    dtype, shape = np.dtype(data.draw(dtypes)), tuple(data.draw(shapes))
    number = data.draw(st.sampled_from([0.0, 1.0, -1.0, 1e300, -1e300, 5e-324, np.nan, np.inf]))
    with np.errstate(all="ignore"):
        new = np.full(shape, number).astype(dtype)
    return {"dtype": dtype.str, "shape": list(shape), "data": new.tobytes()}


@pytest.fixture(scope="module")
def recorder() -> Iterator[Recorder]:
    recorder = Recorder(isolated._run_steps)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(isolated, "_run_steps", recorder)
        yield recorder


@examples(100)
@given(data=st.data())
def test_a_result_is_refused_or_reported(
    data: st.DataObject, catalogue: Catalogue, recorder: Recorder
) -> None:
    """A child may send any record: whatever is accepted can be judged and shown in every format."""
    recorder.data = None
    reported(catalogue)  # records what is not recorded yet
    recorder.data = data
    with in_time():
        read(lambda: reported(catalogue))


def reported(catalogue: Catalogue) -> None:
    """Run the page, judge it, and show it in every format."""
    page, engine = catalogue.page("wrong"), find_engine()
    context = OpenContext(catalogue, engine, Baseline(Cache(None)))
    report = run_page(page, context)
    to_json(report)
    console = open_console(ENGLISH)
    probes = prepare(page, catalogue, engine).probes
    show(console, report, probes=probes)
    show_full(console, report, probes=probes)
    recorded = record(page, catalogue, engine, context.baseline)
    document(page.title, [Lesson(recorded, page, ENGLISH, "")], ENGLISH)
