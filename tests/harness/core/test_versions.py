"""The versions of distributions, installed or not."""

import importlib.metadata

import numpy as np
import pytest

from harness.core.versions import own_version, version_of
from harness.report.html.document import document


def test_a_distribution_that_is_not_installed_has_the_other_text() -> None:
    assert version_of("numpy", "none") == np.__version__
    assert version_of("no-distribution-has-this-name", "none") == "none"


def test_an_html_file_can_be_written_from_the_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(distribution: str) -> str:
        if distribution == "breaklab":
            raise importlib.metadata.PackageNotFoundError(distribution)
        return "1.0"

    monkeypatch.setattr(importlib.metadata, "version", version)
    assert own_version() == "(run from its sources)"
    assert "breaklab (run from its sources), numpy 1.0, Python 3." in document("title", [])
