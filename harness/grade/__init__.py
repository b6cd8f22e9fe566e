"""A test suite against the clean engine and broken ones."""
