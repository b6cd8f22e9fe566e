"""How much the shared probes see: the share of wrong mutants of the backward rules."""
