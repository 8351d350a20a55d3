"""Addresses of clients, which are compared with the hosts of ACLs."""

from __future__ import annotations

from typing import Any

import pytest

from purgatory_broker.server.client_address import address_text
from tests.broker.hostile.raw_connection import RawConnection
from tests.broker.replication.cluster_harness import ClusterHarness, run_scenario


@pytest.mark.parametrize(
    ("peer", "text"),
    [
        (("127.0.0.1", 5), "127.0.0.1"),
        (("::1", 5, 0, 0), "0:0:0:0:0:0:0:1"),
        (("2001:db8::a:0:1", 5, 0, 0), "2001:db8:0:0:0:a:0:1"),
        (("fe80::1%lo", 5, 0, 3), "fe80:0:0:0:0:0:0:1%3"),
        (("::ffff:10.0.0.1", 5, 0, 0), "10.0.0.1"),
    ],
)
def test_address_is_written_as_in_java(peer: tuple[Any, ...], text: str) -> None:
    assert address_text(peer) == text


def test_connection_has_the_address_of_its_client() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        connection = RawConnection(harness.node(0), peer=("::1", 5, 0, 0))
        assert connection.connection._client.client_host == "/0:0:0:0:0:0:0:1"
        connection.end()

    run_scenario(scenario, nodes=1)
