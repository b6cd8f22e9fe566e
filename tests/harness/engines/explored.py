"""Engines given as text, explored once per process."""

import os
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

from harness.engines.engine import Engine
from harness.experiment.exploration import explore
from harness.runs.cache import Cache
from tests.harness.bundled import CATALOGUE
from tests.harness.engines.texts import SOUND, written


@cache
def explored(text: str, name: str = "") -> Engine:
    """Return the engine with this text; `name` is its tensor class, if it has to be given."""
    folder = Path(tempfile.mkdtemp(dir=os.environ["BREAKLAB_TEST_HOME"]))
    target = written(folder, text) + (f":{name}" if name else "")
    return explore(target, Cache(None), CATALOGUE.conventions).engine


def engine_of(text: str, like: str = SOUND, name: str = "") -> Engine:
    """Return the engine with this text, called like another one instead of being explored."""
    return replace(explored(like, name), sources={"engine.py": text})
