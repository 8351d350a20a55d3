"""In-sync replicas: who leaves, who comes back, and what a leader waits for meanwhile."""

from __future__ import annotations

import asyncio

from request_purgatory.broker.metadata.controller import IsrWish
from request_purgatory.broker.replication.replica import FollowerState
from request_purgatory.broker.wire.error_code import ErrorCode
from tests.broker.replication.scene import KEY, LAG_MS, Scene, error, play


def test_follower_that_lags_leaves_and_its_leader_goes_on() -> None:
    """Not before replica.lag.time.max.ms, and at most half as much later.

    Then what waited for it is answered.
    """

    async def scenario(scene: Scene) -> None:
        scene.cluster.freeze(2)
        answer = scene.produce(0, b"a")
        await asyncio.sleep((LAG_MS - 600) / 1_000)
        assert (scene.isr, answer.done) == ({0, 1, 2}, False)
        await asyncio.sleep(LAG_MS * 0.6 / 1_000)
        assert scene.isr == {0, 1}
        assert error(await answer.get()) is ErrorCode.NONE

    play(scenario)


def test_idle_follower_stays() -> None:
    """Who has all there is does not lag, however long it has not fetched."""

    async def scenario(scene: Scene) -> None:
        await scene.produce(0, b"a").get()
        scene.cluster.freeze(2)
        await asyncio.sleep(LAG_MS * 3 / 1_000)
        assert scene.isr == {0, 1, 2}

    play(scenario)


def test_follower_behind_a_steady_writer_stays() -> None:
    """It never has all there is, but all there was at its fetch before."""

    async def scenario(scene: Scene) -> None:
        scene.cluster.lag(2, 200)
        for _ in range(LAG_MS * 3 // 50):
            scene.produce(0, b"a", acks=1)
            await asyncio.sleep(0.05)
        assert scene.isr == {0, 1, 2}
        assert scene.log(2).end_offset < scene.log(0).end_offset

    play(scenario)


def test_caught_up_is_reckoned_from_the_fetch_before() -> None:
    """As in Kafka's ReplicaState: what the leader had then is what counts."""
    state = FollowerState(1_000)
    state.fetched(0, 0, 10, 2_000)
    assert state.caught_up_ms == 1_000
    state.fetched(9, 0, 20, 3_000)
    assert state.caught_up_ms == 1_000
    state.fetched(20, 0, 30, 4_000)
    assert state.caught_up_ms == 3_000
    state.fetched(30, 0, 30, 5_000)
    assert state.caught_up_ms == 5_000
    assert state.is_caught_up(31, 15_000, 10_000)
    assert not state.is_caught_up(31, 15_001, 10_000)
    assert not FollowerState().is_caught_up(0, 0, 10_000)


def test_follower_comes_back_once_it_has_caught_up() -> None:
    """Not by its first fetch, but by that with all up to the high watermark."""

    async def scenario(scene: Scene) -> None:
        scene.cluster.freeze(2)
        for _ in range(20):
            scene.produce(0, b"x" * 1_000)
        await scene.until(lambda: scene.isr == {0, 1})
        scene.cluster.lag(2, 50)
        scene.cluster.thaw(2)
        await asyncio.sleep(0.06)
        assert scene.isr == {0, 1}
        await scene.until(lambda: scene.isr == {0, 1, 2}, 1_000)
        assert scene.log(2).end_offset == 20

    play(scenario, replica_fetch_max_bytes=6_000)


def test_follower_that_is_asked_for_counts_before_the_leader_hears_of_it() -> None:
    """KIP-497.

    The controller has let it in, may make it the leader, and the leader does not know yet.
    """

    async def scenario(scene: Scene) -> None:
        scene.cluster.freeze(2)
        scene.produce(0, b"a")
        await scene.until(lambda: scene.isr == {0, 1})
        # What reaches the leader takes its time from now on. The follower catches up, and stops
        # again.
        scene.cluster.lag(0, 300)
        scene.cluster.thaw(2)
        await scene.until(lambda: scene.isr == {0, 1, 2}, 2_000)
        assert scene.replica(0).isr == [0, 1]
        assert scene.replica(0).wished_isr == [0, 1, 2]
        scene.cluster.freeze(2)
        answer = scene.produce(0, b"b")
        scene.fetch(0, 2, replica_id=1, epoch=0)
        assert not answer.done
        assert scene.ends()[0] == (1, 2)
        # The leader goes before it has heard. Who leads now has all that was acknowledged.
        scene.cluster.kill(0)
        scene.cluster.lag(0, 0)
        scene.cluster.thaw(2)
        await asyncio.sleep(2)
        assert not answer.done
        assert scene.leader in (1, 2)

    play(scenario)


def test_wish_for_an_earlier_state_is_refused() -> None:
    """A follower went and came back while the wish was under way.

    The leader may have gone on without it.
    """

    async def scenario(scene: Scene) -> None:
        controller = scene.cluster.controller
        partition = controller.partition(KEY)
        assert partition is not None
        topic_id = controller.topics["orders"].topic_id
        wish = IsrWish(
            KEY, topic_id, 0, partition.leader_epoch, partition.partition_epoch, [0, 1, 2]
        )
        controller.node_went(2)
        assert not controller.alter_isr(wish._replace(partition_epoch=partition.partition_epoch)), (
            "node 2 is not alive"
        )
        controller.node_came(2)
        assert not controller.alter_isr(wish), "the partition has changed"
        assert not controller.alter_isr(
            wish._replace(partition_epoch=partition.partition_epoch, leader=1)
        )
        assert not controller.alter_isr(
            wish._replace(partition_epoch=partition.partition_epoch, topic_id=partition.key)
        )
        assert scene.isr == {0, 1}
        assert controller.alter_isr(wish._replace(partition_epoch=partition.partition_epoch))
        assert scene.isr == {0, 1, 2}
        await scene.settle()

    play(scenario)


def test_refused_wish_is_made_again() -> None:
    """The follower died while it was being let in; when it is back it is let in all the same."""

    async def scenario(scene: Scene) -> None:
        scene.cluster.freeze(2)
        scene.produce(0, b"a")
        await scene.until(lambda: scene.isr == {0, 1})
        scene.cluster.lag(0, 300)
        scene.cluster.thaw(2)
        await scene.until(lambda: scene.replica(0).wished_isr == [0, 1, 2], 2_000)
        scene.cluster.kill(2)
        await asyncio.sleep(0.7)
        assert scene.replica(0).wished_isr is None
        assert (scene.isr, scene.replica(0).isr) == ({0, 1}, [0, 1])
        answer = scene.produce(0, b"b")
        await asyncio.sleep(1)
        assert error(await answer.get()) is ErrorCode.NONE
        await scene.cluster.restart(2)
        await scene.until(lambda: scene.isr == {0, 1, 2})

    play(scenario)


def test_refusal_of_an_earlier_wish_leaves_the_present_one_alone() -> None:
    """The leader heard of what had changed, and has asked anew, before it hears that the first was refused."""

    async def scenario(scene: Scene) -> None:
        replica, node = scene.replica(0), scene.node(0)
        scene.cluster.kill(2)
        await scene.settle()
        scene.cluster.lag(0, 300)
        await scene.cluster.restart(2)
        scene.cluster.freeze(2)
        node._alter_isr(replica, [0, 1, 2])
        await asyncio.sleep(0.1)
        scene.cluster.kill(1)
        await asyncio.sleep(0.35)
        assert (replica.isr, replica.wished_isr) == ([0], None)
        node._alter_isr(replica, [0, 2])
        await asyncio.sleep(0.25)
        assert replica.wished_isr == [0, 2]
        await asyncio.sleep(0.5)
        assert (replica.isr, replica.wished_isr, scene.isr) == ([0, 2], None, {0, 2})

    play(scenario)


def test_wish_that_was_lost_is_made_again() -> None:
    """The leader was cut off, for less than would be noticed, when its wish was under way."""

    async def scenario(scene: Scene) -> None:
        scene.cluster.freeze(2)
        scene.produce(0, b"a")
        await scene.until(lambda: scene.isr == {0, 1})
        scene.cluster.lag(0, 300)
        scene.cluster.thaw(2)
        await scene.until(lambda: scene.replica(0).wished_isr == [0, 1, 2], 2_000)
        scene.cluster.cut_off(0)
        await asyncio.sleep(0.1)
        scene.cluster.reconnect(0)
        assert (scene.replica(0).wished_isr, scene.isr) == (None, {0, 1})
        await scene.until(lambda: scene.isr == {0, 1, 2}, 3_000)
        await asyncio.sleep(1)
        assert scene.replica(0).isr == [0, 1, 2]

    play(scenario)


def test_another_setting_does_not_end_a_wish() -> None:
    """A notice that changes no replicas is no answer to it."""

    async def scenario(scene: Scene) -> None:
        replica = scene.replica(0)
        replica.wished_isr = [0, 1, 2]
        scene.cluster.controller.set_configs("orders", {"min.insync.replicas": "2"})
        await scene.settle()
        assert (replica.wished_isr, replica.min_insync_replicas) == ([0, 1, 2], 2)
        replica.wished_isr = None

    play(scenario)


def test_live_follower_that_is_caught_up_is_waited_for() -> None:
    """So that one can join where records come in without a pause.

    One that is not alive is not waited for.
    """

    async def scenario(scene: Scene) -> None:
        scene.cluster.kill(2)
        await scene.settle()
        answer = scene.produce(0, b"a")
        await asyncio.sleep(0.6)
        assert answer.done
        await scene.cluster.restart(2)
        scene.cluster.freeze(2)
        await scene.settle()
        scene.fetch(0, 1, replica_id=2, epoch=0)
        replica = scene.replica(0)
        replica.wished_isr, replica.isr = None, [0, 1]
        waiting = scene.produce(0, b"b")
        scene.fetch(0, 2, replica_id=1, epoch=0)
        assert not waiting.done
        scene.fetch(0, 2, replica_id=2, epoch=0)
        assert waiting.done
        scene.cluster.thaw(2)
        replica.wished_isr = None
        await scene.until(lambda: scene.isr == {0, 1, 2})
        await asyncio.sleep(1)

    play(scenario)


def test_new_leader_asks_for_nobody_that_has_nothing_of_its_epoch() -> None:
    """A follower is let in only with all up to where this leader's epoch begins, though the high watermark is lower."""

    async def scenario(scene: Scene) -> None:
        await scene.produce(0, b"a").get()
        scene.cluster.freeze(2)
        scene.produce(0, b"b", acks=1)
        await scene.until(lambda: scene.isr == {0, 1})
        scene.cluster.freeze(1)
        scene.cluster.move_leader("orders", 0, 1)
        await scene.settle()
        replica = scene.replica(1)
        replica.high_watermark = 1
        scene.cluster.freeze(0)
        scene.fetch(1, 1, replica_id=2, epoch=1, last_epoch=0)
        assert (replica.epoch_start, replica.wished_isr) == (2, None)
        scene.fetch(1, 2, replica_id=2, epoch=1, last_epoch=0)
        assert replica.wished_isr == [0, 1, 2]
        for node in range(3):
            scene.cluster.thaw(node)
        await asyncio.sleep(3)
        assert scene.isr == {0, 1, 2}

    play(scenario)
