"""The modules that have mutants, and the tests that are near to them."""

from __future__ import annotations

from pathlib import Path

#: The package as it is where nothing was compiled.
PACKAGE = Path("build/interpreted/request_purgatory")
SOURCES = Path("src/request_purgatory")
FOLDERS = ("_native", "timer", "purgatory", "aio")

#: What asserts invariants, and types that have no code.
LEFT_OUT = {"timer/interface.py"}

TESTS = ["tests/unit", "tests/model"]
#: Tests of other things, and those that start processes or take long.
FAR_TESTS = (
    "tests/unit/aio/test_cpython.py",
    "tests/unit/aio/test_examples.py",
    "tests/unit/dashboard",
    "tests/unit/metrics",
    "tests/unit/soak",
    "tests/unit/test_doctests.py",
    "tests/unit/test_extras.py",
    "tests/unit/test_leftovers.py",
    "tests/unit/test_logging_page.py",
    "tests/unit/test_published.py",
)
#: Near tests that take seconds, of large numbers: what they would find of a mutant, others find.
LONG_TESTS = (
    "tests/unit/purgatory/test_contract.py::test_one_check_completes_100_000_operations",
    "tests/unit/purgatory/test_nested_checks.py::test_chain_is_as_long",
    "tests/unit/purgatory/test_nested_checks.py::test_chain_of_60_000",
    "tests/unit/purgatory/test_nested_checks.py::test_conditions_that_notify_one_another",
    "tests/unit/purgatory/test_purgatory_threads.py::test_checks_of_a_key_that_comes_and_goes",
    "tests/unit/purgatory/test_quorum.py::test_operations_that_ended_do_not_pile_up",
    "tests/unit/timer/test_timer_threads.py::test_cancel_is_not_lost",
)


def all_modules() -> list[str]:
    """Return the Python modules that have mutants, as paths below the package."""
    return sorted(
        file
        for folder in FOLDERS
        for path in (SOURCES / folder).glob("*.py")
        if (file := str(path.relative_to(SOURCES))) not in LEFT_OUT and path.name != "__init__.py"
    )
