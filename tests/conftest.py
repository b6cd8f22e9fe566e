"""Settings for all tests."""

from hypothesis import settings

# A slow machine is no failure.
settings.register_profile("breaklab", deadline=None)
settings.load_profile("breaklab")
