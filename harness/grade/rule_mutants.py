"""Operators at the sites of a user's own rules: each change of one site is a mutant."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from tokenize import COMMENT, NL, TokenError, generate_tokens
from types import CodeType

from harness.core.errors import EnvironmentProblem, UsageError
from harness.core.message import message
from harness.engines.engine import Engine
from harness.engines.loading import relocated
from harness.engines.rule_files import RuleTarget
from harness.grade.blinding import without_lines
from harness.grade.mutants import Mutant, PatchedFiles
from harness.grade.protocol import pack
from harness.grade.suite import RuleChange
from harness.pages.catalogue import Catalogue, nearest
from harness.pages.front_matter import Operator
from harness.pages.page import Page
from harness.patch import Patch, Patched, combine, parse_patch
from harness.rules import LOOKED_FOR, Form, Rule, check_scopes, find_rules, mutations

LIBRARIES: Mapping[Form, str] = {
    Form.TORCH: "torch",
    Form.LIBRARY: "torch",
    Form.JAX: "jax",
    Form.HIPS: "autograd",
}
"""The library that runs rules of a form; other forms need none."""


def operators(catalogue: Catalogue) -> list[Page]:
    """Return the pages of operators. Raises the first PageError if a page cannot be read."""
    return [page for page in catalogue.valid_pages() if isinstance(page.front, Operator)]


def operator_patch(page: Page) -> Patch:
    """Return the hunks of an operator. Raises HunkError for notation that is not valid."""
    blocks = page.diffs("")
    patch = combine(parse_patch(b.text, path=page.path, line=b.line) for b in blocks)
    check_scopes(patch)
    return patch


def rules_of(target: RuleTarget) -> list[Rule]:
    """Return the rules of a target.

    Raises UsageError if there is none, or none of that name, and EnvironmentProblem if the library
    that runs them is not installed.
    """
    sources = {file: target.engine.sources[file] for file in target.files}
    rules = find_rules(sources)
    if not rules:
        files = target.files[0] if len(target.files) == 1 else f"{len(target.files)} files"
        problem = message("no backward rule in {files}: {looked}", files=files, looked=LOOKED_FOR)
        raise UsageError(problem, "name the file in which the rule is written")
    if target.rule:
        names = [rule.name for rule in rules]
        rules = [rule for rule in rules if target.rule in (rule.name, rule.name.split(".")[-1])]
        if not rules:
            raise UsageError(
                message("no rule `{name}`", name=target.rule),
                message(
                    "{question}the rules are {names}",
                    question=nearest(target.rule, names),
                    names=", ".join(names),
                ),
            )
    for library in dict.fromkeys(LIBRARIES.get(rule.form) for rule in rules):
        if library is not None and find_spec(library) is None:
            problem = message("the rules need {library}, which is not installed", library=library)
            raise EnvironmentProblem(problem, message("pip install {name}", name=library))
    return rules


def rule_mutants(pages: Iterable[Page], rules: Sequence[Rule], engine: Engine) -> list[Mutant]:
    """Return the mutants of rules, by line; of equal ones, only that of the first operator.

    Nothing is executed. Raises HunkError for an operator whose notation is not valid.
    """
    found: dict[tuple[str, CodeType], Mutant] = {}
    blank = _Blank()
    patches = [(page, page.front_as(Operator).write, operator_patch(page)) for page in pages]
    for rule in rules:
        text = engine.sources[rule.file]
        for page, write, patch in patches:
            for function, line, patched in mutations(patch, rule, text):
                site = patched.sites[0]
                if _is_foreign(page, rule, site.after, text):
                    continue
                key = rule.file, blank.without_lines(patched.codes[rule.file])
                if key not in found:
                    is_whole = rule.name.rpartition(".")[2] == function.name
                    place = rule.name if is_whole else f"{rule.name}.{function.name}"
                    name = f"{page.id}@{place}:{line}"
                    change = RuleChange(
                        operator=page.id,
                        rule=rule.name,
                        form=rule.form.value,
                        function=function.name,
                        before=_joined(site.before),
                        after=_joined(site.after),
                        write=write,
                    )
                    files = _compiled(patched, rule.file, line, engine)
                    found[key] = Mutant(page, files, name, change)
    ordered = sorted(found.values(), key=lambda one: (one.files.file, one.files.line, one.name))
    return list(_numbered(ordered))


def _is_foreign(page: Page, rule: Rule, after: str, text: str) -> bool:
    """Whether a change that needs a library uses an attribute that only its objects have.

    In a rule of another form, it would only crash: an attribute counts as known if the file uses
    it, too.
    """
    needs = page.front_as(Operator).needs
    if not needs or LIBRARIES.get(rule.form) in needs:
        return False
    return not set(_ATTRIBUTE.findall(after)) <= set(_ATTRIBUTE.findall(text))


_ATTRIBUTE = re.compile(r"\.([^\W\d]\w*)")


class _Blank:
    """Codes of files without lines. The mutants of a file share all functions but one."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[CodeType, CodeType]] = {}

    def without_lines(self, code: CodeType) -> CodeType:
        """Return the code of a file, without the line numbers that would tell mutants apart."""
        constants = [self._of(one) if isinstance(one, CodeType) else one for one in code.co_consts]
        return without_lines(code.replace(co_consts=())).replace(co_consts=tuple(constants))

    def _of(self, code: CodeType) -> CodeType:
        if id(code) not in self._known:  # it is kept, so that its id stays its own
            self._known[id(code)] = code, without_lines(code)
        return self._known[id(code)][1]


def _compiled(patched: Patched, file: str, line: int, engine: Engine) -> PatchedFiles:
    code = relocated(patched.codes[file], str(engine.root / file))
    return PatchedFiles(dict(patched.sources), pack({file: code}), file, line)


def _joined(code: str) -> str:
    """Return code in one line, without comments; `; ` stands for the end of a statement."""
    lines = code.splitlines()
    joints = ["; "] * len(lines)
    with suppress(TokenError, SyntaxError):  # the code need not be a whole statement
        for token in generate_tokens(iter(code.splitlines(keepends=True)).__next__):
            row, column = token.start
            if token.type == COMMENT:
                lines[row - 1] = lines[row - 1][:column]
            elif token.type == NL:  # inside brackets
                joints[row - 1] = " "
    parts = [line.strip() + end for line, end in zip(lines, joints, strict=True) if line.strip()]
    return "".join(parts).rstrip("; ")


def _numbered(ordered: Sequence[Mutant]) -> Iterator[Mutant]:
    """Yield the mutants with distinct ids: several of one operator in one line are numbered."""
    counts, seen = Counter(one.name for one in ordered), Counter[str]()
    for one in ordered:
        seen[one.name] += 1
        number = f"#{seen[one.name]}" if counts[one.name] > 1 else ""
        yield Mutant(one.page, one.files, one.name + number, one.change)
