"""Running a test suite on the clean engine and on broken ones."""
