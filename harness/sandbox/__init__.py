"""Confined child processes: start and limit them, exchange frames of bytes, and end them.

Nothing here depends on engines or probes: a child calls a function that it is passed, and the
meaning of the frames is up to the caller.
"""
