"""A package, so that the `tests` that other distributions install do not take its place."""
