"""What cibuildwheel is told of the core's wheels: runs by hand would not show it."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from tests.packaging.builds import ROOT

PACKAGE = ROOT / "packages" / "request-purgatory"


def settings() -> dict[str, Any]:
    """Return the core's pyproject.toml."""
    return tomllib.loads((PACKAGE / "pyproject.toml").read_text(encoding="utf-8"))


def test_tests_of_wheels_are_found() -> None:
    """Test sources are looked up where the workflow starts cibuildwheel: in the repository."""
    wheels = settings()["tool"]["cibuildwheel"]
    assert [name for name in wheels.get("test-sources", ()) if not (ROOT / name).exists()] == []
    tests = wheels["test-command"].format(project=ROOT, package=PACKAGE).split()[-1]
    assert tests == str(PACKAGE / "tests")


def test_python_versions_are_the_same_everywhere() -> None:
    wheels = settings()["tool"]["cibuildwheel"]["build"]
    classifiers = settings()["project"]["classifiers"]
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    (matrix,) = re.findall(r"python: \[(.*)\]", workflow)
    minors = re.findall(r'"3\.(\d+)"', matrix)
    assert minors == re.findall(r"Python :: 3\.(\d+)", "\n".join(classifiers))
    assert [f"cp3{minor}-*" for minor in minors] == wheels
