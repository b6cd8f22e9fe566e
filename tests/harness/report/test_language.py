"""The interface in another language: every phrase fits, and what is shown has no English left."""

import re
import string
from pathlib import Path

import pytest

from harness.cli.prediction import CHOICES, read_prediction
from harness.core.errors import PageError, UsageError
from harness.engines.engine import find_engine
from harness.experiment.baseline import Bench
from harness.experiment.lab import prepare, run_lab
from harness.pages.catalogue import open_catalogue
from harness.pages.page import Page
from harness.report.language import ENGLISH, VARIABLES, Language, languages, open_language
from harness.runs.store import open_store

CATALOGUE = open_catalogue()
SPANISH = open_language("es")
FIRST_LESSONS = [page for page in CATALOGUE.pages()[0] if page.front.level == 1]
ENGLISH_WORDS = re.compile(
    r"\b(the|is|was|were|of|with|correct|right|wrong|step|handed|ended|but|which|that|not|leaf|and)\b"
)


def places(phrase: str) -> int:
    return sum(name is not None for _, name, _, _ in string.Formatter().parse(phrase))


@pytest.mark.parametrize("code", languages())
def test_every_phrase_has_the_same_places_in_both_languages(code: str) -> None:
    phrases = open_language(code).phrases
    assert phrases
    for phrase, said in phrases.items():
        numbers = {name for _, name, _, _ in string.Formatter().parse(said) if name is not None}
        assert numbers == {str(number) for number in range(places(phrase))}, phrase


def test_a_sentence_is_translated_with_its_parts() -> None:
    said = "after step 3, the output[0, 1] is 2, correct is 1 (2 of 9 entries are wrong)"
    assert SPANISH(said) == (
        "tras el paso 3, la salida[0, 1] es 2, lo correcto es 1 (2 de 9 elementos están mal)"
    )
    assert SPANISH("2 times the correct one; 2 is the length of axis 0 of a") == (
        "2 veces el correcto; 2 es la longitud del eje 0 de a"
    )


def test_what_is_not_known_stays_as_it_is() -> None:
    assert SPANISH("x.grad") == "x.grad"
    assert ENGLISH("In short") == "In short"
    assert ENGLISH("{} of {} right", 1, 2) == "1 of 2 right"


def test_the_phrase_with_most_letters_of_its_own_wins() -> None:
    language = Language("xx", {"{} is {}": "{0} = {1}", "the log of {} is {}": "log {0} = {1}"})
    assert language("the log of 2 is 3") == "log 2 = 3"


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
    with pytest.raises(UsageError, match=r"no language `xx`\n.*en or one of es"):
        open_language("xx")


def test_predictions_are_read_in_both_languages() -> None:
    assert read_prediction("f", SPANISH) == "crash"
    assert read_prediction("corrup", SPANISH) == "silent-corruption"
    assert read_prediction("s", SPANISH) == "silent-corruption"
    assert [read_prediction(choice, SPANISH) for choice in CHOICES] == list(CHOICES)
    with pytest.raises(ValueError, match="no es un desenlace"):
        read_prediction("zzz", SPANISH)


def test_every_page_of_level_1_is_translated() -> None:
    assert len(FIRST_LESSONS) > 80
    assert [page.id for page in FIRST_LESSONS if "es" not in CATALOGUE.translations(page.id)] == []


@pytest.mark.parametrize(
    "page",
    [page for page in FIRST_LESSONS if page.front.kind == "break" and page.probes],
    ids=lambda page: page.id,
)
def test_no_english_is_left_in_what_a_first_lesson_shows(page: Page) -> None:
    """But the names of things, code in backticks, and what an exception says."""
    report = run_lab(prepare(page, CATALOGUE, find_engine()), Bench(open_store(), explain=True))
    for run in report.runs:
        for sentence in (run.evidence, run.why, run.fingerprint, run.first_divergence):
            said = re.sub(r"`[^`]*`|\w+Error.*", "", SPANISH(sentence or ""))
            assert not ENGLISH_WORDS.search(said), sentence


def test_a_file_of_phrases_that_is_no_toml_of_strings_is_named(tmp_path: Path) -> None:
    probes = tmp_path / "probes"
    probes.mkdir()
    (probes / "es.toml").write_text('"a" = "b"\n"c" = 3\n')
    with pytest.raises(PageError, match="not a TOML table of strings"):
        open_catalogue([tmp_path]).phrases("es")
