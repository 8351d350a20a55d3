"""The admin client of confluent-kafka's tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient


@pytest.fixture
def admin(bootstrap_servers: str) -> AdminClient:
    """Return an admin client for one test."""
    from confluent_kafka.admin import AdminClient

    return AdminClient({"bootstrap.servers": bootstrap_servers})
