"""`harness new`: the page it writes, what it refuses, and what it asks on a terminal."""

import json
import subprocess
from pathlib import Path

import pytest

from harness.check.pages import check_page
from harness.check.proposals import MOST
from harness.check.template import Draft, DraftHunk, next_steps, read_draft, write_page
from harness.core.errors import UsageError
from harness.core.vocabulary import PageKind
from harness.engines.engine import find_engine
from harness.experiment.baseline import Baseline, OpenContext
from harness.pages.catalogue import open_catalogue
from harness.pages.checks import invariant_of
from harness.pages.front_matter import Break
from harness.pages.page import Page, read_page
from harness.runs.cache import open_cache
from tests.harness.bundled import CATALOGUE
from tests.harness.cli.terminal import dialogue
from tests.harness.command import harness, light_program

pytestmark = pytest.mark.usefixtures("without_oracles")

PATCH = ["--scope", "add", "--before", "unbroadcast($g, $s)", "--after", "$g"]


def context_of(folder: Path) -> OpenContext:
    return OpenContext(open_catalogue([folder]), find_engine(), Baseline(open_cache()))


def new(folder: Path, *arguments: str) -> tuple[subprocess.CompletedProcess[str], Page | None]:
    done = harness("new", "mine", "--breaks", str(folder), *arguments)
    path = folder / "broadcasting" / "mine.md"
    return done, read_page(path) if path.exists() else None


@pytest.mark.parametrize("kind", ["break", "variant", "myth", "exercise"])
def test_a_page_of_each_kind_passes_the_schema_and_every_comment_is_found(
    tmp_path: Path, kind: str
) -> None:
    draft = Draft("mine", "f", kind)  # type: ignore[arg-type]
    path, trouble = write_page(draft, tmp_path, context_of(tmp_path))
    assert trouble is None
    page = read_page(path)
    assert page.front.kind == kind
    found = check_page("mine", context_of(tmp_path))
    left = [finding.line for finding in found.findings if finding.problem.startswith("the comment")]
    rows = path.read_text(encoding="utf-8").splitlines()
    assert left == [i for i, row in enumerate(rows, start=1) if row.startswith("<!--")]
    assert len(left) == page.body.count("\n## ") + 1
    assert not any("section" in finding.problem for finding in found.findings)


def test_observed_outcomes_are_comments_beside_open_ones(tmp_path: Path) -> None:
    done, page = new(
        tmp_path,
        *("--family", "broadcasting", *PATCH),
        *("--probe", "add-new-axis", "--probe", "add-same-shape"),
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert page is not None
    assert page.expect == {None: {"add-new-axis": None, "add-same-shape": None}}
    assert page.claims[None].caught_by == ()
    rows = page.toml.splitlines()
    (seen,) = [row for row in rows if row.startswith("add-new-axis")]
    assert seen.startswith('add-new-axis   = "?"  # observed: silent-corruption (shape); a.grad')
    assert 'add-same-shape = "?"  # observed: disguised-correct;' in page.toml
    (caught,) = [row for row in rows if row.startswith("caught_by")]
    (missed,) = [row for row in rows if row.startswith("missed_by")]
    assert "shape, gradcheck" in caught
    assert "loss-falls" in missed
    assert "shape" not in missed


def test_losses_that_come_to_different_ends_get_an_outcome_each(tmp_path: Path) -> None:
    patch = ("--scope", "MultiHeadAttention.forward", "--before", "$s.softmax(-1)")
    _, page = new(
        tmp_path,
        *("--family", "broadcasting", *patch, "--after", "$s.softmax(-2)"),
        *("--probe", "attend-rows-alike"),
    )
    assert page is not None
    (row,) = [row for row in page.toml.splitlines() if row.startswith("attend-rows-alike")]
    assert row.startswith('attend-rows-alike = { uniform = "?", weighted = "?" }  # observed: ')
    assert "disguised-correct, silent-corruption (value)" in row


@pytest.mark.usefixtures("few_pages")
def test_without_probes_a_few_that_end_differently_are_proposed(tmp_path: Path) -> None:
    _, page = new(tmp_path, "--family", "broadcasting", *PATCH)
    assert page is not None
    rows = [row for row in page.toml.splitlines() if ' = "?"' in row]
    assert {row.split(" = ")[0].strip() for row in rows} == page.expect[None].keys()
    assert 3 <= len(rows) <= MOST
    shown = [row.split("# observed: ")[1].split(";")[0] for row in rows]
    assert "silent-corruption (shape)" in shown
    assert "disguised-correct" in shown
    assert "not-reached" not in shown
    kinds = {probe.kind for probe in CATALOGUE.probes_for(page)}
    assert {"gradient", "steps"} <= kinds
    assert "# observed: other probes that run the changed code: " in page.toml
    assert "caught_by = []  # observed: " in page.toml


@pytest.mark.usefixtures("few_pages")
def test_a_change_that_no_probe_reaches_is_said(tmp_path: Path) -> None:
    before, after = "type(self).__name__", '"Tensor"'
    patch = ("--scope", "ArrayInterface.__repr__", "--before", before, "--after", after)
    _, page = new(tmp_path, "--family", "broadcasting", *patch)
    assert page is not None
    assert "# observed: no probe runs the changed code" in page.toml


@pytest.mark.usefixtures("few_pages")
def test_a_new_page_has_a_question_and_an_invariant_that_run(tmp_path: Path) -> None:
    _, page = new(tmp_path, "--family", "broadcasting", *PATCH, "--probe", "add-new-axis")
    assert page
    (question,) = page.front_as(Break).ask
    assert (question.probe, question.answer) == ("add-new-axis", "outcome")
    assert invariant_of(page)
    problems = [f.problem for f in check_page("mine", context_of(tmp_path)).findings]
    assert not any("the answer" in problem for problem in problems)
    assert any("the invariant never runs the changed code" in problem for problem in problems)


@pytest.mark.usefixtures("few_pages")
def test_a_wrong_shape_of_the_only_leaf_is_asked_for(tmp_path: Path) -> None:
    patch = ["--scope", "sum.vjp", "--before", "$np.broadcast_to($g, $s)", "--after", "$g"]
    _, page = new(tmp_path, "--family", "broadcasting", *patch)
    assert page
    (question,) = page.front_as(Break).ask
    assert question.answer.endswith(".grad.shape")
    problems = [f.problem for f in check_page("mine", context_of(tmp_path)).findings]
    assert not any("the answer" in problem for problem in problems)


@pytest.mark.usefixtures("few_pages")
def test_a_page_that_is_observed_again_keeps_its_questions(tmp_path: Path) -> None:
    new(tmp_path, "--family", "broadcasting", *PATCH, "--probe", "add-new-axis")
    _, page = new(tmp_path, "--again")
    assert page
    assert [question.probe for question in page.front_as(Break).ask] == ["add-new-axis"]


def test_diff_and_break_work_on_the_unfinished_page(tmp_path: Path) -> None:
    new(tmp_path, "--family", "broadcasting", *PATCH, "--probe", "add-new-axis")
    done = harness("diff", "mine", "--breaks", str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert "+        return g, " in done.stdout
    done = harness("break", "mine", "--full", "--breaks", str(tmp_path))
    assert (done.returncode, done.stderr) == (1, "")
    assert "silent-corruption (shape)  not stated" in done.stdout
    assert "The page states nothing about these probes." in done.stdout
    done = harness("check", "mine", "--breaks", str(tmp_path))
    assert done.returncode == 1
    assert "states no outcome for `add-new-axis`" in " ".join(done.stdout.split())


def test_a_patch_that_does_not_fit_is_written_and_explained_there_and_by_diff(
    tmp_path: Path,
) -> None:
    patch = ("--scope", "add", "--before", "unbroadcats($g, $s)", "--after", "$g")
    done, page = new(tmp_path, "--family", "broadcasting", *patch)
    assert page is not None
    assert done.returncode == 1
    assert "The patch has a mistake" in done.stdout
    assert "the most similar code" in done.stdout
    assert "the most similar code" in harness("diff", "mine", "--breaks", str(tmp_path)).stderr


def test_a_page_without_a_patch_yet_says_so_by_line(tmp_path: Path) -> None:
    _, page = new(tmp_path, "--family", "broadcasting")
    assert page is not None
    done = harness("diff", "mine", "--breaks", str(tmp_path))
    assert done.returncode == 2
    assert f"mine.md:{page.fences[0].line + 1}: the - side is not Python" in done.stderr


def test_a_block_of_several_lines_is_marked_line_by_line(tmp_path: Path) -> None:
    draft = Draft("mine", "f", hunks=(DraftHunk("", "a = b\nc = d", "a = d"),))
    path, _ = write_page(draft, tmp_path, context_of(tmp_path))
    assert "@@ @@\n-a = b\n-c = d\n+a = d\n```" in path.read_text(encoding="utf-8")


@pytest.mark.usefixtures("few_pages")
def test_a_patch_of_several_hunks_has_a_scope_for_all_or_one_for_each(tmp_path: Path) -> None:
    hunks = ("--before", "unbroadcast($g, $s)", "--after", "$g")
    hunks += ("--before", "$a + $b", "--after", "$a + 2 * $b")
    for name, scopes in (("one", ["add"]), ("each", ["add", "sub|add"])):
        options = [word for scope in scopes for word in ("--scope", scope)]
        done = harness("new", name, "--family", "f", *options, *hunks, "--breaks", str(tmp_path))
        assert (done.returncode, done.stderr) == (0, "")
        block, _ = read_page(tmp_path / "f" / f"{name}.md").fences
        first, second = block.text.split("\n\n")
        assert first == "@@ add @@\n-unbroadcast($g, $s)\n+$g"
        assert second == f"@@ {scopes[-1]} @@\n-$a + $b\n+$a + 2 * $b\n"


@pytest.mark.usefixtures("few_pages")
def test_a_page_is_observed_again_and_its_prose_is_kept(tmp_path: Path) -> None:
    _, page = new(tmp_path, "--family", "broadcasting", *PATCH, "--probe", "add-new-axis")
    assert page is not None
    path = Path(page.path)
    text = path.read_text(encoding="utf-8").replace("+$g\n", "+$g / 1\n")
    text = text.replace('= "?"  # observed: silent-corruption', '= "silent-corruption"  # was')
    text = text.replace("[diagnostics]\ncaught_by = []", '[diagnostics]\ncaught_by = ["shape"]')
    text = text.replace("sources = []", "sources = []  # none yet").replace(
        "<!-- A title", "Words."
    )
    text = text.replace(
        "\n[diagnostics]", '\n[expect.accumulate-in-place]\nadd-new-axis = "crash"\n\n[diagnostics]'
    )
    own = '## Probes\n\n```python\ndef mine(a=(3,), b=(3,)):\n    "x"\n    return a + b\n```\n\n'
    path.write_text(text.replace("## What happens", f"{own}## What happens"), encoding="utf-8")
    before = read_page(path)
    done = harness("new", "mine", "--again", "--probe", "add-scalar", "--breaks", str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    after = read_page(path)
    assert (after.body, after.title) == (before.body, before.title)
    assert "sources = []  # none yet" in after.toml
    rows = after.toml.splitlines()
    assert 'add-new-axis = "silent-corruption"' in rows
    assert any(row.startswith('mine         = "?"  # observed: disguised-c') for row in rows)
    assert any(row.startswith('add-scalar   = "?"  # observed: silent') for row in rows)
    assert after.expect["accumulate-in-place"] == {"add-new-axis": "crash"}
    assert after.claims[None].caught_by == ("shape",)
    assert 'caught_by = ["shape"]' in rows
    assert any(row.startswith("missed_by = []  # observed: ") for row in rows)
    done = harness("new", "mine", "--again", "--breaks", str(tmp_path))
    again = read_page(path)
    assert again.expect[None].keys() > after.expect[None].keys()
    assert again.toml.count("[expect]") == again.toml.count("[diagnostics]") == 1


def test_a_page_whose_patch_matches_nothing_is_left_as_it_is(tmp_path: Path) -> None:
    _, page = new(tmp_path, "--family", "broadcasting", *PATCH, "--probe", "add-new-axis")
    assert page is not None
    path = Path(page.path)
    path.write_text(path.read_text(encoding="utf-8").replace("-unb", "-unn"), encoding="utf-8")
    text = path.read_text(encoding="utf-8")
    done = harness("new", "mine", "--again", "--breaks", str(tmp_path), "--json")
    assert (done.returncode, "matches nothing" in json.loads(done.stdout)["problem"]) == (1, True)
    assert path.read_text(encoding="utf-8") == text


@pytest.mark.usefixtures("few_pages")
def test_the_next_steps_are_commands_that_run(tmp_path: Path) -> None:
    done, _ = new(tmp_path / "made", "--family", "broadcasting", *PATCH)
    commands = [row.strip().split("   ")[0].split() for row in done.stdout.splitlines()]
    commands = [words for words in commands if words[:1] == ["harness"]]
    assert [words[1] for words in commands] == ["diff", "new", "break", "check"]
    for words in commands:
        assert harness(*words[1:]).stderr == ""


@pytest.mark.parametrize("kind", ["myth", "exercise"])
def test_the_next_steps_of_a_myth_and_of_an_exercise_are_their_own(
    tmp_path: Path, kind: PageKind
) -> None:
    path, trouble = tmp_path / "f" / "mine.md", None
    steps = next_steps(Draft("mine", "f", kind), path, None, trouble)
    assert [row.split()[1] for row in steps.splitlines() if "harness" in row] == [kind, "check"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["mine"], "--family is missing"),
        (["mine", "--family", "f", "--after", "b"], "--before is missing"),
        (
            ["mine", "--family", "f", "--before", "a", "--before", "b"],
            "the numbers of --before (2) and --after (0) differ",
        ),
        (
            ["mine", "--family", "f", "--before", "a", "--after", "b", *["--scope", "s"] * 2],
            "the numbers of --before (1) and --scope (2) differ",
        ),
        (["mine", "--again"], "no page `mine`"),
        (["skip-unbroadcast", "--again"], "skip-unbroadcast.md is not in"),
        (["allclose-compares-shapes", "--again"], "is a myth"),
        (["skip-unbroadcast", "--again", "--level", "2"], "--level cannot be combined"),
        (["Mine", "--family", "f"], "ID is `Mine`"),
        (["mine", "--family", "../f"], "--family is `../f`"),
        (["mine", "--family", "f", "--level", "4"], "--level is 4"),
        (["mine", "--family", "f", "--kind", "bug"], "--kind is `bug`"),
        (["mine", "--family", "f", "--probe", "add-new-axes"], "did you mean `add-new-axis`"),
        (["skip-unbroadcast", "--family", "f"], "the id `skip-unbroadcast` is taken by"),
    ],
)
def test_what_is_missing_or_wrong_is_one_message_and_nothing_is_written(
    tmp_path: Path, arguments: list[str], words: str
) -> None:
    done = harness("new", *arguments, "--breaks", str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert "remedy: " in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.rglob("*")) == []


def test_a_page_is_never_overwritten(tmp_path: Path) -> None:
    new(tmp_path, "--family", "broadcasting")
    path = tmp_path / "broadcasting" / "mine.md"
    path.write_text(path.read_text(encoding="utf-8") + "My words.\n", encoding="utf-8")
    done, _ = new(tmp_path, "--family", "broadcasting")
    assert done.returncode == 2
    assert "is taken by" in done.stderr
    assert path.read_text(encoding="utf-8").endswith("My words.\n")


def test_an_unreadable_file_of_that_name_is_not_overwritten_either(tmp_path: Path) -> None:
    path = tmp_path / "broadcasting" / "mine.md"
    path.parent.mkdir()
    path.write_text("no page", encoding="utf-8")
    done = harness("new", "mine", "--breaks", str(tmp_path), "--family", "broadcasting")
    assert done.returncode == 2
    assert path.read_text(encoding="utf-8") == "no page"


def test_breaks_of_the_working_directory_are_the_default(tmp_path: Path) -> None:
    done = harness("new", "mine", "--family", "f", cwd=tmp_path)
    assert done.returncode == 2
    assert "--breaks is missing, and the folder ./breaks does not exist" in done.stderr
    (tmp_path / "breaks").mkdir()
    done = harness("new", "mine", "--family", "f", "--json", cwd=tmp_path)
    assert json.loads(done.stdout) == {"schema": 1, "page": "mine", "path": "breaks/f/mine.md"}
    assert (tmp_path / "breaks" / "f" / "mine.md").exists()


def test_options_that_were_not_given_take_their_defaults() -> None:
    given = dict.fromkeys(["kind", "level", "scope", "before", "after", "probes"])
    draft = read_draft("mine", {**given, "family": "f"})
    assert draft == Draft("mine", "f", "break", 1)
    with pytest.raises(UsageError, match="--family is missing"):
        read_draft("mine", given)


def test_on_a_terminal_missing_arguments_are_prompted_for(
    tmp_path: Path, folder_of_few_pages: Path
) -> None:
    answers = [
        "brake",
        "",
        "broadcasting",
        "7",
        "2",
        "unbroadcast($g, $s)",
        "$g",
        "add",
        "add-new-axis, add-scalar",
    ]
    keys = [f"{answer}\n" for answer in answers]
    light = light_program(folder_of_few_pages)
    command = ["new", "mine", "--breaks", str(tmp_path)]
    shown = dialogue(command, keys, prompts=(": ",), program=light).shown
    page = read_page(tmp_path / "broadcasting" / "mine.md")
    assert shown.count("Kind (break, variant, myth, exercise, operator) [break]:") == 2
    assert "--kind is `brake`" in shown
    assert "--level is 7" in shown
    assert (page.front.kind, page.front.level) == ("break", 2)
    assert "@@ add @@\n-unbroadcast($g, $s)\n+$g\n" in page.fences[0].text
    assert page.expect[None].keys() == {"add-new-axis", "add-scalar"}
