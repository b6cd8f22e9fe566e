"""Engines from texts, explored once in each process."""

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
    """The engine with this text, whose tensor class has this name, if it is to be named."""
    folder = Path(tempfile.mkdtemp(dir=os.environ["BREAKLAB_TEST_HOME"]))
    target = written(folder, text) + (f":{name}" if name else "")
    return explore(target, Cache(None), CATALOGUE.conventions).engine


def engine_of(text: str, like: str = SOUND, name: str = "") -> Engine:
    """The engine with this text, which is called like another one, so it is not explored itself."""
    return replace(explored(like, name), sources={"engine.py": text})
