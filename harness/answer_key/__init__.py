"""The outcome of a run: its stage, and evidence from comparing it with the clean engine's run."""
