"""Our broker beside Apache Kafka, case by case.

Kafka's part is kept in `observed.json`, made by `python -m tests.broker.parity.observe`; where Kafka can be started, it is asked
again.
"""

from __future__ import annotations

import pytest

from tests.broker.kafka_server import VERSION, KafkaCluster
from tests.broker.parity import observed
from tests.broker.parity.case import Case
from tests.broker.parity.cases import all_cases
from tests.broker.parity.differences import DIFFERENCES
from tests.broker.parity.scene import Cluster

_CASES = all_cases()


def _marked(case: Case) -> object:
    marks = [pytest.mark.xfail(reason=DIFFERENCES[case.name])] if case.name in DIFFERENCES else []
    return pytest.param(case, id=case.name, marks=marks)


def test_all_cases_were_observed_with_this_version_of_kafka() -> None:
    """And nothing is kept, or excused, that is no case any more."""
    version, seen = observed.load()
    assert version == VERSION
    assert sorted(seen) == sorted(case.name for case in _CASES)
    assert set(DIFFERENCES) <= set(seen)


@pytest.mark.parametrize("case", [_marked(case) for case in _CASES])
def test_our_broker_does_as_kafka(case: Case, ours: Cluster) -> None:
    """What is seen of ours is what was seen of Kafka."""
    seen, _ = case.observe(ours)
    assert observed.comparable(seen) == observed.load()[1][case.name]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in _CASES])
def test_kafka_does_as_was_kept(case: Case, kafka: KafkaCluster) -> None:
    """The file is not out of date."""
    seen, _ = case.observe(kafka)
    assert observed.comparable(seen) == observed.load()[1][case.name]
