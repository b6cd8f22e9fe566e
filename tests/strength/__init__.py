"""How strong the suite is: the share of seeded mutants of the harness that the tests kill."""
