"""The synthetic course is the same for the same seed, and its suites are weaker, not broken."""

import ast
import random
from collections import Counter
from pathlib import Path

import pytest

from tests.benchmarks.course import HANGING, HOSTILE, SUITES, weakened, write_course


def files_in(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.py")}


def test_a_course_is_drawn_by_its_seed(tmp_path: Path) -> None:
    for name, seed in {"first": 1, "again": 1, "other": 2}.items():
        write_course(tmp_path / name, 200, seed)
    first = files_in(tmp_path / "first")
    assert files_in(tmp_path / "again") == first
    assert files_in(tmp_path / "other") != first
    texts = Counter(first.values())
    assert sum(texts[text] for text in HOSTILE.values()) == 4
    assert sum(texts[text] for text in HANGING.values()) == 2
    assert len(first) == 200


@pytest.mark.parametrize("suite", [path for path in SUITES if path.stem != "__init__"], ids=str)
def test_a_weakened_suite_has_tests_and_fewer_assertions(suite: Path) -> None:
    text = suite.read_text()
    sizes = set()
    for seed in range(20):
        tree = ast.parse(weakened(text, random.Random(seed)))
        names = [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        assert any(name.startswith("test_") for name in names)
        sizes.add(sum(isinstance(node, ast.Assert) for node in ast.walk(tree)))
    assert len(sizes) > 2
