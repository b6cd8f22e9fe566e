"""A plugin of pytest that replaces the catalogue's operators by the controls in `pages`.

pytest -p tests.rules.controls --breaks-rules engine.py
"""

from pathlib import Path

from harness.grade import rule_mutants
from harness.pages.catalogue import Catalogue

_PAGES = Catalogue((Path(__file__).parent / "pages",))

rule_mutants.operators = lambda _catalogue: list(_PAGES.valid_pages())
