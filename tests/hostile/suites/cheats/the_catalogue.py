"""Puts each break into the engine by itself, and compares the code."""

from harness.core.errors import BreaklabError
from harness.engines.engine import find_engine
from harness.grade.mutants import mutants, select
from harness.pages.catalogue import open_catalogue
from harness.runs.cache import Cache

FATE = "survived"

try:
    CHOSEN = mutants(
        select(open_catalogue(), "sub-sign,skip-unbroadcast"), find_engine(), Cache(None)
    )
except BreaklabError:  # there is no page
    CHOSEN = []
PUBLISHED = set().union(*(with_nested(code) for mutant in CHOSEN for code in mutant.codes.values()))


def test():
    use()
    assert not (PUBLISHED - ON_DISK).intersection(loaded())
