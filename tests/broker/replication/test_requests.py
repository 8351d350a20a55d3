"""Requests as connections bring them: what replication makes of them is what clients are told."""

from __future__ import annotations

import asyncio

from request_purgatory.broker.wire import apis
from request_purgatory.broker.wire.error_code import ErrorCode
from tests.broker.log.batches import batch
from tests.broker.replication.scene import Scene, ask, fetched_values, play


def topic_data(*values: bytes) -> list[dict[str, object]]:
    """The records of a Produce request."""
    return [{"name": "orders", "partition_data": [{"index": 0, "records": batch(*values)}]}]


def test_produce_of_all_acks_is_answered_when_it_is_replicated() -> None:
    """With the offset; or, in time, with the error."""

    async def scenario(scene: Scene) -> None:
        scene.cluster.freeze(2)
        fields = {"transactional_id": None, "acks": -1, "topic_data": topic_data(b"a")}
        late, _ = ask(scene, 0, apis.PRODUCE, 9, timeout_ms=1_000, **fields)
        answer, _ = ask(scene, 0, apis.PRODUCE, 9, timeout_ms=60_000, **fields)
        assert (await late.get()).responses[0].partition_responses[
            0
        ].error_code == ErrorCode.REQUEST_TIMED_OUT
        assert not answer.done
        scene.cluster.thaw(2)
        told = (await answer.get()).responses[0].partition_responses[0]
        assert (told.error_code, told.base_offset) == (ErrorCode.NONE, 1)

    play(scenario)


def test_wrong_node_says_who_leads() -> None:
    """As far as it knows.

    One that was cut off names the leader of then, and itself as long as it takes itself for it.
    """

    async def scenario(scene: Scene) -> None:
        scene.cluster.cut_off(2)
        scene.cluster.move_leader("orders", 0, 1)
        await scene.settle()
        fields = {
            "transactional_id": None,
            "acks": 1,
            "timeout_ms": 1_000,
            "topic_data": topic_data(b"a"),
        }
        for node, leader, epoch in ((0, 1, 1), (2, 0, 0)):
            told = (
                (await ask(scene, node, apis.PRODUCE, 10, **fields)[0].get())
                .responses[0]
                .partition_responses[0]
            )
            assert told.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert (told.current_leader.leader_id, told.current_leader.leader_epoch) == (
                leader,
                epoch,
            )

    play(scenario)


def test_request_whose_connection_ends_is_taken_out() -> None:
    """It leaves the purgatory at once, and is answered by nobody."""

    async def scenario(scene: Scene) -> None:
        scene.cluster.freeze(1)
        scene.cluster.freeze(2)
        partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 2**20}]
        fields = {
            "replica_id": -1,
            "max_wait_ms": 60_000,
            "min_bytes": 1,
            "max_bytes": 2**20,
            "isolation_level": 0,
        }
        fetched, context = ask(
            scene,
            0,
            apis.FETCH,
            6,
            topics=[{"topic": "orders", "partitions": partitions}],
            **fields,
        )
        await scene.settle()
        assert scene.purgatory("Fetch") == 1
        context.abandon()
        assert scene.purgatory("Fetch") == 0
        scene.cluster.thaw(1)
        scene.cluster.thaw(2)
        await scene.produce(0, b"a").get()
        assert fetched.count == 0
        assert scene.cluster.metrics()[0]["Fetch"]["Cancellations"] >= 1

    play(scenario)


def test_consumers_see_only_what_is_replicated() -> None:
    """By Fetch and by ListOffsets; followers are told the log's end."""

    async def scenario(scene: Scene) -> None:
        await scene.produce(0, b"a").get()
        scene.cluster.freeze(1)
        scene.produce(0, b"b")
        await scene.settle()
        partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 2**20}]
        fields = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 2**20, "isolation_level": 0}
        wanted = {"topics": [{"topic": "orders", "partitions": partitions}]}
        told = (
            (await ask(scene, 0, apis.FETCH, 6, replica_id=-1, **wanted, **fields)[0].get())
            .responses[0]
            .partitions[0]
        )
        assert (fetched_values(told.records), told.high_watermark) == ([b"a"], 1)
        for replica_id, end in ((-1, 1), (2, 2)):
            latest = [
                {
                    "name": "orders",
                    "partitions": [
                        {"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}
                    ],
                }
            ]
            answer = await ask(
                scene,
                0,
                apis.LIST_OFFSETS,
                5,
                replica_id=replica_id,
                isolation_level=0,
                topics=latest,
            )[0].get()
            assert answer.topics[0].partitions[0].offset == end

    play(scenario)


def test_delete_records_by_request() -> None:
    """The low watermark when all have let go, an error and -1 when not all did in time."""

    async def scenario(scene: Scene) -> None:
        await scene.produce(0, b"a", b"b").get()
        await asyncio.sleep(1)
        wanted = {
            "topics": [{"name": "orders", "partitions": [{"partition_index": 0, "offset": 1}]}]
        }
        told = (
            (await ask(scene, 0, apis.DELETE_RECORDS, 2, timeout_ms=5_000, **wanted)[0].get())
            .topics[0]
            .partitions[0]
        )
        assert (told.error_code, told.low_watermark) == (ErrorCode.NONE, 1)
        scene.cluster.freeze(1)
        wanted["topics"][0]["partitions"][0]["offset"] = -1  # type: ignore[index]
        told = (
            (await ask(scene, 0, apis.DELETE_RECORDS, 2, timeout_ms=5_000, **wanted)[0].get())
            .topics[0]
            .partitions[0]
        )
        assert (told.error_code, told.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, -1)

    play(scenario)
