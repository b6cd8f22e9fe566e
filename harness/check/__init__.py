"""Every kind of page against what is observed, and the start of a new page."""
