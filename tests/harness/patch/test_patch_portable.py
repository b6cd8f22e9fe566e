"""Portable blocks: spellings, ops, the cotangent, and equivalent forms of code."""

import pytest

from harness.core.errors import DoesNotApply, HunkError, UsageError
from harness.patch import EngineNames, apply_patch, parse_patch
from harness.patch.portable import loosen, rename
from harness.patch.scope import OPERATIONS, is_operation


def loose(hunk: str, code: str, names: EngineNames | None = None) -> str:
    patch = loosen(parse_patch(hunk, path="page.md", line=1), names or {})
    return apply_patch(patch, {"engine.py": code}).sources["engine.py"]


def strict(hunk: str, code: str, names: EngineNames) -> str:
    patch = rename(parse_patch(hunk, path="page.md", line=1), names)
    return apply_patch(patch, {"engine.py": code}).sources["engine.py"]


# ----- Spellings -----

SKIP = "@@ @@\n-unbroadcast($g, $shape)\n+$g"


@pytest.mark.parametrize("call", ["sum_to", "utils.sum_to", "self._fit", "Tensor._fit"])
def test_a_name_of_several_spellings_is_any_of_them(call: str) -> None:
    names = {"unbroadcast": ("sum_to", "utils.sum_to", "self._fit", "Tensor._fit")}
    assert strict(SKIP, f"a = {call}(g, s)\nb = fit(g, s)\n", names) == "a = g\nb = fit(g, s)\n"


def test_one_engine_may_use_several_spellings() -> None:
    names = {"unbroadcast": ("sum_to", "cls.fit")}
    assert strict(SKIP, "a = sum_to(g, s)\nb = cls.fit(g, s)\n", names) == "a = g\nb = g\n"


def test_the_plus_side_uses_the_spelling_that_matched() -> None:
    hunk = "@@ @@\n-unbroadcast($g, $shape)\n+unbroadcast($g, $shape[1:])"
    names = {"unbroadcast": ("sum_to", "cls.fit")}
    assert strict(hunk, "a = cls.fit(g, s)\n", names) == "a = cls.fit(g, s[1:])\n"


def test_a_name_only_on_the_plus_side_is_the_first_spelling() -> None:
    hunk = "@@ @@\n-return $g\n+return unbroadcast($g)"
    names = {"unbroadcast": ("sum_to", "cls.fit")}
    assert strict(hunk, "def f(g):\n    return g\n", names) == "def f(g):\n    return sum_to(g)\n"


def test_last_parts_are_the_spellings_of_identifiers() -> None:
    names = {"grad": ("self._grad", "gradient")}
    hunk = "@@ @@\n-$t.grad = None\n+$t.grad = 0"
    assert strict(hunk, "a._grad = None\nb.gradient = None\nc.grad = None\n", names) == (
        "a._grad = 0\nb.gradient = 0\nc.grad = None\n"
    )


def test_a_scope_may_have_several_names() -> None:
    code = "def plus():\n    f(x)\ndef Add():\n    f(x)\ndef add():\n    f(x)\n"
    hunk = "@@ add @@\n-f($x)\n+$x"
    assert strict(hunk, code, {"add": ("plus", "ops.Add")}) == (
        "def plus():\n    x\ndef Add():\n    x\ndef add():\n    f(x)\n"
    )


@pytest.mark.parametrize("theirs", ["sum to", ("sum_to", "1st"), ""])
def test_an_invalid_name_is_refused(theirs: str | tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="not a dotted name"):
        strict(SKIP, "a = 1\n", {"unbroadcast": theirs})


def test_no_spelling_at_all_is_refused() -> None:
    with pytest.raises(UsageError, match="no name for `unbroadcast`"):
        strict(SKIP, "a = 1\n", {"unbroadcast": ()})


def test_a_portable_block_knows_the_usual_spellings_and_the_engines_own() -> None:
    code = "a = ops.reduce_broadcast(g, s)\nb = mine(g, s)\n"
    assert loose(SKIP, code) == "a = g\nb = mine(g, s)\n"
    assert loose(SKIP, code, {"unbroadcast": "mine"}) == "a = g\nb = g\n"


@pytest.mark.parametrize(
    ("place", "call"),
    [
        (-1, "(a * g).sum_to(s)"),
        (0, "sum_to(a * g, s)"),
        (0, "utils.sum_to(a * g, s)"),
        (0, "x.sum_to(a * g)"),
        (1, "sum_to(s, a * g)"),
        (1, "x.sum_to(s, a * g)"),
    ],
)
def test_a_call_that_unbroadcasts_is_matched_by_the_position_of_its_gradient(
    place: int, call: str
) -> None:
    patch = loosen(parse_patch(SKIP, path="page.md", line=1), {}, {"sum_to": place})
    changed = apply_patch(patch, {"engine.py": f"y = {call}\n"}).sources["engine.py"]
    assert changed in ("y = a * g\n", "y = (a * g)\n")


# ----- Ops -----

OF_ADD = ["add", "Add", "__add__", "__radd__", "_add", "add_backward", "_add_vjp", "AddBackward0"]
OF_ADD += ["EWiseAdd", "AddBroadcastedBackward", "grad_add", "plus", "AddOp", "ADD"]
NOT_ADD = ["add_module", "add_func", "AddScalar", "padding", "__iadd__", "logaddexp", "addmm"]
NOT_ADD += ["add_hook", "Adder", "AddSequence", "add2d", "radd", "scatter_add"]


@pytest.mark.parametrize("name", OF_ADD)
def test_an_op_has_many_names(name: str) -> None:
    assert is_operation(name, "add")


@pytest.mark.parametrize("name", NOT_ADD)
def test_other_words_make_a_different_name_from_an_op(name: str) -> None:
    assert not is_operation(name, "add")


def test_no_two_ops_share_a_name() -> None:
    names = [name for theirs in OPERATIONS.values() for name in theirs]
    for name in names:
        assert sum(is_operation(name, op) for op in OPERATIONS) == 1, name
    assert not is_operation("log10", "log")
    assert not is_operation("relu", "exp")


def test_a_scope_names_an_op() -> None:
    code = "class Add:\n    def backward(g):\n        return f(g)\ndef mul(g):\n    return f(g)\n"
    assert loose("@@ op:add.backward @@\n-f($g)\n+$g", code) == code.replace("f(g)", "g", 1)


def test_an_engine_has_further_names_for_an_op() -> None:
    code = "class Join:\n    def __add__(self, g):\n        return f(g)\n"
    with pytest.raises(DoesNotApply):
        loose("@@ op:mul @@\n-f($g)\n+$g", code, {"add": "Join"})
    assert "return g\n" in loose("@@ op:mul @@\n-f($g)\n+$g", code, {"mul": "Join"})


def test_an_engines_name_for_an_op_is_added_in_scopes_only() -> None:
    code = "class Sum:\n    y = g.sum(0)\nclass Total:\n    y = g.sum(1)\n"
    hunk = "@@ op:sum @@\n-$x.sum($...how)\n+$x"
    assert loose(hunk, code, {"sum": "Total"}) == "class Sum:\n    y = g\nclass Total:\n    y = g\n"


def test_the_usual_spellings_reach_scopes() -> None:
    code = "class Value:\n    def sum_to(g):\n        f(g)\n    def other(g):\n        f(g)\n"
    hunk = "@@ Tensor.unbroadcast @@\n-f($g)\n+$g"
    assert loose(hunk, code) == code.replace("f(g)", "g", 1)


def test_one_of_several_names_may_mean_several_definitions() -> None:
    code = "class A:\n    def plus():\n        f(x)\nclass B:\n    def plus():\n        f(x)\n"
    hunk = "@@ add @@\n-f($x)\n+$x"
    assert strict(hunk, code, {"add": ("plus", "Add")}) == code.replace("f(x)", "x")
    with pytest.raises(HunkError, match="means several definitions"):
        strict(hunk, code, {"add": "plus"})


def test_an_op_in_a_scope_may_mean_several_definitions() -> None:
    code = "class Add:\n    x = f(1)\ndef add():\n    return f(2)\n"
    changed = "class Add:\n    x = 1\ndef add():\n    return 2\n"
    assert strict("@@ op:add @@\n-f($g)\n+$g", code, {}) == changed


def test_an_unknown_op_is_refused() -> None:
    with pytest.raises(HunkError, match="`ad` is not an op; the ops are add, sub"):
        parse_patch("@@ op:ad @@\n-f($g)\n+$g", path="page.md", line=1)


# ----- Accumulation -----

ASSIGN = "@@ @@\n-$t.grad += $e\n+$t.grad = $e"


@pytest.mark.parametrize(
    "statement",
    [
        "a.grad += f(g)",
        "a.grad+=f( g )  # kept",
        "a.grad = a.grad + f(g)",
        "a.grad = f(g) + a.grad",
        "a.grad = (\n    a.grad\n    + f(g)\n)",
        "np.add(a.grad, f(g), out=a.grad)",
        "xp.add(a.grad, f(g), a.grad)",
        "a.grad = self.xp.add(a.grad, f(g))",
        "a.grad[...] += f(g)",
        "a.grad[:] += f(g)",
        "a.grad = f(g) if a.grad is None else a.grad + f(g)",
        "a.grad = a.grad + f(g) if a.grad is not None else f(g)",
        "if a.grad is None:\n    a.grad = f(g)\nelse:\n    a.grad = a.grad + f(g)",
        "if a.grad is None:\n    # the first\n    a.grad = f(g)\nelse:\n    a.grad += f(g)",
    ],
)
def test_all_forms_of_accumulation_are_equivalent(statement: str) -> None:
    assert loose(ASSIGN, f"{statement}\n").split("  #")[0].strip().replace("( g )", "(g)") == (
        "a.grad = f(g)"
    )


@pytest.mark.parametrize(
    "statement",
    [
        "a.grad -= g",
        "a.grad = b.grad + g",
        "a.grad = a.grad * g",
        "a.data += g",
        "np.add(a.grad, g, out=b.grad)",
        "np.add(a.grad, g)",
        "a.grad[0] += g",
        "a.grad = g if a.grad is None else b.grad + g",
    ],
)
def test_other_statements_are_not_accumulation(statement: str) -> None:
    with pytest.raises(DoesNotApply):
        loose(ASSIGN, f"{statement}\n")


def test_the_target_may_be_nested_and_the_attribute_have_another_name() -> None:
    assert loose(ASSIGN, "self.data._grad = self.data._grad + g\n") == "self.data._grad = g\n"
    names = {"grad": "g_sum"}
    assert loose(ASSIGN, "x[0].g_sum += g\nx.grad += g\n", names) == "x[0].g_sum = g\nx.grad = g\n"


def test_an_addition_may_be_context_or_deleted() -> None:
    code = "def f():\n    a._grad = a._grad + g\n    h()\n"
    assert loose("@@ @@\n $t.grad += $e\n-h()", code) == code.replace("    h()\n", "")
    assert loose("@@ f @@\n-$t.grad += $e", code) == "def f():\n    h()\n"


def test_an_accumulation_on_both_sides_matches_only_its_own_form() -> None:
    hunk = "@@ @@\n-$t.grad += $e\n+$t.grad += -$e"
    assert loose(hunk, "a.grad += g\n") == "a.grad += -g\n"
    with pytest.raises(DoesNotApply):
        loose(hunk, "a.grad = a.grad + g\n")


def test_an_accumulation_over_several_lines_is_changed_if_one_of_them_is() -> None:
    hunk = "@@ @@\n-$t.grad += f(\n+$t.grad += h(\n     $e)"
    assert loose(hunk, "a.grad += f(g)\n") == "a.grad += h(\n    g)\n"
    with pytest.raises(DoesNotApply):
        loose(hunk, "a.grad = a.grad + f(g)\n")


def test_blocks_that_are_not_portable_match_literally() -> None:
    with pytest.raises(DoesNotApply):
        strict(ASSIGN, "a.grad = a.grad + g\n", {})


# ----- The cotangent, products, transposes -----

DROP = "@@ @@\n-$x * $cotangent\n+$x"


@pytest.mark.parametrize(
    ("code", "changed"),
    [
        ("y = g * b", "y = b"),
        ("y = b * out.grad", "y = b"),
        ("y = a * grad_output / n", "y = a / n"),
        ("y = gy * k * a ** 2", "y = k * a ** 2"),
        ("y = np.multiply(b, result._grad)", "y = b"),
        ("y = (a + b) * dy", "y = (a + b)"),
    ],
)
def test_the_cotangent_is_found_in_a_product(code: str, changed: str) -> None:
    assert loose(DROP, f"{code}\n") == f"{changed}\n"


@pytest.mark.parametrize("code", ["y = a * b", "y = grad * out.grad", "y = g + b", "y = g / b"])
def test_other_names_and_two_cotangents_do_not_match(code: str) -> None:
    with pytest.raises(DoesNotApply):
        loose(DROP, f"{code}\n")


def test_an_engine_may_name_its_cotangent() -> None:
    assert loose(DROP, "y = b * incoming\n", {"cotangent": ("incoming", "g")}) == "y = b\n"


@pytest.mark.parametrize("product", ["g @ {}", "np.matmul(g, {})", "np.dot(g, {})", "g.dot({})"])
@pytest.mark.parametrize(
    "transposed",
    ["b.T", "np.transpose(b)", "np.swapaxes(b, -1, -2)", "b.swapaxes(-2, -1)", "b.transpose()"],
)
def test_products_and_transposes_have_many_forms(product: str, transposed: str) -> None:
    code = f"y = {product.format(transposed)}\n"
    assert loose("@@ @@\n-$cotangent @ $b.T\n+$cotangent @ $b", code) == "y = g @ b\n"


def test_a_module_function_does_not_match_as_a_method() -> None:
    hunk = "@@ @@\n-$g.sum($...how, keepdims=True)\n+$g"
    assert loose(hunk, "y = np.sum(g, 1, keepdims=True)\n") == "y = g\n"
    assert loose(hunk, "y = g.sum(1, keepdims=True)\n") == "y = g\n"
