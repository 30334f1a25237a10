"""How hard Hypothesis looks, chosen by HYPOTHESIS_PROFILE.

`ci`, the default, tries the same examples each time: a change is judged by what it changed.
`long` looks for new ones; `make fuzz` runs it and prints the seed that repeats it.
"""

import os

from hypothesis import HealthCheck, settings

# A slow machine is not a failure.
settings.register_profile(
    "patient",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "ci",
    parent=settings.get_profile("patient"),
    derandomize=True,
    max_examples=100,
    stateful_step_count=50,
)
settings.register_profile(
    "long",
    parent=settings.get_profile("patient"),
    derandomize=False,
    max_examples=1_000,
    stateful_step_count=200,
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
