"""Each package passes its own tests with nothing installed but its dependencies."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.packaging.builds import (
    PACKAGES,
    ROOT,
    build_wheel,
    copy_package,
    installed,
    make_environment,
    run,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800), pytest.mark.xdist_group("packaging")]

#: What a package must not bring along, by package.
ABSENT = {
    "request-purgatory": {
        "purgatory-command-line",
        "purgatory-broker",
        "purgatory-spark",
        "pyspark",
        "kafka-python",
        "numpy",
    },
    "purgatory-command-line": {"purgatory-broker", "purgatory-spark", "numpy"},
    "purgatory-broker": {"purgatory-spark", "pyspark"},
    "purgatory-spark": {"purgatory-broker", "kafka-python"},
}
PLUGIN = "purgatory-broker-"
#: What a package is tested with here; elsewhere the broker's tests run on its compiled modules.
BUILDS = dict.fromkeys(PACKAGES, "compiled") | {"purgatory-broker": "interpreted"}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheels of all packages."""
    folder = tmp_path_factory.mktemp("wheels")
    for package in PACKAGES:
        checkout = copy_package(package, folder / "sources" / package)
        build_wheel(checkout, folder, REQUEST_PURGATORY_BUILD=BUILDS[package])
    return folder


@pytest.mark.parametrize("package", PACKAGES)
def test_package_passes_its_tests_alone(package: str, wheels: Path, tmp_path: Path) -> None:
    """The fast tier, in a new environment."""
    python = make_environment(tmp_path / "environment", wheels, package)
    assert installed(python) & ABSENT[package] == set()
    pytest_run = (str(python), "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "-q")
    options = ("--rootdir", str(ROOT), "-p", "no:cacheprovider", "-m", "not jvm and not slow")
    tests = str(ROOT / "packages" / package / "tests")
    build = BUILDS[package]
    printed = run(*pytest_run, *options, tests, folder=ROOT, REQUEST_PURGATORY_EXPECT=build)
    assert " passed" in printed
    header = run(*pytest_run[:3], "--version", "--version", folder=ROOT)
    # The name is written as the wheel has it, by the version of setuptools.
    assert (PLUGIN in header.replace("_", "-")) == (package == "purgatory-broker")
