"""Fetch, its waits and its sessions."""

from __future__ import annotations

import uuid
from typing import Any

from request_purgatory.broker.wire.error_code import ErrorCode
from tests.broker.parity.batches import batch
from tests.broker.parity.case import case
from tests.broker.parity.raw import RawClient
from tests.broker.parity.scene import Scene, fetch_fields

#: Longer than anything that does not wait, even on a machine that is busy.
_WAIT_MS = 1_000
#: So long that what wakes a fetch up comes before it ends.
_LONG_MS = 10_000


def _filled(scene: Scene, count: int = 3, **topic: Any) -> tuple[str, RawClient]:
    """A topic with `count` batches of one record each in partition 0, and a connection to the leader."""
    name = scene.topic(**topic)
    client = scene.leader(name)
    for number in range(count):
        scene.produce(client, name, batch(b"value %d" % number))
    return name, client


@case
def fetch_at_each_version(scene: Scene) -> Any:
    topic, client = _filled(scene, 2)
    topic_id = scene.topic_id(topic)
    return {
        version: client.call("Fetch", version, **fetch_fields(topic, 1, topic_id=topic_id if version >= 13 else None)) for version in range(4, 18)
    }


@case
def fetch_from_the_middle_of_a_batch(scene: Scene) -> Any:
    topic = scene.topic()
    client = scene.leader(topic)
    scene.produce(client, topic, batch(b"1", b"2", b"3"))
    scene.produce(client, topic, batch(b"4"))
    return [scene.fetch(client, topic, offsets=offset) for offset in (1, 2, 3)]


@case
def fetch_at_the_end_waits(scene: Scene) -> Any:
    topic, client = _filled(scene)
    return scene.timed(_WAIT_MS, lambda: scene.fetch(client, topic, offsets=3, max_wait_ms=_WAIT_MS))


@case
def fetch_at_the_end_without_waiting(scene: Scene) -> Any:
    topic, client = _filled(scene)
    return {
        "no wait": scene.timed(_WAIT_MS, lambda: scene.fetch(client, topic, offsets=3, max_wait_ms=0)),
        "negative wait": scene.timed(_WAIT_MS, lambda: scene.fetch(client, topic, offsets=3, max_wait_ms=-5)),
        "no least bytes": scene.timed(_LONG_MS, lambda: scene.fetch(client, topic, offsets=3, max_wait_ms=_LONG_MS, min_bytes=0)),
    }


@case
def fetch_waits_for_min_bytes(scene: Scene) -> Any:
    topic, client = _filled(scene)
    size = len(batch(b"value 0"))
    wanted = {"just enough": 3 * size, "a byte more": 3 * size + 1}
    return {
        name: scene.timed(_WAIT_MS, lambda: scene.fetch(client, topic, max_wait_ms=_WAIT_MS, min_bytes=least))  # noqa: B023
        for name, least in wanted.items()
    }


@case
def fetch_min_bytes_above_max_bytes(scene: Scene) -> Any:
    topic, client = _filled(scene)
    return scene.timed(_WAIT_MS, lambda: scene.fetch(client, topic, max_wait_ms=_WAIT_MS, min_bytes=1 << 20, max_bytes=10))


@case
def fetch_min_bytes_above_partition_max_bytes(scene: Scene) -> Any:
    topic, client = _filled(scene)
    size = len(batch(b"value 0"))
    wanted = {"max_wait_ms": _WAIT_MS, "min_bytes": 2 * size, "partition_max_bytes": size}
    return scene.timed(_WAIT_MS, lambda: scene.fetch(client, topic, **wanted))


@case
def fetch_is_woken_by_an_append(scene: Scene) -> Any:
    topic, client = _filled(scene)
    client.start("Fetch", 12, **fetch_fields(topic, 3, max_wait_ms=_LONG_MS))
    produced = scene.produce(scene.again(client), topic, batch(b"new"))
    return {"produced": produced, "fetched": scene.timed(_LONG_MS, lambda: client.read().responses)}


@case
def fetch_is_woken_by_an_append_to_one_of_many(scene: Scene) -> Any:
    topic = _beside(scene)
    client = scene.leader(topic)
    client.start("Fetch", 12, **fetch_fields(topic, {0: 0, 1: 0, 2: 0}, max_wait_ms=_LONG_MS))
    fields = {"transactional_id": None, "acks": -1, "timeout_ms": 5_000}
    data = {"name": topic, "partition_data": [{"index": 2, "records": batch(b"new")}]}
    scene.again(client).call("Produce", 9, **fields, topic_data=[data])
    return scene.timed(_LONG_MS, lambda: client.read().responses)


@case
def fetch_is_woken_when_enough_has_come(scene: Scene) -> Any:
    topic, client = _filled(scene, 0)
    size = len(batch(b"value 0"))
    client.start("Fetch", 12, **fetch_fields(topic, max_wait_ms=_LONG_MS, min_bytes=3 * size))
    other = scene.again(client)
    produced = [scene.produce(other, topic, batch(b"value %d" % number)).base_offset for number in range(3)]
    return {"produced": produced, "fetched": scene.timed(_LONG_MS, lambda: client.read().responses)}


@case
def fetch_is_woken_in_a_replicated_topic(scene: Scene) -> Any:
    topic, client = _filled(scene, 1, replicas=3)
    seen = {}
    for acks, offset in ((1, 1), (-1, 2)):
        client.start("Fetch", 12, **fetch_fields(topic, offset, max_wait_ms=_LONG_MS))
        scene.produce(scene.again(client), topic, batch(b"new"), acks=acks)
        seen[acks] = scene.timed(_LONG_MS, lambda: client.read().responses[0].partitions[0].records)
        seen[acks]["answer"] = seen[acks]["answer"] is not None and len(seen[acks]["answer"]) == len(batch(b"new"))
    return seen


@case
def fetch_out_of_range(scene: Scene) -> Any:
    topic, client = _filled(scene)
    wanted = {"beyond the end": 4, "far beyond": 1 << 40, "negative": -1, "very negative": -100}
    seen = {name: scene.timed(_LONG_MS, lambda: scene.fetch(client, topic, offsets=offset, max_wait_ms=_LONG_MS)) for name, offset in wanted.items()}  # noqa: B023
    partition = {"partition_index": 0, "offset": 2}
    client.call("DeleteRecords", 2, topics=[{"name": topic, "partitions": [partition]}], timeout_ms=5_000)
    return seen | {"before the start": scene.fetch(client, topic, offsets=1), "from the start": scene.fetch(client, topic, offsets=2)}


@case
def fetch_unknown_topics(scene: Scene) -> Any:
    topic, client = _filled(scene)
    wait = {"max_wait_ms": _LONG_MS}
    return {
        "topic": scene.timed(_LONG_MS, lambda: scene.fetch(client, scene.name("none"), **wait)),
        "partition": scene.timed(_LONG_MS, lambda: client.call("Fetch", 12, **fetch_fields(topic, {7: 0}, **wait)).responses),
        "negative partition": client.call("Fetch", 12, **fetch_fields(topic, {-1: 0}, **wait)).responses,
        "empty name": client.call("Fetch", 12, **fetch_fields("", **wait)).responses,
    }


@case
def fetch_by_topic_id(scene: Scene) -> Any:
    topic, client = _filled(scene, 1)
    ids = {"known": scene.topic_id(topic), "unknown": uuid.UUID(int=5), "zero": uuid.UUID(int=0)}
    return {
        name: scene.timed(_LONG_MS, lambda: client.call("Fetch", 13, **fetch_fields(topic, topic_id=topic_id, max_wait_ms=_LONG_MS)))  # noqa: B023
        for name, topic_id in ids.items()
    }


@case
def fetch_with_leader_epochs(scene: Scene) -> Any:
    topic, client = _filled(scene, 1)
    wait = {"max_wait_ms": _LONG_MS}
    return {
        epoch: scene.timed(_LONG_MS, lambda: scene.fetch(client, topic, leader_epoch=epoch, **wait))  # noqa: B023
        for epoch in (-1, 0, 1, -2)
    }


@case
def fetch_with_last_fetched_epochs(scene: Scene) -> Any:
    topic, client = _filled(scene, 2)
    return {epoch: scene.fetch(client, topic, offsets=1, last_epoch=epoch) for epoch in (-1, 0, 1)}


@case
def fetch_from_a_node_that_does_not_lead(scene: Scene) -> Any:
    topic, _ = _filled(scene, 1)
    copied, leader = _filled(scene, 1, what="copied", replicas=3)
    other = scene.other(copied)
    scene.until(lambda: scene.fetch(other, copied).high_watermark == 1 or scene.fetch(leader, copied) is None)
    return {
        "no replica": scene.fetch(scene.other(topic), topic),
        "follower": scene.fetch(other, copied),
        "follower, version 10": scene.fetch(other, copied, version=10),
        "follower, as of the epoch": scene.fetch(other, copied, leader_epoch=0),
        "no replica, version 16": scene.other(topic)
        .call("Fetch", 16, **fetch_fields(topic, topic_id=scene.topic_id(topic)))
        .responses[0]
        .partitions,
    }


@case
def fetch_with_a_small_max_bytes_gives_one_batch(scene: Scene) -> Any:
    """What comes after the first batch Kafka cuts where the limit is, and clients skip it. Only whole batches are compared."""
    topic, client = _filled(scene)
    size = len(batch(b"value 0"))
    limits = {"zero": 0, "one": 1, "a batch": size, "a batch and a half": size * 3 // 2, "two": 2 * size}
    return {name: len(scene.fetch(client, topic, max_bytes=limit).records) // size for name, limit in limits.items()}


@case
def fetch_with_a_small_partition_max_bytes_gives_one_batch(scene: Scene) -> Any:
    """As for the whole request."""
    topic, client = _filled(scene)
    size = len(batch(b"value 0"))
    limits = {"zero": 0, "one": 1, "a batch": size, "two": 2 * size, "two and a half": size * 5 // 2}
    return {name: len(scene.fetch(client, topic, partition_max_bytes=limit).records) // size for name, limit in limits.items()}


@case
def fetch_from_several_partitions_with_a_small_max_bytes(scene: Scene) -> Any:
    topic = _beside(scene)
    client = scene.leader(topic)
    scene.produce(client, topic, *[batch(b"value %d" % number) for number in range(3)])
    size = len(batch(b"value 0"))
    seen = {}
    for name, limit in {"one byte": 1, "a batch": size, "two": 2 * size, "all": 3 * size}.items():
        partitions = client.call("Fetch", 12, **fetch_fields(topic, {0: 0, 1: 0, 2: 0}, max_bytes=limit)).responses[0].partitions
        seen[name] = [[each.partition_index, len(each.records or b"") // size] for each in partitions]
    return seen


@case
def fetch_nothing(scene: Scene) -> Any:
    topic, client = _filled(scene)
    return scene.timed(_LONG_MS, lambda: client.call("Fetch", 12, **fetch_fields(topic, {}, max_wait_ms=_LONG_MS)))


@case
def fetch_the_same_partition_twice(scene: Scene) -> Any:
    topic, client = _filled(scene)
    fields = fetch_fields(topic, 0, partition_max_bytes=1)
    fields["topics"].append(fetch_fields(topic, 1, partition_max_bytes=1)["topics"][0])
    return client.call("Fetch", 12, **fields).responses


@case
def fetch_committed_only(scene: Scene) -> Any:
    topic, client = _filled(scene, 1)
    return {level: scene.fetch(client, topic, isolation_level=level) for level in (0, 1)}


@case
def fetch_sees_only_what_is_replicated(scene: Scene) -> Any:
    topic, client = _filled(scene, 1, replicas=3)
    return scene.fetch(client, topic)


def _beside(scene: Scene) -> str:
    """A topic of three partitions that one node leads."""
    name = scene.name()
    assignments = [{"partition_index": number, "broker_ids": [0]} for number in range(3)]
    topic = {"name": name, "num_partitions": -1, "replication_factor": -1, "assignments": assignments, "configs": []}
    answer = scene.any.call("CreateTopics", 5, topics=[topic], timeout_ms=10_000, validate_only=False)
    assert answer.topics[0].error_code == 0, answer
    scene.forget_later(name)
    for number in range(3):
        scene.await_leader(name, number)
    return name


def _partitions(answer: Any) -> Any:
    return {
        "error_code": answer.error_code,
        "session_id": answer.session_id,
        "partitions": sorted(
            [each.partition_index, ErrorCode(each.error_code).name, len(each.records or b"") > 0] for topic in answer.responses for each in topic.partitions
        ),
    }


@case
def fetch_session_is_incremental(scene: Scene) -> Any:
    topic = _beside(scene)
    client = scene.leader(topic)
    scene.produce(client, topic, batch(b"1"))
    first = client.call("Fetch", 12, **fetch_fields(topic, {0: 0, 1: 0, 2: 0}, session_epoch=0))
    session = first.session_id

    def further(epoch: int, offsets: dict[int, int], **fields: Any) -> Any:
        return _partitions(client.call("Fetch", 12, **fetch_fields(topic, offsets, session_id=session, session_epoch=epoch, **fields)))

    seen = {"full": _partitions(first), "nothing new": further(1, {0: 1})}
    scene.produce(scene.again(client), topic, batch(b"2"), batch(b"3"))
    seen["new in two"] = further(2, {})
    seen["moved on in one"] = further(3, {0: 2})
    seen["moved on in both"] = further(4, {1: 1})
    seen["moved back"] = further(5, {0: 0})
    seen["again"] = further(6, {})
    seen["without the first"] = further(7, {}, forgotten=[0])
    seen["the first once more"] = further(8, {0: 0})
    seen["out of range"] = further(9, {2: 9})
    seen["out of range again"] = further(10, {})
    seen["partition that is not"] = further(11, {7: 0})
    return seen


@case
def fetch_session_waits_and_is_woken(scene: Scene) -> Any:
    topic, client = _filled(scene, 1)
    session = client.call("Fetch", 12, **fetch_fields(topic, 1, session_epoch=0)).session_id
    common = {"session_id": session}
    waited = scene.timed(
        _WAIT_MS, lambda: client.call("Fetch", 12, **fetch_fields(topic, {}, session_epoch=1, max_wait_ms=_WAIT_MS, **common))
    )
    client.start("Fetch", 12, **fetch_fields(topic, {}, session_epoch=2, max_wait_ms=_LONG_MS, **common))
    scene.produce(scene.again(client), topic, batch(b"new"))
    return {"waited": waited, "woken": scene.timed(_LONG_MS, client.read)}


@case
def fetch_session_errors(scene: Scene) -> Any:
    topic, client = _filled(scene, 1)

    def fetch(session: int, epoch: int) -> Any:
        return _partitions(client.call("Fetch", 12, **fetch_fields(topic, session_id=session, session_epoch=epoch)))

    session = client.call("Fetch", 12, **fetch_fields(topic, session_epoch=0)).session_id
    return {
        "unknown session": fetch(session + 1 if session < 1 << 30 else session - 1, 1),
        "epoch too new": fetch(session, 5),
        "right epoch": fetch(session, 1),
        "epoch again": fetch(session, 1),
        "no session, epoch 1": fetch(0, 1),
        "negative epoch": fetch(session, -2),
        "ended": fetch(session, -1),
        "after its end": fetch(session, 2),
        "a new one for an id that is not": fetch(12_345, 0),
        "no session": fetch(0, -1),
    }


@case
def fetch_session_may_be_asked_for_anew(scene: Scene) -> Any:
    topic, client = _filled(scene, 1)
    first = client.call("Fetch", 12, **fetch_fields(topic, session_epoch=0)).session_id
    second = client.call("Fetch", 12, **fetch_fields(topic, session_id=first, session_epoch=0))
    old = client.call("Fetch", 12, **fetch_fields(topic, session_id=first, session_epoch=1))
    return {"another": second.session_id != first, "answer": _partitions(second), "old": _partitions(old)}


@case
def fetch_session_from_another_connection(scene: Scene) -> Any:
    topic, client = _filled(scene, 1)
    session = client.call("Fetch", 12, **fetch_fields(topic, session_epoch=0)).session_id
    return _partitions(scene.again(client).call("Fetch", 12, **fetch_fields(topic, session_id=session, session_epoch=1)))


@case
def fetch_session_with_topic_ids(scene: Scene) -> Any:
    topic, client = _filled(scene, 1)
    topic_id = scene.topic_id(topic)
    session = client.call("Fetch", 13, **fetch_fields(topic, topic_id=topic_id, session_epoch=0)).session_id

    def further(epoch: int, offsets: Any, version: int = 13, **fields: Any) -> Any:
        return _partitions(client.call("Fetch", version, **fetch_fields(topic, offsets, session_id=session, session_epoch=epoch, **fields)))

    return {
        "next": further(1, {0: 1}, topic_id=topic_id),
        "unknown id added": further(2, {0: 0}, topic_id=uuid.UUID(int=5)),
        "by name": further(3, {0: 0}, version=12),
    }


@case
def fetch_while_a_topic_is_deleted(scene: Scene) -> Any:
    topic, client = _filled(scene, 1)
    client.start("Fetch", 12, **fetch_fields(topic, 1, max_wait_ms=_LONG_MS))
    scene.any.call("DeleteTopics", 5, topic_names=[topic], timeout_ms=5_000)
    return scene.timed(_LONG_MS, lambda: client.read().responses)


@case
def fetch_waits_and_the_connection_ends(scene: Scene) -> Any:
    """Nothing to be seen but that the broker goes on."""
    topic, client = _filled(scene, 1)
    client.start("Fetch", 12, **fetch_fields(topic, 1, max_wait_ms=_LONG_MS))
    client.close()
    return scene.produce(scene.again(client), topic, batch(b"new"))
