"""A translation keeps step with its page, or the check says in what it does not."""

from pathlib import Path

import pytest

from harness.check import Finding
from harness.check.translations import check_translation
from harness.core.errors import PageError
from harness.pages.catalogue import open_catalogue
from harness.pages.page import read_page
from harness.pages.translation import fingerprint, front_fingerprint, phrases, translated
from tests.harness.sound_page import SOUND, sound_with, write_page

HEADINGS = {
    "# Hand the cotangent of log on as it came": "# Pasar el cotangente tal como llegó",
    "## Hypothesis": "## Hipótesis",
    "## The break": "## El error",
    "## Probes": "## Sondas",
    "## What happens": "## Qué pasa",
    "## Diagnostic": "## Diagnóstico",
    "## Lesson": "## Lección",
    "## References": "## Referencias",
}


def spanish(of: str) -> str:
    text = SOUND[SOUND.index("# Hand") :]
    for heading, other in HEADINGS.items():
        text = text.replace(f"{heading}\n", f"{other}\n")
    return f'+++\nof = "{of}"\n+++\n{text}'


def found(folder: Path, old: str = "", new: str = "", original: str = SOUND) -> list[Finding]:
    """What is found in the Spanish page after a change in it, or in the original."""
    page = read_page(write_page(folder))
    text = spanish(fingerprint(page))
    assert old in text
    path = write_page(folder, text.replace(old, new, 1), "log-slope-one.es.md")
    return check_translation(path, read_page(write_page(folder, original)))


def test_nothing_is_wrong_with_a_translation_in_step(tmp_path: Path) -> None:
    assert found(tmp_path) == []


def test_translated_prose_and_headings_are_free(tmp_path: Path) -> None:
    assert found(tmp_path, "Ones are a bad test.", "Los unos son una mala prueba.") == []


@pytest.mark.parametrize(
    ("old", "new", "at", "words"),
    [
        (
            "## Lección\n\nOnes are a bad test.\n\n",
            "",
            "# Pasar",
            "6 sections, but the original has 7",
        ),
        ("## Lección", "### Lección", "# Pasar", "6 sections, but the original has 7"),
        ("# Pasar", "Pasar", "Pasar", "no title"),
        (
            "-$g / a",
            "-$g /  a",
            "-$g",
            "code block 1 has `-$g /  a`, but the original has `-$g / a`",
        ),
        (
            "```diff",
            "```diff engine=x",
            "```diff",
            "has `diff engine=x`, but the original has `diff`",
        ),
        (
            "a.log()\n\n\n",
            "a.log()\n\n",
            "def log_of_ones",
            "code block 2 has `def log_of_o",
        ),
        ("Every entry", "```\n1\n```\nEvery", "```\n1", "3 blocks of code, but the original has 2"),
        ("Every entry", "TODO Every", "TODO", "`TODO` is left"),
        ("Every entry", "[E](e.md)", "[E]", "the link `e.md` does not lead to a file"),
        ('of = "', 'of = "0', "+++", "the front matter is not that of a translation"),
        ("of = ", "level = 1\nof = ", "+++", "the front matter is not that of a translation"),
        ("+++\n", "", 'of = "', "no front matter"),
    ],
)
def test_what_is_out_of_step_is_said_with_its_line(
    tmp_path: Path, old: str, new: str, at: str, words: str
) -> None:
    findings = found(tmp_path, old, new)
    text = (tmp_path / "log-slope-one.es.md").read_text(encoding="utf-8")
    assert words in findings[0].problem
    assert findings[0].line == text[: text.index(at)].count("\n") + 1
    assert findings[0].path.endswith("log-slope-one.es.md")


def test_a_block_that_is_missing_is_found(tmp_path: Path) -> None:
    page = spanish("0" * 12)
    block = page[page.index("```python") : page.index("## Qué")]
    assert any(
        "1 blocks of code, but the original has 2" in finding.problem
        for finding in found(tmp_path, block, "")
    )


def test_a_block_in_another_section_is_found(tmp_path: Path) -> None:
    page = spanish("0" * 12)
    block = page[page.index("```python") : page.index("## Qué")]
    (finding,) = found(tmp_path, f"{block}## Qué pasa\n\n", f"## Qué pasa\n\n{block}")
    assert "code block 2 is in another section" in finding.problem


def test_a_changed_original_gives_the_line_to_write_after_review(tmp_path: Path) -> None:
    changed = sound_with("Every entry is 1.", "Every entry is one.")
    (finding,) = found(tmp_path, original=changed)
    assert "the original has changed since the translation was reviewed" in finding.problem
    line = f'of = "{fingerprint(read_page(write_page(tmp_path, changed)))}"'
    assert finding.remedy.endswith(f"write `{line}`")
    reviewed = write_page(tmp_path, spanish("x").replace('of = "x"', line), "log-slope-one.es.md")
    assert check_translation(reviewed, read_page(tmp_path / "log-slope-one.md")) == []


def test_the_front_matter_of_the_original_may_change(tmp_path: Path) -> None:
    assert found(tmp_path, original=sound_with('["std"]', '["std", "a/b"]')) == []


ASKED = sound_with(
    "[expect]",
    """why = "The rule forgets 1/a."
beware = "At 1 nothing is wrong."

[[ask]]
probe = "log-of-powers"
question = "What is a.grad[2]? It should be 0.25."
answer = "a.grad[2]"
choices = ["0.25", "1"]
because = "The rule passes on what it receives."

[[ask]]
probe = "log-of-ones"
question = "What is the outcome?"
answer = "outcome"

[expect]""",
)
"""The sound page with questions."""

PREGUNTAS = """why = "La regla olvida 1/a."
beware = "En 1 no hay nada mal."

[[ask]]
question = "¿Cuánto es a.grad[2]? Debería ser 0.25."
choices = ["un cuarto", "uno"]
because = "La regla pasa lo que recibe."

[[ask]]
question = "¿Cuál es el resultado?"
"""


def asked_in_spanish(folder: Path, old: str = "", new: str = "", key: str = "") -> Path:
    """The translation of `ASKED`, with a change in its front matter."""
    page = read_page(write_page(folder, ASKED))
    of_front = f'of_front = "{key or front_fingerprint(page)}"'
    assert old in PREGUNTAS
    front = f"{of_front}\n{PREGUNTAS.replace(old, new, 1)}+++\n# "
    text = spanish(fingerprint(page)).replace("+++\n# ", front, 1)
    return write_page(folder, text, "log-slope-one.es.md")


def found_in_questions(folder: Path, old: str = "", new: str = "", key: str = "") -> list[Finding]:
    path = asked_in_spanish(folder, old, new, key)
    return check_translation(path, read_page(folder / "log-slope-one.md"))


def test_the_questions_are_translated_all_or_not_at_all(tmp_path: Path) -> None:
    assert found_in_questions(tmp_path) == []
    page = read_page(tmp_path / "log-slope-one.md")
    without = write_page(tmp_path, spanish(fingerprint(page)), "log-slope-one.es.md")
    assert check_translation(without, page) == []


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            '\n[[ask]]\nquestion = "¿Cuál es el resultado?"\n',
            "",
            "1 questions, but the original has 2",
        ),
        ('choices = ["un cuarto", "uno"]', 'choices = ["uno"]', "question 1 has 1 choices, not 2"),
        ('because = "La regla pasa lo que recibe."\n', "", "`because` on only one side"),
        ('resultado?"\n', 'resultado?"\nbecause = "Sí."\n', "question 2 has `because` on only one"),
        ('why = "La regla olvida 1/a."\n', "", "`why` is translated on only one side"),
        ('beware = "En 1 no hay nada mal."\n', "", "`beware` is translated on only one side"),
        ("[[ask]]\n", '[[ask]]\nprobe = "x"\n', "the front matter is not that of a translation"),
    ],
)
def test_questions_out_of_step_are_found(tmp_path: Path, old: str, new: str, words: str) -> None:
    (finding,) = found_in_questions(tmp_path, old, new)
    assert words in finding.problem


def test_changed_questions_give_the_line_to_write_after_review(tmp_path: Path) -> None:
    (finding,) = found_in_questions(tmp_path, key="0" * 12)
    assert "the front matter of the original has changed" in finding.problem
    page = read_page(tmp_path / "log-slope-one.md")
    assert f'write `of_front = "{front_fingerprint(page)}"`' in finding.remedy
    other = read_page(write_page(tmp_path, ASKED.replace("forgets", "has lost")))
    assert front_fingerprint(other) != front_fingerprint(page)
    assert fingerprint(other) == fingerprint(page)


def test_the_texts_for_a_variant_are_translated_with_the_others(tmp_path: Path) -> None:
    advice = '[advice.accumulate-in-place]\nwhy = "It crashes."\nbeware = "Not with ones."\n'
    own = '[advice.accumulate-in-place]\nwhy = "Se para."\nbeware = "Con unos no."\n'
    write_page(tmp_path, ASKED)
    path = asked_in_spanish(tmp_path)
    page = read_page(write_page(tmp_path, ASKED.replace("+++\n# ", f"{advice}+++\n# ", 1)))
    before = front_fingerprint(read_page(write_page(tmp_path, ASKED)))
    assert front_fingerprint(page) != before
    problems = [finding.problem for finding in check_translation(path, page)]
    assert "`advice.accumulate-in-place` is translated on only one side" in problems
    assert translated(page, path).advice_on("accumulate-in-place")[1].why == "It crashes."
    text = path.read_text(encoding="utf-8").replace(before, front_fingerprint(page))
    path.write_text(text.replace("+++\n# ", f"{own}+++\n# ", 1), encoding="utf-8")
    assert check_translation(path, page) == []
    assert translated(page, path).advice_on("accumulate-in-place")[1].why == "Se para."
    assert phrases(page, translated(page, path))["Not with ones."] == "Con unos no."


def test_a_page_without_questions_has_none_to_translate(tmp_path: Path) -> None:
    path = asked_in_spanish(tmp_path)
    page = read_page(write_page(tmp_path))
    problems = [finding.problem for finding in check_translation(path, page)]
    assert "2 questions, but the original has 0" in problems
    assert "`why` is translated on only one side" in problems


def test_a_translated_page_has_its_questions_and_keeps_its_answers(tmp_path: Path) -> None:
    path = asked_in_spanish(tmp_path)
    page = read_page(tmp_path / "log-slope-one.md")
    shown = translated(page, path)
    first, second = shown.front.ask  # type: ignore[union-attr]
    assert (first.question, first.answer) == (
        "¿Cuánto es a.grad[2]? Debería ser 0.25.",
        "a.grad[2]",
    )
    assert first.choices == ("un cuarto", "uno")
    assert second.because == ""
    said = phrases(page, shown)
    assert said["The rule forgets 1/a."] == "La regla olvida 1/a."
    assert said["1"] == "uno"
    assert "" not in said


def test_a_file_named_for_no_language_is_found(tmp_path: Path) -> None:
    page = read_page(write_page(tmp_path))
    path = write_page(tmp_path, spanish(fingerprint(page)), "log-slope-one.Spanish.md")
    (finding,) = check_translation(path, page)
    assert finding.problem == "`Spanish` is not a language code"


def test_a_link_to_the_original_of_a_translated_page_is_a_warning(tmp_path: Path) -> None:
    for name in ("other.md", "other.es.md", "english.md"):
        write_page(tmp_path, "# Title\n", name)
    for target in ("other.es.md", "english.md", "https://example.org/other.md"):
        assert found(tmp_path, "Ones are", f"[a]({target}) Ones are") == []
    (missing,) = found(tmp_path, "Ones are", f"[a]({'a' * 300}.md) Ones are")
    assert "does not lead to a file" in missing.problem
    (warning,) = found(tmp_path, "Ones are", "[a](other.md#title) Ones are")
    assert warning.exit_status == 0
    assert warning.remedy == "link to `other.es.md#title`"


def test_no_bundled_translation_links_to_the_original_of_another() -> None:
    catalogue = open_catalogue()
    for page in catalogue.valid_pages():
        for path in catalogue.translations(page.id).values():
            assert check_translation(path, page) == []


def test_the_catalogue_knows_translations_by_language(tmp_path: Path) -> None:
    write_page(tmp_path)
    spanish_page = write_page(tmp_path, spanish("0" * 12), "log-slope-one.es.md")
    write_page(tmp_path, "no page", "README.es.md")
    catalogue = open_catalogue([tmp_path])
    assert catalogue.translations("log-slope-one") == {"es": spanish_page}
    assert catalogue.translations("skip-unbroadcast").keys().isdisjoint({"xx"})
    assert "README" not in catalogue.translated


def test_two_translations_into_one_language_are_refused(tmp_path: Path) -> None:
    write_page(tmp_path, spanish("0" * 12), "log-slope-one.es.md")
    write_page(tmp_path, spanish("0" * 12), "deeper/log-slope-one.es.md")
    with pytest.raises(PageError, match="`log-slope-one` is also translated in"):
        _ = open_catalogue([tmp_path]).translated
