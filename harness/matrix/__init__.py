"""The kill matrix: every break against every diagnostic, and what follows from it."""
