"""Leader epochs.

What a log that parted from its leader's is cut to (KIP-101, KIP-279, KIP-595), and elections.
"""

from __future__ import annotations

import asyncio

import pytest

from request_purgatory.broker.cluster.async_cluster import ControllerError
from request_purgatory.broker.metadata.topics import NO_LEADER
from request_purgatory.broker.replication.delayed_fetch import FetchedPartition
from request_purgatory.broker.replication.fetcher import Fetcher
from request_purgatory.broker.replication.replica_manager import LogBounds
from request_purgatory.broker.wire.error_code import ErrorCode
from tests.broker.log.batches import NOW, batch
from tests.broker.replication.scene import KEY, LAG_MS, Scene, error, fetched_values, play

SESSION_S = 3.0


async def depose(scene: Scene, *alone: bytes) -> None:
    """Cut node 0, the leader, off with records that only it has, until another leads."""
    scene.cluster.cut_off(0)
    for value in alone:
        scene.produce(0, value, acks=1)
    await asyncio.sleep(SESSION_S + 0.1)
    assert scene.leader == 1


def test_leader_that_was_cut_off_gives_up_what_nobody_else_has() -> None:
    """It took acks=1, and acks=all for ever.

    Back, it has what the new leader has, byte for byte.
    """

    async def scenario(scene: Scene) -> None:
        await scene.produce(0, b"a").get()
        scene.cluster.cut_off(0)
        stale = [
            scene.produce(0, b"lost", acks=1),
            scene.produce(0, b"lost too", timeout_ms=60_000),
        ]
        await asyncio.sleep(SESSION_S + 0.1)
        assert (scene.leader, scene.isr, scene.state()["leader_epoch"]) == (1, {1, 2}, 1)
        await scene.produce(1, b"b").get()
        await scene.produce(1, b"c").get()
        assert scene.replica(0).is_leader, "it has not heard"
        assert (stale[0].done, stale[1].done) == (True, False)
        assert [scene.ends()[0], fetched_values((await scene.fetch(0, 0).get())[0].records)] == [
            (1, 3),
            [b"a"],
        ]
        scene.cluster.reconnect(0)
        await scene.settle()
        assert error(await stale[1].get()) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        await scene.until(lambda: scene.isr == {0, 1, 2})
        await asyncio.sleep(1)
        assert [scene.values(node) for node in range(3)] == [[b"a", b"b", b"c"]] * 3
        assert scene.ends() == dict.fromkeys(range(3), (3, 3))
        assert scene.log(0).epoch_at(0) == 0
        assert scene.log(0).epoch_at(1) == 1

    play(scenario)


def test_leader_that_is_back_before_it_is_missed_goes_on() -> None:
    """Same epoch; followers ask again at once, not when their requests are overdue."""

    async def scenario(scene: Scene) -> None:
        scene.cluster.cut_off(0)
        answer = scene.produce(0, b"a")
        await asyncio.sleep(SESSION_S - 0.1)
        assert not answer.done
        scene.cluster.reconnect(0)
        await scene.settle()
        assert error(await answer.get()) is ErrorCode.NONE
        assert (scene.leader, scene.state()["leader_epoch"], scene.isr) == (0, 0, {0, 1, 2})
        await asyncio.sleep(SESSION_S)
        assert scene.leader == 0

    play(scenario)


def test_follower_that_is_back_goes_on_at_once() -> None:
    """As soon as the link is there, though its request was lost with it."""

    async def scenario(scene: Scene) -> None:
        scene.cluster.cut_off(2)
        await asyncio.sleep(1)
        answer = scene.produce(0, b"a")
        await asyncio.sleep(1)
        assert not answer.done
        scene.cluster.reconnect(2)
        await scene.settle()
        assert answer.done

    play(scenario)


def test_high_watermark_is_no_measure_of_what_is_to_be_cut() -> None:
    """KIP-101's first case: a follower restarts before it hears of the high watermark, and then has to lead.

    Cutting its log to the high watermark that it knows would lose a record that was acknowledged.
    """

    async def scenario(scene: Scene) -> None:
        scene.cluster.kill(2)
        await scene.settle()
        answer = scene.produce(0, b"a")
        await scene.settle()
        assert answer.done
        assert scene.ends()[1] == (0, 1), (
            "it has the record, and does not know that it is replicated"
        )
        scene.cluster.kill(1)
        await scene.cluster.restart(1)
        await scene.settle()
        assert scene.log(1).end_offset == 1
        await scene.until(lambda: scene.isr == {0, 1})
        scene.cluster.kill(0)
        await scene.settle()
        assert (scene.leader, scene.values(1)) == (1, [b"a"])

    play(scenario)


def test_logs_that_parted_twice_are_cut_to_where_both_agree() -> None:
    """KIP-279.

    The follower has an epoch that the leader has not, and the leader one that the follower has not.
    """

    async def scenario(scene: Scene) -> None:
        for value in (b"a", b"b"):
            await scene.produce(0, value).get()
        await asyncio.sleep(1)
        # Node 0 alone has 2 records of epoch 0; node 1 alone 3 of epoch 1; neither is ever
        # replicated.
        scene.cluster.cut_off(0)
        for value in (b"x0", b"x1"):
            scene.produce(0, value, acks=1)
        await asyncio.sleep(SESSION_S + 0.1)
        assert scene.leader == 1
        scene.cluster.cut_off(1)
        for value in (b"y0", b"y1", b"y2"):
            scene.produce(1, value, acks=1)
        await asyncio.sleep(SESSION_S + 0.1)
        assert (scene.leader, scene.values(2)) == (2, [b"a", b"b"])
        scene.produce(2, b"c", acks=1)
        scene.cluster.reconnect(0)
        scene.cluster.reconnect(1)
        await scene.until(lambda: scene.isr == {0, 1, 2})
        await asyncio.sleep(1)
        assert [scene.values(node) for node in range(3)] == [[b"a", b"b", b"c"]] * 3
        epochs = [
            [header.leader_epoch for header, _ in scene.log(node).batches()] for node in range(3)
        ]
        assert epochs == [[0, 0, 2]] * 3

    play(scenario)


def test_epoch_without_records_is_cut_too() -> None:
    """Who led and appended nothing has an epoch that no other log has, and does not ask about it for ever."""

    async def scenario(scene: Scene) -> None:
        await scene.produce(0, b"a").get()
        scene.cluster.move_leader("orders", 0, 1)
        await asyncio.sleep(1)
        scene.cluster.move_leader("orders", 0, 2)
        await asyncio.sleep(1)
        assert [scene.log(node).latest_epoch for node in range(3)] == [0, 0, 2]
        await scene.produce(2, b"b").get()
        assert [scene.log(node).latest_epoch for node in range(3)] == [2, 2, 2]

    play(scenario)


def test_batch_that_the_cut_falls_into_goes_as_a_whole() -> None:
    """The leader's batches have other bounds; what is cut too much comes again."""

    async def scenario(scene: Scene) -> None:
        await scene.produce(0, b"a").get()
        await depose(scene, b"x", b"y", b"z")
        scene.produce(1, b"b", b"c", b"d", b"e")
        await scene.settle()
        scene.cluster.reconnect(0)
        await scene.until(lambda: scene.isr == {0, 1, 2})
        assert scene.values(0) == [b"a", b"b", b"c", b"d", b"e"]

    play(scenario)


def test_cut_is_where_the_epochs_part() -> None:
    """Not at the high watermark, which is lower.

    Nor beyond what this log has of the leader's epoch.
    """

    async def scenario(scene: Scene) -> None:
        replica, fetcher = scene.replica(1), scene.node(1).fetchers[0]
        scene.cluster.freeze(1)
        log = replica.log
        for epoch, count in ((0, 3), (2, 3), (5, 2)):
            for _ in range(count):
                log.append_as_leader(batch(b"v"), epoch, NOW)
        assert (log.end_offset, replica.high_watermark) == (8, 0)
        leaders = {
            (5, 7): 7,
            (5, 9): 8,
            (2, 4): 4,
            (2, 6): 6,
            (2, 7): 6,
            (3, 5): 5,
            (4, 9): 6,
            (1, 3): 3,
            (1, 4): 3,
            (0, 2): 2,
        }
        assert {leader: fetcher._parting(replica, *leader) for leader in leaders} == leaders
        fetcher._take_partition(replica, FetchedPartition(KEY, diverging=(4, 9)))
        assert (log.end_offset, log.latest_epoch, replica.high_watermark) == (6, 2, 0)
        scene.cluster.thaw(1)
        await asyncio.sleep(1)
        assert log.end_offset == 0

    play(scenario)


@pytest.mark.parametrize("alone", [1, 2, 3])
def test_log_that_parted_before_the_leaders_start_is_given_up(alone: int) -> None:
    """DeleteRecords has moved the leader's start into a batch, beyond where the logs part.

    No epoch tells of it any more.
    """

    async def scenario(scene: Scene) -> None:
        await scene.produce(0, b"a").get()
        await asyncio.sleep(1)
        await depose(scene, *[b"x"] * alone)
        await scene.produce(1, b"b", b"c", b"d", b"e").get()
        await asyncio.sleep(1)
        assert error(await scene.delete(1, 3).get()) is ErrorCode.NONE
        scene.cluster.reconnect(0)
        await scene.until(lambda: scene.isr == {0, 1, 2})
        await asyncio.sleep(1)
        assert [scene.values(node) for node in range(3)] == [[b"d", b"e"]] * 3
        assert scene.ends() == dict.fromkeys(range(3), (5, 5))

    play(scenario)


def test_answer_of_an_earlier_epoch_is_not_taken() -> None:
    """It was under way when another leader was elected."""

    async def scenario(scene: Scene) -> None:
        scene.cluster.lag(2, 200)
        await asyncio.sleep(1)
        scene.produce(0, b"a", acks=1)
        await asyncio.sleep(0.1)
        scene.cluster.lag(2, 0)
        fetcher = scene.node(2).fetchers[0]
        target = fetcher._target(KEY)
        await depose(scene)
        scene.produce(1, b"b")
        await scene.settle()
        values = scene.values(2)
        await depose_again(fetcher, target)
        assert scene.values(2) == values
        scene.cluster.reconnect(0)
        await asyncio.sleep(2)

    async def depose_again(fetcher: Fetcher, target: object) -> None:
        late = FetchedPartition(KEY, high_watermark=1, log_start_offset=0, records=batch(b"late"))
        fetcher._take([target], [late])  # type: ignore[list-item]
        fetcher._keys[KEY] = 0
        fetcher._take([target], [late])  # type: ignore[list-item]
        del fetcher._keys[KEY]

    play(scenario)


def test_log_that_was_cut_meanwhile_takes_no_answer() -> None:
    """Nor does one whose last epoch is another: what the leader compared is not there any more."""

    async def scenario(scene: Scene) -> None:
        await scene.produce(0, b"a").get()
        await asyncio.sleep(1)
        fetcher = scene.node(1).fetchers[0]
        target = fetcher._target(KEY)
        assert fetcher._still_asked_of(target) is scene.replica(1)
        assert fetcher._still_asked_of(target._replace(offset=0)) is None
        assert fetcher._still_asked_of(target._replace(last_fetched_epoch=3)) is None
        assert fetcher._still_asked_of(target._replace(current_leader_epoch=3)) is None
        assert fetcher._still_asked_of(target._replace(topic_id=None)) is None

    play(scenario)


# -- offsets that the leader does not have


def test_follower_that_the_leader_has_nothing_left_for_begins_anew() -> None:
    """All that it lacks has been deleted.

    It asks where the leader's log begins, and goes on there.
    """

    async def scenario(scene: Scene) -> None:
        await scene.produce(0, b"a").get()
        scene.cluster.kill(2)
        await scene.settle()
        for value in (b"b", b"c", b"d"):
            await scene.produce(0, value).get()
        await asyncio.sleep(0.6)
        assert error(await scene.delete(0, 3).get()) is ErrorCode.NONE
        await scene.cluster.restart(2)
        await scene.until(lambda: scene.isr == {0, 1, 2})
        assert (scene.log(2).log_start_offset, scene.values(2)) == (3, [b"d"])
        await asyncio.sleep(1)
        assert scene.ends()[2] == (4, 4)

    play(scenario)


def test_follower_without_epochs_that_is_ahead_is_cut_to_the_leaders_end() -> None:
    """It asks by ListOffsets; its leader's objects are none of its business."""

    async def scenario(scene: Scene) -> None:
        replica = scene.replica(1)
        fetcher = scene.node(1).fetchers[0]
        replica.log.truncate_fully(7)
        replica.high_watermark = 7
        fetcher.again()
        await asyncio.sleep(0.6)
        assert (replica.log.log_start_offset, replica.log.end_offset) == (0, 0)
        await scene.produce(0, b"a").get()
        assert scene.values(1) == [b"a"]

    play(scenario)


def test_where_the_leaders_log_is_is_asked_over_the_link() -> None:
    """With lag it takes two ways there and back.

    When the link is cut nothing is done to the log.
    """

    async def scenario(scene: Scene) -> None:
        replica = scene.replica(1)
        scene.cluster.lag(1, 100)
        replica.log.truncate_fully(7)
        replica.high_watermark = 7
        scene.node(1).fetchers[0].again()
        await asyncio.sleep(0.35)
        assert replica.log.end_offset == 7
        scene.cluster.cut_off(1)
        await asyncio.sleep(1)
        assert replica.log.end_offset == 7
        scene.cluster.reconnect(1)
        await asyncio.sleep(0.45)
        assert replica.log.end_offset == 0

    play(scenario)


def test_offset_that_is_in_range_by_now_is_fetched_again_later() -> None:
    """The leader has got so far since it was asked.

    Nothing is cut, and it is not asked without a pause.
    """

    async def scenario(scene: Scene) -> None:
        await scene.produce(0, b"a").get()
        await asyncio.sleep(1)
        fetcher, replica = scene.node(1).fetchers[0], scene.replica(1)
        fetcher._start_over(replica, LogBounds(ErrorCode.NONE, 0, 5))
        assert (replica.log.end_offset, fetcher._keys[KEY]) == (1, scene.node(1).now_ms() + 1_000)
        target = fetcher._target(KEY)
        assert scene.node(0).replicas.bounds(target) == LogBounds(ErrorCode.NONE, 0, 1)
        assert scene.node(2).replicas.bounds(target).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (
            scene.node(0).replicas.bounds(target._replace(current_leader_epoch=9)).error
            is ErrorCode.UNKNOWN_LEADER_EPOCH
        )

    play(scenario)


def test_partition_that_is_in_trouble_does_not_hold_up_the_others() -> None:
    """Only it is left alone for a while."""

    async def scenario(scene: Scene) -> None:
        scene.cluster.create_topic("other", partitions=3, replication_factor=3)
        await scene.settle()
        key = next(
            KEY._replace(topic="other", partition=each["partition"])
            for each in scene.cluster.describe("other")
            if each["leader"] == 0
        )
        scene.replica(0, key).leader_epoch += 5
        scene.node(1).fetchers[0].again()
        scene.node(2).fetchers[0].again()
        await scene.settle()
        answer = scene.produce(0, b"a")
        await scene.settle()
        assert answer.done
        scene.replica(0, key).leader_epoch -= 5

    play(scenario)


# -- elections


def test_partition_waits_for_its_last_in_sync_replica() -> None:
    """The others are alive, and lack what was acknowledged: nobody leads."""

    async def scenario(scene: Scene) -> None:
        scene.cluster.freeze(1)
        scene.cluster.freeze(2)
        answer = scene.produce(0, b"a")
        await scene.until(lambda: scene.isr == {0})
        assert answer.done
        scene.cluster.kill(0)
        scene.cluster.thaw(1)
        scene.cluster.thaw(2)
        await asyncio.sleep(5)
        assert (scene.leader, scene.isr) == (NO_LEADER, {0})
        assert error(await scene.produce(1, b"b").get()) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        await scene.cluster.restart(0)
        await scene.until(lambda: scene.isr == {0, 1, 2})
        assert [scene.values(node) for node in range(3)] == [[b"a"]] * 3

    play(scenario)


def test_unclean_election_loses_what_the_new_leader_lacks() -> None:
    """And the old leader, back, gives it up too."""

    async def scenario(scene: Scene) -> None:
        await scene.produce(0, b"a").get()
        scene.cluster.freeze(1)
        scene.cluster.freeze(2)
        scene.produce(0, b"lost")
        await scene.until(lambda: scene.isr == {0})
        assert scene.ends()[0] == (2, 2)
        scene.cluster.kill(0)
        await scene.settle()
        assert (scene.leader, scene.isr) == (1, {1})
        scene.cluster.thaw(2)
        await scene.until(lambda: scene.isr == {1, 2})
        await scene.produce(1, b"b").get()
        await scene.cluster.restart(0)
        await scene.until(lambda: scene.isr == {0, 1, 2})
        await asyncio.sleep(1)
        assert [scene.values(node) for node in range(3)] == [[b"a", b"b"]] * 3
        assert scene.ends() == dict.fromkeys(range(3), (2, 2))

    play(scenario, unclean_leader_election_enable=True)


def test_unclean_election_can_be_allowed_when_it_is_needed() -> None:
    """By the topic's setting, which takes effect at once."""

    async def scenario(scene: Scene) -> None:
        scene.cluster.freeze(1)
        scene.cluster.freeze(2)
        scene.produce(0, b"a")
        await scene.until(lambda: scene.isr == {0})
        scene.cluster.kill(0)
        await scene.settle()
        assert scene.leader == NO_LEADER
        scene.cluster.controller.set_configs("orders", {"unclean.leader.election.enable": "true"})
        await scene.settle()
        assert scene.leader == 1
        assert error(await scene.produce(1, b"b").get()) is ErrorCode.NONE

    play(scenario)


def test_leader_may_be_moved_to_those_in_sync_only() -> None:
    """And to a frozen one, which leads as any other: it is as a follower that it does nothing."""

    async def scenario(scene: Scene) -> None:
        scene.cluster.freeze(2)
        scene.cluster.freeze(1)
        scene.produce(0, b"a")
        await scene.until(lambda: scene.isr == {0})
        with pytest.raises(
            ControllerError, match=r"node 1 can.t lead orders-0: in sync and alive are \[0\]"
        ):
            scene.cluster.move_leader("orders", 0, 1)
        scene.cluster.thaw(1)
        await scene.until(lambda: scene.isr == {0, 1})
        scene.cluster.freeze(1)
        scene.cluster.move_leader("orders", 0, 1)
        await scene.settle()
        answer = scene.produce(1, b"b")
        await scene.settle()
        assert answer.done
        assert scene.values(0) == [b"a", b"b"]
        scene.cluster.move_leader("orders", 0, 0)
        await scene.settle()
        waits = scene.produce(0, b"c", timeout_ms=LAG_MS // 2)
        assert error(await waits.get()) is ErrorCode.REQUEST_TIMED_OUT

    play(scenario)
