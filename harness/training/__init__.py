"""The training tier: breaks that only a distribution over random seeds can show.

A page that names a `recipe` changes a whole training run, not one rule. Both versions run with the
same seeds, and what the page states is compared with statistics:

    page -> recipe (text, beside the engine's) -> runs (a log a seed) -> statistics -> report

It is separate from the rest, which is deterministic and fast: `harness check --training`.
"""
