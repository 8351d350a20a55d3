"""This broker with an authorizer compared with Apache Kafka, case by case."""

from __future__ import annotations

import pytest

from tests.broker.kafka_server import VERSION, KafkaCluster
from tests.broker.parity import observed
from tests.broker.parity.case import Case
from tests.broker.parity.case_harness import Cluster
from tests.broker.parity.cases import secured_cases
from tests.broker.parity.secured import secured_kafka

_CASES = secured_cases()
_KEPT = observed.load(observed.SECURED_FILE, (secured_kafka.__module__, secured_kafka.__name__))

every_case = pytest.mark.parametrize("case", _CASES, ids=[case.name for case in _CASES])


def test_all_cases_were_observed_as_they_are() -> None:
    assert _KEPT.version == VERSION
    assert sorted(_KEPT.seen) == sorted(_KEPT.hashes) == [case.name for case in _CASES]
    changed = _KEPT.changed(_CASES)
    assert not changed, f"{sorted(changed)}: run python -m tests.broker.parity.observe --changed"


@every_case
def test_broker_does_as_kafka(case: Case, ours_secured: Cluster) -> None:
    seen, _ = case.observe(ours_secured)
    assert observed.comparable(seen) == _KEPT.seen[case.name]


@pytest.mark.jvm
@pytest.mark.xdist_group("kafka")
@every_case
def test_kafka_does_as_recorded(case: Case, secured: KafkaCluster) -> None:
    seen, _ = case.observe(secured)
    assert observed.comparable(seen) == _KEPT.seen[case.name]
