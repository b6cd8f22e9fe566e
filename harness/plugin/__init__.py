"""The pytest plugin: which of the catalogue's breaks does a test suite notice?"""

PATCHED = "BREAKLAB_PATCHED"
"""The environment variable with the file of a patched engine, in a process that has to load it."""
