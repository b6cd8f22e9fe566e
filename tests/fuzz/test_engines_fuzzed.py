"""A harness.toml, an engine's name and its source are read, or rejected with a remedy."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from harness.engines.location import Settings, Target, locate, read_settings
from harness.experiment.exploration import adds_in_place, likely_names, spellings
from tests.fuzz.changes import changed
from tests.fuzz.sound import read

SETTINGS = """[engine]
target = "engine.py:Tensor"
root = "src"
kind = "arrays"
leaf = "Tensor(data, requires_grad=True)"
data = "t.data"
grad = "None if t.grad is None else t.grad.data"
backward = "t.backward(cotangent)"
functions = ["engine.ops"]
accumulation = "in place"

[engine.names]
unbroadcast = ["Tensor.sum_to", "cls.sum_to"]
add = "Plus"
"""

ENGINE = """import numpy as np
from .ops import sum_to as shrink
from utils import helper

class Tensor:
    def __add__(self, other):
        def backward():
            self.grad += shrink(out.grad, self.data.shape)
        return out
"""


@given(st.data())
def test_changed_settings_are_read_or_refused(data: st.DataObject) -> None:
    text = changed(data, SETTINGS)
    with tempfile.TemporaryDirectory(prefix="fuzzed-") as folder:
        path = Path(folder, "harness.toml")
        path.write_text(text, encoding="utf-8", errors="surrogateescape")
        settings = read(lambda: read_settings(path))
        assert settings is None or isinstance(settings, Settings)
        target = read(lambda: locate(str(path)))
        assert target is None or isinstance(target, Target)


@given(st.binary(max_size=300))
def test_bytes_are_settings_or_refused(content: bytes) -> None:
    with tempfile.TemporaryDirectory(prefix="fuzzed-") as folder:
        path = Path(folder, "harness.toml")
        path.write_bytes(content)
        read(lambda: read_settings(path))


@given(
    st.text(max_size=80) | st.from_regex(r"[\w./\\:-]{0,40}(\.py|\.toml)?(:\w*)?", fullmatch=True)
)
def test_any_name_of_an_engine_is_found_or_refused(engine: str) -> None:
    target = read(lambda: locate(engine))
    assert target is None or isinstance(target, Target)


@given(st.data())
def test_any_source_can_be_searched(data: st.DataObject) -> None:
    text = changed(data, ENGINE)
    with tempfile.TemporaryDirectory(prefix="fuzzed-") as folder:
        Path(folder, "engine.py").write_text(text, encoding="utf-8", errors="surrogateescape")
        read(lambda: locate(f"{folder}/engine.py:Tensor"))
    sources = {"engine.py": text}
    assert all(isinstance(name, str) for name in spellings(sources, {"sum_to", "shrink"}))
    assert isinstance(adds_in_place(sources), bool)
    assert isinstance(likely_names(sources), set)
