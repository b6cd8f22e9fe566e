"""A hunt: a bug that the learner does not know, to be found with evidence that has a price."""
