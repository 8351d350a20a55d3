"""How Hypothesis looks for counterexamples: the same examples in every run of the suite, new ones in `make explore`."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings

#: How many times as many examples `explore` tries.
EXPLORE_TIMES = 20

# Virtual time: a slow example means a slow machine and is no finding. The suite's examples are the same in each run, so that a
# red test means a change.
settings.register_profile("suite", deadline=None, derandomize=True, print_blob=True)
settings.register_profile(
    "explore",
    deadline=None,
    derandomize=False,
    print_blob=True,
    max_examples=EXPLORE_TIMES * settings.get_profile("suite").max_examples,
)

#: The profile of this process: `suite`, or the one that the variable HYPOTHESIS_PROFILE names.
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "suite")
settings.load_profile(PROFILE)


def examples(count: int, **options: Any) -> settings:
    """Return settings for a test that needs another number of examples than Hypothesis's 100.

    Args:
        count: Examples in the suite; `explore` tries `EXPLORE_TIMES` as many.
        options: Further arguments of `hypothesis.settings`.

    Returns:
        The profile's settings with these changes.
    """
    return settings(max_examples=count * (EXPLORE_TIMES if PROFILE == "explore" else 1), **options)
