"""The corpus: valid and mutated requests of every API and version, and inputs that once did harm.

To write it again, run `python -m tests.broker.hostile.corpus`. `corpus/` has a file for each API,
with its frames, each preceded by its size. `corpus/findings/` has a file with one frame for each
input that the broker once failed at. `corpus/streams/` has bytes that are no frames.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from purgatory_broker._wire.apis import Api
from purgatory_broker.api.registry import APIS
from tests.broker import apis
from tests.broker.hostile.mutations import mutate_bytes, mutate_fields
from tests.broker.hostile.sample_requests import TOPIC, body, frame, header, with_size
from tests.broker.parity.raw import message
from tests.broker.wire.schemas import request_class

FOLDER = Path(__file__).parent / "corpus"
#: The number of mutated frames of each kind for each API and version, and the largest that is kept.
_MUTATIONS_PER_KIND = 7
_MAX_FRAME_BYTES = 1_500


def frames() -> Iterator[tuple[str, bytes]]:
    """Yield the origin of every frame, and the frame without its size."""
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
    """Yield the name of every stream, and its bytes."""
    for path in sorted((FOLDER / "streams").glob("*.bin")):
        yield path.stem, path.read_bytes()


def request(api: Api, version: int, /, **fields: Any) -> bytes:
    """Return the frame of a request with these fields."""
    return frame(api, version, body(api, version, message(request_class(api), fields)))


def _of_api(api: Api) -> Iterator[bytes]:
    for version in range(api.min_version, api.max_version + 1):
        yield frame(api, version)
        chance = random.Random(f"{api.name} {version}")
        for mutate in (mutate_bytes, mutate_fields):
            count = 0
            while count < _MUTATIONS_PER_KIND:
                raw = mutate(chance, api, version)
                if len(raw) <= _MAX_FRAME_BYTES:
                    count += 1
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
        "endless-array-length": frame(apis.METADATA, 12, b"\xff" * 60_000),
        "null-among-groups": frame(apis.DELETE_GROUPS, 1, struct.pack(">ih", 1, -1)),
        "null-among-states": frame(apis.LIST_GROUPS, 4, b"\2\0\0"),
        "null-among-coordinator-keys": frame(apis.FIND_COORDINATOR, 4, b"\0\2\0\0"),
        "create-partitions-maximum-count": request(
            apis.CREATE_PARTITIONS,
            2,
            topics=[{"name": TOPIC, "count": most, "assignments": None}],
            timeout_ms=1,
            validate_only=False,
        ),
        "create-topic-maximum-partitions": request(
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
        "broker-id-superscript-digit": request(
            apis.DESCRIBE_CONFIGS,
            1,
            resources=[{"resource_type": 4, "resource_name": "²", "configuration_keys": None}],
        ),
        "broker-id-of-5000-digits": request(
            apis.DESCRIBE_CONFIGS,
            1,
            resources=[
                {"resource_type": 4, "resource_name": "9" * 5_000, "configuration_keys": None}
            ],
        ),
        "error-message-too-long": request(
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
        "config-value-too-long": request(
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
        "offset-retention-overflow": request(
            apis.OFFSET_COMMIT,
            2,
            group_id="findings",
            generation_id_or_member_epoch=-1,
            member_id="",
            retention_time_ms=2**63 - 1,
            topics=[{"name": TOPIC, "partitions": [partition]}],
        ),
        "member-id-too-long": frame(
            apis.JOIN_GROUP,
            0,
            body(apis.JOIN_GROUP, 0, message(request_class(apis.JOIN_GROUP), join)),
            client_id=b"a" * 32_767,
        ),
        "protocol-name-null": request(
            apis.JOIN_GROUP, 0, **join | {"protocols": [{"name": None, "metadata": b""}]}
        ),
        "header-tagged-field-count": (
            header(apis.METADATA.key, 12, flexible=False) + b"\xff\xff\xff\x7f" + b"\0\0" * 5_000
        ),
    }


def _streams() -> dict[str, bytes]:
    return {
        "empty": b"",
        "half-a-size": b"\0\0",
        "size-zero": bytes(4),
        "size-negative": struct.pack(">i", -1),
        "size-maximum": struct.pack(">i", 2**31 - 1),
        "size-without-frame": struct.pack(">i", 100_000_000),
        "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "tls": bytes.fromhex("160301020001000 1fc0303".replace(" ", "")) + bytes(508),
        "json": b'{"command": "metrics", "arguments": {}}\n',
        "zeros": bytes(10_000),
        "ones": b"\xff" * 10_000,
        "frame-and-a-half": with_size(frame(apis.METADATA, 1))
        + with_size(frame(apis.METADATA, 1))[:-3],
        "valid-then-noise": with_size(frame(apis.API_VERSIONS, 0))
        + random.Random(1).randbytes(2_000),
    }


def main() -> None:
    """Write the corpus."""
    for api in APIS.values():
        (FOLDER / f"{api.name}.bin").write_bytes(b"".join(map(with_size, _of_api(api))))
    for folder, files in (("findings", _findings()), ("streams", _streams())):
        (FOLDER / folder).mkdir(exist_ok=True)
        for name, raw in files.items():
            (FOLDER / folder / f"{name}.bin").write_bytes(raw)


if __name__ == "__main__":
    main()
