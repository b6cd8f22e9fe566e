"""Names that move: to be removed once every room has followed."""

from harness.runs.cache import Cache as Store
from harness.runs.cache import open_cache as open_store
from harness.runs.cached_runs import keys_of
from harness.runs.cached_runs import run_cached as run_kept

__all__ = ["Store", "keys_of", "open_store", "run_kept"]
