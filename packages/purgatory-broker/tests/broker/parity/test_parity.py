"""This broker compared with Apache Kafka, case by case.

`python -m tests.broker.parity.observe` records Kafka's behaviour in `observed.json`, with a hash of
all that each record depends on. The fast tier compares this broker with the record and checks the
hashes; the slower tier compares the record with Kafka.
"""

from __future__ import annotations

import pytest

from tests.broker.kafka_server import VERSION, KafkaCluster
from tests.broker.parity import observed
from tests.broker.parity.case import Case
from tests.broker.parity.case_harness import Cluster
from tests.broker.parity.cases import all_cases
from tests.broker.parity.differences import DIFFERENCES

_CASES = all_cases()
_KEPT = observed.load()
_CHANGED = _KEPT.changed(_CASES)
#: They wait whether a connection stays open.
_SLOW = (
    "sasl_login_by_plain",
    "sasl_login_by_plain_fails",
    "sasl_login_by_scram_with_bad_messages",
    "sasl_requests_before_the_login",
)


def _ours(case: Case) -> object:
    marks = [pytest.mark.xfail(reason=DIFFERENCES[case.name])] if case.name in DIFFERENCES else []
    if case.name in _SLOW:
        marks.append(pytest.mark.slow)
    return pytest.param(case, id=case.name, marks=marks)


def test_all_cases_were_observed_with_this_version_of_kafka() -> None:
    assert _KEPT.version == VERSION
    assert sorted(_KEPT.seen) == sorted(_KEPT.hashes) == sorted(case.name for case in _CASES)
    assert set(DIFFERENCES) <= set(_KEPT.seen)


def test_no_case_has_changed_since_its_observation() -> None:
    """Nor the code that it uses, nor Kafka's settings; otherwise observe again."""
    assert not _CHANGED, f"{sorted(_CHANGED)}: run python -m tests.broker.parity.observe --changed"


@pytest.mark.parametrize("case", [_ours(case) for case in _CASES])
def test_broker_does_as_kafka(case: Case, ours: Cluster) -> None:
    seen, _ = case.observe(ours)
    assert observed.comparable(seen) == _KEPT.seen[case.name]


@pytest.mark.jvm
@pytest.mark.xdist_group("kafka")
@pytest.mark.parametrize("case", _CASES, ids=[case.name for case in _CASES])
def test_kafka_does_as_recorded(case: Case, kafka: KafkaCluster) -> None:
    seen, _ = case.observe(kafka)
    assert observed.comparable(seen) == _KEPT.seen[case.name]
