"""Long commands give way to others on the event loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from contextlib import closing
from typing import Any, TypeVar

import pytest

from purgatory_broker.cluster.admin_server import ControlServer
from purgatory_broker.cluster.client_request import REQUESTS_PER_SLICE
from purgatory_broker.cluster.json_values import VALUES_PER_SLICE
from purgatory_broker.cluster.run_command import run_command, run_command_at_once
from purgatory_broker.cluster.snapshots import RECORDS_PER_SLICE
from purgatory_broker.log.compaction import RECORDS_PER_SLICE as RECORDS_PER_PASS_SLICE
from tests.broker import apis
from tests.broker.hostile.client import Client
from tests.broker.replication.cluster_harness import ClusterHarness, run_scenario

T = TypeVar("T")

BATCHES = 3
RECORDS = 1_000


async def counted(work: Coroutine[Any, Any, T]) -> tuple[T, int]:
    """Return the result of some work, and how often others had their turn meanwhile."""
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    await asyncio.sleep(0)
    before = turns
    try:
        return await work, turns - before
    finally:
        task.cancel()


async def fill(harness: ClusterHarness) -> None:
    """Produce some batches of numbered records."""
    for start in range(0, BATCHES * RECORDS, RECORDS):
        values = (b"%d" % number for number in range(start, start + RECORDS))
        await harness.produce(0, *values).get()
    await harness.cluster.wait_for(records=("orders", BATCHES * RECORDS), timeout=100)


def numbers(*ranges: range) -> list[bytes]:
    """Return the values of numbered records."""
    return [b"%d" % number for each in ranges for number in each]


def test_others_have_their_turns_while_records_are_read() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await fill(harness)
        found, turns = await counted(harness.cluster.records("orders"))
        assert [each.value for each in found] == numbers(range(BATCHES * RECORDS))
        assert turns >= BATCHES * RECORDS // RECORDS_PER_SLICE

    run_scenario(scenario)


def test_records_that_are_deleted_or_sent_meanwhile_are_left_out() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await fill(harness)
        reading = asyncio.create_task(harness.cluster.records("orders"))
        await asyncio.sleep(0)
        harness.log(0).advance_log_start_offset(2 * RECORDS)
        sent = harness.produce(0, b"sent meanwhile")
        # The first batch is the one that was being read.
        expected = numbers(range(RECORDS), range(2 * RECORDS, 3 * RECORDS))
        assert [each.value for each in await reading] == expected
        await sent.get()

    run_scenario(scenario)


def test_others_have_their_turns_while_an_answer_is_prepared() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await fill(harness)
        async with ControlServer(harness.cluster) as control:
            reader, writer = await asyncio.open_connection("127.0.0.1", control.port, limit=2**24)
            line = b'{"command": "records", "arguments": {"topic": "orders", "limit": 100000}}'
            writer.write(line + b"\n")
            answer, turns = await counted(reader.readline())
            writer.transport.abort()
        found = json.loads(answer)["result"]
        assert [each["value"].encode() for each in found] == numbers(range(BATCHES * RECORDS))
        assert turns >= 2 * BATCHES * RECORDS // VALUES_PER_SLICE

    run_scenario(scenario)


def test_others_have_their_turns_while_requests_are_decoded() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        client = await Client.to(harness.cluster)
        for _ in range(10 * REQUESTS_PER_SLICE):
            await client.call(apis.METADATA, 4, topics=[], allow_auto_topic_creation=False)
        found, turns = await counted(harness.cluster.requests())
        await Client.close_all()
        assert [each.api for each in found] == ["Metadata"] * 10 * REQUESTS_PER_SLICE
        assert turns >= 9

    run_scenario(scenario)


@pytest.mark.parametrize("limit", [None, 7])
def test_command_that_can_not_give_way_has_the_same_result(limit: int | None) -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await fill(harness)
        arguments = {"topic": "orders", "limit": limit}
        cluster = harness.cluster
        found, turns = await counted(run_command(cluster, "records", arguments))
        assert (turns > 10) == (limit is None)
        assert run_command_at_once(cluster, "records", arguments) == found

    run_scenario(scenario)


def test_answer_without_values_is_a_line_of_json() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        async with ControlServer(harness.cluster) as control:
            reader, writer = await asyncio.open_connection("127.0.0.1", control.port)
            with closing(writer):
                writer.write(b'{"command": "records", "arguments": {"topic": "orders"}}\n')
                assert await reader.readline() == b'{"result": []}\n'

    run_scenario(scenario)


def test_others_have_their_turns_while_a_log_is_compacted() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await fill(harness)
        _, turns = await counted(harness.cluster.compact("orders"))
        # Each node reads its log twice.
        assert turns >= 2 * 3 * BATCHES * RECORDS // max(RECORDS_PER_PASS_SLICE, RECORDS)
        assert len(await harness.cluster.records("orders")) == 1

    run_scenario(scenario, configs={"cleanup.policy": "compact"})
