"""What holds for the tests of all packages."""

from __future__ import annotations

import pytest

from tests.support import test_session


def pytest_configure(config: pytest.Config) -> None:
    """Register the hooks of all tests."""
    test_session.register(config)
