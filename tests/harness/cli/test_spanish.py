"""The commands in Spanish: what they print, their help and their errors; JSON stays English."""

import inspect
import json
import re
from pathlib import Path

import pytest

from harness.cli.app import COMMANDS, open_app
from harness.cli.prediction import is_right
from harness.cli.session import CommandSession
from harness.core.report import QuestionReport
from harness.pages.front_matter import Break
from harness.pages.translation import phrases
from tests.harness.bundled import CATALOGUE
from tests.harness.command import harness
from tests.harness.sound_page import SOUND, write_page

SPAIN = {"LANG": "es_ES.UTF-8"}
ENGLISH = re.compile(r"\b(the|is|of|with|and|that|which|by|this|page|not)\b", re.IGNORECASE)


def english_in(text: str) -> list[str]:
    """The lines with an English word, other than names of things and code."""
    plain = re.sub(r"`[^`]*`|--?[\w-]+|\S+\.py\S*", "", text)
    return [line for line in plain.splitlines() if ENGLISH.search(line)]


def squeezed(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_is_in_spanish(command: str) -> None:
    shown = harness(*command.split(), "--help", **SPAIN)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.startswith("Uso: ")
    assert "Opciones:" in shown.stdout
    commands = re.compile(rf"^  ({'|'.join(COMMANDS)})  ", re.MULTILINE)
    assert english_in(commands.sub("", shown.stdout)) == []


def test_every_command_takes_a_language() -> None:
    for command in open_app().registered_commands:
        assert command.callback is not None
        assert "lang" in inspect.signature(command.callback).parameters, command.name


@pytest.mark.parametrize("command", ["check", "new my-page", "diff sub-sign"])
def test_an_author_reads_errors_in_the_chosen_language(command: str) -> None:
    done = harness(*command.split(), "--lang", "es", "--nothing")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no tiene ninguna opción" in done.stderr
    done = harness(*command.split(), "--lang", "xx")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no language `xx`" in done.stderr


def test_help_takes_the_language_from_the_option_too() -> None:
    assert harness("break", "--lang", "es", "--help").stdout.startswith("Uso: ")
    assert harness("break", "--lang=es", "--help").stdout.startswith("Uso: ")
    assert harness("break", "--lang", "en", "--help", **SPAIN).stdout.startswith("Usage: ")
    assert harness("break", "--help").stdout.startswith("Usage: ")


def test_the_list_has_spanish_titles_and_headings() -> None:
    shown = harness("list", "--lang", "es").stdout
    assert shown.startswith("rotura, accumulation\n")
    assert re.search(r"\d+ roturas, \d+ variantes, \d+ mitos, \d+ ejercicios, ", squeezed(shown))
    assert "gradiente en vez de sumarlo" in squeezed(shown)


def test_the_list_of_probes_has_spanish_lines() -> None:
    assert "Un eje creado: (3,) + (4, 3)." in squeezed(harness("list", "--probes", **SPAIN).stdout)


def test_the_track_has_spanish_ideas() -> None:
    ideas = CATALOGUE.phrases("es")
    shown = squeezed(harness("list", "--track", **SPAIN).stdout)
    for idea in CATALOGUE.track.values():
        assert ideas[idea] in shown
    assert shown.endswith("Para empezar o seguir: harness start")


def test_a_myth_is_in_spanish() -> None:
    shown = harness("myth", "gradcheck-passed-engine-right", **SPAIN)
    assert shown.returncode == 0
    assert "gradcheck-passed-engine-right, un mito" in shown.stdout
    program = shown.stdout.index("El programa")
    printed = shown.stdout.index("Lo que ha impreso, como dice la página")
    headings = ["La afirmación", "Qué ocurre", "Cuándo sería cierto", "Lección"]
    assert all(f"\n{heading}\n" in shown.stdout for heading in headings), shown.stdout
    after = shown.stdout.index("\n", shown.stdout.index("Qué ocurre"))
    assert english_in(shown.stdout[:program]) == []
    assert english_in(shown.stdout[after:]) == []
    assert program < printed < after


@pytest.mark.usefixtures("without_oracles")
def test_an_exercise_is_in_spanish(tmp_path: Path) -> None:
    shown = harness("exercise", "squares-only", "--hints", **SPAIN).stdout
    assert "squares-only, un ejercicio" in shown
    assert "Con mul-swapped-operands: la batería pasa" in shown
    assert "sus entradas lo ocultan: todos los números son correctos" in squeezed(shown)
    assert english_in(shown[shown.index("En el motor sin rotura") :]) == []
    probe = tmp_path / "mine.py"
    probe.write_text('def mine(x=(3,)):\n    """Un cuadrado."""\n    return x * x\n', "utf-8")
    judged = harness("exercise", "squares-only", str(probe), **SPAIN)
    assert judged.returncode == 1
    assert "mul-swapped-operands sobrevive: sin infección: " in judged.stdout


@pytest.mark.usefixtures("without_oracles")
def test_why_and_beware_of_a_break_are_in_spanish() -> None:
    shown = squeezed(harness("break", "skip-unbroadcast", **SPAIN).stdout)
    front = CommandSession(lang="es").translated(CATALOGUE.page("skip-unbroadcast")).front
    assert isinstance(front, Break)
    assert front.why.startswith("El broadcasting copia")
    assert f"Por qué {front.why} " in shown
    assert f"Cuidado {front.beware} " in shown


def test_the_questions_of_a_break_are_asked_in_spanish() -> None:
    page, session = CATALOGUE.page("recursive-topological-order"), CommandSession(lang="es")
    front = page.front
    assert isinstance(front, Break)
    session.translated(page)
    question = front.ask[0]
    assert session.console.say(question.question).endswith("¿Qué ocurre?")
    assert session.console.say(question.choices[-1]) == "ningún error"
    report = QuestionReport(
        question.probe, None, question.question, "no error", "", list(question.choices)
    )
    assert is_right("ningún error", report, session.console.say)
    assert is_right("4", report, session.console.say)
    assert front.ask[1].choices[0] == "crash"
    assert session.console.say("crash") == "fallo con error"


def test_the_questions_of_every_translated_break_are_translated() -> None:
    session = CommandSession(lang="es")
    for page_id in CATALOGUE.translated:
        page = CATALOGUE.page(page_id)
        if isinstance(page.front, Break):
            said = phrases(page, session.translated(page))
            front = page.front
            texts = {front.why, front.beware, *(ask.question for ask in front.ask)}
            assert (texts | {ask.because for ask in front.ask}) - {""} <= said.keys(), page_id


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "show skip-unbroadcst",
            "harness: no hay página `skip-unbroadcst`\n"
            "  solución: ¿querías decir `skip-unbroadcast` o ",
        ),
        (
            "exercise mul-swapped-operands",
            "es una rotura, no un ejercicio\n  solución: `harness list`",
        ),
        ("break skip-unbroadcast --probe nope", "no hay sonda `nope`\n  solución: "),
        (
            "list --breaks nowhere",
            "no existe la carpeta nowhere\n  solución: indica una carpeta de páginas",
        ),
        ("list --engine nope:Class", "no hay motor `nope:Class`: el módulo `nope` no está en "),
        (
            "explain cotangnet",
            "no hay entrada para `cotangnet`\n  solución: ¿querías decir `cotang",
        ),
        (
            "grade a b",
            "recibe demasiados argumentos\n  solución: escribe `harness grade [BATERÍA]`",
        ),
        ("cohort", "necesita `CARPETA`\n  solución: escribe `harness cohort CARPETA --out "),
        ("grade a --limit=x", "`--limit` no puede ser `x`\n  solución: indica un número entero"),
        ("grade a --format", "necesita un valor\n  solución: escribe `--format FORMATO"),
        ("brek a", "no existe la orden `brek`\n  solución: ¿querías decir `break`? "),
    ],
)
def test_errors_are_in_spanish(arguments: str, message: str) -> None:
    done = harness(*arguments.split(), **SPAIN)
    assert done.returncode in (2, 3)
    assert message in done.stderr
    assert english_in(done.stderr) == []


def test_a_mistake_in_a_page_is_explained_in_spanish(tmp_path: Path) -> None:
    (tmp_path / "mine.md").write_text('+++\nid = "mine"\nkind = "break"\n+++\n# Mine\n', "utf-8")
    done = harness("list", "--breaks", str(tmp_path), **SPAIN)
    assert done.returncode == 2
    assert "mine.md:1: la clave `family` falta\n  solución: añádela: palabras" in done.stderr


def test_a_patch_without_a_site_is_explained_in_spanish(tmp_path: Path) -> None:
    page = write_page(tmp_path, SOUND.replace("-$g / a", "-$g / nobody"))
    done = harness("diff", page.stem, "--breaks", str(tmp_path), **SPAIN)
    assert done.returncode == 1
    assert (
        ": este fragmento no encaja con nada de este motor\n  ámbito: log: está en " in done.stderr
    )
    assert "\n  se buscó:\n    $g / nobody\n" in done.stderr
    assert "\n  solución: cambia el ámbito o las líneas - y de contexto" in done.stderr


def test_what_an_exception_says_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "probe.py").write_text("def mine(x=(3,)):\n  return (\n", encoding="utf-8")
    done = harness("exercise", "squares-only", str(tmp_path / "probe.py"), **SPAIN)
    assert "no es Python (" in done.stderr
    assert "'(' was never closed" in done.stderr


def test_errors_with_json_are_in_english() -> None:
    assert "no page `nope`" in harness("show", "nope", "--json", **SPAIN).stderr


@pytest.mark.parametrize(
    "command",
    ["list", "list --track", "myth gradcheck-passed-engine-right", "exercise squares-only"],
)
def test_json_is_the_same_in_every_language(command: str) -> None:
    here, there = (
        json.loads(re.sub(r'"seconds": *[\d.]+', '"seconds": 0', done.stdout))
        for done in (
            harness(*command.split(), "--json"),
            harness(*command.split(), "--json", **SPAIN),
        )
    )
    assert here == there
