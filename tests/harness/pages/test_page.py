"""Pages: what a sound one holds, and what each mistake in one answers."""

from pathlib import Path

import pytest

from harness.core.errors import PageError, UsageError
from harness.pages.front_matter import Break, Exercise, TrainingBreak
from harness.pages.page import read_page, read_table

SOUND = """\
+++
id     = "a-break"
kind   = "break"
family = "broadcasting"
level  = 2
sources = ["project#1"]

[expect]
add-same-shape = "disguised-correct"
sum-axis = { uniform = "disguised-correct", weighted = "silent-corruption" }
[expect.in-place]
add-same-shape = "crash"

[diagnostics]
caught_by = ["shape"]
[diagnostics.in-place]
caught_by = ["crash"]
+++
# A `break`

## The break

```diff
@@ add @@
-a
+b
```

```diff engine=other
@@ sub @@
-a
+b
```

## Probes

```python
def own(a=(2,)):
    "What it exercises."
    return a
```

## Lesson

Two sentences.
"""


def write(folder: Path, text: str, name: str = "a-break.md") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def mistake(folder: Path, text: str) -> PageError:
    with pytest.raises(PageError) as caught:
        read_page(write(folder, text))
    return caught.value


def test_a_sound_page_holds_what_is_written(tmp_path: Path) -> None:
    page = read_page(write(tmp_path, SOUND))
    assert (page.id, page.title, page.front.level) == ("a-break", "A break", 2)
    assert page.section("Lesson") == "Two sentences."
    assert page.claims[None].caught_by == ("shape",)
    assert page.claims["in-place"].caught_by == ("crash",)


def test_a_page_is_parsed_again_only_after_a_change(tmp_path: Path) -> None:
    page = read_page(write(tmp_path, SOUND))
    assert read_page(tmp_path / "a-break.md") is page
    changed = read_page(write(tmp_path, SOUND.replace("Two sentences.", "One sentence.")))
    assert changed.section("Lesson") == "One sentence."
    assert page.section("Lesson") == "Two sentences."


def test_the_line_of_a_block_is_its_line_in_the_file(tmp_path: Path) -> None:
    page = read_page(write(tmp_path, SOUND))
    lines = SOUND.splitlines()
    assert [lines[fence.line - 1] for fence in page.fences] == [
        fence.text.splitlines()[0] for fence in page.fences
    ]


def test_expectations_are_looked_up_by_variant_then_loss(tmp_path: Path) -> None:
    page = read_page(write(tmp_path, SOUND))
    assert page.expected(None, "add-same-shape", "weighted") == "disguised-correct"
    assert page.expected("in-place", "add-same-shape", "weighted") == "crash"
    assert page.expected("in-place", "sum-axis", "weighted") == "silent-corruption"
    assert page.expected(None, "sum-axis", "uniform") == "disguised-correct"
    assert page.expected(None, "unheard-of", "uniform") is None


def test_a_block_for_one_engine_replaces_the_general_ones(tmp_path: Path) -> None:
    page = read_page(write(tmp_path, SOUND))
    assert [fence.text[:10] for fence in page.diffs("other")] == ["@@ sub @@\n"]
    assert [fence.text[:10] for fence in page.diffs("minigrad")] == ["@@ add @@\n"]


def test_the_page_holds_its_own_probes(tmp_path: Path) -> None:
    (probe,) = read_page(write(tmp_path, SOUND)).probes
    assert (probe.name, probe.kind, probe.leaves[0].shape) == ("own", "gradient", (2,))


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("+++\nid", "id", 1, "no front matter"),
        ("\n+++\n#", "\n#", 1, "does not end"),
        ('"a-break"', "a-break", 2, "not TOML"),
        ('"a-break"', '"another"', 2, "key `id` is `another`, but the file is `a-break.md`"),
        ('"a-break"', '"A Break"', 2, "key `id` is wrong"),
        ('"break"', '"brake"', 3, "key `kind` is wrong: Invalid value 'brake'"),
        ('family = "broadcasting"\n', "", 1, "key `family` is missing"),
        ("level  = 2", "level = = 2", 5, "not TOML: Invalid value (at line 5, "),
        ("level  = 2", "level = 7", 5, "key `level` is wrong"),
        ("level  = 2", 'level = "2"', 5, "key `level` is wrong: Expected `int"),
        ("level  = 2", "levle = 2", 5, "key `levle` is unknown"),
        ('["project#1"]', '"project#1"', 6, "key `sources` is wrong"),
        ("level  = 2", 'needs = ["torch"]', 5, "key `needs` on a break: it belongs on a myth"),
        ('e = "disguised-correct"\nsum', 'e = "fine"\nsum', 9, "key `expect.add-same-shape`"),
        ("uniform = ", "unifrom = ", 10, "key `expect.sum-axis.unifrom` is wrong"),
        ('= "crash"', '= "crush"', 12, "key `expect.in-place.add-same-shape` is wrong"),
        (
            'caught_by = ["shape"]',
            'cought_by = ["shape"]',
            15,
            "`diagnostics.cought_by` is unknown",
        ),
        ('["crash"]', "[1]", 17, "key `diagnostics.in-place.caught_by` is wrong"),
        ("# A `break`\n", "", 19, "no title"),
        ("level  = 2", f"level = {'9' * 5000}", 2, "not TOML: Exceeds the limit"),
        ("level  = 2", f"level = {'[' * 3000}", 2, "not TOML: maximum recursion depth"),
    ],
)
def test_a_mistake_names_file_line_key_and_remedy(
    tmp_path: Path, old: str, new: str, line: int, words: str
) -> None:
    assert old in SOUND
    error = mistake(tmp_path, SOUND.replace(old, new, 1))
    assert words in error.problem
    assert (error.line, str(error).partition(":")[0]) == (line, str(tmp_path / "a-break.md"))
    assert "remedy: " in str(error)


KEYS_OF_ANOTHER_KIND = [
    (kind, key)
    for kind, keys in {
        "myth": ("sites = 1", "expect = {}", "diagnostics = {}", "breaks = []"),
        "exercise": ("sites = 1", "expect = {}", "diagnostics = {}", 'needs = ["torch"]'),
        "variant": ('recipe = "a"', 'needs = ["torch"]', "kills = []", "pardon = {}"),
        "control": ('recipe = "a"', "breaks = []", "pardon = {}"),
        "break": ('needs = ["torch"]', "breaks = []", "kills = []"),
    }.items()
    for key in keys
]


@pytest.mark.parametrize(("kind", "key"), KEYS_OF_ANOTHER_KIND)
def test_a_key_of_another_kind_is_a_mistake(tmp_path: Path, kind: str, key: str) -> None:
    name = key.partition(" ")[0]
    front = f'id = "a-break"\nkind = "{kind}"\nfamily = "f"\n{key}\n'
    error = mistake(tmp_path, f"+++\n{front}+++\n# Title\n")
    article = "an" if kind == "exercise" else "a"
    assert error.problem.startswith(f"key `{name}` on {article} {kind}: it belongs on ")
    assert (error.line, error.exit_status) == (5, 2)
    assert f"leave it out; the keys of {article} {kind} are id, kind, family" in error.remedy


@pytest.mark.parametrize("key", ["diagnostics = {}", "pardon = {}", 'needs = ["torch"]'])
def test_a_break_with_a_recipe_is_a_kind_of_its_own(tmp_path: Path, key: str) -> None:
    front = 'id = "a-break"\nkind = "break"\nfamily = "f"\nrecipe = "classify"\n'
    page = read_page(write(tmp_path, f"+++\n{front}+++\n# Title\n"))
    assert isinstance(page.front, TrainingBreak)
    assert (page.front.kind, page.front.recipe) == ("break", "classify")
    error = mistake(tmp_path, f"+++\n{front}{key}\n+++\n# Title\n")
    assert "on a break with a recipe: it belongs on" in error.problem


def test_the_front_matter_of_a_page_can_be_asked_for_by_its_kind(tmp_path: Path) -> None:
    page = read_page(write(tmp_path, SOUND))
    assert page.front_as(Break) is page.front
    with pytest.raises(UsageError, match="`a-break` is a break, not an exercise"):
        page.front_as(Exercise)


def test_a_page_that_is_no_text_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "a-break.md").write_bytes(b"+++\n\xff\xfe")
    with pytest.raises(PageError, match="save it as UTF-8"):
        read_page(tmp_path / "a-break.md")


@pytest.mark.parametrize(
    ("probe", "words"),
    [
        ("def f(a=(2,)):\n    return a\n", "no docstring"),
        ("def f(a):\n    'doc'\n    return a\n", "leaf `a` of `f` has no shape"),
        ("def f(a='x'):\n    'doc'\n    return a\n", "neither a shape nor values"),
        ("def f(a=(2.5,)):\n    'doc'\n    return a\n", "neither a shape nor values"),
        ("def f(a=[[1.0], [2.0, 3.0]]):\n    'doc'\n    return a\n", "neither a shape nor values"),
        ("def f(*a):\n    'doc'\n    return a\n", "more than plain arguments"),
        ("def f(:\n", "not Python"),
        ("def f(a=" + "not " * 9000 + "1):\n    'doc'\n", "nested too deeply"),
        ("def f(a={[]: 1}):\n    'doc'\n    return a\n", "neither a shape nor values"),
        (f"def f(a=({2**63},)):\n    'doc'\n", "neither a shape nor values"),
        (f"def f(a=[1, {10**30}]):\n    'doc'\n", "neither a shape nor values"),
        ("def f(a=(2,)):\n    ' '\n", "no docstring"),
    ],
)
def test_a_mistake_in_a_probe_names_its_line(tmp_path: Path, probe: str, words: str) -> None:
    text = SOUND.replace('def own(a=(2,)):\n    "What it exercises."\n    return a\n', probe)
    page = read_page(write(tmp_path, text))
    with pytest.raises(PageError, match="remedy") as caught:
        _ = page.probes
    assert words in caught.value.problem
    assert text.splitlines()[caught.value.line - 1].startswith("def f(")


def test_what_a_docstring_cannot_print_is_shown_as_an_escape(tmp_path: Path) -> None:
    text = SOUND.replace('"What it exercises."', r'"Half of a pair: \ud800."')
    (probe,) = read_page(write(tmp_path, text)).probes
    assert probe.doc == r"Half of a pair: \ud800."


@pytest.mark.parametrize("text", ["a = 1", "a", "a = " + "[" * 3000, "a = " + "9" * 5000])
def test_a_table_that_is_none_of_strings_is_a_mistake(tmp_path: Path, text: str) -> None:
    with pytest.raises(PageError, match="remedy"):
        read_table(write(tmp_path, text, "track.toml"))
