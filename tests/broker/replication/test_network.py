"""What lies between the nodes: order, lag, and what is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from request_purgatory.broker.cluster.network import CONTROLLER, Network
from request_purgatory.errors import InvalidArgumentError
from tests.broker.replication.scene import Scene, play
from tests.unit.aio.virtual import run


def test_messages_take_as_long_as_the_slower_end() -> None:
    """Without lag they come in the loop's next round, never at once."""

    async def main() -> None:
        network, came = Network(), dict[str, float]()
        loop = asyncio.get_running_loop()

        def note(name: str) -> Callable[[], None]:
            return lambda: came.__setitem__(name, loop.time() - began)

        began = loop.time()
        network.lag(1, 20)
        network.lag(2, 50)
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
        network.lag(2, 0)
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
def test_nothing_overtakes_what_was_sent_before_it(sent: list[tuple[int, int, bool]]) -> None:
    """However the lag changes, from one end to another what is sent first comes first, and comes once."""

    async def main() -> None:
        network = Network()
        came: dict[bool, list[int]] = {False: [], True: []}
        for number, (lag_ms, pause_ms, back) in enumerate(sent):
            network.lag(1, lag_ms)
            ends = (1, 0) if back else (0, 1)
            network.send(*ends, lambda number=number, back=back: came[back].append(number))  # type: ignore[misc]
            await asyncio.sleep(pause_ms / 1_000)
        await asyncio.sleep(1)
        for back in (False, True):
            assert came[back] == [number for number, each in enumerate(sent) if each[2] is back]

    run(main)


def test_what_is_under_way_when_a_link_is_cut_is_lost() -> None:
    """Though the link is there again before it would have come.

    What is sent after that comes, at its own time.
    """

    async def main() -> None:
        network, came = Network(), list[tuple[str, int]]()
        loop = asyncio.get_running_loop()
        began = loop.time()

        def send(source: int, target: int, name: str) -> None:
            network.send(
                source, target, lambda: came.append((name, round((loop.time() - began) * 1_000)))
            )

        network.lag(1, 20)
        send(0, 1, "lost")
        send(1, CONTROLLER, "lost too")
        send(1, 2, "and lost")
        send(0, 2, "not lost")
        network.cut_off(1)
        send(0, 1, "never sent")
        assert (network.is_connected(0, 1), network.is_connected(1, 1), network.cut) == (
            False,
            True,
            {1},
        )
        await asyncio.sleep(0.005)
        network.reconnect(1)
        send(0, 1, "sent")
        await asyncio.sleep(1)
        assert came == [("not lost", 0), ("sent", 25)]

    run(main)


def test_message_that_fails_does_not_hold_up_the_next() -> None:
    """The loop hears of it; the others come all the same."""

    async def main() -> None:
        network, came, failures = Network(), list[int](), list[object]()
        asyncio.get_running_loop().set_exception_handler(
            lambda _loop, context: failures.append(context["exception"])
        )
        network.lag(1, 5)
        for number in range(4):
            network.send(0, 1, lambda number=number: came.append(10 // (number - 1)))  # type: ignore[misc]
        await asyncio.sleep(1)
        assert came == [-10, 10, 5]
        assert len(failures) == 1

    run(main)


@pytest.mark.parametrize("lag_ms", [1, 700, 1_500, 5_000])
def test_replication_works_whatever_the_lag(lag_ms: int) -> None:
    """A slow link is no broken one.

    Followers stay in sync, or come back, as long as their answers are in time.
    """

    async def scenario(scene: Scene) -> None:
        scene.cluster.lag(2, lag_ms)
        await asyncio.sleep(lag_ms / 500)
        answer = scene.produce(0, b"a")
        await answer.get()
        assert answer.waited_ms <= 4 * lag_ms + 501
        scene.cluster.freeze(2)
        scene.produce(0, b"b")
        await scene.until(lambda: scene.isr == {0, 1})
        scene.cluster.thaw(2)
        await scene.until(lambda: scene.isr == {0, 1, 2}, 8 * lag_ms + 1_000)

    play(scenario, replica_lag_time_max_ms=20_000)


def test_node_that_hears_late_serves_what_it_knows() -> None:
    """A leader that has not heard of its successor appends, is asked by nobody, and gives up what it appended."""

    async def scenario(scene: Scene) -> None:
        await scene.produce(0, b"a").get()
        await asyncio.sleep(1)
        scene.cluster.lag(0, 2_000)
        scene.cluster.move_leader("orders", 0, 1)
        await scene.settle()
        assert (scene.leader, scene.replica(0).is_leader, scene.replica(1).is_leader) == (
            1,
            True,
            True,
        )
        stale = scene.produce(0, b"x")
        fresh = scene.produce(1, b"b")
        await asyncio.sleep(1.9)
        assert (stale.done, fresh.done) == (False, False)
        scene.cluster.lag(0, 0)
        await asyncio.sleep(2)
        assert (await stale.get())[0].error.name == "NOT_LEADER_OR_FOLLOWER"
        assert (await fresh.get())[0].error.name == "NONE"
        assert [scene.values(node) for node in range(3)] == [[b"a", b"b"]] * 3

    play(scenario)


def test_notices_tell_what_was_true_when_they_were_sent() -> None:
    """One after the other, each at its own time."""

    async def scenario(scene: Scene) -> None:
        scene.cluster.lag(0, 500)
        scene.cluster.move_leader("orders", 0, 1)
        await asyncio.sleep(0.1)
        scene.cluster.move_leader("orders", 0, 2)
        await asyncio.sleep(0.45)
        assert (scene.replica(0).leader, scene.replica(0).leader_epoch) == (1, 1)
        await asyncio.sleep(0.1)
        assert (scene.replica(0).leader, scene.replica(0).leader_epoch) == (2, 2)

    play(scenario)


def test_number_of_a_node_is_checked() -> None:
    """InvalidArgumentError, with the number."""

    async def scenario(scene: Scene) -> None:
        for change in (
            scene.cluster.freeze,
            scene.cluster.thaw,
            scene.cluster.kill,
            scene.cluster.stop,
            scene.cluster.cut_off,
        ):
            with pytest.raises(InvalidArgumentError, match="between 0 and 2"):
                change(3)
        with pytest.raises(InvalidArgumentError, match="lag_ms"):
            scene.cluster.lag(0, -1)
        with pytest.raises(InvalidArgumentError, match="killed or stopped"):
            await scene.cluster.restart(0)

    play(scenario)
