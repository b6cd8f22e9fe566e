"""Our own folders on the user's disk: the store of results, and a learner's progress."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_cache_path, user_data_path

DATA = "BREAKLAB_DATA"
"""The environment variable with the progress file's folder; by default the user's data folder."""


def cache_folder() -> Path:
    """Return the folder of the store, which has patched sources, and of submissions' copies."""
    return user_cache_path("breaklab")


def data_folder() -> Path:
    """Return the folder of the learner's progress."""
    folder = os.environ.get(DATA)
    return Path(folder) if folder else user_data_path("breaklab", appauthor=False)
