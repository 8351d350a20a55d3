"""Share groups of this broker compared with Apache Kafka's, case by case.

`python -m tests.broker.sharing.parity.observe` records what Kafka does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from purgatory_broker import Cluster as LightCluster
from tests.broker.kafka_server import NEXT_VERSION, SHARED_SETTINGS, VERSION, KafkaCluster
from tests.broker.parity.case_harness import Cluster
from tests.broker.parity.observed import comparable
from tests.broker.sharing.parity.kafka_with_shares import kafka_with_share_groups, next_kafka
from tests.broker.sharing.parity.record import CASES, NEXT_CASES, load_records

_KEPT, _NEXT = load_records()
#: The cases in which this broker differs deliberately, and why.
_DIFFERENCES = {
    "share_fetch_of_unknown_topic": "4.1.1 has UNKNOWN_SERVER_ERROR for UNKNOWN_TOPIC_ID",
}


@pytest.fixture(scope="module")
def ours() -> Iterator[Cluster]:
    """Run this broker with one node and the same settings."""
    settings: dict[str, Any] = {
        name.replace(".", "_"): value for name, value in SHARED_SETTINGS.items()
    }
    with LightCluster(nodes=1, log_retention_ms=None, **settings) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Run Apache Kafka with share groups."""
    with kafka_with_share_groups(tmp_path_factory.mktemp("kafka")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def kafka_4_2(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Run the next release of Apache Kafka."""
    with next_kafka(tmp_path_factory.mktemp("next-kafka")) as cluster:
        yield cluster


def test_records_are_of_these_versions_and_cases() -> None:
    for record, version in ((_KEPT, VERSION), (_NEXT, NEXT_VERSION)):
        assert record.version == version
        assert sorted(record.seen) == sorted(record.hashes) == sorted(record.cases)
        assert not record.changed(), "run python -m tests.broker.sharing.parity.observe"


def _ours(name: str) -> object:
    marks = [pytest.mark.xfail(reason=_DIFFERENCES[name])] if name in _DIFFERENCES else []
    return pytest.param(name, marks=marks)


@pytest.mark.parametrize("name", [_ours(name) for name in CASES])
def test_broker_does_as_kafka(name: str, ours: Cluster) -> None:
    seen, _ = CASES[name].observe(ours)
    assert comparable(seen) == _KEPT.seen[name]


@pytest.mark.parametrize("name", NEXT_CASES)
def test_broker_does_as_the_next_kafka(name: str, ours: Cluster) -> None:
    seen, _ = NEXT_CASES[name].observe(ours)
    assert comparable(seen) == _NEXT.seen[name]


@pytest.mark.jvm
@pytest.mark.xdist_group("kafka")
@pytest.mark.parametrize("name", CASES)
def test_kafka_does_as_recorded(name: str, kafka: KafkaCluster) -> None:
    seen, _ = CASES[name].observe(kafka)
    assert comparable(seen) == _KEPT.seen[name]


@pytest.mark.jvm
@pytest.mark.xdist_group("kafka")
@pytest.mark.parametrize("name", NEXT_CASES)
def test_next_kafka_does_as_recorded(name: str, kafka_4_2: KafkaCluster) -> None:
    seen, _ = NEXT_CASES[name].observe(kafka_4_2)
    assert comparable(seen) == _NEXT.seen[name]
