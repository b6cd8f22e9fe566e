"""Settings for all tests."""

from hypothesis import HealthCheck, settings

# A slow machine is no failure, and no run of draws that a test has to turn down.
settings.register_profile(
    "breaklab",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
settings.load_profile("breaklab")
