"""Faults that are limited by a predicate over the decoded request."""

from __future__ import annotations

import pytest

from purgatory_broker import Cluster, ClusterError, ClusterProcess
from purgatory_broker._wire.error_code import ErrorCode
from request_purgatory.errors import InvalidArgumentError
from tests.broker.conftest import Connect
from tests.broker.parity.raw import RawClient
from tests.broker.raw_requests import leader_client, produce

FAILED = ErrorCode.KAFKA_STORAGE_ERROR


@pytest.fixture
def client(cluster: Cluster, connect: Connect) -> RawClient:
    cluster.create_topic("t")
    return leader_client(cluster, "t", connect)


def large(request: object) -> bool:
    return len(request.topic_data[0].partition_data[0].records) > 500  # type: ignore[attr-defined]


def test_error_is_limited_to_requests_for_which_a_function_is_true(
    cluster: Cluster, client: RawClient
) -> None:
    fault = cluster.inject_request_error("Produce", FAILED.name, times=None, when=large)
    sizes = [1, 1_000, 2, 2_000]
    assert [produce(client, "t", b"x" * size).error_code for size in sizes] == [
        0,
        FAILED,
        0,
        FAILED,
    ]
    (found,) = cluster.faults()
    assert (found["id"], found["hits"], found["times"]) == (fault, 2, None)
    assert found["when"] == "large"
    assert len(cluster.records("t")) == 2


def test_predicate_and_other_limits_hold_together(cluster: Cluster, client: RawClient) -> None:
    asked: list[object] = []

    def note(request: object) -> bool:
        asked.append(request)
        return True

    cluster.inject_request_error("Produce", FAILED.name, client_id="somebody else", when=note)
    cluster.inject_request_error("Fetch", FAILED.name, when=note)
    assert produce(client, "t", b"x").error_code == 0
    assert asked == []


def test_response_fault_is_limited_by_a_predicate(cluster: Cluster, client: RawClient) -> None:
    fault = cluster.inject_response_fault("Produce", "delay", delay_ms=1, when=large)
    for size in (1, 1_000, 1_000):
        assert produce(client, "t", b"x" * size).error_code == 0
    (found,) = cluster.faults()
    assert (found["id"], found["hits"], found["times"]) == (fault, 1, 0)


@pytest.mark.parametrize("raised", [ZeroDivisionError, pytest.fail.Exception])
def test_what_a_predicate_raises_is_raised_for_the_test(
    cluster: Cluster, client: RawClient, raised: type[BaseException]
) -> None:
    def fail(_request: object) -> bool:
        raise raised("the predicate's own")

    cluster.inject_request_error("Produce", FAILED.name, when=fail)
    assert produce(client, "t", b"x").error_code == 0
    with pytest.raises(raised, match="the predicate's own"):
        cluster.raise_unseen_errors()
    assert cluster.faults()[0]["hits"] == 0


def test_predicate_does_not_cross_processes() -> None:
    with (
        ClusterProcess() as cluster,
        pytest.raises(ClusterError, match=r"large .* for when can't be called by a cluster in ano"),
    ):
        cluster.inject_request_error("Produce", FAILED.name, when=large)


def test_predicate_has_to_be_callable(cluster: Cluster) -> None:
    with pytest.raises(InvalidArgumentError, match="when must be callable or None, got 'large'"):
        cluster.inject_response_fault("Produce", "drop", when="large")  # type: ignore[arg-type]


def test_fault_without_times_stays_until_it_is_cleared(cluster: Cluster, client: RawClient) -> None:
    cluster.inject_request_error("Produce", FAILED.name, times=None)
    assert {produce(client, "t", b"x").error_code for _ in range(20)} == {FAILED}
    cluster.clear_faults()
    assert produce(client, "t", b"x").error_code == 0
