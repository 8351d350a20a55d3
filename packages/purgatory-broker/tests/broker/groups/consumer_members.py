"""Members of a consumer group, as its tests join them."""

from __future__ import annotations

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.groups.modern.consumer_group import ConsumerGroup
from tests.broker.groups.classic_requests import GROUP
from tests.broker.groups.consumers import Owned, beat
from tests.broker.groups.harness import CoordinatorHarness

T1: list[str] = ["t1"]


def all_of(count: int) -> Owned:
    return frozenset(("t1", index) for index in range(count))


def consumer_group(harness: CoordinatorHarness) -> ConsumerGroup:
    group = next(each for each in harness.coordinator.groups if each.group_id == GROUP)
    assert isinstance(group, ConsumerGroup)
    return group


def join(harness: CoordinatorHarness, member_id: str, **options: object) -> int:
    """Join, and return the member's epoch."""
    answer = beat(harness, member_id, 0, owned=frozenset(), topics=T1, **options)  # type: ignore[arg-type]
    assert answer.error is ErrorCode.NONE, answer.response
    return int(answer.response.member_epoch)
