"""What is said of engines where more than one module says it."""

OWN_WAY = "the probe asks for what every library has in its own way"
"""How the reason begins why a probe of layers, optimizers or a tape cannot be put to an engine."""
