"""The leaders that Produce and Fetch responses name to clients of another node (KIP-951)."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from purgatory_broker._wire.fields import (
    write_compact_length,
    write_compact_string,
    write_tagged_fields,
)

_INT32 = struct.Struct(">i")
#: The leader and its epoch, and the number of tagged fields.
_LEADER = struct.Struct(">iib")


@dataclass(slots=True)
class LeaderIdAndEpoch:
    leader_id: int = -1
    leader_epoch: int = -1


@dataclass(slots=True)
class NodeEndpoint:
    node_id: int
    host: str
    port: int
    rack: str | None = None


def leader_value(leader: LeaderIdAndEpoch) -> bytes:
    return _LEADER.pack(leader.leader_id, leader.leader_epoch, 0)


def write_endpoints(out: bytearray, endpoints: list[NodeEndpoint]) -> None:
    """Write the tagged fields of a response, of which the endpoints are the only one."""
    if not endpoints:
        out.append(0)
        return
    value = bytearray()
    write_compact_length(value, len(endpoints))
    for endpoint in endpoints:
        value += _INT32.pack(endpoint.node_id)
        write_compact_string(value, endpoint.host)
        value += _INT32.pack(endpoint.port)
        write_compact_string(value, endpoint.rack)
        value.append(0)
    write_tagged_fields(out, [(0, value)])
