"""Finding the rules of a file, in every form that we know, with the functions that they call."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from harness.core.message import message
from harness.rules.module import (
    AnyFunction,
    Definition,
    FunctionNode,
    Module,
    dotted,
    parameters,
    passed_on,
    with_derived,
)
from harness.rules.rule import Form, Rule, RuleFunction, Side

LOOKED_FOR = message(
    "looked for subclasses of torch.autograd.Function, register_autograd, custom_vjp, defvjp, "
    "classes with `forward` and `backward` or with `compute` and `gradient`, closures named "
    "`backward` or `vjp`, functions named `*_backward`, and, in files that contain `back`, "
    "`grad`, `vjp`, `bwd` or `pull`, lambdas of a cotangent (`lambda g:`)"
)

_FORWARD, _BACKWARD = ("forward", "compute"), ("backward", "gradient", "vjp", "backward_var")
_SAVING = ("setup_context", *_FORWARD)
_CLOSURE = re.compile(r"_*(\w+_)?(backwards?|vjp|bwd|pullback|grad_fn)_*\d*")
_OTHER = re.compile(r"_*(\w+_)?(apply|back|backward_fn|backprop|pull|push|rule)_*\d*|lambda")
"""Names of rules that mean other things, too, unless the first parameter is a cotangent."""
_FUNCTION = re.compile(r"\w+_(backward|bwd|vjp)|backward_\w+")
_STORED = re.compile(r"_*(backwards?|backward_fn|vjp|grad_fn|pullback)_*")
"""The attribute or the argument that takes a closure."""
_TABLE = re.compile(r"\w*(backward|vjp|grad)\w*", re.IGNORECASE)
"""A dictionary of rules by the names of ops."""
_CERTAIN = re.compile(r"g|ct|cts|cotangent\w*|d(y|z|out)|grad\w*|upstream\w*")
"""The names of a cotangent that make a lambda a rule."""
_USUAL = re.compile(r"g|gs|ct|cts|cotangent\w*|d[a-z]\w*|grad\w*|\w*_grad|upstream\w*|\w*_bar")
"""The usual names of a cotangent among parameters."""


@dataclass
class _FoundFunction:
    """A function of a rule while it is put together."""

    node: AnyFunction
    name: str
    side: Side
    cotangents: Sequence[str] = ()


@dataclass
class _FoundRule:
    name: str
    form: Form
    functions: list[_FoundFunction] = field(default_factory=list)


def find_rules(sources: Mapping[str, str]) -> list[Rule]:
    """Return the rules in these files (path to text), in the order of their lines.

    Files that are not Python have none.
    """
    rules: list[Rule] = []
    for file, text in sources.items():
        if _may_have_rules(text):
            try:
                module = Module(file, text)
            except (SyntaxError, RecursionError):
                continue
            rules += _rules_of(module)
    return rules


def _may_have_rules(text: str) -> bool:
    """Whether a file speaks of gradients: elsewhere, `lambda g: ...` is something else."""
    lower = text.lower()
    return any(word in lower for word in ("back", "grad", "vjp", "bwd", "pull"))


def _rules_of(module: Module) -> list[Rule]:
    found = [
        *_classes(module),
        *_registered(module),
    ]
    taken = {function.node for rule in found for function in rule.functions}
    inside = {inner for node in taken for inner in ast.walk(node)} - taken
    for rule in (*_tables(module), *_closures(module), *_functions(module)):
        if not any(one.node in taken or one.node in inside for one in rule.functions):
            found.append(rule)
            taken |= {one.node for one in rule.functions}
    _add_helpers(module, found)
    rules = [_rule(module, rule) for rule in found]
    return sorted(rules, key=lambda rule: min(one.line for one in rule.functions))


def _rule(module: Module, found: _FoundRule) -> Rule:
    functions = tuple(
        RuleFunction(
            one.name,
            one.side,
            one.node.lineno,
            module.offset(one.node),
            with_derived(one.node, one.cotangents),
        )
        for one in found.functions
    )
    return Rule(found.name, module.file, found.form, functions, _inputs(found))


def _inputs(found: _FoundRule) -> tuple[str, ...]:
    """Return the inputs of a `Function` of PyTorch; the first parameter of `forward` may be ctx."""
    methods = {one.name: one.node for one in found.functions if one.side == "forward"}
    forward = methods.get("forward")
    if found.form is not Form.TORCH or forward is None or forward.args.vararg:
        return ()
    names = parameters(forward)
    return tuple(names if "setup_context" in methods else names[1:])


# ----- Classes: torch.autograd.Function, MiniTorch, needle, layers -----


def _classes(module: Module) -> Iterator[_FoundRule]:
    for definition in module.definitions:
        if isinstance(definition.node, ast.ClassDef):
            is_torch = _is_function(definition.node, module, set())
            form = Form.TORCH if is_torch else Form.CLASS
            methods = [one for one in definition.node.body if isinstance(one, FunctionNode)]
            back = [one for one in methods if one.name in _BACKWARD]
            other = [one for one in methods if not is_torch and _is_other(one, one.name)]
            back += other
            saving = [one for one in methods if one.name in _SAVING]
            functions = [_FoundFunction(one, one.name, "forward") for one in saving]
            for one in back:
                cotangents = _of_method(one, is_torch=is_torch)
                functions.append(_FoundFunction(one, one.name, "backward", cotangents))
            is_rule = is_torch or saving or other or any(o.name == "backward_var" for o in back)
            if is_rule and any(one.cotangents for one in functions):
                yield _FoundRule(".".join(definition.path), form, functions)


def _is_other(node: AnyFunction, name: str) -> bool:
    """Whether a function with a less usual name is a rule, as its first parameter shows."""
    names = [one for one in parameters(node) if one not in ("self", "cls", "ctx", "context")][:1]
    usual = _CERTAIN if isinstance(node, ast.Lambda) else _USUAL
    return bool(_OTHER.fullmatch(name) and any(usual.fullmatch(one) for one in names))


def _is_function(node: ast.ClassDef, module: Module, seen: set[str]) -> bool:
    """Whether a class is a subclass of PyTorch's `Function`, as far as this file shows."""
    for base in node.bases:
        name = module.resolved(base)
        if name.startswith("torch") and name.endswith(".Function"):
            return True
        for other in module.definitions:
            is_base = isinstance(other.node, ast.ClassDef) and other.node.name == name
            if is_base and name not in seen:
                assert isinstance(other.node, ast.ClassDef)
                return _is_function(other.node, module, seen | {name})
    return False


def _of_method(function: FunctionNode, *, is_torch: bool) -> list[str]:
    """Return the cotangents among the parameters: all after the context in PyTorch, else one."""
    names = parameters(function)
    if is_torch or names[:1] in (["self"], ["cls"], ["ctx"], ["context"]):
        names = names[1:]
    if not is_torch and names[:1] == ["ctx"]:
        names = names[1:]
    if function.args.vararg and not names:
        names = [f"{function.args.vararg.arg}[{number}]" for number in range(4)]
    return names if is_torch else names[:1]


# ----- Registered: torch.library, JAX, HIPS autograd -----


def _registered(module: Module) -> Iterator[_FoundRule]:
    merged: dict[tuple[str, Form], _FoundRule] = {}
    for _, scope, call in module.all_calls:
        name = dotted(call.func).rpartition(".")[2]
        rule: _FoundRule | None = None
        if name == "register_autograd":
            rule = _of_library(module, call, scope)
        elif name in ("defvjp", "defvjp_argnums"):
            rule = _of_defvjp(module, call, scope)
        if rule is not None and any(one.side == "backward" for one in rule.functions):
            into = merged.setdefault((rule.name, rule.form), _FoundRule(rule.name, rule.form))
            known = {one.node for one in into.functions}
            into.functions += [one for one in rule.functions if one.node not in known]
    yield from merged.values()


def _of_library(module: Module, call: ast.Call, scope: Sequence[str]) -> _FoundRule:
    """`op.register_autograd(backward, ...)` or `torch.library.register_autograd(op, backward)`."""
    owner, arguments = dotted(call.func).rpartition(".")[0], list(call.args)
    if not owner or module.resolved(call.func).startswith("torch"):
        op = arguments.pop(0) if arguments else ast.Constant("op")
        owner = str(op.value) if isinstance(op, ast.Constant) else dotted(op)
    rule = _FoundRule(owner.replace("::", "."), Form.LIBRARY)
    for item in call.keywords:
        if item.arg in ("backward", "setup_context"):
            arguments.insert(0, item.value) if item.arg == "backward" else arguments.append(
                item.value
            )
    for number, argument in enumerate(arguments[:2]):
        rule.functions += _named(module, argument, scope, "forward" if number else "backward", 1)
    return rule


def _named(
    module: Module, node: ast.expr, scope: Sequence[str], side: Side, skipped: int
) -> Iterator[_FoundFunction]:
    """Yield the function that an argument names; its cotangents follow `skipped` parameters."""
    if isinstance(node, ast.Lambda):
        yield _FoundFunction(node, "backward", side, parameters(node)[skipped:])
    elif isinstance(node, ast.Name) and (found := module.function(node.id, scope)):
        assert isinstance(found.node, FunctionNode)
        names = parameters(found.node)[skipped:] if side == "backward" else ()
        yield _FoundFunction(found.node, found.node.name, side, names)


def _of_defvjp(module: Module, call: ast.Call, scope: Sequence[str]) -> _FoundRule | None:
    """`f.defvjp(forward, backward)` of JAX, or `defvjp(f, rule, ...)` of HIPS autograd."""
    owner = dotted(call.func).rpartition(".")[0]
    if owner and owner.partition(".")[0] not in module.imports:
        if len(call.args) < 2:
            return None
        rule = _FoundRule(owner, Form.JAX)
        rule.functions += _named(module, call.args[0], scope, "forward", 0)
        for one in _named(module, call.args[1], scope, "backward", 0):
            one.cotangents = one.cotangents[-1:]
            rule.functions.append(one)
        return rule
    if not call.args:
        return None
    rule = _FoundRule(dotted(call.args[0]).rpartition(".")[2] or "rule", Form.HIPS)
    for number, maker in enumerate(call.args[1:]):
        node: AnyFunction | None = maker if isinstance(maker, ast.Lambda) else None
        if isinstance(maker, ast.Name) and (found := module.function(maker.id, scope)):
            assert isinstance(found.node, FunctionNode)
            node = found.node
        if node is not None:
            name = "vjp" + str(number) if isinstance(node, ast.Lambda) else node.name
            rule.functions.append(_FoundFunction(node, name, "backward", _of_inner(node)))
    return rule


def _of_inner(maker: AnyFunction) -> list[str]:
    """Return the first parameters of the functions that a maker of rules returns."""
    return [
        parameters(node)[0]
        for node in ast.walk(maker)
        if isinstance(node, FunctionNode | ast.Lambda) and node is not maker and parameters(node)
    ]


# ----- Closures and functions -----


def _closures(module: Module) -> Iterator[_FoundRule]:
    """Yield a rule for each function that has closures which compute a gradient."""
    for outer in module.definitions:
        if not isinstance(outer.node, FunctionNode):
            continue
        stored = dict(_stored(outer.node))
        functions = [
            _FoundFunction(node, name, "backward", cotangents)
            for node, name in _inner_functions(outer.node)
            if (_CLOSURE.fullmatch(name) or name in stored or _is_closure(node, name))
            and (cotangents := parameters(node)[:1] or _gradients_of(stored.get(name, ""), node))
        ]
        if functions:
            yield _FoundRule(".".join(outer.path), Form.CLOSURE, functions)


def _is_closure(node: AnyFunction, name: str) -> bool:
    """Whether a function with a less usual name is a rule: it takes or reads a cotangent."""
    is_short = bool(_OTHER.fullmatch(name)) and not parameters(node)
    return _is_other(node, name) or (is_short and bool(_gradients_of("", node)))


def _inner_functions(outer: FunctionNode) -> Iterator[tuple[AnyFunction, str]]:
    """Yield the functions that are defined directly in another one, and its lambdas."""
    pending: list[ast.AST] = list(outer.body)
    while pending:
        node = pending.pop(0)
        if isinstance(node, FunctionNode):
            yield node, node.name
        elif isinstance(node, ast.Lambda):
            yield node, "lambda"
        elif isinstance(node, ast.Call) and dotted(node.func) in _OF_ITEMS:
            pending += [one for one in node.args if not isinstance(one, ast.Lambda)]
        elif isinstance(node, ast.keyword) and isinstance(node.value, ast.Lambda):
            if node.arg and _STORED.fullmatch(node.arg):
                yield node.value, node.arg
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
            name = dotted(node.targets[0]).rpartition(".")[2]
            if _STORED.fullmatch(name):
                yield node.value, name
        elif not isinstance(node, ast.ClassDef):
            pending += ast.iter_child_nodes(node)


_OF_ITEMS = ("sorted", "map", "filter", "min", "max", "reduce", "functools.reduce")
"""Functions that call a lambda with each item of a sequence."""


def _stored(outer: FunctionNode) -> Iterator[tuple[str, str]]:
    """Yield the names of closures that are stored in an attribute, each with its owner."""
    for node in ast.walk(outer):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
            target = node.targets[0]
            if _STORED.fullmatch(target.attr):
                name = dotted(node.value) or target.attr
                yield name, dotted(target.value)


def _gradients_of(owner: str, node: AnyFunction) -> list[str]:
    """Return what a closure without parameters reads as the gradient of its op's result."""
    owners = [owner] if owner else ["out"]
    read = {dotted(one) for one in ast.walk(node) if isinstance(one, ast.Attribute)}
    names = [f"{one}.{name}" for one in owners for name in ("grad", "_grad", "gradient")]
    return [name for own in names for name in (own, f"{own}.data") if name in read]


def _tables(module: Module) -> Iterator[_FoundRule]:
    """Yield a rule for each function in a dictionary of the module: `BACKWARD = {"mul": ...}`."""
    for table, rules in _dictionaries(module):
        pairs = zip(rules.keys, rules.values, strict=True)
        for key, value in pairs if _TABLE.fullmatch(table) else ():
            functions = list(_named(module, value, (), "backward", 0))
            for one in functions:
                one.cotangents = one.cotangents[:1]
            is_rule = any(_USUAL.fullmatch(name) for o in functions for name in o.cotangents)
            if is_rule and isinstance(key, ast.Constant | ast.Attribute | ast.Name):
                name = str(key.value) if isinstance(key, ast.Constant) else dotted(key)
                yield _FoundRule(f"{table}.{name}", Form.FUNCTION, functions)


def _dictionaries(module: Module) -> Iterator[tuple[str, ast.Dict]]:
    """Yield the dictionaries that the module assigns to a name."""
    for node in module.tree.body:
        match node:
            case ast.Assign([target, *_], ast.Dict() as value):
                yield dotted(target), value
            case ast.AnnAssign(target, _, ast.Dict() as value):
                yield dotted(target), value


def _functions(module: Module) -> Iterator[_FoundRule]:
    """Yield a rule for each function of the module that is named as the backward of another."""
    for definition in module.definitions:
        node = definition.node
        if (
            isinstance(node, FunctionNode)
            and not definition.scope
            and _FUNCTION.fullmatch(node.name)
        ):
            names = parameters(node)
            usual = [name for name in names if _USUAL.fullmatch(name)]
            if names:
                function = _FoundFunction(node, node.name, "backward", (usual or names)[:1])
                yield _FoundRule(node.name, Form.FUNCTION, [function])


# ----- What the rules call -----


def _add_helpers(module: Module, rules: Sequence[_FoundRule]) -> None:
    """Add functions of the file that only backward sides call to the first rule that calls them."""
    backward = {one.node for rule in rules for one in rule.functions if one.side == "backward"}
    backward |= {
        inner
        for node in list(backward)
        for inner in ast.walk(node)
        if isinstance(inner, FunctionNode)
    }
    taken = {one.node for rule in rules for one in rule.functions}
    callers: dict[FunctionNode, set[AnyFunction | None]] = {}
    for owner, calls in module.calls.items():
        for called, _ in calls:
            assert isinstance(called.node, FunctionNode)
            callers.setdefault(called.node, set()).add(owner)
    for rule in rules:
        pending = [one for one in rule.functions if one.side == "backward"]
        while pending:
            caller = pending.pop(0)
            for called, call in _calls_within(module, caller.node):
                node = called.node
                assert isinstance(node, FunctionNode)
                if node in taken or not callers[node] <= backward | {node}:
                    continue
                known = with_derived(caller.node, caller.cotangents)
                helper = _FoundFunction(node, node.name, "backward", passed_on(call, node, known))
                rule.functions.append(helper)
                pending.append(helper)
                taken.add(node)
                backward.add(node)


def _calls_within(module: Module, node: AnyFunction) -> Iterator[tuple[Definition, ast.Call]]:
    """Yield the calls in a function, and in those that are defined in it."""
    inside = set(ast.walk(node))
    for calls in module.calls.values():
        for called, call in calls:
            if call in inside:
                yield called, call
