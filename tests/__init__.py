"""A package by name: others that are installed may bring a `tests` of their own."""
