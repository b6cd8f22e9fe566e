"""Applying patches: scopes, several files, renaming, numbers of sites, errors."""

from __future__ import annotations

import pytest

from harness.core.errors import DoesNotApply, EnvironmentProblem, HunkError, UsageError
from harness.patch import Patched, apply_patch, combine, parse_patch
from harness.patch.portable import rename

OPS = """\
def add(a, b):
    def vjp(g):
        return unbroadcast(g, a), unbroadcast(g, b)
    return a + b, vjp

def mul(a, b):
    @cache(unbroadcast(0, 0))
    def vjp(g, k=unbroadcast(1, 1)):
        return unbroadcast(g * b, a)
    return a * b, vjp
"""
TENSOR = """\
class Tensor:
    def add(self, other):
        return unbroadcast(self, other)

    @property
    def T(self):
        return unbroadcast(self, 1)

def backward(t):
    return unbroadcast(t, 2)
"""
ENGINE = {"engine/ops.py": OPS, "engine/tensor.py": TENSOR}
SKIP = "-unbroadcast($g, $s)\n+$g\n"


def apply(text: str, sources: dict[str, str] | None = None, sites: int | None = None) -> Patched:
    patch = combine([parse_patch(text, path="page.md", line=7)], sites)
    return apply_patch(patch, sources or ENGINE)


def places(patched: Patched) -> list[str]:
    return [f"{site.file.rpartition('/')[2]}:{site.line} {site.scope}" for site in patched.sites]


# ----- scopes -----


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ("mul", ["ops.py:7 mul.vjp", "ops.py:8 mul.vjp", "ops.py:9 mul.vjp"]),
        ("mul.vjp", ["ops.py:7 mul.vjp", "ops.py:8 mul.vjp", "ops.py:9 mul.vjp"]),
        ("Tensor.add", ["tensor.py:3 Tensor.add"]),
        ("Tensor", ["tensor.py:3 Tensor.add", "tensor.py:7 Tensor.T"]),
        ("*.add", ["tensor.py:3 Tensor.add"]),
        (".add", ["ops.py:3 add.vjp", "ops.py:3 add.vjp"]),
        ("a*", ["ops.py:3 add.vjp", "ops.py:3 add.vjp", "tensor.py:3 Tensor.add"]),
        ("T|backward", ["tensor.py:7 Tensor.T", "tensor.py:10 backward"]),
        ("tensor.py::add", ["tensor.py:3 Tensor.add"]),
        ("engine/t*.py::add", ["tensor.py:3 Tensor.add"]),
        ("engine/ops.py::add.vjp", ["ops.py:3 add.vjp", "ops.py:3 add.vjp"]),
        ("ops.py::add|tensor.py::T", ["ops.py:3 add.vjp"] * 2 + ["tensor.py:7 Tensor.T"]),
        (
            "tensor.py::",
            ["tensor.py:3 Tensor.add", "tensor.py:7 Tensor.T", "tensor.py:10 backward"],
        ),
    ],
)
def test_a_scope_matches_the_tail_of_a_qualified_name(scope: str, expected: list[str]) -> None:
    assert places(apply(f"@@ {scope} @@\n{SKIP}")) == expected


@pytest.mark.parametrize("header", ["@@ @@", "@@@@", "@@"])
def test_an_empty_scope_is_every_module(header: str) -> None:
    assert len(apply(f"{header}\n{SKIP}").sites) == 8


@pytest.mark.parametrize("scope", ["dd", "vjp.add", "*.backward", "add.*.vjp", "op.py::add"])
def test_a_scope_that_names_nothing_does_not_apply(scope: str) -> None:
    with pytest.raises(DoesNotApply):
        apply(f"@@ {scope} @@\n{SKIP}")


def test_the_definition_itself_is_inside_its_scope() -> None:
    patched = apply("@@ T @@\n-@property\n def T(self):\n     ...\n")
    assert "@property" not in patched.sources["engine/tensor.py"]
    assert places(patched) == ["tensor.py:5 Tensor.T"]


def test_statements_outside_the_scope_are_left_alone() -> None:
    source = "def f():\n    a()\n\ndef g():\n    a()\n\na()\n"
    assert apply("@@ g @@\n-a()\n", {"m.py": source}).sources["m.py"] == (
        "def f():\n    a()\n\ndef g():\n    pass\n\na()\n"
    )


def test_one_name_for_several_definitions_that_match_is_ambiguous() -> None:
    with pytest.raises(HunkError) as caught:
        apply(f"@@ add @@\n{SKIP}")
    assert str(caught.value) == (
        "page.md:7: the scope `add` means several definitions that match:\n"
        "    engine/ops.py:1 add\n"
        "    engine/tensor.py:2 Tensor.add\n"
        "  remedy: name one (`@@ ops.py::.add @@`), or all of them with a wildcard (`@@ *add @@`)"
    )


def test_one_name_for_several_definitions_of_which_one_matches_is_not_ambiguous() -> None:
    assert places(apply("@@ add @@\n-return unbroadcast($a, $b)\n+return $a\n")) == [
        "tensor.py:3 Tensor.add"
    ]


def test_definitions_that_match_as_a_whole_are_ambiguous_too() -> None:
    source = "class A:\n    def f(): pass\n\nclass B:\n    def f(): pass\n"
    with pytest.raises(HunkError, match=r"several definitions .*\n.*m\.py:2 A\.f\n.*m\.py:5 B\.f"):
        apply("@@ f @@\n-def f():\n+def f(x):\n     ...\n", {"m.py": source})


def test_both_remedies_for_an_ambiguous_scope_work() -> None:
    assert len(apply(f"@@ ops.py::.add @@\n{SKIP}").sites) == 2
    assert len(apply(f"@@ *add @@\n{SKIP}").sites) == 3


def test_the_remedy_puts_its_wildcard_before_the_last_name() -> None:
    source = "class A:\n    def f(): return g(1)\n"
    with pytest.raises(HunkError) as caught:
        apply("@@ A.f @@\n-g($n)\n+$n\n", {"m.py": source, "n.py": source})
    assert "`@@ m.py::A.f @@`), or all of them with a wildcard (`@@ A.*f @@`)" in str(caught.value)
    assert len(apply("@@ A.*f @@\n-g($n)\n+$n\n", {"m.py": source, "n.py": source}).sites) == 2


def test_a_property_and_its_setter_are_one_definition() -> None:
    source = "class A:\n    def x(self): return f(1)\n    def x(self, v): return f(2)\n"
    assert len(apply("@@ A.x @@\n-f($n)\n+$n\n", {"m.py": source}).sites) == 2


# ----- all or none -----


def test_several_hunks_over_several_files_match_the_same_original() -> None:
    text = f"@@ .add @@\n{SKIP}@@ T @@\n{SKIP}@@ mul @@\n-return a * b, vjp\n+return a / b, vjp\n"
    patched = apply(text, sites=4)
    assert "return g, g" in patched.sources["engine/ops.py"]
    assert "return self\n" in patched.sources["engine/tensor.py"]
    assert patched.diff().count("--- a/engine/") == 2


def test_one_hunk_without_a_site_stops_the_whole_patch() -> None:
    with pytest.raises(DoesNotApply, match=r"page\.md:10: "):
        apply(f"@@ T @@\n{SKIP}@@ T @@\n-nowhere\n+x\n")


def test_several_blocks_are_one_patch() -> None:
    blocks = [parse_patch(f"@@ {s} @@\n{SKIP}", path="p.md", line=1) for s in ("T", "backward")]
    assert len(apply_patch(combine(blocks, 2), ENGINE).sites) == 2
    with pytest.raises(HunkError, match="states 3 sites, but 2 matched"):
        apply_patch(combine(blocks, 3), ENGINE)


def test_a_wrong_number_of_sites_lists_what_matched() -> None:
    with pytest.raises(HunkError) as caught:
        apply(f"@@ .add @@\n{SKIP}", sites=1)
    assert str(caught.value) == (
        "page.md:7: the page states 1 sites, but 2 matched:\n"
        "    engine/ops.py:3 add.vjp: unbroadcast(g, a)\n"
        "    engine/ops.py:3 add.vjp: unbroadcast(g, b)\n"
        "  remedy: correct `sites`, or narrow a scope or a pattern until only"
        " the intended places match"
    )


@pytest.mark.parametrize(
    "second",
    ["-unbroadcast(t, $n)\n+t\n", "-return $x\n+return 1\n", "-t\n+u\n"],
)
def test_hunks_that_change_the_same_place_are_refused(second: str) -> None:
    with pytest.raises(HunkError, match="the hunks of lines 7 and 10 change the same place"):
        apply(f"@@ backward @@\n-unbroadcast(t, $s)\n+t\n@@ backward @@\n{second}")


def test_patches_compose() -> None:
    first = apply(f"@@ backward @@\n{SKIP}")
    second = parse_patch("@@ backward @@\n-return t\n+return -t\n", path="p.md", line=1)
    patched = apply_patch(second, first.sources)
    assert "def backward(t):\n    return -t\n" in patched.sources["engine/tensor.py"]
    assert places(patched) == ["tensor.py:10 backward"]


def test_a_result_that_is_not_python_is_refused() -> None:
    with pytest.raises(
        HunkError, match=r"patched m\.py:1 is not Python: cannot assign to function"
    ):
        apply("@@ @@\n-a\n+f()\n", {"m.py": "a = 1\n"})
    with pytest.raises(HunkError, match="is not Python: 'return' outside function: `return`"):
        apply("@@ @@\n-a()\n+return\n", {"m.py": "x = 1\na()\n"})


def test_a_result_that_means_the_same_is_refused() -> None:
    with pytest.raises(HunkError, match="means the same as before"):
        apply("@@ @@\n-a + b\n+(a) + b\n", {"m.py": "x = a+b\n"})


@pytest.mark.parametrize(
    ("patch", "source"),
    [
        ("-f()\n+g()\n", "class A:\n    def a():\n        f()\n    def b():\n        f()\n"),
        ("-@cached\n def f():\n     ...\n", "x = 1\n@cached\ndef f():\n    x\n"),
        ("-f()\n+f()\n+f()\n g()\n", "f()\nf()\ng()\ng()\n"),
        ("-f()\n g()\n", "if x:\n    f()\n    g()\n    f()\n    g()\n"),
        ("-1\n+2\n", "x = 0; y = 1; z = 0\n"),
        ('-"""a"""\n+"""\n+b\n+"""\n', 'b\nx = """a"""\nb\n'),
    ],
)
def test_every_result_that_means_something_else_is_accepted(patch: str, source: str) -> None:
    assert apply(f"@@ @@\n{patch}", {"m.py": source}).sources["m.py"] != source


def test_a_source_that_is_not_python_is_an_environment_problem() -> None:
    with pytest.raises(EnvironmentProblem, match=r"m\.py:2: this file of the engine is not Python"):
        apply("@@ @@\n-a\n+b\n", {"m.py": "a\ndef\n"})


# ----- messages -----


def test_a_hunk_without_a_site_shows_its_pattern_and_similar_code() -> None:
    with pytest.raises(DoesNotApply) as caught:
        apply("@@ ops.py::mull.vjp|Tensor.ad @@\n-unbroadcast($g * b, a.shape)\n+$g\n")
    text = str(caught.value)
    assert text.startswith(
        "page.md:7: this hunk matches nothing in this engine\n"
        "  scope: ops.py::mull.vjp|Tensor.ad: no definition has this name; nearest: mul.vjp, "
    )
    assert "Tensor.add" in text
    assert "  searched for:\n    unbroadcast($g * b, a.shape)\n" in text
    assert "engine/ops.py:9: unbroadcast(g * b, a)\n" in text
    assert "\n  remedy: change the scope" in text


def test_a_hunk_that_matches_in_another_scope_says_where() -> None:
    with pytest.raises(DoesNotApply) as caught:
        apply("@@ Tensor @@\n-unbroadcast($g * b, $a)\n+$g\n")
    text = str(caught.value)
    assert "scope: Tensor: found at engine/tensor.py:1, but the code is not in it" in text
    assert "elsewhere:\n    engine/ops.py:9 mul.vjp: unbroadcast(g * b, a)\n" in text


def test_the_nearest_names_are_similar_as_a_whole_or_in_their_last_parts() -> None:
    with pytest.raises(DoesNotApply) as caught:
        apply(f"@@ ad @@\n{SKIP}")
    assert "no definition has this name; nearest: add, Tensor.add\n" in str(caught.value)


def test_a_statement_without_a_site_shows_similar_lines() -> None:
    with pytest.raises(DoesNotApply) as caught:
        apply("@@ backward @@\n-return unbroadcast(t, 3)\n+return t\n")
    assert (
        str(caught.value)
        .partition("  the most similar code:\n")[2]
        .startswith("    engine/tensor.py:10: return unbroadcast(t, 2)\n  remedy: ")
    )


def test_a_call_statement_to_remove_without_a_site_shows_similar_lines() -> None:
    with pytest.raises(DoesNotApply) as caught:
        apply("@@ @@\n-check(a)\n", {"m.py": "x = check(b)\n"})
    assert "  the most similar code:\n    m.py:1: x = check(b)\n" in str(caught.value)


def test_at_most_five_places_names_or_files_are_listed() -> None:
    sources = {f"m{i}.py": f"def name{i}(): g(1)\n\ndef f(): pass\n" for i in range(6)}

    def error(scope: str) -> str:
        with pytest.raises(DoesNotApply) as caught:
            apply(f"@@ {scope} @@\n-g($n, 1)\n+$n\n", sources)
        return str(caught.value)

    assert "found at m0.py:3, m1.py:3, m2.py:3, m3.py:3, m4.py:3, but" in error("f")
    assert "(the whole module): all of m0.py, m1.py, m2.py, m3.py, m4.py\n" in error("")
    assert error("name|names").partition("nearest: ")[2].partition("\n")[0].count(",") == 4
    with pytest.raises(DoesNotApply) as caught:
        apply("@@ f @@\n-g($n)\n+$n\n", sources)
    places = str(caught.value).partition("matches elsewhere:\n")[2].partition("  remedy")[0]
    assert places == "".join(f"    m{i}.py:1 name{i}: g(1)\n" for i in range(5))


def test_a_missing_file_is_named() -> None:
    with pytest.raises(DoesNotApply, match=r"no such file among engine/ops\.py, engine/tensor\.py"):
        apply(f"@@ opps.py::add @@\n{SKIP}")


# ----- renaming -----


@pytest.mark.parametrize(
    ("names", "source", "expected"),
    [
        ({"f": "g"}, "def k(): g(1)\n", "def k(): 1\n"),
        ({"f": "u.g", "k": "h"}, "def h(): u.g(1)\n", "def h(): 1\n"),
        ({"f": "u.g", "k": "u.h"}, "def h(): u.g(1)\n", "def h(): 1\n"),
        ({}, "def k(): f(1)\n", "def k(): 1\n"),
    ],
)
def test_names_of_another_engine_are_matched(
    names: dict[str, str], source: str, expected: str
) -> None:
    patch = rename(parse_patch("@@ k @@\n-f($f)\n+$f\n", path="p.md", line=1), names)
    assert apply_patch(patch, {"m.py": source}).sources["m.py"] == expected


def test_renaming_reaches_attributes_definitions_and_the_added_lines_not_strings() -> None:
    text = "@@ @@\n def f(x):\n-    return x.f('f')\n+    return f(x)  # f\n"
    patch = rename(parse_patch(text, path="p.md", line=1), {"f": "u.g"})
    source = "def g(x):\n    return x.g('f')\n"
    expected = "def g(x):\n    return u.g(x)\n"
    assert apply_patch(patch, {"m.py": source}).sources["m.py"] == expected


def test_an_invalid_engine_name_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="name for `f` is `sum-to`, which is not a dotted name"):
        rename(parse_patch("@@ @@\n-f()\n", path="p.md", line=1), {"f": "sum-to"})


def test_a_renamed_hunk_that_matches_nothing_shows_their_names() -> None:
    patch = rename(parse_patch("@@ add @@\n-f($x)\n+$x\n", path="p.md", line=1), {"f": "_f"})
    with pytest.raises(DoesNotApply, match=r"searched for:\n    _f\(\$x\)\n"):
        apply_patch(patch, ENGINE)


@pytest.mark.parametrize("nested", ["x" + "[x]" * 1000, "(" * 3000 + "x" + ")" * 3000])
def test_an_engine_that_is_nested_too_deeply_is_a_problem_with_a_remedy(nested: str) -> None:
    patch = parse_patch("@@ @@\n-x\n+y\n", path="page.md", line=1)
    with pytest.raises(
        EnvironmentProblem, match=r"m\.py: this file .* nested too deeply(?s:.*)remedy"
    ):
        apply_patch(patch, {"m.py": f"z = {nested}\n"})


def test_a_hunk_that_is_too_long_to_search_for_is_refused() -> None:
    chain = " < ".join(["x"] * 3000)
    patch = parse_patch(f"@@ @@\n-{chain}\n+y\n", path="page.md", line=1)
    with pytest.raises(HunkError, match=r"too long to search for(?s:.*)remedy"):
        apply_patch(patch, {"m.py": f"z = {chain}\n"})
