"""The modules that have mutants, and the tests that are near to them."""

from __future__ import annotations

from pathlib import Path

#: The package as it is where nothing was compiled.
PACKAGE = Path("build/interpreted/request_purgatory")
#: Where the core's sources, its build and its tests are.
CORE = Path("packages/request-purgatory")
SOURCES = CORE / "src/request_purgatory"
FOLDERS = ("_native", "timer", "purgatory", "aio")

TESTS = [f"{CORE}/tests/unit", f"{CORE}/tests/model"]
#: Tests of other things, and those that start processes or take long.
FAR_TESTS = (
    f"{CORE}/tests/unit/aio/test_cpython.py",
    f"{CORE}/tests/unit/dashboard",
    f"{CORE}/tests/unit/metrics",
    f"{CORE}/tests/unit/test_doctests.py",
    f"{CORE}/tests/unit/test_leftovers.py",
)
#: Near tests that take seconds, of large numbers: what they would find of a mutant, others find.
LONG_TESTS = (
    f"{CORE}/tests/unit/purgatory/test_contract.py::test_one_check_completes_100_000_operations",
    f"{CORE}/tests/unit/purgatory/test_nested_checks.py::test_chain_is_as_long",
    f"{CORE}/tests/unit/purgatory/test_nested_checks.py::test_chain_of_60_000",
    f"{CORE}/tests/unit/purgatory/test_nested_checks.py::test_conditions_that_notify_one_another",
    f"{CORE}/tests/unit/purgatory/test_purgatory_threads.py::test_checks_of_a_key_that_comes_and_goes",
    f"{CORE}/tests/unit/purgatory/test_quorum.py::test_operations_that_ended_do_not_pile_up",
    f"{CORE}/tests/unit/timer/test_timer_threads.py::test_cancel_is_not_lost",
)


def all_modules() -> list[str]:
    """Return the Python modules that have mutants, as paths below the package."""
    paths = [SOURCES / "legacy.py"]
    for folder in FOLDERS:
        paths += [path for path in (SOURCES / folder).glob("*.py") if path.name != "__init__.py"]
    return sorted(str(path.relative_to(SOURCES)) for path in paths)
