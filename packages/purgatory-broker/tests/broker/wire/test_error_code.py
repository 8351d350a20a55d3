"""The table of Kafka's errors, and their injection."""

from __future__ import annotations

import inspect

import pytest

from purgatory_broker import Cluster
from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.server.faults import error_code
from request_purgatory.errors import InvalidArgumentError
from tests.broker.conftest import Connect
from tests.broker.raw_requests import produce

#: Errors that kafka-python names otherwise than Kafka, by Kafka's name.
_OTHER_NAMES = {
    "UNKNOWN_SERVER_ERROR": "UNKNOWN",
    "NONE": "NO_ERROR",
    "NOT_LEADER_OR_FOLLOWER": "NOT_LEADER_FOR_PARTITION",
    "MESSAGE_TOO_LARGE": "MESSAGE_SIZE_TOO_LARGE",
    "INVALID_TOPIC_EXCEPTION": "INVALID_TOPIC",
    "INVALID_REPLICA_ASSIGNMENT": "INVALID_REPLICATION_ASSIGNMENT",
}


def test_table_has_every_error_of_kafka_4_1() -> None:
    assert sorted(ErrorCode) == list(range(-1, 134))


def test_names_are_those_of_kafka_python() -> None:
    errors = pytest.importorskip("kafka.errors")
    names = {
        kind.errno: kind.message
        for _, kind in inspect.getmembers(errors, inspect.isclass)
        if isinstance(getattr(kind, "errno", None), int) and kind.message
    }
    assert len(names) >= 129
    assert names == {
        int(code): _OTHER_NAMES.get(code.name, code.name) for code in ErrorCode if code in names
    }


def test_every_error_can_be_injected_by_name_and_number(cluster: Cluster, connect: Connect) -> None:
    cluster.create_topic("t")
    leader = cluster.describe_topic("t")[0]["leader"]
    client = connect(cluster.bootstrap_servers.split(",")[leader])
    codes = [code for code in ErrorCode if code is not ErrorCode.NONE]
    for code in codes:
        cluster.inject_request_error("Produce", code.name)
        cluster.inject_request_error("Produce", int(code))
    answers = [produce(client, "t", b"x").error_code for _ in range(2 * len(codes) + 1)]
    assert answers == [code for code in codes for _ in range(2)] + [0]
    assert cluster.high_watermark("t") == 1


@pytest.mark.parametrize(
    "error", ["NONE", "none", 0, "", "OOPS", "56", -2, 134, 2**40, None, True, 1.0, b"NONE"]
)
def test_what_is_no_error_is_refused(error: object) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        error_code(error)  # type: ignore[arg-type]
    assert (caught.value.name, caught.value.value) == ("error", error)
