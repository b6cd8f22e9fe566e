"""The catalogue: one Markdown page a break, a variant or a myth, and the probes that they share."""
