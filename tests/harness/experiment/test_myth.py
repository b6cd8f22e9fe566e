"""Myths: the program runs as it is written, and what it prints is held against the page."""

import json
import re
from pathlib import Path

import pytest

from harness.check import Finding
from harness.check.kinds import LONGEST, check_myth
from harness.check.pages import check_page
from harness.core.errors import PageError
from harness.engines.engine import find_engine
from harness.experiment.baseline import Baseline, OpenContext
from harness.experiment.myth import (
    agree,
    compare_lines,
    find_exhibit,
    run_myth,
)
from harness.pages.catalogue import open_catalogue
from harness.pages.page import Page, read_page
from harness.runs import isolated
from harness.runs.cache import Cache
from harness.runs.isolated import MOST_PRINTED, Printout, run_program
from harness.runs.protocol import Program
from harness.sandbox.limits import Limits
from tests.harness.cli.terminal import dialogue
from tests.harness.command import harness
from tests.harness.sound_myth import OUTPUT, PROGRAM, SOUND_MYTH, myth_that, myth_with
from tests.harness.sound_page import SOUND, write_page
from tests.harness.tiny import hosted

QUICK = Limits(seconds=2)
SHORT = Limits(cpu_seconds=1)
ID = "np-sum-flattens"


@pytest.fixture(
    params=[True, pytest.param(False, marks=pytest.mark.slow)], ids=["forked", "spawned"]
)
def fork(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def ran(source: str, *, fork: bool = isolated.HOSTED, limits: Limits) -> Printout:
    with hosted(fork):
        return run_program(Program(source, "page.md", 11, limits=limits))


def page_of(folder: Path, text: str = SOUND_MYTH) -> Page:
    return read_page(write_page(folder, text, f"{ID}.md"))


def found(folder: Path, text: str) -> list[Finding]:
    context = OpenContext(open_catalogue(), find_engine(), Baseline(Cache(None), limits=SHORT))
    return list(check_myth(page_of(folder, text), context))


# ----- The program in its child -----


@pytest.mark.parametrize("fork", [True, False], ids=["forked", "spawned"])
def test_what_is_printed_comes_back_as_it_was_printed(fork: bool) -> None:
    source = "import minigrad\nprint('é', 1)\nprint('no line end', end='')"
    assert ran(source, fork=fork, limits=Limits()) == Printout("é 1\nno line end", None)


@pytest.mark.parametrize(
    ("source", "printed", "type_", "words"),
    [
        ("print(1)\n1 / 0", "1\n", "ZeroDivisionError", "at `1 / 0`: division by zero"),
        ("print(1)\nimport sys; sys.exit()", "1\n", "SystemExit", "at `import sys; sys.exit()`"),
        ("print(1)\nraise KeyboardInterrupt", "1\n", "KeyboardInterrupt", "raise Keyboard"),
        ("print(1\n", "", "SyntaxError", "line 11"),
        ("print(1, flush=True)\nimport os; os._exit(3)", "1\n", "ProcessExit", "status 3"),
        ("print(1)\nimport os; os.kill(os.getpid(), 11)", "1\n", "SIGSEGV", "by a signal"),
        ("print(1)\nimport time; time.sleep(60)", "1\n", "TimeLimit", "not done after 2 seconds"),
        ("print(1)\nwhile True: pass", "1\n", "ProcessorTimeLimit", "more than 1 seconds"),
        ("print(1)\nimport sys; sys.stdout.close()", "1\n", "ValueError", "closed file"),
    ],
)
def test_an_abnormal_end_is_reported_with_what_was_printed_before(
    fork: bool, source: str, printed: str, type_: str, words: str
) -> None:
    limits = {"TimeLimit": QUICK, "ProcessorTimeLimit": SHORT}.get(type_, Limits())
    printout = ran(source, fork=fork, limits=limits)
    assert printout.failure is not None
    assert (printout.text, printout.failure.type) == (printed, type_)
    assert words in str(printout.failure)


@pytest.mark.parametrize(
    "source",
    [
        "while True: print('x' * 50)",
        "print('x' * 10**8)",
        "while True:\n  try: print(1)\n  except: 0",
    ],
)
def test_a_program_that_prints_without_end_is_stopped_at_once(fork: bool, source: str) -> None:
    printout = ran(source, fork=fork, limits=Limits(seconds=600, cpu_seconds=600))
    assert printout.failure is not None
    assert (printout.failure.type, len(printout.text)) == ("OutputLimit", MOST_PRINTED)


@pytest.mark.parametrize(
    ("source", "printed"),
    [
        ("import sys; sys.stdout.buffer.write(b'\\xff\\n')", "\\xff\n"),
        ("print('\\ud800')", "\\ud800\n"),
        ("print('\\x1b[31mred\\x07\\r')", "\\x1b[31mred\\x07\\r\n"),
        ("print('tab\\there')", "tab\there\n"),
    ],
)
def test_text_that_cannot_be_shown_travels_as_escapes(
    fork: bool, source: str, printed: str
) -> None:
    assert ran(source, fork=fork, limits=Limits()) == Printout(printed, None)


def test_a_program_lives_in_a_scratch_folder_and_reaches_no_terminal(
    fork: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source = """
import os, sys
open("litter", "w").close()
os.write(1, b"to the descriptor")
print("to the errors", file=sys.stderr)
print(sys.stdin.read() == "", __name__)
"""
    assert ran(source, fork=fork, limits=Limits()) == Printout("True __main__\n", None)
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


def test_a_program_leaves_nothing_behind_in_this_process(fork: bool) -> None:
    source = "import minigrad, numpy\nnumpy.e = 3\nminigrad.elementwise.unbroadcast = None"
    assert ran(source, fork=fork, limits=Limits()) == Printout("", None)
    again = "import minigrad, numpy\nprint(numpy.e < 3, minigrad.elementwise.unbroadcast is None)"
    assert ran(again, fork=fork, limits=Limits()).text == "True False\n"


def test_the_time_limit_is_for_the_whole_program_and_not_for_each_line() -> None:
    source = "import time\nfor i in range(100):\n    time.sleep(0.1)\n    print(i)"
    printout = ran(source, limits=QUICK)
    assert printout.failure is not None
    assert printout.failure.type == "TimeLimit"
    assert printout.text.startswith("0\n")
    assert not printout.text.endswith("99\n")


# ----- The comparison -----


@pytest.mark.parametrize(
    ("says", "printed", "same"),
    [
        ("1\n", "1\n", True),
        ("1\n", "1", True),
        ("1\n2\n", "1\n2\n\n", True),
        ("1\n", "2\n", False),
        ("1\n", "1\n2\n", False),
        ("1\n2\n", "1\n", False),
        ("1\n", " 1\n", False),
        ("1\n", "1 \n", False),
        ("1\n", "\n1\n", False),
        ("a\n", "A\n", False),
        ("0.1\n", "0.10\n", False),
        ("", "", False),
        ("\n", "\n", False),
        (None, "1\n", False),
        (None, "", False),
        ("1\n", "", False),
    ],
)
def test_only_the_same_text_agrees_and_nothing_agrees_with_nothing(
    says: str | None, printed: str, same: bool
) -> None:
    assert agree(says, printed) is same


def test_both_texts_are_shown_whole() -> None:
    assert compare_lines("a\nb\nc\n", "a\nx\nc\nd\n") == [" a", "-b", "+x", " c", "+d"]
    assert compare_lines("a\n", "a") == [" a"]
    assert compare_lines("", "a\n") == ["+a"]
    assert compare_lines("a\n", "") == ["-a"]
    long = "".join(f"{i}\n" for i in range(30))
    assert len(compare_lines(long, long.replace("15", "fifteen"))) == 31


# ----- Reading the page -----


def test_the_program_and_what_follows_it_are_found(tmp_path: Path) -> None:
    exhibit = find_exhibit(page_of(tmp_path))
    assert exhibit.program.source == PROGRAM
    assert SOUND_MYTH.splitlines()[exhibit.program.line - 1] == "import numpy as np"
    assert exhibit.says is not None
    assert exhibit.says.text == OUTPUT


@pytest.mark.parametrize(
    "between",
    ["```text\n", "```\n", "```text other\n", "## What happens\n\nThis.\n\n```text\n"],
    ids=["right", "no info", "more info", "another section"],
)
def test_only_a_text_block_that_comes_next_in_the_section_is_what_the_page_says(
    tmp_path: Path, between: str
) -> None:
    page = page_of(tmp_path, myth_with(("```text\n", between)))
    says = find_exhibit(page).says
    assert (says is not None) == (between == "```text\n")


def test_two_programs_are_a_mistake_with_its_line(tmp_path: Path) -> None:
    text = myth_with(("```text\n", "```python\nprint(2)\n```\n\n```text\n"))
    with pytest.raises(PageError, match="2 ```python blocks") as raised:
        find_exhibit(page_of(tmp_path, text))
    assert text.splitlines()[raised.value.line - 1] == "print(2)"


# ----- What is found on a page -----


def test_nothing_is_found_on_a_sound_myth(tmp_path: Path) -> None:
    assert found(tmp_path, SOUND_MYTH) == []


@pytest.mark.parametrize(
    ("text", "problem", "at", "status"),
    [
        (
            myth_with(("seen: (3,)\n", "seen: (2,)\n")),
            "does not print what the page",
            "claim: ()",
            1,
        ),
        (
            myth_that("print(1)\n1 / 0", "1\n"),
            "program fails: ZeroDivisionError",
            "print(1)",
            1,
        ),
        pytest.param(
            *(myth_that("while True: pass"), "program fails: ProcessorTimeLimit", "while True", 1),
            marks=pytest.mark.slow,  # it takes a second of processor time
        ),
        (myth_that("while True: print(1)"), "program fails: OutputLimit", "while True", 1),
        (myth_that("print(1", "1\n"), "program fails: SyntaxError", "print(1", 1),
        (myth_that("x = 1"), "prints nothing", "claim: ()", 1),
        (
            myth_with(("```text\n", "```\n")),
            "does not say what the program prints; it printed\n  claim: ()  seen: (3,)",
            "import numpy",
            1,
        ),
        (
            myth_that("import json\nimport yaml.nodes", "1\n"),
            "imports yaml, which may not be installed",
            "import yaml",
            1,
        ),
        (
            myth_that("from yaml import nodes", "1\n"),
            "imports yaml, which may not be installed",
            "from yaml",
            1,
        ),
        (
            myth_with(("+++\n# A", 'needs = ["torch"]\n+++\n# A')),
            "`needs` names torch, which the program does not import",
            "needs",
            1,
        ),
        (
            myth_with(
                ("+++\n# A", 'needs = ["no_such_module_here"]\n+++\n# A'),
                ("import numpy as np", "import no_such_module_here"),
            ),
            "not run: no_such_module_here is not installed: pip install no_such_module_here",
            "import no_such",
            0,
        ),
        (
            myth_that("print(1)" + "\n" * LONGEST + "print(2)", "1\n2\n"),
            f"a program of {LONGEST + 1} lines",
            "print(1)",
            0,
        ),
    ],
)
def test_each_mistake_is_found_at_its_line_with_its_status(
    tmp_path: Path, text: str, problem: str, at: str, status: int
) -> None:
    hits = [finding for finding in found(tmp_path, text) if problem in finding.problem]
    assert len(hits) == 1
    (hit,) = hits
    assert text.splitlines()[hit.line - 1].startswith(at)
    assert hit.exit_status == status
    assert hit.remedy


def test_the_finding_on_another_output_shows_both(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, myth_that("print(1)\nprint(3)", "1\n2\n"))
    assert finding.problem.splitlines()[1:] == [" 1", "-2", "+3"]


def test_a_program_of_25_lines_is_short_enough(tmp_path: Path) -> None:
    assert found(tmp_path, myth_that("\n" * (LONGEST - 2) + "print(1)", "1\n")) == []


def test_with_a_library_missing_nothing_agrees_and_the_program_is_not_run(tmp_path: Path) -> None:
    note = tmp_path / "note"
    program = f"open({str(note)!r}, 'w')\nimport no_such_module_here"
    text = myth_with(
        ("import numpy as np", program), ("+++\n# A", 'needs = ["no_such_module_here"]\n+++\n# A')
    )
    report = run_myth(page_of(tmp_path, text))
    assert (report.agrees, report.printed, report.failure) == (None, None, None)
    assert report.skipped is not None
    assert not note.exists()


def test_a_program_that_prints_the_right_thing_and_then_fails_does_not_agree(
    tmp_path: Path,
) -> None:
    report = run_myth(page_of(tmp_path, myth_that("print(1)\n1 / 0", "1\n")))
    assert (report.printed, report.agrees) == ("1\n", False)


# ----- In the check of pages -----


def test_the_check_of_pages_runs_the_program(tmp_path: Path) -> None:
    for text, status in [(SOUND_MYTH, 0), (myth_with(("seen: (3,)\n", "seen: ()\n")), 1)]:
        write_page(tmp_path, text, f"{ID}.md")
        baseline = Baseline(Cache(None))
        check = check_page(ID, OpenContext(open_catalogue([tmp_path]), find_engine(), baseline))
        assert (check.exit_status, len(check.findings), check.reports) == (status, status, [])


def test_a_myth_without_a_program_is_one_finding(tmp_path: Path) -> None:
    text = re.sub(r"```python.*?```\n", "Words.\n", SOUND_MYTH, flags=re.S)
    write_page(tmp_path, text, f"{ID}.md")
    check = check_page(
        ID, OpenContext(open_catalogue([tmp_path]), find_engine(), Baseline(Cache(None)))
    )
    assert [finding.problem for finding in check.findings] == [
        "the section `The program` has no ```python block"
    ]


def test_check_on_the_command_line_shows_the_two_outputs(tmp_path: Path) -> None:
    write_page(tmp_path, myth_with(("seen: (3,)\n", "seen: ()\n")), f"{ID}.md")
    done = harness("check", ID, "--breaks", str(tmp_path))
    assert done.returncode == 1
    assert "-claim: ()  seen: ()\n" in done.stdout
    assert "+claim: ()  seen: (3,)\n" in done.stdout


# ----- The command -----


def test_the_command_shows_claim_program_output_and_when_it_would_be_true(tmp_path: Path) -> None:
    write_page(tmp_path, SOUND_MYTH, f"{ID}.md")
    done = harness("myth", ID, "--breaks", str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    words = [
        "A sum over an axis is a number",
        "a.sum(axis=0) is a number.",
        'print("claim: ()  seen:"',
        "What it printed, as the page says",
        "  claim: ()  seen: (3,)\n",
        "One number is left for each column.",
        "For a vector.",
        "Look at the shape.",
    ]
    places = [done.stdout.find(one) for one in words]
    assert places == sorted(places)
    assert places[0] >= 0


def test_the_command_shows_both_outputs_where_they_differ(tmp_path: Path) -> None:
    write_page(tmp_path, myth_with(("seen: (3,)\n", "seen: ()\n")), f"{ID}.md")
    done = harness("myth", ID, "--breaks", str(tmp_path))
    assert (done.returncode, done.stderr) == (1, "")
    assert "Not as the page says" in done.stdout
    assert "  -claim: ()  seen: ()\n  +claim: ()  seen: (3,)\n" in done.stdout


def test_the_command_shows_how_a_program_fails(tmp_path: Path) -> None:
    write_page(tmp_path, myth_that("print(1)\n1 / 0", "1\n"), f"{ID}.md")
    done = harness("myth", ID, "--breaks", str(tmp_path))
    assert (done.returncode, done.stderr) == (1, "")
    assert "ZeroDivisionError in the program, at `1 / 0`" in " ".join(done.stdout.split())


def test_the_json_has_what_was_printed_and_what_the_page_says(tmp_path: Path) -> None:
    write_page(tmp_path, myth_with(("seen: (3,)\n", "seen: ()\n")), f"{ID}.md")
    done = harness("myth", ID, "--json", "--breaks", str(tmp_path))
    report = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (1, "")
    assert report.pop("seconds") > 0
    assert report == {
        "schema": 1,
        "myth": ID,
        "title": "A sum over an axis is a number",
        "claim": "`a.sum(axis=0)` is a number.",
        "program": PROGRAM,
        "says": "claim: ()  seen: ()\n",
        "printed": OUTPUT,
        "failure": None,
        "skipped": None,
        "agrees": False,
        "explanation": "One number is left for each column.",
        "when_true": "For a vector.",
        "lesson": "Look at the shape.",
        "questions": [],
    }


@pytest.mark.parametrize("json_", [[], ["--json"]])
def test_a_missing_library_is_the_environments_fault_and_named(
    tmp_path: Path, json_: list[str]
) -> None:
    text = myth_with(
        ("import numpy as np", "import no_such_module_here"),
        ("+++\n# A", 'needs = ["no_such_module_here"]\n+++\n# A'),
    )
    write_page(tmp_path, text, f"{ID}.md")
    done = harness("myth", ID, "--breaks", str(tmp_path), *json_)
    assert done.returncode == 3
    assert "no_such_module_here is not installed" in done.stderr
    assert "remedy: pip install no_such_module_here" in done.stderr
    assert "claim: ()  seen: (3,)" in done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["break", "diff"])
def test_a_myth_is_not_a_break_and_the_remedy_is_its_command(tmp_path: Path, command: str) -> None:
    write_page(tmp_path, SOUND_MYTH, f"{ID}.md")
    done = harness(command, ID, "--breaks", str(tmp_path), "--json")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"`{ID}` is a myth" in done.stderr
    assert f"`harness myth {ID}`" in done.stderr


def test_a_break_is_not_a_myth_and_a_wrong_id_has_near_ones(tmp_path: Path) -> None:
    write_page(tmp_path, SOUND)
    write_page(tmp_path, SOUND_MYTH, f"{ID}.md")
    for page_id, words in [
        ("log-slope-one", "`log-slope-one` is a break, not a myth"),
        ("np-sum-flatten", f"did you mean `{ID}`"),
    ]:
        done = harness("myth", page_id, "--breaks", str(tmp_path))
        assert (done.returncode, done.stdout) == (2, "")
        assert words in done.stderr


@pytest.mark.parametrize(
    ("needs", "words"),
    [('"torch"', "key `needs` is wrong"), ('["no-module"]', "key `needs` is wrong")],
)
def test_what_a_program_needs_is_a_list_of_modules(tmp_path: Path, needs: str, words: str) -> None:
    with pytest.raises(PageError, match=words) as raised:
        page_of(tmp_path, myth_with(("+++\n# A", f"needs = {needs}\n+++\n# A")))
    assert raised.value.line == SOUND_MYTH.splitlines().index("+++", 1) + 1


# ----- Questions about the output -----


def asked(answer: str, choices: str = '["()", "(3,)"]') -> str:
    """The sound myth with a question."""
    keys = f'question = "Which shape?"\nanswer = {answer}\nchoices = {choices}\n'
    return myth_with(('sources = ["std"]\n', f'sources = ["std"]\n\n[[ask]]\n{keys}'))


@pytest.mark.parametrize(
    ("answer", "choices", "word"),
    [("[1, 4]", '["()", "(3,)"]', "(3,)"), ("[1, 1]", '["claim", "seen"]', "claim")],
)
def test_a_question_is_answered_by_a_word_that_the_program_prints(
    answer: str, choices: str, word: str, tmp_path: Path
) -> None:
    text = asked(answer, choices)
    (question,) = run_myth(page_of(tmp_path, text)).questions
    assert question.answer == word
    assert found(tmp_path, text) == []


@pytest.mark.parametrize("answer", ["[2, 1]", "[1, 5]", "[1, 1]"])
def test_a_question_without_a_word_that_answers_it_is_found(answer: str, tmp_path: Path) -> None:
    text = asked(answer)
    (finding,) = found(tmp_path, text)
    assert finding.problem.startswith("the answer to question 1 is ")
    assert text.splitlines()[finding.line - 1] == f"answer = {answer}"


def test_the_questions_are_asked_before_the_output_is_shown(tmp_path: Path) -> None:
    write_page(tmp_path / "pages", asked("[1, 4]"), f"{ID}.md")
    command = ["myth", ID, "--breaks", str(tmp_path / "pages")]
    keys = ["dunno\n", "1\n"]
    shown = dialogue(command, keys, BREAKLAB_DATA=str(tmp_path / "data"))
    assert shown.status == 0
    order = ("np.ones", "Which shape?", "Type one of the answers", "wrong: (3,)", "seen: (3,)")
    places = [shown.text.rindex(words) for words in order]
    assert places == sorted(places)
    events = (tmp_path / "data").rglob("*")
    stored = "".join(file.read_text("utf-8", "replace") for file in events if file.is_file())
    assert "Which shape?" in stored
