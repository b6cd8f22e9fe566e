"""Honest suites in the layouts and styles in which people write them, as files by their paths."""

USE = """
from minigrad import tensor


def slope():
    a = tensor([1.0, 2.0], requires_grad=True)
    (1 - a).sum().backward()
    return list(a.grad)
"""
TEST = "\n\ndef test_sub():\n    assert slope() == [-1, -1]\n"
OTHER = "\n\ndef test_add():\n    assert (1 + tensor([1.0])).data[0] == 2\n"
PLAIN = USE + TEST
BY_HELPER = "from helper import slope\n" + TEST
BY_FIXTURE = "def test_sub(slope):\n    assert slope == [-1, -1]\n"
FIXTURE = (
    f"import pytest\n{USE}\n\n@pytest.fixture(name='slope')\ndef made():\n    return slope()\n"
)

LAYOUTS: dict[str, dict[str, str]] = {
    "one-file": {"test_sub.py": PLAIN},
    "helper-beside": {"test_sub.py": BY_HELPER, "helper.py": USE},
    "package": {
        "__init__.py": "",
        "helper.py": USE,
        "test_sub.py": "from .helper import slope\n" + TEST,
    },
    "src": {
        "src/helpers/__init__.py": USE,
        "tests/test_sub.py": "from helpers import slope\n" + TEST,
        "pyproject.toml": "[tool.pytest.ini_options]\npythonpath = ['src']\n",
    },
    "tests-folder": {"tests/test_sub.py": BY_HELPER, "tests/helper.py": USE},
    "conftest": {"conftest.py": FIXTURE, "test_sub.py": BY_FIXTURE},
    "conftest-of-a-parent": {"conftest.py": FIXTURE, "tests/unit/test_sub.py": BY_FIXTURE},
    "data-file": {
        "cases.json": '[[1.0, -1.0], [2.0, -1.0], ["skip", null]]',
        "test_sub.py": (
            "import json\nfrom pathlib import Path\nimport pytest\nfrom minigrad import tensor\n"
            "CASES = json.loads((Path(__file__).parent / 'cases.json').read_text())\n\n"
            "@pytest.mark.parametrize(('x', 'slope'), CASES)\n"
            "def test_sub(x, slope):\n"
            "    if x == 'skip':\n        pytest.skip('no number')\n"
            "    a = tensor([x], requires_grad=True)\n"
            "    (1 - a).sum().backward()\n    assert a.grad[0] == slope\n"
        ),
    },
    "unittest": {
        "test_sub.py": f"import unittest\n{USE}\n\nclass TestSub(unittest.TestCase):\n"
        "    def setUp(self):\n        self.slope = slope()\n\n"
        "    def test_sub(self):\n        self.assertEqual(self.slope, [-1, -1])\n"
    },
    "hypothesis": {
        "test_sub.py": "from hypothesis import given, strategies as st\n"
        "from minigrad import tensor\n\n@given(st.floats(-5, 5))\ndef test_sub(x):\n"
        "    a = tensor([x], requires_grad=True)\n    (1 - a).sum().backward()\n"
        "    assert a.grad[0] == -1\n"
    },
    "pytest-ini": {
        "pytest.ini": "[pytest]\npython_files = check_*.py\npython_functions = check_*\n"
        "pythonpath = lib\naddopts = -ra --strict-markers --cov=minigrad -n auto\n",
        "lib/helper.py": USE,
        "check_sub.py": BY_HELPER.replace("test_sub", "check_sub"),
    },
    "strict-in-settings": {
        "pyproject.toml": "[tool.pytest.ini_options]\nxfail_strict = true\n",
        "test_sub.py": f"import pytest\n{USE}{OTHER}\n\n@pytest.mark.xfail\ndef test_wrong():\n"
        "    assert slope() == [1, 1]\n",
    },
    "warnings-are-errors": {
        "tox.ini": "[pytest]\nfilterwarnings = error\n",
        "test_sub.py": f"import warnings\n{USE}{OTHER}\n\ndef test_sub():\n"
        "    if slope() != [-1, -1]:\n        warnings.warn('wrong')\n",
    },
    "testpaths": {
        "setup.cfg": "[tool:pytest]\ntestpaths = mine\n",
        "mine/test_sub.py": PLAIN,
        "other/test_wrong.py": "def test_wrong():\n    assert False\n",
    },
    "importlib": {
        "pytest.ini": "[pytest]\naddopts = --import-mode=importlib\npythonpath = .\n",
        "helper.py": USE,
        "one/test_sub.py": BY_HELPER,
        "two/test_sub.py": PLAIN,
    },
    "same-names": {
        "one/__init__.py": "",
        "one/test_sub.py": PLAIN,
        "two/__init__.py": "",
        "two/test_sub.py": USE + OTHER,
    },
    "strange-names": {"größe und form/test_sub più.py": PLAIN},
    "brackets": {"a[1]/test_sub[2].py": PLAIN},
    "at-sign": {"@mine/test_@x.py": PLAIN},
    "marks": {
        "pytest.ini": "[pytest]\nmarkers =\n    slow: takes long\naddopts = -m 'not slow'\n",
        "test_sub.py": f"import pytest\n{PLAIN}\n\n@pytest.mark.slow\ndef test_slow():\n"
        "    assert False\n",
    },
    "strict-xfail": {
        "test_sub.py": f"import pytest\n{USE}{OTHER}\n\n@pytest.mark.xfail(strict=True)\n"
        "def test_wrong():\n    assert slope() == [1, 1]\n"
    },
    "subtests-by-loop": {
        "test_sub.py": f"import unittest\n{USE}\n\nclass TestSub(unittest.TestCase):\n"
        "    def test_sub(self):\n        for number in range(2):\n"
        "            with self.subTest(number=number):\n"
        "                self.assertEqual(slope()[number], -1)\n"
    },
    "only-reached": {"test_sub.py": f"{USE}\n\ndef test_sub():\n    slope()\n"},
}
"""All kill `sub-sign`, except for the last one, and none kills `tanh-uses-input`."""
