"""A synthetic course: submissions that are weakened copies of the suites in `tests/suites`."""

from __future__ import annotations

import ast
import random
from collections.abc import Sequence
from pathlib import Path

SUITES = tuple(sorted((Path(__file__).parents[1] / "suites").glob("[a-z]*.py")))

HOSTILE = {
    "abort": "import os\n\ndef test_a():\n    os.abort()\n",
    "exit_at_import": "import os\nos._exit(0)\n",
    "kill_the_parent": "import os\n\ndef test_a():\n    os.kill(os.getppid(), 9)\n",
    "kill_everything": "import os\n\ndef test_a():\n    os.kill(-1, 9)\n",
    "forks": "import os\n\ndef test_a():\n    while True:\n        os.fork()\n",
    "prints": "def test_a():\n    while True:\n        print('x' * 1000000, flush=True)\n",
    "memory": "def test_a():\n    rows = [bytearray(10**8) for _ in range(1000)]\n",
    "no_python": "def test_a(:\n",
    "no_test": "import minigrad\n",
    "wrong": "from minigrad import tensor\n\ndef test_a():\n    assert tensor(1.0).item() == 2\n",
    "deep": "def f():\n    f()\n\ndef test_a():\n    import sys\n"
    "    sys.setrecursionlimit(10**9)\n    f()\n",
}
"""Files that do harm, or that nothing can be learned from."""

HANGING = {
    "loop": "def test_a():\n    while True:\n        pass\n",
    "sleep_at_import": "import time\ntime.sleep(10**6)\n",
    "deaf": "import signal, time\n\ndef test_a():\n"
    "    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:\n"
    "        signal.signal(number, signal.SIG_IGN)\n    time.sleep(10**6)\n",
}
"""Files that do not end."""


def write_course(folder: Path, count: int, seed: int) -> None:
    """Write `count` submissions, the same for the same seed: 2 % hostile, 1 % hanging."""
    rng = random.Random(seed)
    kinds = ["hostile"] * max(1, count // 50) + ["hanging"] * max(1, count // 100)
    kinds += ["weakened"] * (count - len(kinds))
    rng.shuffle(kinds)
    folder.mkdir(parents=True)
    for number, kind in enumerate(kinds):
        name, text = _submission(kind, rng)
        path = folder / f"{number:05}_{name}.py"
        if rng.random() < 0.2:
            path = folder / path.stem / "test_mine.py"
            path.parent.mkdir()
        path.write_text(text, encoding="utf-8")


def _submission(kind: str, rng: random.Random) -> tuple[str, str]:
    """Return a name and the text of a submission."""
    if kind == "weakened":
        suite = rng.choice([path for path in SUITES if path.name != "__init__.py"])
        return suite.stem, weakened(suite.read_text(encoding="utf-8"), rng)
    return rng.choice(sorted((HOSTILE if kind == "hostile" else HANGING).items()))


def weakened(text: str, rng: random.Random) -> str:
    """Return a suite without some of its tests and assertions, and with others weakened."""
    tree = ast.parse(text)
    bodies = list(_bodies_with_tests(tree))
    tests = [(body, node) for body in bodies for node in body if _is_test(node)]
    for body, test in rng.sample(tests, k=rng.randrange(len(tests))):
        body[body.index(test)] = ast.Pass()
    asserting = [pair for pair in _statements(tree) if _is_assertion(pair[0][pair[1]])]
    for body, index in asserting:
        change = rng.choices([_keep, _weaken, _delete], weights=[6, 3, 1])[0]
        body[index] = change(body[index])
    return ast.unparse(ast.fix_missing_locations(tree))


def _bodies_with_tests(tree: ast.Module) -> Sequence[list[ast.stmt]]:
    return [tree.body, *(node.body for node in tree.body if isinstance(node, ast.ClassDef))]


def _is_test(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name.startswith("test_")


def _statements(tree: ast.Module) -> list[tuple[list[ast.stmt], int]]:
    """Return each statement, as a list of statements and an index."""
    bodies = [
        body
        for node in ast.walk(tree)
        for name in ("body", "orelse", "finalbody")
        if isinstance(body := getattr(node, name, None), list)
    ]
    return [(body, index) for body in bodies for index in range(len(body))]


def _is_assertion(node: ast.stmt) -> bool:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        function = node.value.func
        return isinstance(function, ast.Attribute) and function.attr.startswith("assert")
    return isinstance(node, ast.Assert)


def _keep(statement: ast.stmt) -> ast.stmt:
    return statement


def _delete(_statement: ast.stmt) -> ast.stmt:
    return ast.Pass()


def _weaken(statement: ast.stmt) -> ast.stmt:
    """Return a weaker assertion: equal types or shapes instead of equal values."""
    match statement:
        case ast.Assert(test=ast.Compare(left=left, ops=[ast.Eq()], comparators=[right])):
            return _same("type", left, right)
        case ast.Assert(test=ast.Compare(left=left, ops=[ast.Lt() | ast.Gt()])):
            return ast.Assert(ast.Compare(left, [ast.Eq()], [left]))
        case ast.Expr(value=ast.Call(args=[left, right, *_])):
            return _same("np.shape", left, right)
    return statement


def _same(function: str, left: ast.expr, right: ast.expr) -> ast.stmt:
    sides = [ast.Call(ast.parse(function, mode="eval").body, [side], []) for side in (left, right)]
    return ast.Assert(ast.Compare(sides[0], [ast.Eq()], sides[1:]))
