"""One page on one engine, from the patch to the report."""
