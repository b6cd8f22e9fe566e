"""The glossary: every word of the vocabulary has an entry, which fits on a screen."""

import json
import re
from typing import get_args

import pytest

from harness.core.errors import UsageError
from harness.core.message import verbatim
from harness.core.report import InPlaceRun, PredictionReport
from harness.core.vocabulary import OUTCOMES, Loss, PageKind, Stage
from harness.diagnostics import DIAGNOSTICS
from harness.report.glossary import GROUPS, find_entry, read_glossary, show_entry
from harness.report.language import ENGLISH as ENGLISH_LANGUAGE
from harness.report.language import Language, open_language
from harness.report.one_screen import show_report
from harness.report.terminal import Screen
from tests.harness.command import harness
from tests.harness.report.templates import ROOT, templates_in
from tests.harness.reports import report_with, run_of

ENGLISH = read_glossary()
SPANISH = read_glossary(open_language("es"))


@pytest.mark.parametrize(
    "words",
    [
        OUTCOMES,
        get_args(Stage),
        [diagnostic.name for diagnostic in DIAGNOSTICS],
        get_args(Loss),
        get_args(PageKind),
    ],
)
def test_every_word_of_the_vocabulary_has_an_entry(words: list[str]) -> None:
    assert set(words) - ENGLISH.keys() == set()


def test_only_known_words_have_an_entry_as_an_outcome_or_a_stage() -> None:
    groups = {group: {e.term for e in ENGLISH.values() if e.group == group} for group in GROUPS}
    assert groups["outcomes"] == set(OUTCOMES)
    assert groups["stages"] == set(get_args(Stage)) - {"not-reached"}


@pytest.mark.parametrize("entries", [ENGLISH, SPANISH], ids=["en", "es"])
def test_an_entry_fits_on_a_screen(entries: dict[str, object]) -> None:
    for term, entry in entries.items():
        console = Screen(record=True, width=80, force_terminal=False)
        show_entry(console, entry)  # type: ignore[arg-type]
        assert console.export_text().count("\n") <= 20, term


def test_every_entry_is_translated() -> None:
    assert [term for term in ENGLISH if SPANISH[term].text == ENGLISH[term].text] == []


def test_no_two_terms_have_one_spanish_name() -> None:
    say = open_language("es")
    terms = [entry.term for entry in ENGLISH.values() if entry.group != "diagnostics"]
    assert len({say(term) for term in terms}) == len(terms)


def test_every_translation_belongs_to_an_entry() -> None:
    from harness.report import glossary

    english, spanish = glossary._read("en"), glossary._read("es")
    for group, texts in spanish.items():
        assert texts.keys() <= english[group].keys()


@pytest.mark.parametrize(
    "word", ["upstream gradient", "Upstream-Gradient", "upstream_gradient", " upstream  gradient "]
)
def test_a_word_may_be_written_in_several_ways(word: str) -> None:
    assert find_entry(word).term == "upstream gradient"


def test_a_word_is_found_in_spanish_too() -> None:
    assert find_entry("fallo con error", open_language("es")).term == "crash"
    assert find_entry("crash", open_language("es")).text.startswith("La ejecución")


@pytest.mark.parametrize("say", [ENGLISH_LANGUAGE, open_language("es")], ids=["en", "es"])
def test_every_word_of_a_report_is_explained(say: Language) -> None:
    """Labels, headings and outcomes, as the report prints them in this language."""
    in_place = [InPlaceRun("p", None, "crash", verbatim("no"))]
    outcomes = "silent-corruption", "disguised-correct", "crash", "convention"
    runs = [run_of("p", None, outcome, caught_by=["shape"]) for outcome in outcomes]
    runs.append(run_of("p", None, "silent-corruption", missed_by=["dtype"]))
    prediction = PredictionReport("a", "p", None, "crash", "crash", right=True)
    console = Screen(record=True, width=80, force_terminal=False)
    console.say = say
    advice = {"why": "w", "beware": "b", "invariant": "assert a"}
    report = report_with(runs, in_place=in_place, **advice)
    show_report(console, report, [], predictions=[prediction], following="harness break b")
    lines = console.export_text().splitlines()
    labels = [line.split("  ")[0] for line in lines if line[:1].isupper()]
    (table,) = [line for line in lines if "minigrad  " in line]
    words = re.split(r"\s{2,}", table.strip())
    words += [w for line in lines for w in re.findall(r"[≠=✗~] (\S+(?: \S+)*)  ", line)]
    assert len(set(labels)) >= 8
    assert len(set(words)) >= 7
    for word in {*labels, *words}:
        assert find_entry(word, say).text


@pytest.mark.parametrize(
    ("word", "code", "starts"),
    [
        ("silent", "en", "Said only of corruption"),
        ("hidden", "en", "The changed code ran"),
        ("hidden", "es", "El código cambiado"),
        ("SILENCIO", "es", "La ejecución termina"),
        ("silent", "es", "Se dice solo de la corrupción"),
        ("error", "es", "La ejecución termina con una excepción"),
        ("grad +=", "en", "A column of the report"),
    ],
)
def test_the_words_of_the_table_are_found(word: str, code: str, starts: str) -> None:
    assert find_entry(word, open_language(code)).text.startswith(starts)


PLAIN = {
    *("Lesson", "Summary", "The lab", "Your predictions", "by nothing", "caught by", "first seen"),
    *("in place", "looks like", "missed by", "not a catch", "not finite", "not stated", "outside"),
    *("out of place", "refused", "right", "the error itself", "the module", "wrong", "an error"),
    *("wrong dtype", "wrong shape", "wrong state", "wrong values"),
}
"""The labels of reports that need no explanation."""


def test_every_label_of_a_report_is_explained_or_plain_english() -> None:
    report, cli = ROOT / "report", ROOT / "cli"
    files = [report / f"{name}.py" for name in ("view", "one_screen", "full", "terminal")]
    files += [cli / "prediction.py", cli / "break_.py"]
    shown = {text for file in files for _, text in templates_in(file, "say", "message") if text}
    labels = {text for text in shown if "{" not in text and len(text.split()) <= 3}
    assert len(labels) > 30
    for label in labels - PLAIN:
        assert find_entry(label).text


@pytest.mark.parametrize(
    "word",
    ["walk", "op", "rule", "node", "graph", "operand", "judged", "both losses", "upstream"],
)
def test_the_words_of_the_first_pages_are_explained(word: str) -> None:
    assert find_entry(word).group in ("terms", "report")
    assert find_entry(word, open_language("es")).text != find_entry(word).text


def test_an_unknown_word_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="`cotangent`"):
        find_entry("cotangnet")


def test_the_command_explains_lists_and_refuses() -> None:
    shown = harness("explain", "upstream", "gradient").stdout
    assert shown.startswith("upstream gradient\n  The gradient that arrives")
    listed = harness("explain").stdout
    assert all(group in listed for group in GROUPS)
    assert all(ENGLISH_LANGUAGE(term) in " ".join(listed.split()) for term in ENGLISH)
    done = harness("explain", "cotangnet")
    assert (done.returncode, done.stdout) == (2, "")
    assert "did you mean `cotangent`" in done.stderr


def test_json_has_the_entry() -> None:
    entry = json.loads(harness("explain", "gradcheck", "--json").stdout)["entry"]
    assert (entry["term"], entry["group"]) == ("gradcheck", "diagnostics")
    assert len(json.loads(harness("explain", "--json").stdout)["entries"]) == len(ENGLISH)


def test_the_command_speaks_spanish() -> None:
    shown = harness("explain", "crash", "--lang", "es").stdout
    assert shown.startswith("fallo con error  (crash)\n  La ejecución termina")
    assert harness("explain", "gradcheck", LANG="es_ES.UTF-8").stdout.startswith(
        "gradcheck\n  Un diagnóstico. Ve un gradiente que no es la derivada"
    )
    assert harness("explain", "shape", "--lang", "es").stdout.startswith("shape\n")
    listed = harness("explain", "--lang", "es").stdout
    assert "punto anguloso, página" not in listed  # accents do not change the order
    assert "gradiente que llega" in listed
