"""Hypothesis profiles: the same examples in each run of the suite, new ones in `make explore`."""

from __future__ import annotations

import contextlib
import importlib
import os
import pkgutil
import shlex
from collections.abc import Iterable
from typing import Any

from hypothesis import HealthCheck, Phase, settings

#: The factor by which `explore` has more examples.
EXPLORE_TIMES = 20

#: By how much the examples of these profiles are fewer. The interpreted build runs the sources that
#: the compiled one is made of, after that has had all examples.
FEWER = {"interpreted": 3, "mutants": 5}

#: Health checks that depend on the machine's speed, or fail now and then by chance.
IRRELEVANT = (HealthCheck.too_slow, HealthCheck.data_too_large)

# No deadline, as time is virtual in most tests: a slow example means a slow machine. The suite's
# examples are the same in each run, so that a failure means a change.
settings.register_profile(
    "suite", deadline=None, derandomize=True, print_blob=True, suppress_health_check=IRRELEVANT
)
settings.register_profile(
    "explore",
    settings.get_profile("suite"),
    derandomize=False,
    max_examples=EXPLORE_TIMES * settings.get_profile("suite").max_examples,
)
settings.register_profile(
    "interpreted",
    settings.get_profile("suite"),
    max_examples=settings.get_profile("suite").max_examples // FEWER["interpreted"],
)
# Mutants fail at the first examples or survive, and the example is looked at by nobody.
settings.register_profile(
    "mutants",
    settings.get_profile("suite"),
    max_examples=settings.get_profile("suite").max_examples // FEWER["mutants"],
    phases=(Phase.explicit, Phase.generate),
)

#: The profile of this process: `suite`, or the one that the variable HYPOTHESIS_PROFILE names.
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "suite")
settings.load_profile(PROFILE)


def examples(count: int, *, times: int = EXPLORE_TIMES, **options: Any) -> settings:
    """Return settings for a test with another number of examples than Hypothesis's 100.

    Args:
        count: Examples in the suite.
        times: The factor in `explore`; smaller where an example takes seconds.
        options: Further arguments of `hypothesis.settings`.

    Returns:
        The profile's settings with these changes.
    """
    if PROFILE == "explore":
        count *= times
    elif PROFILE in FEWER:
        count = -(-count // FEWER[PROFILE])
    return settings(max_examples=count, **options)


def load_all_constants() -> None:
    """Import all modules of the packages and the benchmarks.

    Hypothesis draws constants from the source of imported modules. With all of them imported, a
    test's examples depend on the seed alone, and not on the other tests that run.
    """
    for name in ("request_purgatory", "purgatory_broker", "purgatory_spark", "benchmarks"):
        try:
            package = importlib.import_module(name)
        except ModuleNotFoundError:  # A package that is not installed.
            continue
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            with contextlib.suppress(ImportError):  # An extra that is not installed.
                importlib.import_module(module.name)


def reproducing(tests: Iterable[str], seed: object) -> list[str]:
    """Return the commands that run tests on the same examples again.

    Args:
        tests: Node ids as pytest reports them.
        seed: The run's seed; None if Hypothesis saved the failing examples instead.
    """
    commands = []
    for test in tests:
        # xdist appends the name of the group that runs in one process.
        name = shlex.quote(test.rpartition("@")[0] if test.endswith("@spark") else test)
        if seed is None:
            commands.append(f"HYPOTHESIS_PROFILE=explore .venv/bin/python -m pytest {name}")
        else:
            quoted = shlex.quote(name) if name == test else f'"{name}"'
            commands.append(f"make explore SEED={seed} ARGS={quoted}")
    return commands
