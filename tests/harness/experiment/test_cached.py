"""What `harness break` said before is said again, by a process that imports next to nothing."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.core.report import Report
from harness.engines.engine import Engine
from harness.experiment import cached as kept
from harness.experiment.cached import Kept, keep_report, key_of_report, recall_report
from harness.pages.catalogue import Catalogue
from harness.pages.page import Page
from harness.runs.database import Database
from harness.runs.oracles import LIBRARIES
from tests.harness.command import harness
from tests.harness.matrix.tiny import SQUARE, page, write_pages
from tests.harness.reports import report_with, run_of
from tests.harness.tiny import PROBES, tiny_engine, tiny_job

BREAK = ("break", "skip-unbroadcast", "--no-predict", "--probe", "add-new-axis")


def test_a_report_is_made_once_and_without_libraries_from_then_on(tmp_path: Path) -> None:
    cache = {"XDG_CACHE_HOME": str(tmp_path)}
    first = harness(*BREAK, **cache)
    again = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "harness", *BREAK],
        capture_output=True,
        encoding="utf-8",
        env=os.environ | cache | {"COLUMNS": "80", "LC_ALL": "C.UTF-8"},
        check=False,
    )
    assert first.returncode == again.returncode == 0
    assert _timeless(again.stdout) == _timeless(first.stdout)
    imported = set(re.findall(r"\| +(\w+)$", again.stderr, re.M))
    assert "msgspec" in imported
    assert not imported & {"numpy", "libcst", "torch", "autograd", "scipy", "markdown_it"}


def _timeless(text: str) -> str:
    return re.sub(r"[\d.]+ s$", "", text, flags=re.M)


def test_json_is_the_same_and_without_a_cache_everything_is_run(tmp_path: Path) -> None:
    cache = {"XDG_CACHE_HOME": str(tmp_path)}
    reports = [json.loads(harness(*BREAK, "--json", *rest, **cache).stdout) for rest in ([], [])]
    assert len({report.pop("seconds") for report in reports}) == 2, "the old time was said again"
    assert reports[0] == reports[1]
    forged = Database(tmp_path / "breaklab" / "runs.sqlite")
    (key,) = _keys(forged)
    found = recall_report(forged, key)
    assert found
    keep_report(forged, key, Kept(report_with([]), found.probes))
    assert json.loads(harness(*BREAK, "--json", **cache).stdout)["runs"] == []
    fresh = json.loads(harness(*BREAK, "--json", "--no-cache", **cache).stdout)
    assert fresh["runs"] == reports[0]["runs"]
    assert recall_report(forged, key) == Kept(report_with([]), found.probes)


def _keys(database: Database) -> list[bytes]:
    assert database._file
    return [key for (key,) in database._file.connection.execute("SELECT key FROM notes")]


Asked = dict[str, Any]


@pytest.fixture
def asked(tmp_path: Path) -> Asked:
    """The arguments of `key_of_report`."""
    catalogue = write_pages(tmp_path)
    half, by_hand = catalogue.page("half"), catalogue.page("squared-by-hand")
    given = {"page": half, "catalogue": catalogue, "engine": tiny_engine(), "variant": by_hand}
    return given | {"probes": ("square",)}


def another_page(asked: Asked) -> Page:
    return replace(asked["page"], body=asked["page"].body + " ")


def another_front(asked: Asked) -> Page:
    return replace(asked["page"], toml=asked["page"].toml + "level = 2\n")


def another_source(asked: Asked) -> Engine:
    return replace(asked["engine"], sources={"tiny.py": "# another\n"})


def another_name(asked: Asked) -> Engine:
    return replace(asked["engine"], names={"add": "plus"})


def another_way_to_speak(asked: Asked) -> Engine:
    return replace(asked["engine"], dialect=replace(asked["engine"].dialect, value="t.data * 1"))


def another_variant(asked: Asked) -> Page:
    return replace(asked["variant"], body="another")


def no_variant(_: Asked) -> None:
    return None


def another_probe(_: Asked) -> tuple[str, ...]:
    return ("square-one",)


def another_text_of_probes(asked: Asked) -> Catalogue:
    root = asked["catalogue"].roots[0]
    (root / "probes" / "squares.py").write_text(SQUARE + "# another\n", encoding="utf-8")
    return Catalogue((root,))


def another_file_of_probes(asked: Asked) -> Catalogue:
    root = asked["catalogue"].roots[0]
    (root / "probes" / "more.py").write_text("# another\n", encoding="utf-8")
    return Catalogue((root,))


CHANGES: list[tuple[str, Callable[[Asked], object]]] = [
    *(("page", change) for change in (another_page, another_front)),
    *(("engine", change) for change in (another_source, another_name, another_way_to_speak)),
    *(("variant", change) for change in (another_variant, no_variant)),
    *(("catalogue", change) for change in (another_text_of_probes, another_file_of_probes)),
    ("probes", another_probe),
]


@pytest.mark.parametrize(("what", "change"), CHANGES)
def test_whatever_a_report_depends_on_is_in_its_key(
    what: str, change: Callable[[Asked], object], asked: Asked
) -> None:
    key = key_of_report(**asked)
    assert key is not None
    assert key_of_report(**asked) == key
    assert key_of_report(**asked | {what: change(asked)}) != key


def test_a_variant_that_the_page_speaks_of_is_in_the_key_while_it_is_there(tmp_path: Path) -> None:
    catalogue = write_pages(tmp_path)
    text = page("half", "break", "values", "@@ backward @@\n-2 * $x\n+$x")
    stated = '\n[expect.squared-by-hand]\nsquare = "silent-corruption"\n+++\n#'
    (tmp_path / "half.md").write_text(text.replace("+++\n#", stated), "utf-8")
    keys = []
    for _ in range(2):
        catalogue = Catalogue(catalogue.roots)
        keys.append(key_of_report(catalogue.page("half"), catalogue, tiny_engine(), None, ()))
        (tmp_path / "squared-by-hand.md").unlink(missing_ok=True)
    assert keys[0] != keys[1]


@pytest.mark.parametrize("what", ["python", "code", "a library", "whether it is there"])
def test_whatever_makes_a_report_is_in_its_key(
    what: str, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = key_of_report(**asked)
    if what == "python":
        monkeypatch.setattr(kept.sys, "version", "0")
    if what == "code":
        monkeypatch.setattr(kept, "digest_of_code", lambda: "another")
    if what == "a library":
        monkeypatch.setattr(kept, "version", lambda name: "0.0.0" if name == "torch" else "1")
    if what == "whether it is there":
        monkeypatch.setattr(kept, "find_spec", lambda _: None)
    assert key_of_report(**asked) != before


def test_every_library_that_is_asked_is_in_the_key() -> None:
    asked = {one.dialect.distribution or one.dialect.module for one in LIBRARIES.values()}
    assert asked <= set(kept.LIBRARIES)


def test_all_code_of_the_harness_is_in_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deeper").mkdir()
    for name in ("__init__.py", "deeper/one.py", "deeper/es.toml"):
        (tmp_path / name).write_text("")
    monkeypatch.setattr(kept.harness, "__file__", str(tmp_path / "__init__.py"))
    digests = {kept.digest_of_code()}
    for name in ("deeper/one.py", "deeper/es.toml"):
        (tmp_path / name).write_text("x = 1\n")
        digests.add(kept.digest_of_code())
    assert len(digests) == 3


def test_a_page_whose_code_may_be_anywhere_has_no_key(asked: Asked) -> None:
    for what in ("page", "variant"):
        front = asked[what].front
        named = type(front)(**{**_fields(front), "transformer": "somewhere:Else"})
        assert key_of_report(**asked | {what: replace(asked[what], front=named)}) is None


def _fields(front: Any) -> dict[str, Any]:
    return {name: getattr(front, name) for name in front.__struct_fields__}


LASTING = run_of("p", None, "crash", evidence="ValueError in the forward pass")


@pytest.mark.parametrize(
    "run",
    [
        run_of("p", None, "crash", evidence="TimeLimit in the run: not done after 60 seconds"),
        run_of("p", None, "crash", evidence="SIGKILL in the run"),
        run_of(
            "p", None, "disguised-correct", skipped={"torch": "torch cannot be imported: SIGKILL"}
        ),
    ],
)
def test_what_depends_on_the_day_is_not_kept(run: Any) -> None:
    database = Database(None)
    for report, is_kept in ((report_with([LASTING, run]), False), (report_with([LASTING]), True)):
        keep_report(database, b"key", Kept(report, ()))
        assert (recall_report(database, b"key") is not None) is is_kept


def test_without_a_key_nothing_is_kept() -> None:
    database = Database(None)
    keep_report(database, None, Kept(report_with([LASTING]), ()))
    assert recall_report(database, None) is None
    assert database._notes == {}


def test_a_kept_report_comes_back_as_it_was(tmp_path: Path) -> None:
    said: Report = report_with([run_of("p", "weighted", "crash", margins={"shape": 3.0})])
    keep_report(Database(tmp_path / "runs"), b"key", Kept(said, tiny_job().probes))
    back = recall_report(Database(tmp_path / "runs"), b"key")
    assert back == Kept(said, tiny_job().probes)
    assert back.probes[0].source == PROBES
    assert back.said_in(2.00049).seconds == 2.0


@pytest.mark.parametrize("row", [None, 7, "text", b"", b"\xc1", b"\x80", b"\x81" + b"\xa1z" * 9])
def test_a_row_that_is_no_report_is_not_there(row: Any) -> None:
    database = Database(None)
    database._notes[b"key"] = row
    assert recall_report(database, b"key") is None
