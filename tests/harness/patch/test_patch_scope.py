"""Searching for a scope: a file that is not parsed does not define the name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.engines.engine import find_engine
from harness.patch import parse_patch
from harness.patch.reader import parse_source, read_source
from harness.patch.scope import Alternative, parse_scope
from tests.examples import examples
from tests.harness.bundled import bundled_pages

NAMES = ["add", "Tensor", "größe", "ﬁt", "e\u0301tat", "\u212ex", "_", "def_", "classes"]
"""Some letters are not word characters to `re`; Python reads `ﬁt` as `fit`, a scope does not."""

HEADERS = [
    *("def {}(): pass", "async def {}(): pass", "class {}: pass", "class {}(object): pass"),
    *("def\t{} (): pass", "def \\\n  {}(): pass", "def\\\n{}\\\n(): pass", "class\f{}\\\n: pass"),
    *("@property\ndef {}(self): pass", "@property  # a def\nasync  def  {}(): pass"),
    *("# the class\ndef {}(): pass", "'def'\nclass {}: pass", "x = '''class\n'''\ndef {}(): pass"),
    *("class A:\n    def {}(self):\n        pass", "if x:\n    def {}():\n        pass"),
    *("def f():\n    class\\\n    {}:\n        pass", "\ufeffdef {}(): pass"),
]


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_file_with_a_definition_is_never_left_out(header: str, name: str, end: str) -> None:
    source = parse_source(header.format(name).replace("\n", end) + end)
    alternative = Alternative("", (name,))
    assert alternative.definitions(source)
    assert alternative.may_be_in("ops.py", source.text)


@examples(300)
@given(data=st.data())
def test_no_layout_hides_a_definition(data: st.DataObject) -> None:
    texts = (header.format(name) for header in HEADERS[:-1] for name in NAMES)
    lines = data.draw(st.lists(st.sampled_from(sorted(texts)), min_size=1, max_size=6))
    source = parse_source(data.draw(st.sampled_from(["\n", "\n\n", "\n#\n"])).join(lines) + "\n")
    segments = st.sampled_from([*NAMES, "A", "f", "*", "e*", "[ab]*", "a]"])
    path = data.draw(st.lists(segments, min_size=1, max_size=3))
    alternative = Alternative("", (*data.draw(st.sampled_from([(), ("",)])), *path))
    if alternative.definitions(source):
        assert alternative.may_be_in("ops.py", source.text)


def test_no_page_of_the_catalogue_loses_a_file() -> None:
    engine = find_engine()
    sources = {file: read_source(text) for file, text in engine.sources.items()}
    alternatives = {
        alternative
        for page in bundled_pages()
        for block in page.diffs(engine.name)
        for hunk in parse_patch(block.text, path=page.path, line=block.line).hunks
        for alternative in hunk.scope.alternatives
    }
    defined = [
        (alternative, file)
        for alternative in alternatives
        for file, source in sources.items()
        if alternative.takes_file(file) and alternative.definitions(source)
    ]
    assert len(defined) > 100
    assert [
        (str(alternative), file)
        for alternative, file in defined
        if not alternative.may_be_in(file, sources[file].text)
    ] == []


@pytest.mark.parametrize(
    ("scope", "text"),
    [
        ("add", "def sub(): pass\nadd = 1\n"),
        ("add", "def added(): pass\ndef radd(): pass\n"),
        ("Tensor.add", "def add(): pass\n"),
        ("ops.py::add", "def sub(): pass\n"),
        ("other.py::add", "def add(): pass\n"),
    ],
)
def test_a_file_without_the_name_is_not_parsed(scope: str, text: str) -> None:
    (alternative,) = parse_scope(scope).alternatives
    assert not alternative.may_be_in("ops.py", text)


@pytest.mark.parametrize("scope", ["", "*", "a*.f", ".add", "A.add", "o*.py::add"])
def test_a_file_that_may_have_it_is_parsed(scope: str) -> None:
    (alternative,) = parse_scope(scope).alternatives
    assert alternative.may_be_in("ops.py", "class A:\n    def add(): pass\n    def f(): pass\n")


TABLES = [
    "R = {'plus': lambda g: g}",
    'R = {\n    "plus" : (lambda g: g),\n}',
    "R = dict(a={'+': lambda g: g})",
    "class A:\n    R = {1: 2, 'plus': lambda g: g}",
]


@pytest.mark.parametrize("text", TABLES)
def test_a_rule_in_a_table_is_a_definition_for_portable_blocks(text: str) -> None:
    source = parse_source(text + "\n")
    loose = Alternative("", ("op:add",), loose=True)
    assert [source.code(item.clause) for item in loose.definitions(source)] in (
        ["lambda g: g"],
        ["(lambda g: g)"],
    )
    assert loose.may_be_in("ops.py", source.text)
    assert not Alternative("", ("op:add",)).definitions(source)
    assert not Alternative("", ("op:mul",), loose=True).definitions(source)


@pytest.mark.parametrize("text", ["R = {'plus': rule}", "R = {plus: lambda g: g}", "plus: int = 0"])
def test_other_entries_are_not_definitions(text: str) -> None:
    assert not Alternative("", ("op:add",), loose=True).definitions(parse_source(text + "\n"))
