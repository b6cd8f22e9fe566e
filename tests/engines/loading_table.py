"""Engines that have a bug still load: our breaks in the small engines, one at a time.

`python -m tests.engines.loading_table [ENGINE ...]` prints how many broken engines load, how
many of them are called like the engine without the break, and which are not.
"""

import random
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from harness.core.errors import BreaklabError
from harness.engines.engine import Engine
from harness.experiment.exploration import Exploration, explore
from harness.experiment.patching import put
from harness.runs.cache import Cache
from tests.engines.programs import MISSING
from tests.engines.styles.programs import STYLES
from tests.harness.bundled import CATALOGUE, bundled_pages
from tests.harness.engines.texts import SCALAR, SOUND, written

HERE = Path(__file__).parent

ENGINES = (*MISSING, *STYLES, "sound", "scalar")


@dataclass(frozen=True)
class BrokenEngine:
    """A break in one of the small engines."""

    engine: str
    page: str
    sources: dict[str, str]
    file: str
    """The file that the harness is told of."""

    def load(self) -> Exploration:
        """Survey it. Raises EnvironmentProblem if it does not load."""
        with tempfile.TemporaryDirectory() as folder:
            for file, text in self.sources.items():
                written(Path(folder), text, file)
            return explore(Path(folder) / self.file, Cache(None), CATALOGUE.conventions)


@cache
def clean(name: str) -> tuple[Engine, str]:
    """A small engine without a break, and its file below its root."""
    if name in ("sound", "scalar"):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(written(Path(folder), SOUND if name == "sound" else SCALAR))
            return explore(path, Cache(None), CATALOGUE.conventions).engine, path.name
    path = HERE / f"{name}.py" if name in MISSING else STYLES[name].path
    if name in MISSING:  # by itself, not as a module of the package of these tests
        with tempfile.TemporaryDirectory() as folder:
            written(Path(folder), path.read_text(encoding="utf-8"), path.name)
            copy = Path(folder) / path.name
            return explore(copy, Cache(None), CATALOGUE.conventions).engine, path.name
    engine = explore(path, Cache(None), CATALOGUE.conventions).engine
    return engine, path.relative_to(engine.root).as_posix()


def settings_beside(name: str) -> dict[str, str]:
    """Return the file of settings that the harness is told of instead of a small engine, if any."""
    settings = STYLES[name].settings if name in STYLES else ""
    return {settings: STYLES[name].path.read_text(encoding="utf-8")} if settings else {}


def broken_engines(names: Iterable[str] = ENGINES) -> Iterator[BrokenEngine]:
    """Yield each break that has a site in one of these engines, put into it."""
    for name in names:
        engine, file = clean(name)
        different = {frozenset(engine.sources.items())}
        texts = settings_beside(name)
        for page in bundled_pages():
            try:
                sources = dict(put(page, engine).sources)
            except BreaklabError:  # it has no site here
                continue
            if frozenset(sources.items()) not in different:
                different.add(frozenset(sources.items()))
                yield BrokenEngine(name, page.id, sources | texts, file)


def called_like_clean(broken: BrokenEngine) -> str:
    """Return "" if it loads and is called like the engine without the break, else what differs."""
    try:
        found = broken.load().engine.dialect
    except BreaklabError as error:
        return f"does not load: {error}"
    dialect = clean(broken.engine)[0].dialect
    pairs = {
        name: (getattr(dialect, name), getattr(found, name))
        for name in ("kind", "leaf", "value", "backward", "gradient", "pull")
    }
    return "; ".join(f"{name}: {b} for {a}" for name, (a, b) in pairs.items() if a != b)


def drawn(number: int, names: Iterable[str], seed: int) -> list[BrokenEngine]:
    """Return some of them, drawn by a seed."""
    return random.Random(seed).sample(list(broken_engines(names)), number)


def main(names: list[str]) -> None:
    """Print the table."""
    total = refused = different = 0
    for name in names or ENGINES:
        wrong, number = [], 0
        for number, broken in enumerate(broken_engines([name]), 1):  # noqa: B007  counted
            if result := called_like_clean(broken):
                wrong.append(f"    {broken.page}: {' '.join(result.split())[:150]}")
                refused += result.startswith("does not load")
                different += not result.startswith("does not load")
        total += number
        print(f"{name}: {number - len(wrong)} of {number}", *wrong, sep="\n", flush=True)
    print(f"{total} broken engines: {refused} do not load, {different} are called differently")


if __name__ == "__main__":
    main(sys.argv[1:])
