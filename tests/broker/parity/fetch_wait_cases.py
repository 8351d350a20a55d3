"""Fetches that wait, and what wakes them up."""

from __future__ import annotations

from typing import Any

from tests.broker.parity.batches import batch
from tests.broker.parity.case import case
from tests.broker.parity.scene import Scene, fetch_fields

#: Longer than anything that does not wait, even on a machine that is busy.
_WAIT_MS = 1_000
#: So long that what wakes a fetch up comes before it ends.
_LONG_MS = 10_000


@case
def fetch_at_the_end_waits(scene: Scene) -> Any:
    topic, client = scene.filled()
    return scene.timed(_WAIT_MS, scene.fetch, client, topic, offsets=3, max_wait_ms=_WAIT_MS)


@case
def fetch_at_the_end_without_waiting(scene: Scene) -> Any:
    topic, client = scene.filled()
    return {
        "no wait": scene.timed(_WAIT_MS, scene.fetch, client, topic, offsets=3, max_wait_ms=0),
        "negative wait": scene.timed(
            _WAIT_MS, scene.fetch, client, topic, offsets=3, max_wait_ms=-5
        ),
        "no least bytes": scene.timed(
            _LONG_MS, scene.fetch, client, topic, offsets=3, max_wait_ms=_LONG_MS, min_bytes=0
        ),
    }


@case
def fetch_waits_for_min_bytes(scene: Scene) -> Any:
    topic, client = scene.filled()
    size = len(batch(b"value 0"))
    wanted = {"just enough": 3 * size, "a byte more": 3 * size + 1}
    return {
        name: scene.timed(
            _WAIT_MS, scene.fetch, client, topic, max_wait_ms=_WAIT_MS, min_bytes=least
        )
        for name, least in wanted.items()
    }


@case
def fetch_min_bytes_above_max_bytes(scene: Scene) -> Any:
    topic, client = scene.filled()
    return scene.timed(
        _WAIT_MS, scene.fetch, client, topic, max_wait_ms=_WAIT_MS, min_bytes=1 << 20, max_bytes=10
    )


@case
def fetch_min_bytes_above_partition_max_bytes(scene: Scene) -> Any:
    topic, client = scene.filled()
    size = len(batch(b"value 0"))
    wanted = {"max_wait_ms": _WAIT_MS, "min_bytes": 2 * size, "partition_max_bytes": size}
    return scene.timed(_WAIT_MS, scene.fetch, client, topic, **wanted)


@case
def fetch_is_woken_by_an_append(scene: Scene) -> Any:
    topic, client = scene.filled()
    client.start("Fetch", 12, **fetch_fields(topic, 3, max_wait_ms=_LONG_MS))
    produced = scene.produce(scene.again(client), topic, batch(b"new"))
    return {"produced": produced, "fetched": scene.timed(_LONG_MS, lambda: client.read().responses)}


@case
def fetch_is_woken_by_an_append_to_one_of_many(scene: Scene) -> Any:
    topic = scene.topic(nodes=[[0], [0], [0]])
    client = scene.leader(topic)
    client.start("Fetch", 12, **fetch_fields(topic, {0: 0, 1: 0, 2: 0}, max_wait_ms=_LONG_MS))
    fields = {"transactional_id": None, "acks": -1, "timeout_ms": 5_000}
    data = {"name": topic, "partition_data": [{"index": 2, "records": batch(b"new")}]}
    scene.again(client).call("Produce", 9, **fields, topic_data=[data])
    return scene.timed(_LONG_MS, lambda: client.read().responses)


@case
def fetch_is_woken_when_enough_has_come(scene: Scene) -> Any:
    topic, client = scene.filled(0)
    size = len(batch(b"value 0"))
    client.start("Fetch", 12, **fetch_fields(topic, max_wait_ms=_LONG_MS, min_bytes=3 * size))
    other = scene.again(client)
    produced = [
        scene.produce(other, topic, batch(b"value %d" % number)).base_offset for number in range(3)
    ]
    return {"produced": produced, "fetched": scene.timed(_LONG_MS, lambda: client.read().responses)}


@case
def fetch_is_woken_in_a_replicated_topic(scene: Scene) -> Any:
    topic, client = scene.filled(1, replicas=3)
    seen = {}
    for acks, offset in ((1, 1), (-1, 2)):
        client.start("Fetch", 12, **fetch_fields(topic, offset, max_wait_ms=_LONG_MS))
        scene.produce(scene.again(client), topic, batch(b"new"), acks=acks)
        seen[acks] = scene.timed(_LONG_MS, lambda: client.read().responses[0].partitions[0].records)
        seen[acks]["answer"] = seen[acks]["answer"] is not None and len(
            seen[acks]["answer"]
        ) == len(batch(b"new"))
    return seen


@case
def fetch_while_a_topic_is_deleted(scene: Scene) -> Any:
    topic, client = scene.filled(1)
    client.start("Fetch", 12, **fetch_fields(topic, 1, max_wait_ms=_LONG_MS))
    scene.any.call("DeleteTopics", 5, topic_names=[topic], timeout_ms=5_000)
    return scene.timed(_LONG_MS, lambda: client.read().responses)


@case
def fetch_waits_and_the_connection_ends(scene: Scene) -> Any:
    """Nothing to be seen but that the broker goes on."""
    topic, client = scene.filled(1)
    client.start("Fetch", 12, **fetch_fields(topic, 1, max_wait_ms=_LONG_MS))
    client.close()
    return scene.produce(scene.again(client), topic, batch(b"new"))
