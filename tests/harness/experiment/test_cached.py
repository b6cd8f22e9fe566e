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

import msgspec
import pytest

from harness.core.report import Report
from harness.engines.engine import Engine
from harness.experiment.cached import REPORTS, CachedReport, key_of_report
from harness.pages.catalogue import Catalogue
from harness.pages.page import Page
from harness.runs import cache as cache_module
from harness.runs.cache import LIBRARIES as CACHED_LIBRARIES
from harness.runs.cache import Cache
from harness.runs.cached_runs import LIBRARIES
from tests.harness.command import harness
from tests.harness.matrix.tiny import SQUARE, page, write_pages
from tests.harness.reports import report_with, run_of
from tests.harness.tiny import PROBES, tiny_engine, tiny_job

BREAK = ("break", "skip-unbroadcast", "--no-predict", "--probe", "add-new-axis")


@pytest.mark.usefixtures("without_oracles")
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


@pytest.mark.usefixtures("without_oracles")
def test_json_is_the_same_and_without_a_cache_everything_is_run(tmp_path: Path) -> None:
    cache = {"XDG_CACHE_HOME": str(tmp_path)}
    reports = [json.loads(harness(*BREAK, "--json", *rest, **cache).stdout) for rest in ([], [])]
    assert len({report.pop("seconds") for report in reports}) == 2, "the old time was said again"
    assert reports[0] == reports[1]
    forged = Cache(tmp_path / "breaklab" / "runs.sqlite")
    ((key, cached),) = forged.get(REPORTS, _keys(forged)).items()
    forged.put(REPORTS, {key: CachedReport(report_with([]), cached.probes)})
    assert json.loads(harness(*BREAK, "--json", **cache).stdout)["runs"] == []
    fresh = json.loads(harness(*BREAK, "--json", "--no-cache", **cache).stdout)
    assert fresh["runs"] == reports[0]["runs"]
    assert forged.get(REPORTS, [key]) == {key: CachedReport(report_with([]), cached.probes)}


def _keys(cache: Cache) -> list[bytes]:
    file = cache._database._file
    assert file
    return [key for (key,) in file.connection.execute("SELECT key FROM results")]


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
    cache_module._environment.cache_clear()
    if what == "python":
        monkeypatch.setattr(cache_module.sys, "version", "0")
    if what == "code":
        monkeypatch.setattr(cache_module, "code_digest", lambda _rooms: "another")
    if what == "a library":
        monkeypatch.setattr(cache_module, "_version", lambda name: (True, f"0.{len(name)}"))
    if what == "whether it is there":
        monkeypatch.setattr(cache_module, "_version", lambda _: (False, ""))
    assert key_of_report(**asked) != before
    cache_module._environment.cache_clear()


def test_every_library_that_is_asked_is_in_the_key() -> None:
    asked = {one.dialect.distribution or one.dialect.module for one in LIBRARIES.values()}
    assert asked <= set(CACHED_LIBRARIES)


REPEATABLE = run_of("p", None, "crash", evidence="ValueError in the forward pass")


def test_a_report_with_a_run_that_is_not_repeatable_is_not_cached() -> None:
    cache = Cache(None)
    lost = msgspec.structs.replace(REPEATABLE, repeatable=False)
    for runs, is_cached in (([REPEATABLE, lost], False), ([REPEATABLE], True)):
        cache.put(REPORTS, {b"key": CachedReport(report_with(runs), ())})
        assert (b"key" in cache.get(REPORTS, [b"key"])) is is_cached


def test_a_cached_report_comes_back_as_it_was(tmp_path: Path) -> None:
    report: Report = report_with([run_of("p", "weighted", "crash", margins={"shape": 3.0})])
    stored = CachedReport(report, tiny_job().probes)
    Cache(tmp_path / "runs").put(REPORTS, {b"key": stored})
    (cached,) = Cache(tmp_path / "runs").get(REPORTS, [b"key"]).values()
    assert cached == stored
    assert cached.probes[0].source == PROBES
    assert cached.with_seconds(2.00049).seconds == 2.0
