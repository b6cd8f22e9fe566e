"""The recipes that the bundled pages break: they are what the pages compare with."""

from pathlib import Path

import numpy as np
import pytest

import breaks
import minigrad
from harness.pages.front_matter import TrainingBreak
from harness.training.recipe import Recipe, read_recipe
from tests.harness.bundled import bundled_pages

FOLDER = Path(breaks.__file__).parent / "recipes"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py"))


def read(name: str) -> Recipe:
    path = FOLDER / f"{name}.py"
    return read_recipe(name, path.read_text(encoding="utf-8"), str(path))


def log_of(name: str, seed: int) -> list[dict[str, float]]:
    names: dict[str, object] = {"__name__": "recipe"}
    exec(read(name).text, names)  # noqa: S102  a recipe is code by design
    return [dict(entry) for entry in names[name](minigrad, seed=seed)]  # type: ignore[operator]


@pytest.mark.parametrize("name", NAMES)
def test_everything_random_comes_from_the_seed(name: str) -> None:
    np.random.seed(0)
    first = log_of(name, 5)
    np.random.seed(1)
    assert log_of(name, 5) == first
    assert log_of(name, 6) != first


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_learns(name: str) -> None:
    log = log_of(name, 5)
    losses = [entry["loss"] for entry in log if "loss" in entry]
    assert losses[-1] < 0.6 * losses[0]
    assert all(np.isfinite(value) for entry in log for value in entry.values())


def test_every_recipe_is_used_and_every_page_of_its_family_has_one() -> None:
    pages = [page for page in bundled_pages() if isinstance(page.front, TrainingBreak)]
    assert {page.front.recipe for page in pages} == set(NAMES)
    assert {page.front.family for page in pages} == {"training"}
    in_folder = {path.stem for path in (FOLDER.parent / "training").glob("*.md")}
    assert {page.id for page in pages} == {stem for stem in in_folder if "." not in stem}
