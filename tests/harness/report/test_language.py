"""The interface in another language: every template has a translation, and no English is left."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest
import typer

from harness.answer_key.outcome import KINDS, REFUSED, REFUSED_ELSEWHERE
from harness.cli.app import open_app
from harness.cli.prediction import CHOICES, read_prediction
from harness.cli.usage import commands_in, paragraphs, parameters_of, usage_words
from harness.core import read_text
from harness.core.errors import PageError, UsageError
from harness.core.message import Kind, message, verbatim
from harness.core.run import Failure
from harness.core.vocabulary import Loss, Outcome, PageKind, Phase, Stage
from harness.diagnostics import DIAGNOSTICS
from harness.engines.engine import find_engine
from harness.experiment.baseline import Baseline
from harness.experiment.conformance import Conformance
from harness.experiment.lab import run_lab
from harness.experiment.patching import prepare
from harness.pages.catalogue import open_catalogue
from harness.pages.front_matter import _REMEDIES
from harness.pages.front_matter import KINDS as KINDS_OF_PAGES
from harness.pages.page import Page, split_front
from harness.report.glossary import GROUPS, read_glossary
from harness.report.language import ENGLISH, VARIABLES, open_language, read_translations
from harness.report.pages import PLURALS
from harness.report.view import BRIEF, IN_PLACE_HEADING, NARROW_HEADING, WORDS
from harness.runs.cache import open_cache
from harness.runs.cached_runs import LIBRARIES, run_on_library
from harness.training.comparison import Shift
from harness.training.recipe import Crash
from tests.harness.bundled import CATALOGUE, bundled_pages
from tests.harness.command import harness
from tests.harness.report.templates import ERRORS, ROOT, templates_in, templates_of_errors
from tests.track_transcript import document

SPANISH = open_language("es")
FIRST_LESSONS = [page for page in bundled_pages() if page.front.level == 1]
ENGLISH_WORDS = re.compile(
    r"\b(the|is|was|were|of|with|correct|right|wrong|step|handed|ended|but|which|that|not|leaf|and)\b"
)


ROOMS = (
    *("core", "runs", "answer_key", "diagnostics", "experiment", "training", "grade", "learn"),
    *("pages", "patch", "engines", "cli", "report", "check", "matrix", "sandbox"),
)
"""The rooms whose messages a person sees in the reports and errors of the commands for learners."""

ENGLISH_ONLY = {"experiment/exploration.py", "pages/conventions.py"}
"""Files with errors for the authors of engines and catalogues, which are not translated."""

RENDERERS = [
    *(
        ROOT / "report" / f"{name}.py"
        for name in (
            *("view", "terminal", "one_screen", "full", "pages", "pictures"),
            *("progress", "primer", "tasks", "hunt"),
        )
    ),
    ROOT / "report" / "glossary" / "__init__.py",
    *(ROOT / "report" / "html").glob("*.py"),
    *(
        ROOT / "cli" / f"{name}.py"
        for name in (
            *("app", "break_", "html", "hunt", "options", "prediction", "primer", "session"),
            *("show", "tasks", "track", "try_", "usage"),
        )
    ),
]

TEMPLATES = list((ROOT / "report" / "html" / "templates").iterdir())
SAID = re.compile(r'\bsay\("([^"]*)"')
"""What a template of HTML says."""

VOCABULARY = {
    *(word for words in (Outcome, Stage, Loss, PageKind, Shift, Crash) for word in get_args(words)),
    *KINDS,
    *GROUPS,
    *BRIEF.values(),
    *WORDS.values(),
    *(IN_PLACE_HEADING, NARROW_HEADING),
    *("guard-lost", REFUSED, REFUSED_ELSEWHERE),
    *(kind.noun for kind in KINDS_OF_PAGES),
    *_REMEDIES.values(),
    *PLURALS.values(),
    *(text for item in DIAGNOSTICS for text in (item.sees, item.blind, item.cost)),
    *get_args(Conformance),
    *(term for term, entry in read_glossary().items() if entry.group == "terms"),
    *("Arguments", "Options", "Commands"),
    *("family", "level", "kind"),  # by which `harness list` selects
}


def templates_of_help() -> Iterator[str]:
    """What `--help` of any command shows, except for names."""
    for command in commands_in(typer.main.get_command(open_app())):
        for text in (command.help, command.epilog):
            yield from paragraphs(text or "")
        yield from usage_words(command).values()
        for parameter in parameters_of(command):
            yield from filter(None, (parameter.help, parameter.metavar))


@cache
def templates_of_errors_by_place() -> list[tuple[str, str | None]]:
    return [
        (f"{file.relative_to(ROOT)}:{line}", template)
        for room in ROOMS
        for file in sorted((ROOT / room).rglob("*.py"))
        if file.relative_to(ROOT).as_posix() not in ENGLISH_ONLY
        for line, template in templates_of_errors(file)
    ]


@cache
def templates_of_messages() -> list[tuple[str, str | None]]:
    """The templates, each with its place."""
    files = [file for room in ROOMS for file in sorted((ROOT / room).rglob("*.py"))]
    return [
        (f"{file.relative_to(ROOT)}:{line}", template)
        for file in files
        for line, template in templates_in(file, "message")
        if template or file != ROOT / "report" / "language.py"  # which is called with templates
    ]


def templates_of_renderers() -> set[str]:
    found = {template for file in RENDERERS for _, template in templates_in(file, "message", "say")}
    found |= {text for file in TEMPLATES for text in SAID.findall(file.read_text("utf-8"))}
    return {template for template in found if template}


def test_every_message_is_made_from_a_literal_template() -> None:
    assert [place for place, template in templates_of_messages() if not template] == []


def test_a_template_that_has_a_kind_is_written_once() -> None:
    nodes = [n for file in ROOT.rglob("*.py") for n in ast.walk(ast.parse(file.read_text("utf-8")))]
    calls = [node for node in nodes if isinstance(node, ast.Call) and node.args]
    named = [call.args[0] for call in calls if getattr(call.func, "id", "") == "message"]
    literals = {first.value for first in named if isinstance(first, ast.Constant)}
    assert [kind for kind in Kind if kind.value in literals] == []


def test_no_error_is_put_together_from_strings() -> None:
    assert [place for place, template in templates_of_errors_by_place() if template is None] == []


def test_the_templates_of_every_class_of_errors_are_looked_for() -> None:
    classes = {
        node.name: {base.id for base in node.bases if isinstance(base, ast.Name)}
        for room in ROOMS
        for file in (ROOT / room).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    }
    assert {name for name, bases in classes.items() if bases & ERRORS} <= ERRORS


def test_every_template_has_a_spanish_translation_and_every_translation_a_template() -> None:
    messages = {template for _, template in templates_of_messages()}
    errors = {template for _, template in templates_of_errors_by_place()}
    templates = {*messages, *templates_of_renderers(), *errors, *templates_of_help(), *VOCABULARY}
    assert templates - SPANISH.translations.keys() == set()
    assert SPANISH.translations.keys() - templates == set()


def test_a_translation_needs_the_fields_of_its_template() -> None:
    assert read_translations('[a]\n"{a} of {b}" = "{b}: {a}"') == {"{a} of {b}": "{b}: {a}"}
    for other in ("{a}", "{a} {c}", "{0} {1}"):
        with pytest.raises(ValueError, match="does not have the fields"):
            read_translations(f'[a]\n"{{a}} of {{b}}" = "{other}"')


def test_a_catalogue_cannot_replace_what_breaklab_says() -> None:
    spanish = open_language("es")
    changed = spanish.with_translations({"a variant": "otra cosa", "rows": "filas"})
    assert changed("a variant") == spanish("a variant") == "una variante"
    assert changed("rows") == "filas"


def test_a_message_is_translated_with_its_parts() -> None:
    entry = message("{array}[{index}]", array=message("the output"), index="0, 1")
    wrong = message(
        "{array} is {actual}, expected {expected} ({count} of {size} entries are wrong)",
        array=entry,
        actual=2,
        expected=1,
        count=2,
        size=9,
    )
    evidence = message("after step {step}, {difference}", step=3, difference=wrong)
    assert str(evidence) == (
        "after step 3, the output[0, 1] is 2, expected 1 (2 of 9 entries are wrong)"
    )
    assert SPANISH(evidence) == (
        "tras el paso 3, la salida[0, 1] es 2, se esperaba 1 (2 de 9 elementos están mal)"
    )


def test_a_message_without_a_translation_stays_english_as_a_whole() -> None:
    unknown = message("nobody translated {part}", part=message("the output"))
    assert SPANISH(unknown) == "nobody translated the output"
    assert SPANISH("nobody translated this") == "nobody translated this"
    assert ENGLISH("Summary") == "Summary"
    assert ENGLISH("{count} of {total} right", count=1, total=2) == "1 of 2 right"


@pytest.mark.parametrize(
    "text",
    [
        "operands could not be broadcast together with shapes (3,) (4,3)",
        "the output",
        "shape",
        "{error} in {phase}",
        "{0.__class__} {error!r:>99999999}",
    ],
)
def test_text_of_python_and_of_libraries_is_shown_byte_for_byte(text: str) -> None:
    failure = Failure(Phase.BACKWARD, "ValueError", text, "return a + b")
    assert SPANISH(failure.sentence) == (
        f"ValueError en la pasada hacia atrás, en `return a + b`: {text}"
    )
    assert SPANISH(verbatim(text)) == text


def test_a_failure_of_a_training_names_its_step() -> None:
    failure = Failure(Phase.STEP, "ValueError", "no", step=7)
    assert str(failure) == "ValueError in step 7: no"
    assert SPANISH(failure.sentence) == "ValueError en el paso 7: no"


@pytest.mark.usefixtures("without_oracles")
def test_what_numpy_says_of_a_broken_engine_is_shown_byte_for_byte() -> None:
    page, variant = (CATALOGUE.page(name) for name in ("skip-unbroadcast", "accumulate-in-place"))
    experiment = prepare(page, CATALOGUE, find_engine(), variant=variant)
    crashes = [
        run for run in run_lab(experiment, Baseline(open_cache())).runs if run.outcome == "crash"
    ]
    texts = [
        text
        for run in crashes
        for text in re.findall(
            r"(?:non-broadcastable|operands could).*?(?=$|\. Before)", str(run.evidence)
        )
    ]
    assert texts
    assert len(texts) == len(crashes)
    for run, text in zip(crashes, texts, strict=True):
        assert text in SPANISH(run.evidence)


@pytest.mark.parametrize(
    ("variables", "code"),
    [
        ({"LANG": "es_ES.UTF-8"}, "es"),
        ({"LANG": "C.UTF-8"}, "en"),
        ({"LANG": "es_ES", "LC_ALL": "en_GB.UTF-8"}, "en"),
        ({"LANG": "en_US", "LANGUAGE": "fr:es"}, "es"),
        ({"LANG": "de_DE"}, "en"),
        ({}, "en"),
    ],
)
def test_the_locale_decides(
    variables: dict[str, str], code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert open_language(None).code == code
    assert open_language("en").code == "en"


def test_a_language_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(UsageError, match=r"no language `xx`\n.*one of en, es"):
        open_language("xx")


def test_predictions_are_read_in_both_languages() -> None:
    assert read_prediction("f", SPANISH) == "crash"
    assert read_prediction("corrup", SPANISH) == "silent-corruption"
    assert read_prediction("s", SPANISH) == "silent-corruption"
    assert [read_prediction(choice, SPANISH) for choice in CHOICES] == list(CHOICES)
    for answer in ("zzz", "convención"):
        with pytest.raises(ValueError, match=r"Escribe una de estas letras: c, f, o, n; \? "):
            read_prediction(answer, SPANISH)


@pytest.mark.usefixtures("without_oracles")
@pytest.mark.parametrize(
    ("code", "word", "other"), [("en", "hidden", "disguised"), ("es", "oculto", "disfraz")]
)
def test_a_screen_of_level_1_has_one_word_for_a_bug_that_does_not_show(
    code: str, word: str, other: str, tmp_path: Path
) -> None:
    """In the terminal and in HTML; `disguised-correct` is its name in pages and in JSON."""
    page, file = "mul-swapped-operands", tmp_path / "page.html"
    assert harness("html", page, "--lang", code, "--out", str(file)).returncode == 0
    lesson = re.sub(r"<(script|style).*?</\1>|<[^>]*>", " ", file.read_text("utf-8"), flags=re.S)
    reports = [harness("break", page, *full, "--lang", code).stdout for full in ([], ["--full"])]
    for screen in (lesson, *reports, document(code).read_text("utf-8")):
        assert word in screen
        assert re.findall(rf"\S*(?:{other}|disguised)\S*", screen) == []
    paths = [CATALOGUE.translations(lesson.id)["es"] for lesson in FIRST_LESSONS]
    bodies = [lesson.body for lesson in FIRST_LESSONS]
    for text in bodies if code == "en" else [split_front(read_text(p), p)[1] for p in paths]:
        assert other not in text


def test_every_unit_of_the_course_is_translated() -> None:
    phrases = CATALOGUE.course_phrases("es")
    units = CATALOGUE.course.values()
    assert phrases.keys() == {text for unit in units for text in (unit.title, unit.idea)}


def test_every_page_of_level_1_is_translated() -> None:
    assert len(FIRST_LESSONS) > 80
    assert [page.id for page in FIRST_LESSONS if "es" not in CATALOGUE.translations(page.id)] == []


def _shown() -> Iterator[Any]:
    """The breaks of level 1; all but the first of each family repeat what the others show."""
    families: set[str] = set()
    for page in FIRST_LESSONS:
        if page.front.kind == "break" and page.section("Probes"):
            marks = [pytest.mark.slow] if page.front.family in families else []
            families.add(page.front.family)
            yield pytest.param(page, id=page.id, marks=marks)


SHOWN = list(_shown())


@pytest.fixture(scope="module")
def bench() -> Baseline:
    """With the oracles' runs for all pages of the default tier, from one start of each library."""
    bench = Baseline(open_cache())
    pages = [param.values[0] for param in SHOWN if not param.marks]
    probes = {probe.name: probe for page in pages for probe in CATALOGUE.probes_for(page)}
    for name in LIBRARIES:
        run_on_library(name, [(p, loss) for p in probes.values() for loss in p.losses], bench.cache)
    return bench


@pytest.mark.parametrize("page", SHOWN)
def test_no_english_is_left_in_what_a_first_lesson_shows(page: Page, bench: Baseline) -> None:
    """But the names of things, code in backticks, and what an exception says."""
    report = run_lab(prepare(page, CATALOGUE, find_engine()), bench, causes=True)
    for run in report.runs:
        shown = (
            *(run.evidence, run.why, run.fingerprint, run.first_divergence),
            *run.alarms.values(),
            *run.wrong_reason.values(),
        )
        for sentence in filter(None, shown):
            text = re.sub(r"`[^`]*`|\w+Error.*", "", SPANISH(sentence))
            assert not ENGLISH_WORDS.search(text), sentence
            assert not re.search(r"\b(de|a) el\b", text), sentence


def test_a_file_of_phrases_that_is_not_toml_of_strings_is_named(tmp_path: Path) -> None:
    probes = tmp_path / "probes"
    probes.mkdir()
    (probes / "es.toml").write_text('"a" = "b"\n"c" = 3\n')
    with pytest.raises(PageError, match="not a TOML table of strings"):
        open_catalogue([tmp_path]).phrases("es")
