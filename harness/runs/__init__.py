"""Run probes on an engine in confined child processes, and cache the results.

`isolated` starts a child for a task, `child` does the task there, `protocol` defines what they
exchange.
"""
