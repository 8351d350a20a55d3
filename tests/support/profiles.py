"""How Hypothesis looks for counterexamples.

The same examples in every run of the suite, new ones in `make explore`.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pkgutil
import shlex
from collections.abc import Iterable
from typing import Any

from hypothesis import HealthCheck, settings

import request_purgatory

#: How many times as many examples `explore` tries.
EXPLORE_TIMES = 20

#: What a slow machine fails, and what chance fails now and then: neither is a finding.
IRRELEVANT = (HealthCheck.too_slow, HealthCheck.data_too_large)

# Virtual time: a slow example means a slow machine and is no finding. The suite's examples are the
# same in each run, so that a red test means a change.
settings.register_profile(
    "suite", deadline=None, derandomize=True, print_blob=True, suppress_health_check=IRRELEVANT
)
settings.register_profile(
    "explore",
    settings.get_profile("suite"),
    derandomize=False,
    max_examples=EXPLORE_TIMES * settings.get_profile("suite").max_examples,
)

#: The profile of this process: `suite`, or the one that the variable HYPOTHESIS_PROFILE names.
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "suite")
settings.load_profile(PROFILE)


def examples(count: int, *, times: int = EXPLORE_TIMES, **options: Any) -> settings:
    """Return settings for a test that needs another number of examples than Hypothesis's 100.

    Args:
        count: Examples in the suite.
        times: How many times as many `explore` tries; fewer where an example takes seconds.
        options: Further arguments of `hypothesis.settings`.

    Returns:
        The profile's settings with these changes.
    """
    return settings(max_examples=count * (times if PROFILE == "explore" else 1), **options)


def load_all_constants() -> None:
    """Import the package and the benchmarks, so that a seed gives a test the same examples alone and among others.

    Hypothesis draws constants from the source of the modules that are loaded. Which these are would
    otherwise depend on the tests that are collected, and on those that ran before.
    """
    for package in (request_purgatory, importlib.import_module("benchmarks")):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            with contextlib.suppress(ImportError):  # An extra that is not installed.
                importlib.import_module(module.name)


def reproducing(tests: Iterable[str], seed: object) -> list[str]:
    """Return the command that runs each test on the same examples again.

    Args:
        tests: Node ids as pytest reports them.
        seed: The run's seed; None if it had none, and Hypothesis kept the failing examples.
    """
    commands = []
    for test in tests:
        # xdist appends the group that keeps tests in one process.
        name = shlex.quote(test.rpartition("@")[0] if test.endswith("@spark") else test)
        if seed is None:
            commands.append(f"HYPOTHESIS_PROFILE=explore .venv/bin/python -m pytest {name}")
        else:
            quoted = shlex.quote(name) if name == test else f'"{name}"'
            commands.append(f"make explore SEED={seed} ARGS={quoted}")
    return commands
