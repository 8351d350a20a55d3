"""Records of topics with transactions: markers are none, and what is committed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from purgatory_broker import ClusterTimeoutError
from tests.broker.log.batches import batch
from tests.broker.log.transactions import transactional
from tests.broker.replication.cluster_harness import KEY, ClusterHarness, run_scenario


async def write_transactions(harness: ClusterHarness) -> None:
    """Write a 0, b 1 (aborted), c 3 (committed), d 5 (outside), e and f 6 (open), g 8 (outside)."""
    await harness.produce(0, b"a").get()
    await harness.begin(0, b"b").get()
    await harness.end(0, commit=False).get()
    await harness.begin(0, b"c", producer=(8, 0, 0)).get()
    await harness.end(0, commit=True, producer_id=8).get()
    await harness.produce(0, b"d").get()
    await harness.begin(0, b"e", b"f", producer=(7, 0, 1)).get()
    await harness.produce(0, b"g").get()


async def values(harness: ClusterHarness, **arguments: Any) -> str:
    """Return the values of the records that a test looks at."""
    records = await harness.cluster.records(KEY.topic, **arguments)
    return "".join((record.value or b"").decode() for record in records)


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({}, "abcdefg"),
        ({"read_committed": True}, "acd"),
        ({"read_committed": True, "offset": 2}, "cd"),
        ({"read_committed": True, "limit": 2}, "ac"),
        ({"offset": -1}, "g"),
        ({"offset": -5}, "cdefg"),
        ({"offset": -6, "limit": 1}, "b"),
        ({"offset": -20}, "abcdefg"),
        ({"read_committed": True, "offset": -1}, "d"),
        ({"read_committed": True, "offset": -2}, "cd"),
        ({"read_committed": True, "offset": -3}, "acd"),
        ({"read_committed": True, "offset": -9}, "acd"),
    ],
    ids=str,
)
def test_records_of_transactions(arguments: dict[str, Any], found: str) -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await write_transactions(harness)
        assert await values(harness, **arguments) == found

    run_scenario(scenario)


def test_part_of_a_batch_counts_from_the_end() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await harness.produce(0, b"a", b"b", b"c").get()
        await harness.begin(0, b"d").get()
        await harness.end(0, commit=False).get()
        assert await values(harness, offset=-2, read_committed=True) == "bc"
        assert await values(harness, offset=-2) == "cd"

    run_scenario(scenario)


def test_deleted_records_of_transactions_are_not_counted() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await write_transactions(harness)
        await harness.delete(0, 3).get()
        assert await values(harness, read_committed=True) == "cd"
        assert await values(harness, read_committed=True, offset=-7) == "cd"
        await harness.cluster.wait_for(committed_records=(KEY.topic, 2))
        with pytest.raises(ClusterTimeoutError, match="got 2"):
            await harness.cluster.wait_for(committed_records=(KEY.topic, 3), timeout=1)

    run_scenario(scenario)


def test_wait_for_counts_records_not_offsets() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await write_transactions(harness)
        await harness.cluster.wait_for(records=(KEY.topic, 7))
        with pytest.raises(ClusterTimeoutError, match="expected 8 records in orders, got 7 "):
            await harness.cluster.wait_for(records=(KEY.topic, 8), timeout=1)

    run_scenario(scenario)


def test_wait_for_committed_records() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await write_transactions(harness)
        await harness.cluster.wait_for(committed_records=(KEY.topic, 3))
        expected = (
            "expected 4 committed records in orders, got 3 .*high watermark 9, last stable offset 6"
        )
        with pytest.raises(ClusterTimeoutError, match=expected):
            await harness.cluster.wait_for(committed_records=(KEY.topic, 4), timeout=1)
        wait = asyncio.create_task(harness.cluster.wait_for(committed_records=(KEY.topic, 6)))
        await asyncio.sleep(1)
        assert not wait.done()
        await harness.end(0, commit=True).get()
        await wait
        wait = asyncio.create_task(harness.cluster.wait_for(committed_records=(KEY.topic, 7)))
        await harness.begin(0, b"h", producer=(7, 0, 3)).get()
        await harness.end(0, commit=False).get()
        await asyncio.sleep(1)
        assert not wait.done()
        await harness.produce(0, b"i").get()
        await wait

    run_scenario(scenario)


def test_transactional_batch_outside_of_any_transaction_is_committed() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        data = transactional(b"a", producer_id=-1, epoch=-1, sequence=-1)
        await harness.produce_to(0, [(KEY, data)]).get()
        await harness.produce_to(0, [(KEY, batch(b"b"))]).get()
        assert await values(harness, read_committed=True) == "ab"

    run_scenario(scenario)
