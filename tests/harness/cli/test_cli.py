"""The command line: what it prints, how it ends, and what it says of bad input."""

import json
import os
import shutil
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

import breaks
from harness.matrix import plan
from harness.pages.catalogue import open_catalogue
from tests.harness.bundled import CATALOGUE, bundled_pages
from tests.harness.command import harness, harness_process, light_program
from tests.harness.sound_exercise import SOUND_EXERCISE
from tests.harness.sound_myth import SOUND_MYTH
from tests.harness.sound_page import SOUND, VARIANT, sound_with, write_page

PAGES = Path(breaks.__file__).parent


@pytest.fixture
def my_breaks(tmp_path: Path) -> Path:
    """A folder with a copy of one bundled page under another id, for tests to edit."""
    text = (PAGES / "broadcasting" / "skip-unbroadcast.md").read_text(encoding="utf-8")
    (tmp_path / "mine.md").write_text(text.replace('"skip-unbroadcast"', '"mine"'), "utf-8")
    return tmp_path


def edit_page(folder: Path, old: str, new: str) -> str:
    page = folder / "mine.md"
    text = page.read_text(encoding="utf-8")
    assert old in text
    page.write_text(text.replace(old, new), encoding="utf-8")
    return str(folder)


@pytest.mark.parametrize("variant", [None, "accumulate-in-place"])
def test_break_agrees_with_its_page_on_both_accumulators(variant: str | None) -> None:
    on = ["--on", variant] if variant else []
    done = harness("break", "skip-unbroadcast", "--json", *on)
    report = json.loads(done.stdout)
    assert (done.returncode, done.stderr, report["agrees"]) == (0, "", True)
    assert report["engine"] == {"name": "minigrad", "variant": variant}


def test_the_json_has_the_keys_of_schema_1() -> None:
    report = json.loads(harness("break", "skip-unbroadcast", "--json").stdout)
    assert report["schema"] == 1
    assert report.keys() >= {
        *("break", "kind", "engine", "sites", "diff", "headline", "agrees", "seconds", "runs")
    }
    assert all(
        run.keys()
        >= {
            *("probe", "loss", "outcome", "kind", "evidence", "fingerprint", "first_divergence"),
            *("expected", "agrees", "caught_by", "missed_by", "skipped", "declined"),
        }
        for run in report["runs"]
    )


def test_all_three_outcomes_are_among_the_runs_of_the_first_break() -> None:
    report = json.loads(harness("break", "skip-unbroadcast", "--json").stdout)
    outcomes = {run["outcome"] for run in report["runs"]}
    assert outcomes == {"crash", "silent-corruption", "disguised-correct"}
    assert report["headline"] == "silent-corruption"


def test_one_probe_can_be_run_alone() -> None:
    done = harness("break", "skip-unbroadcast", "--probe", "add-new-axis", "--json")
    assert {run["probe"] for run in json.loads(done.stdout)["runs"]} == {"add-new-axis"}


def test_a_pipe_gets_no_colour_and_no_question_and_80_columns() -> None:
    done = harness("break", "skip-unbroadcast")
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert "predict?" not in done.stdout
    prose = [line for line in done.stdout.splitlines() if not line.startswith(("+", "-", " "))]
    assert max(map(len, prose)) <= 80


@pytest.mark.parametrize("command", ["explain cotangent", "progress", "show sub-sign", "list"])
def test_no_line_in_a_pipe_ends_with_spaces(command: str) -> None:
    done = harness(*command.split())
    assert done.returncode == 0
    assert [line for line in done.stdout.splitlines() if line.endswith(" ")] == []


def test_list_names_every_page() -> None:
    done = harness("list")
    assert done.returncode == 0
    assert "skip-unbroadcast" in done.stdout
    assert "accumulate-in-place" in done.stdout
    listed = json.loads(harness("list", "--json").stdout)["pages"]
    assert {page["id"] for page in listed} == {
        path.stem
        for path in PAGES.rglob("*.md")
        if path.name != "README.md" and "." not in path.stem
    }


def test_list_ends_with_how_many_there_are_of_each_kind_and_family() -> None:
    families = Counter(path.parent.name for path in PAGES.glob("*/*.md") if "." not in path.stem)
    last = " ".join(harness("list").stdout.split("\n\n")[-1].split())
    assert f"{families['variants']} variants" in last
    assert f"broadcasting {families['broadcasting']}" in last


@pytest.mark.usefixtures("without_oracles")
def test_the_track_is_listed_in_its_order() -> None:
    listed = json.loads(harness("list", "--track", "--json").stdout)["track"]
    assert listed[0]["level"] == 1
    shown = harness("list", "--track").stdout
    assert [shown.index(page["id"]) for page in listed] == sorted(
        shown.index(page["id"]) for page in listed
    )
    done = harness("break", listed[0]["id"], "--no-predict")
    assert "Next    harness start  (page 0: the engine, before it is broken)" in done.stdout


def test_show_and_break_are_in_spanish_by_option_or_locale() -> None:
    asked = harness("show", "skip-unbroadcast", "--lang", "es")
    assert "Hipótesis" in asked.stdout
    done = harness("break", "skip-unbroadcast", "--no-predict", LANG="es_ES.UTF-8")
    assert "≠ SILENCIO" in done.stdout
    full = harness("break", "skip-unbroadcast", "--full", LANG="es_ES.UTF-8")
    assert "Como dice la página." in full.stdout
    assert "corrupción silenciosa" in full.stdout
    other = harness("show", "skip-unbroadcast", "--lang", "xx")
    assert (other.returncode, other.stdout) == (2, "")
    assert "--lang is one of en, es" in other.stderr


def test_json_is_english_unless_another_language_is_asked_for() -> None:
    page = json.loads(harness("show", "skip-unbroadcast", "--json", LANG="es_ES.UTF-8").stdout)
    assert "## Hypothesis" in page["markdown"]
    page = json.loads(harness("show", "skip-unbroadcast", "--json", "--lang", "es").stdout)
    assert "## Hipótesis" in page["markdown"]


def test_a_page_that_is_not_translated_is_shown_in_english_and_says_so() -> None:
    done = harness("show", "no-interior-reset", "--lang", "es")
    assert "no está traducida" in done.stdout
    assert "Hypothesis" in done.stdout


def test_show_renders_the_page_and_diff_shows_the_engines_own_code() -> None:
    assert "Hypothesis" in harness("show", "skip-unbroadcast").stdout
    done = harness("diff", "skip-unbroadcast")
    assert "a/minigrad/" in done.stdout
    assert "-" in done.stdout


@pytest.mark.usefixtures("few_pages", "without_oracles")
def test_check_passes_for_a_page_of_every_kind(tmp_path: Path) -> None:
    on_two = '[expect.accumulate-in-place]\nlog-of-powers = "silent-corruption"\n\n[diagnostics]'
    variant = VARIANT.replace("log-slope-one", "log-by-product").replace("+$g\n", "+$g * (1 / a)\n")
    variant = variant.replace('"silent-corruption"', '"disguised-correct"')
    texts = {
        "log-slope-one": sound_with("[diagnostics]", on_two),
        "log-by-product": variant.replace('caught_by = ["gradcheck"]\n', ""),
        "np-sum-flattens": SOUND_MYTH,
        "equal-factors": SOUND_EXERCISE,
    }
    for name, text in texts.items():
        write_page(tmp_path, text, f"{name}.md")
    operator = "sign-flipped"
    # The exercise is about the first two.
    for name in ("mul-swapped-operands", "mul-ignore-upstream", operator):
        shutil.copy(CATALOGUE.path(name), tmp_path)
    catalogue = open_catalogue([tmp_path])
    kinds = {catalogue.page(page).front.kind for page in (*texts, operator, "no-op")}
    assert kinds == {page.front.kind for page in bundled_pages()}
    done = harness("check", *texts, operator, "no-op", "no-op", "--breaks", str(tmp_path))
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "passed log-slope-one  on minigrad, accumulate-in-place" in done.stdout
    assert all(done.stdout.count(f"passed {page} ") == 1 for page in (*texts, operator, "no-op"))


@pytest.mark.usefixtures("without_oracles")
def test_a_page_that_is_wrong_about_an_outcome_ends_with_1(my_breaks: Path) -> None:
    folder = edit_page(
        my_breaks,
        'add-same-shape             = "disguised-correct"',
        'add-same-shape             = "crash"',
    )
    done = harness("break", "mine", "--breaks", folder)
    assert done.returncode == 1
    assert "the page says crash" in done.stdout
    assert "Some results are not as the page says." in done.stdout
    assert harness("check", "mine", "--breaks", folder).returncode == 1


@pytest.mark.usefixtures("without_oracles")
def test_a_page_that_is_wrong_about_a_diagnostic_ends_with_1(my_breaks: Path) -> None:
    folder = edit_page(my_breaks, 'missed_by = ["loss-falls"]', 'missed_by = ["shape"]')
    done = harness("break", "mine", "--breaks", folder)
    assert done.returncode == 1
    assert "the page says missed by shape: add-new-axis" in done.stdout


def test_a_break_that_does_not_apply_says_what_comes_nearest_and_ends_with_1(
    my_breaks: Path,
) -> None:
    folder = edit_page(my_breaks, "unbroadcast($grad, $shape)", "unbroadcats($grad, $shape)")
    done = harness("break", "mine", "--breaks", folder)
    assert done.returncode == 1
    assert "the most similar code" in done.stderr
    assert ": unbroadcast(g, a.shape)" in done.stderr
    report = json.loads(harness("break", "mine", "--breaks", folder, "--json").stdout)
    assert (report["headline"], report["runs"]) == ("does-not-apply", [])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["break", "skip-unbroadcst"], "did you mean `skip-unbroadcast`"),
        (["show", "nothing-like-it"], "`harness list` shows them all"),
        (["break", "skip-unbroadcast", "--on", "acumulate-in-place"], "did you mean `accumulate"),
        (["break", "skip-unbroadcast", "--on", "skip-unbroadcast"], "not a variant"),
        (["break", "skip-unbroadcast", "--on", ""], "no name is given for the variant"),
        (["break", "skip-unbroadcast", "--engine", ""], "`` does not name an engine"),
        (["matrix", "skip-unbroadcast", "--on", ""], "no name is given for the variant"),
        (["list", "--engine", ""], "`` does not name an engine"),
        (["doctor", ""], "`` does not name an engine"),
        (["explain", ""], "no word is given"),
        (["break", "skip-unbroadcast", "--probe", "add-new-axes"], "did you mean `add-new-axis`"),
        (["list", "--breaks", "/no/such/folder"], "no folder /no/such/folder"),
        (["check", "--only", "/no/such/folder"], "remedy: name a folder of pages"),
        (["break", "labels-noisy", "--probe", "add-new-axis"], "remedy: leave --probe out"),
        (["list", "--probes", "add"], "--probes and WORD cannot be combined"),
        (["list", "--track", "--level", "1"], "--track and --level cannot be combined"),
        (["matrix", "--json", "--markdown", "-"], "--json and --markdown - cannot be combined"),
        (["doctor", "no:T", "--settings", "--json"], "--settings and --json cannot be combined"),
        (["doctor", "no:T", "--settings", "--html", "a"], "--settings and --html cannot be"),
        (["brake", "skip-unbroadcast"], "remedy: did you mean `break`"),
        (["break"], "`harness break` needs `ID`\n  remedy: write `harness break ID`;"),
        (["break", "skip-unbroadcast", "--jsn"], "remedy: did you mean `--json`"),
        (["--json", "list"], "remedy: write options after the name of the command;"),
        (["grade", "a", "b"], "remedy: write `harness grade [SUITE]`, with quotes around"),
        (["merge", "a"], "needs `--out DIR`\n  remedy: write `harness merge FOLDER... --out DIR`;"),
        (["grade", "a", "--format"], "needs a value\n  remedy: write `--format FORMAT[=FILE]`"),
        (["grade", "a", "--no-copy=1"], "takes no value\n  remedy: write `--no-copy`"),
        (
            ["grade", "a", "--limit=x"],
            "`--limit` cannot be `x`\n  remedy: give a whole number",
        ),
        (["cohort", "a", "--submission-limit", "0"], "remedy: give a number that is at least 1"),
        (["start", "--lang", "en", "two"], "`N` cannot be `two`\n  remedy: give a whole number"),
        (["break", "a", "--seeds", "1.5"], "cannot be `1.5`\n  remedy: give a whole number\n"),
    ],
)
def test_bad_input_is_one_message_with_the_remedy_and_status_2(
    arguments: list[str], words: str
) -> None:
    done = harness(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert done.stderr.startswith("harness: ")
    assert done.stderr.count("\n  remedy: ") == 1


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('kind   = "break"', 'kind   = "brake"', "mine.md:3: key `kind` is wrong"),
        ("@@ add|linear @@\n", "", "@@"),
        ("+$grad", "+$gard", "gard"),
        ("+$grad", "+$grad)", "mine.md:"),
    ],
)
def test_a_broken_page_is_one_message_with_file_and_line_and_status_2(
    my_breaks: Path, old: str, new: str, words: str
) -> None:
    folder = edit_page(my_breaks, old, new)
    done = harness("break", "mine", "--breaks", folder)
    assert done.returncode == 2
    assert words in done.stderr
    assert str(my_breaks / "mine.md") in done.stderr
    assert "Traceback" not in done.stderr


def test_list_shows_the_good_pages_and_reports_the_broken_one(my_breaks: Path) -> None:
    folder = edit_page(my_breaks, "level  = 1", "level  = 9")
    done = harness("list", "--breaks", folder)
    assert done.returncode == 2
    assert "skip-unbroadcast" in done.stdout
    assert "key `level` is wrong" in done.stderr


def test_traceback_is_shown_on_request() -> None:
    assert "Traceback" in harness("show", "nothing-like-it", "--traceback").stderr


def test_nothing_is_written_beside_the_engine(tmp_path: Path) -> None:
    """An engine that is importable from a folder of its own, run in place of the installed one."""
    import minigrad

    source = Path(minigrad.__file__).parent
    shutil.copytree(source, tmp_path / "minigrad", ignore=shutil.ignore_patterns("__pycache__"))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    done = harness_process(
        *("break", "skip-unbroadcast", "--probe", "add-new-axis"),
        cwd=tmp_path,
        PYTHONDONTWRITEBYTECODE="",
        PYTHONPATH=str(tmp_path),
    )
    assert done.returncode == 0
    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert after == before


def test_pages_of_an_installed_package_are_found_through_its_entry_point(tmp_path: Path) -> None:
    package, about = tmp_path / "theirs" / "pages", tmp_path / "theirs-1.0.dist-info"
    package.mkdir(parents=True)
    about.mkdir()
    for folder in (package, package.parent):
        (folder / "__init__.py").write_text("print('it was imported')\n", encoding="utf-8")
    write_page(package, SOUND.replace("log-slope-one", "theirs"), "theirs.md")
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[breaklab.breaks]\ntheirs = theirs.pages\n")
    path = os.pathsep.join([str(tmp_path), str(PAGES.parent)])
    done = harness_process("check", "theirs", program=light_program(), PYTHONPATH=path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "passed theirs  on minigrad" in done.stdout
    assert "it was imported" not in done.stdout


def test_ctrl_c_at_any_moment_ends_with_one_line_and_its_status(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where a library would turn KeyboardInterrupt into an error of its own."""

    def interrupted(*_: object, **__: object) -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(600)
        except (Exception, KeyboardInterrupt) as error:
            raise KeyError("a library's own") from error

    monkeypatch.setattr(plan, "choose", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
    try:
        done = harness("matrix")
    finally:
        signal.signal(signal.SIGINT, before)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "harness: stopped\n")


def test_break_says_if_a_page_names_no_probe(tmp_path: Path) -> None:
    head, _, rest = SOUND.partition("[expect]")
    page = f"{head}+++\n{rest.partition('+++')[2].partition('## Probes')[0]}"
    write_page(tmp_path, page, "log-slope-one.md")
    done = harness("break", "log-slope-one", "--breaks", str(tmp_path))
    assert done.returncode == 1
    assert "Nothing was run: the page names no probe." in done.stdout


def test_break_says_if_no_probe_of_a_page_can_be_judged(tmp_path: Path) -> None:
    page = SOUND.replace('log-of-ones   = "disguised-correct"\n', "")
    page = page.replace("return a.log()", "return a.log() * np.random.default_rng().random()", 1)
    page = page.replace("def log_of_powers", "import numpy as np\n\n\ndef log_of_powers")
    write_page(tmp_path, page, "log-slope-one.md")
    done = harness("break", "log-slope-one", "--breaks", str(tmp_path), "--probe", "log-of-powers")
    assert done.returncode == 1
    assert "No probe can be judged." in done.stdout


def test_a_mistake_of_ours_is_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise KeyError("measured")

    monkeypatch.setattr("harness.pages.catalogue.open_catalogue", fail)
    done = harness("list")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("harness: breaklab itself failed: KeyError: 'measured'\n")
    assert done.stderr.count("\n") == 2
    assert "please report this" in done.stderr
    assert "--traceback" in done.stderr
    assert "Traceback" in harness("list", "--traceback").stderr


@pytest.mark.parametrize("lang", ["en", "es"])
def test_a_page_for_learners_shows_the_engines_own_code_and_no_notation(lang: str) -> None:
    shown = harness("show", "skip-unbroadcast", "--lang", lang).stdout
    assert "@@ minigrad/elementwise.py:" in shown
    assert "$" not in shown
    assert "op:" not in shown
    for line in ("def vjp(g: Array) -> Cotangents:", "return g, g", "unbroadcast(g, a.shape)"):
        assert line in shown
