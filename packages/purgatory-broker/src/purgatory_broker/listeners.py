"""Listeners: where a node listens, how connections are protected, and which address it advertises.

The formats are those of Kafka's `listeners`, `advertised.listeners` and
`listener.security.protocol.map`.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from dataclasses import dataclass
from enum import Enum

from request_purgatory.errors import InvalidArgumentError

LOOPBACK = "127.0.0.1"
ANY_IPV4_ADDRESS = "0.0.0.0"
#: Kafka's default of `listener.security.protocol.map`.
PROTOCOL_MAP = "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT"
MAX_PORT = 65_535

_ENDPOINT = re.compile(r"(?P<name>[\w.-]+)://\[?(?P<host>[\w\-%.:]*?)\]?:(?P<port>[0-9]{1,5})")


class SecurityProtocol(Enum):
    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


@dataclass(frozen=True, slots=True)
class Listener:
    name: str
    protocol: SecurityProtocol
    host: str
    #: The TCP port; 0 takes a free one.
    port: int
    #: The host that clients are told to connect to.
    advertised_host: str
    #: The port that clients are told to connect to; 0 is `port`.
    advertised_port: int

    @property
    def advertised(self) -> tuple[str, int]:
        return self.advertised_host, self.advertised_port or self.port

    @property
    def is_loopback(self) -> bool:
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def join_address(host: str, port: int) -> str:
    """Return "host:port", with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def listeners_from(
    listeners: str, advertised: str | None, protocol_map: str, nodes: int
) -> list[tuple[Listener, ...]]:
    """Return the listeners of each node: node n has the ports of node 0, plus n, except for 0.

    `listeners` is `NAME://host:port,...` of node 0; an empty host binds to all IPv4 addresses.
    `advertised` is in the same form; None is `listeners`, and a port of 0 is the listener's own.
    """
    protocols = _protocols(protocol_map)
    bound = _endpoints("listeners", listeners)
    told = {} if advertised is None else _endpoints("advertised_listeners", advertised)
    if unknown := told.keys() - bound.keys():
        raise InvalidArgumentError(
            "advertised_listeners", f"of listeners that exist, not {sorted(unknown)}", advertised
        )
    if unknown := bound.keys() - protocols.keys():
        raise InvalidArgumentError(
            "listeners",
            f"named in listener_security_protocol_map, unlike {sorted(unknown)}",
            listeners,
        )
    made = [
        tuple(
            Listener(
                name,
                protocols[name],
                host or ANY_IPV4_ADDRESS,
                _shifted("listeners", port, node),
                # Not the listener's port, which may be free: 0 is whatever port it has.
                *_advertised(told.get(name, (host, 0)), node),
            )
            for name, (host, port) in bound.items()
        )
        for node in range(nodes)
    ]
    ports = [
        listener.port for node_listeners in made for listener in node_listeners if listener.port
    ]
    if len(set(ports)) != len(ports):
        raise InvalidArgumentError(
            "listeners",
            f"addresses with ports that {nodes} nodes, one after the other, do not share",
            listeners,
        )
    return made


def _advertised(endpoint: tuple[str, int], node: int) -> tuple[str, int]:
    host, port = endpoint
    if host in (ANY_IPV4_ADDRESS, "::"):
        raise InvalidArgumentError(
            "advertised_listeners",
            "given, with an address that clients can connect to, where a listener binds to all "
            "addresses",
            host,
        )
    # As in Kafka, an empty host advertises this machine's name.
    return host or socket.getfqdn(), _shifted("advertised_listeners", port, node)


def _shifted(setting: str, port: int, node: int) -> int:
    if port and port + node > MAX_PORT:
        raise InvalidArgumentError(
            setting, f"addresses whose ports are at most {MAX_PORT - node}", port
        )
    return port + node if port else 0


def _endpoints(setting: str, text: str) -> dict[str, tuple[str, int]]:
    endpoints: dict[str, tuple[str, int]] = {}
    for part in text.split(","):
        match = _ENDPOINT.fullmatch(part.strip())
        if match is None:
            raise InvalidArgumentError(setting, "NAME://host:port, with commas between", text)
        name = match["name"].upper()
        if name in endpoints:
            raise InvalidArgumentError(setting, f"without {name} twice", text)
        endpoints[name] = (match["host"], int(match["port"]))
    return endpoints


def _protocols(text: str) -> dict[str, SecurityProtocol]:
    by_name = {}
    for part in text.split(","):
        name, _, protocol = part.strip().partition(":")
        if not name or protocol.upper() not in SecurityProtocol.__members__:
            raise InvalidArgumentError(
                "listener_security_protocol_map",
                f"NAME:PROTOCOL, with commas between; {', '.join(SecurityProtocol.__members__)} "
                "are the protocols",
                text,
            )
        by_name[name.upper()] = SecurityProtocol[protocol.upper()]
    return by_name
