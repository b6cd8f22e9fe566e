"""Libraries that nobody here wrote, made to run the texts of the probes."""
