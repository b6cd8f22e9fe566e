"""The profile for a long run: `pytest tests/fuzz --hypothesis-profile=long` takes hours."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "long",
    deadline=None,
    max_examples=int(os.environ.get("N", "20000")),
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
