"""The catalogue: what is found, and what a name that is not there answers."""

from pathlib import Path

import pytest

from harness.core.errors import PageError, UsageError
from harness.pages.catalogue import Catalogue, open_catalogue

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


def test_an_unknown_id_suggests_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean `skip-unbroadcast`"):
        open_catalogue().page("skip-unbroadcst")


def test_a_break_is_no_variant() -> None:
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
    pages, mistakes = open_catalogue([tmp_path]).pages()
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


def test_a_file_of_probes_that_is_no_text_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "probes").mkdir()
    (tmp_path / "probes" / "mine.py").write_bytes(b"\xff\xfe")
    with pytest.raises(PageError, match="save it as UTF-8"):
        _ = open_catalogue([tmp_path]).shared_probes


@pytest.mark.parametrize("said", ["{2}", "{x}", "{", "{0.x}"])
def test_a_translation_that_asks_for_parts_that_are_not_there_is_a_mistake(
    tmp_path: Path, said: str
) -> None:
    (tmp_path / "probes").mkdir()
    table = f'"plain" = "{{"\n"step {{}}" = "paso {said}"\n'
    (tmp_path / "probes" / "es.toml").write_text(table, encoding="utf-8")
    with pytest.raises(PageError, match=r"es\.toml:2: .*(?s:.*)remedy"):
        Catalogue((tmp_path,)).phrases("es")
