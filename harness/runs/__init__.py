"""A probe on an engine becomes a run, in a confined child process; the cache of runs."""
