"""Engines: locating, reading and loading their source, and calling engines of any style."""
