"""The address of a client, as Kafka's brokers write it."""

from __future__ import annotations

from ipaddress import IPv6Address
from typing import Any


def address_text(peer: tuple[Any, ...]) -> str:
    """Return the address of a socket's peer as Java's `InetAddress.getHostAddress` does.

    An ACL's host is compared with this text. For IPv6 it has all eight numbers, and the number of
    the interface where there is one.

    >>> address_text(("::1", 9092, 0, 0))
    '0:0:0:0:0:0:0:1'
    >>> address_text(("::ffff:10.0.0.1", 9092, 0, 0))
    '10.0.0.1'
    """
    host = str(peer[0])
    if ":" not in host:
        return host
    address = IPv6Address(host.partition("%")[0])
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    groups = memoryview(address.packed)
    text = ":".join(f"{groups[at] << 8 | groups[at + 1]:x}" for at in range(0, 16, 2))
    scope = peer[3] if len(peer) > 3 else 0
    return f"{text}%{scope}" if scope else text
