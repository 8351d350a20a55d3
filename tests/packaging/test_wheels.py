"""What cibuildwheel is told of compiled wheels: runs by hand would not show it."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

import pytest

from purgatory_broker.log import record
from tests.packaging.builds import PACKAGES, ROOT


def settings(package: str) -> dict[str, Any]:
    """Return a package's pyproject.toml."""
    path = ROOT / "packages" / package / "pyproject.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


WHEELS = {
    package: settings(package)["tool"]["cibuildwheel"]
    for package in PACKAGES
    if "cibuildwheel" in settings(package)["tool"]
}


def trial(package: str) -> Path:
    """Return what the test command of a package's wheels runs."""
    folder = ROOT / "packages" / package
    command: str = WHEELS[package]["test-command"]
    return Path(command.format(project=ROOT, package=folder).split()[-1])


def test_packages_that_are_compiled_have_compiled_wheels() -> None:
    compiled = [each for each in PACKAGES if (ROOT / "packages" / each / "setup.py").exists()]
    assert list(WHEELS) == compiled
    workflow = (ROOT / ".github" / "workflows" / "wheels.yml").read_text(encoding="utf-8")
    assert re.findall(r"package-dir: packages/(.*)", workflow) == compiled


@pytest.mark.parametrize("package", WHEELS)
def test_tests_of_wheels_are_found(package: str) -> None:
    """Test sources are looked up where the workflow starts cibuildwheel: in the repository."""
    sources = WHEELS[package].get("test-sources", ())
    assert [name for name in sources if not (ROOT / name).exists()] == []
    assert trial(package).is_relative_to(ROOT / "packages" / package / "tests")
    assert trial(package).exists()


@pytest.mark.skipif(
    not str(record.__file__).endswith(tuple(EXTENSION_SUFFIXES)), reason="it is not compiled here"
)
def test_trial_of_the_brokers_wheel_runs() -> None:
    subprocess.run([sys.executable, trial("purgatory-broker")], check=True, timeout=120)


@pytest.mark.parametrize("package", WHEELS)
def test_python_versions_are_the_same_everywhere(package: str) -> None:
    classifiers = settings(package)["project"]["classifiers"]
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    (matrix,) = re.findall(r"python: \[(.*)\]", workflow)
    minors = re.findall(r'"3\.(\d+)"', matrix)
    assert minors == re.findall(r"Python :: 3\.(\d+)", "\n".join(classifiers))
    assert [f"cp3{minor}-*" for minor in minors] == WHEELS[package]["build"]
