"""Ours, and not those that some distribution installs under this name."""
