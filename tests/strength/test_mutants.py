"""The mutator: single edits that leave the rest of a file as it is, drawn by a seed."""

import ast
from pathlib import Path

import pytest

from tests.strength.mutants import ROOMS, draw, is_valid, mutants

ROOT = Path(__file__).parents[2]

SAMPLES = [
    ("x = a < b", ["x = a <= b"]),
    ("x = a is not b", ["x = a is b"]),
    ("x = a in b not in c", ["x = a not in b not in c", "x = a in b in c"]),
    ("x = a + b  # +", ["x = a - b  # +"]),
    ("x = 'é' + b", ["x = 'é' - b"]),
    ("x = a and b and c", ["x = a or b and c", "x = a and b or c"]),
    ("x = 3", ["x = 4"]),
    ("x = 0.0", ["x = 1.0"]),
    ("x = True", ["x = False"]),
    ("x = not a", ["x = (a)"]),
    ("x = -a", ["x = (a)"]),
    ("x = a if b else c", ["x = a if (not (b)) else c"]),
    ("if not a: x = b", ["if (a): x = b"]),
    ("while a: x = b", ["while (not (a)): x = b"]),
    ("x = [a for a in b if c]", ["x = [a for a in b if (not (c))]"]),
    ("f(a)", ["pass"]),
    ("x += a", ["pass"]),
    ("def f():\n    return a", ["def f():\n    return None"]),
    ("x = f(a,\n      b)", ["x = f(b,\n      a)"]),
    ("x = a[b:c]", ["x = a[:c]", "x = a[b:]"]),
    *[(text, []) for text in ("'doc'", "x = 'text'", "x: a | b = c", "x = f'{a + b}'", "x = None")],
    *[(text, []) for text in ("def f(a: b | c) -> d | e: x = a", "x = isinstance(a, b)")],
]


@pytest.mark.parametrize(("source", "expected"), SAMPLES)
def test_each_site_has_one_mutant(source: str, expected: list[str]) -> None:
    found = [mutant.apply(source.encode()).decode() for mutant in mutants("m.py", source.encode())]
    assert sorted(found) == sorted(expected)


def test_a_mutant_is_another_program_and_differs_in_one_place() -> None:
    for mutant in draw(ROOT, 40, 7):
        source = (ROOT / mutant.path).read_bytes()
        mutated = mutant.apply(source)
        assert ast.dump(ast.parse(mutated)) != ast.dump(ast.parse(source))
        assert mutated.startswith(source[: mutant.start])
        assert mutated.endswith(source[mutant.end :])
        assert "\n@@ " in mutant.diff(source)


def test_what_is_the_same_program_or_none_is_not_drawn() -> None:
    swapped, added = mutants("m.py", b"x = f(a, a) + b")
    assert not is_valid(swapped, b"x = f(a, a) + b")
    assert is_valid(added, b"x = f(a, a) + b")
    assert not is_valid(added, b"x = f(a, a) + ")


def test_equal_seeds_draw_equal_mutants_of_all_rooms() -> None:
    drawn = draw(ROOT, 40, 1)
    assert drawn == draw(ROOT, 50, 1)[:40]
    assert set(drawn) != set(draw(ROOT, 40, 2))
    assert len(set(drawn)) == 40
    assert {mutant.room for mutant in drawn} == set(ROOMS)
