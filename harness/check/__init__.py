"""Comparing every kind of page with what is observed, and starting a new page."""
