"""The corpus: requests of every API at every served version, valid and spoiled, and what once did harm.

`python -m tests.broker.hostile.corpus` makes it anew. In `corpus/` there is a file for each API
with its frames one behind the other, each with its size before it; in `corpus/findings/` a frame in
a file of its own for everything that the broker has failed at, and in `corpus/streams/` bytes that
are no frames at all.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from request_purgatory.broker.wire import apis
from request_purgatory.broker.wire.apis import APIS, Api
from tests.broker.hostile.mutations import of_bytes, of_fields
from tests.broker.hostile.requests import TOPIC, body, frame, header, sized
from tests.broker.parity.raw import message

FOLDER = Path(__file__).parent / "corpus"
#: Spoiled frames of each API and version, of either kind; and how large one may be to have a place
#: here.
_MUTANTS = 7
_LONGEST = 1_500


def frames() -> Iterator[tuple[str, bytes]]:
    """Every frame, without its size, with where it is from."""
    for path in sorted(FOLDER.glob("*.bin")):
        raw = path.read_bytes()
        position = 0
        while position < len(raw):
            (size,) = struct.unpack_from(">i", raw, position)
            yield f"{path.stem} at {position}", raw[position + 4 : position + 4 + size]
            position += 4 + size
    for path in sorted((FOLDER / "findings").glob("*.bin")):
        yield path.stem, path.read_bytes()


def streams() -> Iterator[tuple[str, bytes]]:
    """What is sent as it is."""
    for path in sorted((FOLDER / "streams").glob("*.bin")):
        yield path.stem, path.read_bytes()


def request(api: Api, version: int, /, **fields: Any) -> bytes:
    """A frame of a request with these fields."""
    return frame(api, version, body(api, version, message(api.request, fields)))


def _of_api(api: Api) -> Iterator[bytes]:
    for version in range(api.min_version, api.max_version + 1):
        yield frame(api, version)
        chance = random.Random(f"{api.name} {version}")
        for mutate in (of_bytes, of_fields):
            made = 0
            while made < _MUTANTS:
                raw = mutate(chance, api, version)
                if len(raw) <= _LONGEST:
                    made += 1
                    yield raw
    yield header(api.key, api.max_version + 1, flexible=True)
    yield header(api.key, api.min_version - 1, flexible=False)


def _findings() -> dict[str, bytes]:
    most = 2**31 - 1
    partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    range_ = [{"name": "range", "metadata": b""}]
    join = {
        "group_id": "findings",
        "session_timeout_ms": 6_000,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": range_,
    }
    change = {
        "name": "leader.replication.throttled.replicas",
        "config_operation": 2,
        "value": "9" * 5_000,
    }
    return {
        "array-whose-length-never-ends": frame(apis.METADATA, 12, b"\xff" * 60_000),
        "groups-with-a-null-among-them": frame(apis.DELETE_GROUPS, 1, struct.pack(">ih", 1, -1)),
        "states-with-a-null-among-them": frame(apis.LIST_GROUPS, 4, b"\2\0\0"),
        "coordinators-with-a-null-among-them": frame(apis.FIND_COORDINATOR, 4, b"\0\2\0\0"),
        "partitions-without-number": request(
            apis.CREATE_PARTITIONS,
            2,
            topics=[{"name": TOPIC, "count": most, "assignments": None}],
            timeout_ms=1,
            validate_only=False,
        ),
        "topic-of-partitions-without-number": request(
            apis.CREATE_TOPICS,
            5,
            topics=[
                {
                    "name": "endless",
                    "num_partitions": most,
                    "replication_factor": 1,
                    "assignments": [],
                    "configs": [],
                }
            ],
            timeout_ms=1,
            validate_only=False,
        ),
        "broker-whose-number-is-a-power": request(
            apis.DESCRIBE_CONFIGS,
            1,
            resources=[{"resource_type": 4, "resource_name": "²", "configuration_keys": None}],
        ),
        "broker-whose-number-is-too-long": request(
            apis.DESCRIBE_CONFIGS,
            1,
            resources=[
                {"resource_type": 4, "resource_name": "9" * 5_000, "configuration_keys": None}
            ],
        ),
        "error-message-that-is-too-long": request(
            apis.CREATE_TOPICS,
            2,
            topics=[
                {
                    "name": "a" * 32_767,
                    "num_partitions": 1,
                    "replication_factor": 1,
                    "assignments": [],
                    "configs": [],
                }
            ],
            timeout_ms=1,
            validate_only=False,
        ),
        "setting-that-is-too-long-to-be-told": request(
            apis.INCREMENTAL_ALTER_CONFIGS,
            1,
            resources=[
                {
                    "resource_type": 2,
                    "resource_name": TOPIC,
                    "configs": [change | {"value": "9" * 32_767}, change],
                }
            ],
            validate_only=False,
        ),
        "offset-that-is-kept-beyond-all-time": request(
            apis.OFFSET_COMMIT,
            2,
            group_id="findings",
            generation_id_or_member_epoch=-1,
            member_id="",
            retention_time_ms=2**63 - 1,
            topics=[{"name": TOPIC, "partitions": [partition]}],
        ),
        "member-id-that-is-too-long": frame(
            apis.JOIN_GROUP,
            0,
            body(apis.JOIN_GROUP, 0, message(apis.JOIN_GROUP.request, join)),
            client_id=b"a" * 32_767,
        ),
        "protocol-without-a-name": request(
            apis.JOIN_GROUP, 0, **join | {"protocols": [{"name": None, "metadata": b""}]}
        ),
        "header-of-nothing-but-tagged-fields": (
            header(apis.METADATA.key, 12, flexible=False) + b"\xff\xff\xff\x7f" + b"\0\0" * 5_000
        ),
    }


def _streams() -> dict[str, bytes]:
    return {
        "nothing": b"",
        "half-a-size": b"\0\0",
        "size-of-zero": bytes(4),
        "size-below-zero": struct.pack(">i", -1),
        "size-without-limit": struct.pack(">i", 2**31 - 1),
        "size-and-no-frame": struct.pack(">i", 100_000_000),
        "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "tls": bytes.fromhex("160301020001000 1fc0303".replace(" ", "")) + bytes(508),
        "json": b'{"command": "metrics", "arguments": {}}\n',
        "zeros": bytes(10_000),
        "ones": b"\xff" * 10_000,
        "frame-and-a-half": sized(frame(apis.METADATA, 1)) + sized(frame(apis.METADATA, 1))[:-3],
        "valid-then-noise": sized(frame(apis.API_VERSIONS, 0)) + random.Random(1).randbytes(2_000),
    }


def main() -> None:
    """Write the corpus."""
    for api in APIS.values():
        (FOLDER / f"{api.name}.bin").write_bytes(b"".join(map(sized, _of_api(api))))
    for folder, made in (("findings", _findings()), ("streams", _streams())):
        (FOLDER / folder).mkdir(exist_ok=True)
        for name, raw in made.items():
            (FOLDER / folder / f"{name}.bin").write_bytes(raw)


if __name__ == "__main__":
    main()
