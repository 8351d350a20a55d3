"""The simulated network: order, latency and lost messages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatory_broker.cluster.network import CONTROLLER, Network
from request_purgatory.errors import InvalidArgumentError
from tests.broker.replication.cluster_harness import ClusterHarness, run_scenario
from tests.unit.aio.virtual import run


def test_latency_is_that_of_the_slower_end() -> None:
    async def main() -> None:
        network, came = Network(), dict[str, float]()
        loop = asyncio.get_running_loop()

        def note(name: str) -> Callable[[], None]:
            return lambda: came.__setitem__(name, loop.time() - began)

        began = loop.time()
        network.set_latency(1, 20)
        network.set_latency(2, 50)
        for source, target in ((0, 3), (0, 1), (1, 2), (2, CONTROLLER)):
            network.send(source, target, note(f"{source}{target}"))
        assert came == {}
        await asyncio.sleep(0)
        assert came == {"03": 0}
        await asyncio.sleep(1)
        assert came == {
            "03": 0,
            "01": pytest.approx(0.02),
            "12": pytest.approx(0.05),
            "2-1": pytest.approx(0.05),
        }
        network.set_latency(2, 0)
        began = loop.time()
        network.send(1, 2, note("again"))
        await asyncio.sleep(1)
        assert came["again"] == pytest.approx(0.02)

    run(main)


@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.sampled_from([0, 0, 1, 10]), st.booleans()), max_size=30
    )
)
def test_messages_arrive_once_and_in_order(sent: list[tuple[int, int, bool]]) -> None:
    async def main() -> None:
        network = Network()
        came: dict[bool, list[int]] = {False: [], True: []}
        for number, (latency_ms, pause_ms, back) in enumerate(sent):
            network.set_latency(1, latency_ms)
            ends = (1, 0) if back else (0, 1)
            network.send(*ends, lambda number=number, back=back: came[back].append(number))  # type: ignore[misc]
            await asyncio.sleep(pause_ms / 1_000)
        await asyncio.sleep(1)
        for back in (False, True):
            assert came[back] == [number for number, each in enumerate(sent) if each[2] is back]

    run(main)


def test_lower_latency_applies_to_messages_in_flight() -> None:
    """As if they had been sent with it, and in their order."""

    async def main() -> None:
        network = Network()
        came: list[tuple[str, int]] = []
        loop = asyncio.get_running_loop()
        began = loop.time()

        def send(source: int, target: int, name: str) -> None:
            network.send(
                source, target, lambda: came.append((name, round((loop.time() - began) * 1_000)))
            )

        network.set_latency(1, 60_000)
        network.set_latency(2, 40)
        send(0, 1, "first")
        send(1, 2, "to a slow end")
        await asyncio.sleep(0.01)
        send(0, 1, "second")
        network.set_latency(1, 30)
        send(0, 1, "third")
        await asyncio.sleep(0.02)
        network.set_latency(1, 0)
        send(0, 1, "fourth")
        await asyncio.sleep(1)
        network.set_latency(1, 90)
        network.set_latency(1, 80)
        send(0, 1, "fifth")
        await asyncio.sleep(100)
        assert came == [
            ("first", 30),
            ("second", 30),
            ("third", 30),
            ("fourth", 30),
            ("to a slow end", 40),
            ("fifth", 1_110),
        ]

    run(main)


def test_messages_in_flight_of_a_partitioned_node_are_lost() -> None:
    async def main() -> None:
        network, came = Network(), list[tuple[str, int]]()
        loop = asyncio.get_running_loop()
        began = loop.time()

        def send(source: int, target: int, name: str) -> None:
            network.send(
                source, target, lambda: came.append((name, round((loop.time() - began) * 1_000)))
            )

        network.set_latency(1, 20)
        send(0, 1, "lost")
        send(1, CONTROLLER, "lost too")
        send(1, 2, "and lost")
        send(0, 2, "not lost")
        network.partition_node(1)
        send(0, 1, "never sent")
        assert (
            network.is_connected(0, 1),
            network.is_connected(1, 1),
            network.partitioned_nodes,
        ) == (
            False,
            True,
            {1},
        )
        await asyncio.sleep(0.005)
        network.heal_node(1)
        send(0, 1, "sent")
        await asyncio.sleep(1)
        assert came == [("not lost", 0), ("sent", 25)]

    run(main)


def test_failing_delivery_does_not_delay_the_next() -> None:
    async def main() -> None:
        network, came, failures = Network(), list[int](), list[object]()
        asyncio.get_running_loop().set_exception_handler(
            lambda _loop, context: failures.append(context["exception"])
        )
        network.set_latency(1, 5)
        for number in range(4):
            network.send(0, 1, lambda number=number: came.append(10 // (number - 1)))  # type: ignore[misc]
        await asyncio.sleep(1)
        assert came == [-10, 10, 5]
        assert len(failures) == 1

    run(main)


@pytest.mark.parametrize("latency_ms", [1, 700, 1_500, 5_000])
def test_replication_works_at_any_latency(latency_ms: int) -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.set_latency(2, latency_ms)
        await asyncio.sleep(latency_ms / 500)
        reply = harness.produce(0, b"a")
        await reply.get()
        assert reply.waited_ms <= 4 * latency_ms + 501
        harness.cluster.pause_replication(2)
        harness.produce(0, b"b")
        await harness.until(lambda: harness.isr == {0, 1})
        harness.cluster.resume_replication(2)
        await harness.until(lambda: harness.isr == {0, 1, 2}, 8 * latency_ms + 1_000)

    run_scenario(scenario, replica_lag_time_max_ms=20_000)


def test_late_notification_leaves_two_leaders_for_a_while() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await harness.produce(0, b"a").get()
        await asyncio.sleep(1)
        harness.cluster.set_latency(0, 2_000)
        harness.cluster.move_leader("orders", 0, 1)
        await harness.settle()
        assert (harness.leader, harness.replica(0).is_leader, harness.replica(1).is_leader) == (
            1,
            True,
            True,
        )
        stale = harness.produce(0, b"x")
        fresh = harness.produce(1, b"b")
        await asyncio.sleep(1.9)
        assert (stale.done, fresh.done) == (False, False)
        harness.cluster.set_latency(0, 0)
        await asyncio.sleep(2)
        assert (await stale.get())[0].error.name == "NOT_LEADER_OR_FOLLOWER"
        assert (await fresh.get())[0].error.name == "NONE"
        assert [harness.values(node) for node in range(3)] == [[b"a", b"b"]] * 3

    run_scenario(scenario)


def test_notifications_have_the_state_at_their_sending() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.set_latency(0, 500)
        harness.cluster.move_leader("orders", 0, 1)
        await asyncio.sleep(0.1)
        harness.cluster.move_leader("orders", 0, 2)
        await asyncio.sleep(0.45)
        assert (harness.replica(0).leader, harness.replica(0).leader_epoch) == (1, 1)
        await asyncio.sleep(0.1)
        assert (harness.replica(0).leader, harness.replica(0).leader_epoch) == (2, 2)

    run_scenario(scenario)


def test_invalid_node_numbers_are_refused() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        for change in (
            harness.cluster.pause_replication,
            harness.cluster.resume_replication,
            harness.cluster.kill,
            harness.cluster.stop,
            harness.cluster.partition_node,
        ):
            with pytest.raises(InvalidArgumentError, match="between 0 and 2"):
                change(3)
        with pytest.raises(InvalidArgumentError, match="latency_ms"):
            harness.cluster.set_latency(0, -1)
        with pytest.raises(InvalidArgumentError, match="a killed or stopped node"):
            await harness.cluster.restart(0)

    run_scenario(scenario)
