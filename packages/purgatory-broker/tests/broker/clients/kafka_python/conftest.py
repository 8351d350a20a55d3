"""The admin client of kafka-python's tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaAdminClient


@pytest.fixture(scope="module")
def admin(bootstrap_servers: str) -> Iterator[Any]:
    """Return an admin client."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers.split(","))
    yield admin
    admin.close()
