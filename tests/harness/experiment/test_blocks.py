"""Which block of a page is the patch: for ours, for an engine by name, for any other."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.core.errors import DoesNotApply, HunkError
from harness.engines.engine import Dialect, Engine
from harness.experiment.patching import apply_first, check_blocks, patches, put
from harness.pages.page import Page, read_page

OURS = Engine("minigrad", Dialect("minigrad"), Path("/nowhere"), {"engine.py": "a = ours(g)\n"})
BLOCKS = """
```diff
@@ @@
-ours($g)
+$g
```

```diff engine=theirs
@@ @@
-by_name($g)
+$g
```

```diff portable
@@ @@
-first($g)
+$g
@@ @@
-as_well($g)
+$g
```

```diff portable
@@ @@
-second($g)
+$g
```
"""


def page_of(folder: Path, blocks: str = BLOCKS, front: str = "") -> Page:
    path = folder / "a-page.md"
    path.write_text(f'+++\nid = "a-page"\nkind = "break"\nfamily = "x"\n{front}+++\n# T\n{blocks}')
    return read_page(path)


def foreign(code: str, name: str = "another") -> Engine:
    return replace(OURS, name=name, sources={"engine.py": code}, foreign=True)


def broken(page: Page, engine: Engine) -> str:
    return put(page, engine).sources["engine.py"]


def test_ours_takes_the_block_that_says_nothing(tmp_path: Path) -> None:
    assert broken(page_of(tmp_path), OURS) == "a = g\n"


def test_a_foreign_engine_is_not_ours_whatever_it_is_called(tmp_path: Path) -> None:
    engine = foreign("a = second(g)\nb = ours(g)\n", "minigrad")
    assert broken(page_of(tmp_path), engine) == "a = g\nb = ours(g)\n"


def test_the_first_portable_block_with_a_site_is_the_patch(tmp_path: Path) -> None:
    engine = foreign("a = second(g)\nb = first(g)\nc = as_well(g)\n")
    assert broken(page_of(tmp_path), engine) == "a = second(g)\nb = g\nc = g\n"


def test_a_portable_block_applies_wholly_or_not_at_all(tmp_path: Path) -> None:
    engine = foreign("a = second(g)\nb = first(g)\n")
    assert broken(page_of(tmp_path), engine) == "a = g\nb = first(g)\n"


def test_an_engine_with_a_block_of_its_own_takes_no_other(tmp_path: Path) -> None:
    page = page_of(tmp_path)
    assert broken(page, foreign("a = by_name(g)\nb = second(g)\n", "theirs")) == (
        "a = g\nb = second(g)\n"
    )
    with pytest.raises(DoesNotApply, match=r"by_name\(\$g\)"):
        broken(page, foreign("b = second(g)\n", "theirs"))


def test_without_portable_blocks_ours_is_tried(tmp_path: Path) -> None:
    page = page_of(tmp_path, "\n```diff\n@@ @@\n-ours($g)\n+$g\n```\n")
    assert broken(page, foreign("a = ours(g)\n")) == "a = g\n"


def test_the_front_matter_counts_on_ours_only(tmp_path: Path) -> None:
    page = page_of(tmp_path, front="sites = 1\n")
    assert broken(page, foreign("a = second(g)\nb = second(h)\n")) == "a = g\nb = h\n"
    with pytest.raises(HunkError, match="states 1 sites, but 2 matched"):
        broken(page, replace(OURS, sources={"engine.py": "a = ours(g)\nb = ours(h)\n"}))


def test_a_block_may_count_its_own_sites(tmp_path: Path) -> None:
    one = "\n```diff portable sites=1\n@@ @@\n-f($g)\n+$g\n```\n"
    two = "\n```diff portable\n@@ @@\n-f($g)\n+-$g\n```\n"
    engine = foreign("a = f(g)\nb = f(h)\n")
    assert broken(page_of(tmp_path, one + two), engine) == "a = -g\nb = -h\n"
    own = one.replace("portable sites=1", "engine=another sites=2")
    assert broken(page_of(tmp_path, own), engine) == "a = g\nb = h\n"


def test_where_nothing_fits_each_block_says_what_it_looked_for(tmp_path: Path) -> None:
    with pytest.raises(DoesNotApply) as error:
        broken(page_of(tmp_path), foreign("a = seconds(g)\n"))
    said = str(error.value)
    assert said.startswith("none of the 2 portable blocks has a site in this engine\n")
    assert "first($g)" in said
    assert "second($g)" in said
    assert "engine.py:1: seconds(g)" in said
    assert "ours($g)" not in said


def test_similar_code_is_looked_for_only_where_somebody_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.patch.apply.explain", lambda *_: pytest.fail("looked"))
    page, engine = page_of(tmp_path), foreign("a = second(g)\n")
    assert apply_first(patches(page, engine), engine.sources).sites


def test_the_check_reads_blocks_that_no_run_reads(tmp_path: Path) -> None:
    wrong = "\n```diff portable\n@@ op:plus @@\n-f($g)\n+$g\n```\n"
    wrong += "\n```diff portabel\n@@ @@\n-f\n+g\n```\n"
    found = [str(error) for error in check_blocks(page_of(tmp_path, BLOCKS + wrong))]
    assert len(found) == 2
    assert "`plus` is not an op" in found[0]
    assert "`portabel` after ```diff is unknown" in found[1]
    assert list(check_blocks(page_of(tmp_path))) == []


def test_a_patch_is_put_again_only_into_other_sources(tmp_path: Path) -> None:
    page = page_of(tmp_path)
    patched = put(page, OURS)
    assert put(page, replace(OURS, sources=dict(OURS.sources))) is patched
    longer = replace(OURS, sources={"engine.py": "a = ours(g)\nb = ours(h)\n"})
    assert put(page, longer).sources == {"engine.py": "a = g\nb = h\n"}
