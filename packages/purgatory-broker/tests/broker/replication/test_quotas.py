"""Quotas: Kafka's rate computation, and the connections that it mutes."""

from __future__ import annotations

import asyncio

import pytest

from purgatory_broker.server.quotas import ByteRateQuota, SampledRate
from purgatory_broker.server.server import ThrottledChannel
from tests.broker import apis
from tests.broker.log.batches import batch
from tests.broker.replication.cluster_harness import ClusterHarness, handle_request, run_scenario


def test_rate_counts_missing_windows_as_empty() -> None:
    """The span is the elapsed time plus the missing windows (Kafka's Rate.windowSize)."""
    rate = SampledRate(11, 1_000)
    assert (rate.is_empty, rate.span_ms(5_000), rate.per_second(5_000)) == (True, 10_000, 0.0)
    rate.add(1_000, 5_000)
    assert (rate.span_ms(5_000), rate.per_second(5_000)) == (10_000, 100.0)
    assert (rate.span_ms(5_300), rate.per_second(5_300)) == (10_300, pytest.approx(1_000 / 10.3))
    assert rate.span_ms(6_700) == 10_700
    rate.add(500, 7_500)
    assert (rate.span_ms(15_900), rate.per_second(15_900)) == (10_900, pytest.approx(1_500 / 10.9))


def test_expired_windows_are_dropped() -> None:
    rate = SampledRate(2, 1_000)
    rate.add(10, 0)
    rate.add(20, 900)
    assert rate.per_second(2_899) == pytest.approx(30 / 2.899)
    assert rate.per_second(2_900) == 0
    assert rate.is_empty


def test_number_of_windows_is_limited() -> None:
    """One more than configured, since the oldest may overlap the span's start."""
    rate = SampledRate(3, 100)
    for number in range(99):
        rate.add(1, number * 50)
    assert len(rate._samples) == 4
    assert rate.per_second(4_900) == pytest.approx(7 / 0.3)


def test_throttle_brings_the_rate_down_to_the_limit() -> None:
    quota = ByteRateQuota(11, 1_000)

    def throttle_ms(client_id: str, size_bytes: int, now_ms: int, limit: float = 1_000.0) -> int:
        return quota.throttle_ms(("", client_id), limit, size_bytes, now_ms)

    assert throttle_ms("a", 10_000, 0) == 0
    assert throttle_ms("a", 1, 0) == 1
    assert throttle_ms("a", 4_999, 0) == 5_000
    assert throttle_ms("b", 10_000, 0) == 0
    assert throttle_ms("a", 0, 2_000) == 5_000
    assert throttle_ms("c", 1_000_000, 0) == 990_000
    assert throttle_ms("d", 1, 0, limit=0.0) == 10_000


def test_least_active_clients_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ByteRateQuota, "MAX_CLIENTS", 3)
    quota = ByteRateQuota(2, 1_000)
    for number in range(10):
        quota.throttle_ms(("", f"client-{number}"), 1.0, 5, number * 1_500)
        assert len(quota._rates) <= 3
    assert quota.throttle_ms(("", "client-9"), 1.0, 0, 9 * 1_500) > 0


def test_producer_over_its_quota_is_throttled() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        data = batch(b"x" * 5_000)

        def send(client_id: str) -> int:
            topics = [{"name": "orders", "partition_data": [{"index": 0, "records": data}]}]
            reply, context = handle_request(
                harness,
                0,
                apis.PRODUCE,
                9,
                client_id=client_id,
                acks=1,
                timeout_ms=1_000,
                topic_data=topics,
                transactional_id=None,
            )
            assert reply.done
            assert reply.value.responses[0].partition_responses[0].error_code == 0
            assert reply.value.throttle_time_ms == context.throttle_ms
            return context.throttle_ms

        assert send("a") == 0
        throttled = send("a")
        assert throttled == round((2 * len(data) - 10_000) / 1_000 * 1_000)
        assert send("b") == 0
        unmuted: list[float] = []
        loop = asyncio.get_running_loop()
        began = loop.time()
        operation = ThrottledChannel(throttled, lambda: unmuted.append(loop.time()))
        harness.node(0).purgatories["Throttle"].try_complete_else_watch(operation, ["a"])
        assert harness.cluster.metrics()[0]["Throttle"]["NumDelayedOperations"] == 1
        await asyncio.sleep(30)
        assert throttled <= (unmuted[0] - began) * 1_000 <= throttled + 1.001
        assert harness.purgatory("Throttle") == 0

    run_scenario(scenario, producer_byte_rate=1_000.0)


def test_consumer_over_its_quota_gets_no_records() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        for _ in range(3):
            await harness.produce(0, b"x" * 8_000).get()

        async def fetch() -> tuple[int, int]:
            partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 2**20}]
            topics = [{"topic": "orders", "partitions": partitions}]
            limits = {"max_wait_ms": 100, "min_bytes": 1, "max_bytes": 2**20, "isolation_level": 0}
            reply, _ = handle_request(
                harness, 0, apis.FETCH, 6, replica_id=-1, topics=topics, **limits
            )
            response = await reply.get()
            size = sum(
                len(each.records or b"")
                for topic in response.responses
                for each in topic.partitions
            )
            return response.throttle_time_ms, size

        first = await fetch()
        assert (first[0], first[1] > 24_000) == (0, True)
        throttled, size = await fetch()
        assert (throttled, size) == (round((first[1] - 10_000) / 1_000 * 1_000), 0)
        await asyncio.sleep((throttled + 1) / 1_000)
        assert (await fetch())[1] > 24_000
        assert harness.isr == {0, 1, 2}

    run_scenario(scenario, consumer_byte_rate=1_000.0)
