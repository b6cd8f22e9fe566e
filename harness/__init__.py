"""The lab: a page and an engine in, a report out."""
