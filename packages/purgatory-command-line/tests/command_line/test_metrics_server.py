"""The address at which a command serves metrics."""

from __future__ import annotations

import pytest

from purgatory_command_line.metrics_server import parse_listen_address
from request_purgatory import InvalidArgumentError


@pytest.mark.parametrize(
    ("text", "address"),
    [("9404", ("127.0.0.1", 9404)), ("0.0.0.0:0", ("0.0.0.0", 0)), ("[::1]:80", ("::1", 80))],
)
def test_address_to_listen_on_is_a_port_or_a_host_and_a_port(
    text: str, address: tuple[str, int]
) -> None:
    assert parse_listen_address(text) == address


@pytest.mark.parametrize("text", ["", "host", "host:", "65536", "-1"])
def test_invalid_listen_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"PORT or HOST:PORT"):
        parse_listen_address(text)
