"""Test suites for minigrad in different styles, as users of `pytest --breaks` would write them.

They are run by their path; nothing collects them otherwise.
"""
