"""Pages and the catalogue: reading Markdown, front matter, probes and translations."""
