"""The catalogue: lookups, and the errors for names that do not exist."""

import ast
import re
import sys
from pathlib import Path

import pytest

import harness
from harness.core.errors import PageError, UsageError
from harness.diagnostics import DIAGNOSTICS
from harness.grade.mutants import select
from harness.learn.events import Fix, PageFinished
from harness.learn.progress import LearnerProgress
from harness.pages.catalogue import open_catalogue
from harness.pages.conventions import Conventions
from harness.pages.page import Page
from tests.harness.bundled import CATALOGUE, bundled_pages

ROOT = Path(__file__).parents[3]

PAGE = '+++\nid = "{id}"\nkind = "{kind}"\nfamily = "f"\n[expect]\n{expect}+++\n# Title\n'


def folder_of(path: Path, **pages: str) -> Path:
    for name, expect in pages.items():
        page_id = name.replace("_", "-")
        text = PAGE.format(id=page_id, kind="break", expect=expect)
        (path / f"{page_id}.md").write_text(text, encoding="utf-8")
    return path


def test_bundled_pages_are_found() -> None:
    assert {"skip-unbroadcast", "accumulate-in-place"} <= open_catalogue().files.keys()


def test_pages_in_a_folder_are_found_at_any_depth_and_readmes_and_translations_are_none(
    tmp_path: Path,
) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    folder_of(tmp_path / "deep" / "er", mine="")
    (tmp_path / "README.md").write_text("no page", encoding="utf-8")
    (tmp_path / "mine.es.md").write_text("no page", encoding="utf-8")
    catalogue = open_catalogue([tmp_path])
    assert catalogue.page("mine").title == "Title"
    assert catalogue.files.keys() - open_catalogue().files.keys() == {"mine"}


def test_every_page_that_teaches_stands_in_one_unit_of_the_course() -> None:
    units = CATALOGUE.course.values()
    listed = [page for unit in units for page in (*unit.listed, *unit.exercises)]
    kinds = ("break", "myth", "exercise")
    assert sorted(listed) == sorted(p.id for p in bundled_pages() if p.front.kind in kinds)
    assert len(CATALOGUE.course) == 15
    for unit in units:
        assert {CATALOGUE.page(page).front.kind for page in unit.exercises} <= {"exercise"}
        assert 6 <= len(unit.core) <= 9


def test_every_unit_has_its_notes_and_its_place_in_the_syllabi() -> None:
    titles = [f"{i}. {unit.title}" for i, unit in enumerate(CATALOGUE.course.values(), start=1)]
    notes = (ROOT / "docs/course-notes.md").read_text(encoding="utf-8")
    sections = re.split(r"^## ", notes, flags=re.M)[1:]
    assert [section.splitlines()[0] for section in sections] == titles
    for section in sections:
        for part in ("What learners get wrong.", "What to ask.", "90 minutes."):
            assert f"**{part}**" in section
    course = (ROOT / "docs/course.md").read_text(encoding="utf-8")
    syllabi = course.partition("| unit | CMU")[2].partition("\n\n")[0]
    assert re.findall(r"^\| (\d.*?) \|", syllabi, re.M) == titles


def test_no_page_before_further_needs_a_name_that_a_later_unit_teaches() -> None:
    units = list(CATALOGUE.course.values())
    for number, unit in enumerate(units):
        later = {name for other in units[number + 1 :] for name in other.teaches}
        for page in (*unit.core, *unit.pages, *unit.exercises):
            assert not needs(CATALOGUE.page(page)) & later, page
        elsewhere = set().union(*(needs(CATALOGUE.page(page)) for page in unit.listed))
        assert unit.teaches <= elsewhere, "no page of the unit uses it"


def test_what_a_page_needs_is_in_its_patch_its_programs_and_the_helpers_of_its_probes() -> None:
    adam = needs(CATALOGUE.page("adam-t-starts-zero"))  # a helper of a probe makes the dropout
    assert {"Adam", "Dropout"} <= adam
    assert "softmax" in needs(CATALOGUE.page("uniform-loss-is-enough"))  # the program of a myth


def needs(page: Page) -> set[str]:
    """The names in a page's patch and programs, and in its probes with their helpers."""
    names = {word for fence in page.diffs("minigrad") for word in re.findall(r"\w+", fence.text)}
    for fence in page.fences:
        if fence.info[:1] == ("python",):
            names |= names_in(ast.parse(fence.text))
    for probe in CATALOGUE.probes_for(page):
        functions = {
            node.name: node
            for node in ast.parse(probe.source).body
            if isinstance(node, ast.FunctionDef)
        }
        called, found = {probe.function}, set[str]()
        while called:
            function = functions.pop(called.pop())
            found |= names_in(function)
            called |= found & functions.keys()
        names |= found
    return names


def names_in(tree: ast.AST) -> set[str]:
    """The names, attributes and keywords in a Python text."""
    names = set()
    for node in ast.walk(tree):
        match node:
            case (
                ast.Name(id=str(name)) | ast.Attribute(attr=str(name)) | ast.keyword(arg=str(name))
            ):
                names.add(name)
    return names


def test_units_of_a_folder_are_added_and_a_mistake_in_them_is_named(tmp_path: Path) -> None:
    folder_of(tmp_path, mine="")
    file = tmp_path / "course.toml"
    file.write_text('[ours]\ntitle = "Ours"\nidea = "New."\npages = ["mine"]\n', "utf-8")
    course = open_catalogue([tmp_path]).course
    assert course["ours"].pages == ("mine",)
    assert course.keys() - CATALOGUE.course.keys() == {"ours"}
    file.write_text(file.read_text("utf-8").replace('"mine"', '"mien"'), "utf-8")
    with pytest.raises(UsageError, match="did you mean `mine`"):
        _ = open_catalogue([tmp_path]).course
    file.write_text('[ours]\ntitel = "Ours"\n', "utf-8")
    with pytest.raises(PageError, match="write a table") as caught:
        _ = open_catalogue([tmp_path]).course
    assert "titel" in caught.value.problem


def test_an_unknown_id_suggests_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean `skip-unbroadcast`"):
        open_catalogue().page("skip-unbroadcst")


def test_an_earlier_id_finds_its_page_and_selects_it() -> None:
    renamed = CATALOGUE.conventions.renamed
    assert renamed
    assert renamed.keys().isdisjoint(CATALOGUE.files)
    for earlier, current in renamed.items():
        assert CATALOGUE.page(earlier).id == current
        assert [page.id for page in select(CATALOGUE, earlier)] == [current]


def test_what_was_done_under_an_earlier_id_is_done() -> None:
    events = PageFinished(page="hook-key-is-count"), Fix(page="pad-in-mean", right=True)
    progress = LearnerProgress(events).with_current_ids(CATALOGUE)
    assert progress.done == {"hook-key-reused", "pad-in-loss-divisor"}


def test_lists_of_an_instructor_may_name_pages_by_earlier_ids(tmp_path: Path) -> None:
    (tmp_path / "track.toml").write_text('hook-key-is-count = "a key"\n')
    (tmp_path / "track.es.toml").write_text('hook-key-is-count = "una clave"\n')
    (tmp_path / "page-0.toml").write_text('z = "hook-key-is-count"\n')
    (tmp_path / "course.toml").write_text(
        '[loops]\ntitle = "Loops"\nidea = "An idea."\ncore = ["better-than-last-time"]\n'
        'pages = ["sub-sign"]\nfurther = ["pad-in-mean"]\n'
    )
    (tmp_path / "course.es.toml").write_text('[loops]\ntitle = "Bucles"\nidea = "Una idea."\n')
    catalogue = open_catalogue([tmp_path])
    assert catalogue.course_phrases("es")["Loops"] == "Bucles"
    assert catalogue.track["hook-key-reused"] == "a key"
    assert catalogue.phrases("es")["a key"] == "una clave"
    assert catalogue.page_0["z"] == (1, "hook-key-reused")
    selected = {"early-stopping-last-not-best", "sub-sign", "pad-in-loss-divisor"}
    assert set(catalogue.course["loops"].listed) == selected
    assert {page.id for page in select(catalogue, "unit:loops")} == selected


def test_a_break_is_not_a_variant() -> None:
    with pytest.raises(UsageError, match="is a break, not a variant"):
        open_catalogue().page("skip-unbroadcast", "variant")


def test_a_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no folder .*nowhere"):
        open_catalogue([tmp_path / "nowhere"])


def test_two_files_with_one_id_are_refused(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    folder_of(tmp_path, twice="")
    folder_of(tmp_path / "sub", twice="")
    with pytest.raises(PageError, match="the id `twice` is taken by"):
        _ = open_catalogue([tmp_path]).files


def test_a_broken_page_does_not_hide_the_others(tmp_path: Path) -> None:
    folder_of(tmp_path, good="")
    (tmp_path / "bad.md").write_text("nothing", encoding="utf-8")
    pages, mistakes = open_catalogue([tmp_path]).pages
    assert "good" in {page.id for page in pages}
    assert [error.line for error in mistakes] == [1]


@pytest.mark.parametrize(
    ("expect", "words"),
    [
        ('add-same-shap = "crash"\n', "names no probe"),
        ('[expect.accumulate-in-plaice]\nadd-same-shape = "crash"\n', "names no variant"),
    ],
)
def test_an_expectation_for_nothing_is_a_mistake(tmp_path: Path, expect: str, words: str) -> None:
    catalogue = open_catalogue([folder_of(tmp_path, mine=expect)])
    with pytest.raises(PageError, match=words) as caught:
        catalogue.probes_for(catalogue.page("mine"))
    assert "did you mean" in str(caught.value)


def test_an_unknown_probe_suggests_the_nearest() -> None:
    catalogue = open_catalogue()
    with pytest.raises(UsageError, match="did you mean `add-new-axis`"):
        catalogue.probes_for(catalogue.page("skip-unbroadcast"), ["add-new-axes"])


def test_a_file_of_probes_that_is_not_text_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "probes").mkdir()
    (tmp_path / "probes" / "mine.py").write_bytes(b"\xff\xfe")
    with pytest.raises(PageError, match="save it as UTF-8"):
        _ = open_catalogue([tmp_path]).shared_probes


# ----- Conventions -----


def test_the_pages_and_probes_that_the_bundled_conventions_name_exist() -> None:
    catalogue = open_catalogue()
    conventions = catalogue.conventions
    assert catalogue.page(str(conventions.in_place), "variant")
    assert catalogue.page(str(conventions.controls.no_op), "control")
    assert catalogue.page(str(conventions.controls.sabotage), "control")
    assert conventions.unbroadcasting_probe in catalogue.shared_probes


def test_some_bundled_page_uses_each_abbreviation_of_a_source() -> None:
    used = {source for page in bundled_pages() for source in page.front.sources}
    for form in open_catalogue().conventions.sources:
        alone = Conventions(sources={form: ""})
        assert any(map(alone.is_abbreviation, used)), form


def test_the_first_folder_that_states_a_convention_counts(tmp_path: Path) -> None:
    (tmp_path / "catalogue.toml").write_text(
        'in_place = "mine"\n[controls]\nno_op = "nothing"\n[sources]\n"lecture-NN" = "a lecture"\n'
    )
    bundled, conventions = open_catalogue().conventions, open_catalogue([tmp_path]).conventions
    assert (conventions.in_place, conventions.controls.no_op) == ("mine", "nothing")
    assert conventions.controls.sabotage == bundled.controls.sabotage
    assert conventions.unbroadcasting_probe == bundled.unbroadcasting_probe
    assert conventions.sources.keys() == {"lecture-NN", *bundled.sources}


@pytest.mark.parametrize("source", ["lecture-07", "book#1", "std"])
def test_an_abbreviation_has_its_number_of_digits(source: str) -> None:
    conventions = Conventions(sources={"lecture-NN": "", "book#N": "", "std": ""})
    assert conventions.is_abbreviation(source)
    assert not conventions.is_abbreviation(source[:-1])


@pytest.mark.parametrize("text", ["in_place = 3", "inplace = 'a'", "in_place", "[sources]\na = 1"])
def test_wrong_conventions_name_their_file_and_the_keys(tmp_path: Path, text: str) -> None:
    (tmp_path / "catalogue.toml").write_text(text)
    with pytest.raises(PageError, match="the keys are in_place, ") as caught:
        _ = open_catalogue([tmp_path]).conventions
    assert caught.value.path == str(tmp_path / "catalogue.toml")


def test_no_module_of_the_harness_names_a_page() -> None:
    """Ids of one word are words of any text, and a diagnostic may share its name with a page."""
    named = {diagnostic.name for diagnostic in DIAGNOSTICS}
    ids = {page_id for page_id in open_catalogue().files if "-" in page_id} - named
    pattern = re.compile(rf"[`\"'/](?:{'|'.join(map(re.escape, sorted(ids)))})[`\"'.]")
    for file in Path(harness.__file__).parent.rglob("*.py"):
        assert not pattern.findall(file.read_text(encoding="utf-8")), file


def test_bundled_pages_are_those_beside_the_harness(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = CATALOGUE.page("skip-unbroadcast")
    (tmp_path / "breaks").mkdir()
    (tmp_path / "breaks" / "__init__.py").touch()
    monkeypatch.delitem(sys.modules, "breaks", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    assert CATALOGUE.is_bundled(page)
