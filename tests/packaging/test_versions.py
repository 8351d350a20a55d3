"""All packages have one version, and depend on that of the core."""

from __future__ import annotations

import re
import tomllib

import pytest

import request_purgatory
from tests.packaging.builds import PACKAGES, ROOT


@pytest.mark.parametrize("package", PACKAGES[1:])
def test_package_has_the_cores_version(package: str) -> None:
    """A release sets it in four files."""
    text = (ROOT / "packages" / package / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    assert project["version"] == request_purgatory.__version__
    assert f"request-purgatory=={request_purgatory.__version__}" in project["dependencies"]
    # Of extras and groups, too.
    siblings = re.findall(rf'"(?:{"|".join(PACKAGES)})==([^"]*)"', text)
    assert set(siblings) == {request_purgatory.__version__}
