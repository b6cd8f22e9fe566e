"""Processes that can do no harm: confinement, limits, signals and a pool. It knows no engine."""
