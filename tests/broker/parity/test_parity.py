"""Our broker beside Apache Kafka, case by case.

Kafka's part is kept in `observed.json`, made by `python -m tests.broker.parity.observe`, with a
hash of all that it depends on. Kafka itself is asked again in the slower tier; in the fast one only
about cases whose hash has changed.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.broker.kafka_server import VERSION, KafkaCluster
from tests.broker.parity import observed
from tests.broker.parity.case import Case
from tests.broker.parity.cases import all_cases
from tests.broker.parity.differences import DIFFERENCES
from tests.broker.parity.scene import Cluster

_CASES = all_cases()
_KEPT = observed.load()
_CHANGED = _KEPT.changed(_CASES)


def _ours(case: Case) -> object:
    marks = [pytest.mark.xfail(reason=DIFFERENCES[case.name])] if case.name in DIFFERENCES else []
    return pytest.param(case, id=case.name, marks=marks)


def _kafkas(case: Case, changed: set[str]) -> Any:
    return pytest.param(
        case, id=case.name, marks=[pytest.mark.smoke] if case.name in changed else []
    )


def test_all_cases_were_observed_with_this_version_of_kafka() -> None:
    """And nothing is kept, or excused, that is no case any more."""
    assert _KEPT.version == VERSION
    assert sorted(_KEPT.seen) == sorted(_KEPT.hashes) == sorted(case.name for case in _CASES)
    assert set(DIFFERENCES) <= set(_KEPT.seen)


def test_no_case_has_changed_since_kafka_was_asked() -> None:
    """Nor the code that it uses, nor how Kafka is started; which is mended by asking anew."""
    assert not _CHANGED, f"{sorted(_CHANGED)}: run python -m tests.broker.parity.observe --changed"


def test_fast_tier_asks_kafka_about_changed_cases_alone() -> None:
    """As they are marked."""
    marked = [case.name for case in _CASES if _kafkas(case, {"create_partitions"}).marks]
    assert marked == ["create_partitions"]


@pytest.mark.parametrize("case", [_ours(case) for case in _CASES])
def test_our_broker_does_as_kafka(case: Case, ours: Cluster) -> None:
    """What is seen of ours is what was seen of Kafka."""
    seen, _ = case.observe(ours)
    assert observed.comparable(seen) == _KEPT.seen[case.name]


@pytest.mark.jvm
@pytest.mark.xdist_group("kafka")
@pytest.mark.parametrize("case", [_kafkas(case, _CHANGED) for case in _CASES])
def test_kafka_does_as_was_kept(case: Case, kafka: KafkaCluster) -> None:
    """The file is not out of date."""
    seen, _ = case.observe(kafka)
    assert observed.comparable(seen) == _KEPT.seen[case.name]
