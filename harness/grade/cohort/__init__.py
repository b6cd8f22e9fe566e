"""Grading the submissions of a whole course: in parallel, in shards or on Dask, and resumable."""
